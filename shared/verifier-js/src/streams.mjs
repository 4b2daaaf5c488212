/** Token streams: the digests that records state, computed again from the stored parts (spec/streams.md). */
import { createHash } from "node:crypto";
import { isUtf8 } from "node:buffer";
import { HEX64, points, sha256 } from "./bytes.mjs";
import { MAX_SAFE, hasExactly, isCount, isObject, readCanonical } from "./canonical.mjs";
import { attempt } from "./errors.mjs";
import { BYTES, VALUE, isReference, looksLikeReference } from "./references.mjs";

/** @typedef {import("./references.mjs").Reference} Reference */

const MAGIC = Buffer.from("cfstream\u0001");
const MOST_FRAMES = 256;
const MOST_CHANNELS = 64;
const MOST_NAME = 128;
const MOST_PART = 64 * 1024 * 1024;

/** What is stated is not so. */
class Wrong extends Error {}
/** Stored bytes are missing: another finding says so. */
class Absent extends Error {}

/** Bytes that are read from left to right. */
class Row {
  /** @param {Buffer} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  number() {
    let out = 0;
    for (let place = 0; place < 8; place += 1) {
      if (this.at >= this.bytes.length) break;
      const byte = this.bytes[this.at];
      this.at += 1;
      out += (byte & 127) * 2 ** (7 * place);
      if (byte >= 128) continue;
      if ((byte === 0 && place > 0) || out > MAX_SAFE) break;
      return out;
    }
    throw new Wrong("a number is cut off, or in another spelling");
  }

  take(size) {
    const end = this.at + size;
    if (end > this.bytes.length) throw new Wrong("a part is cut off");
    const taken = this.bytes.subarray(this.at, end);
    this.at = end;
    return taken;
  }

  ends() {
    if (this.at !== this.bytes.length) throw new Wrong("bytes are left over");
  }
}

/** The digests of one call's stream as its parts come. */
export class Running {
  /** @param {string} call */
  constructor(call) {
    this.call = Buffer.from(call);
    /** @type {string[]} */
    this.names = [];
    /** @type {import("node:crypto").Hash[]} */
    this.content = [];
    this.frames = createHash("sha256");
    this.timing = createHash("sha256");
    this.sampling = createHash("sha256");
    /** @type {string[]} digests of the parts */
    this.parts = [];
    this.count = 0;
    this.samples = 0;
    this.bytes = 0;
  }

  /** Takes the next part; throws where it is none. @param {Buffer} part */
  take(part) {
    if (!part.subarray(0, MAGIC.length).equals(MAGIC)) throw new Wrong("no part of a stream");
    const row = new Row(part.subarray(MAGIC.length));
    const call = row.take(row.number());
    const [number, before, count] = [row.number(), row.number(), row.number()];
    if (!call.equals(this.call) || number !== this.parts.length + 1 || before !== this.count)
      throw new Wrong("a part of another stream, or another part of this one");
    const times = new Row(row.take(row.number()));
    const samples = row.number();
    const sampled = new Row(row.take(row.number()));
    const rows = row.bytes.subarray(row.at);
    if (count > MOST_FRAMES || samples > MOST_FRAMES) throw new Wrong("a part of too many frames");
    const found = [];
    for (let frame = 0; frame < count; frame += 1) {
      const at = row.number();
      if (at === this.names.length) this.channel(row.take(row.number()));
      else if (at > this.names.length) throw new Wrong("a channel without a name");
      found.push([at, row.take(row.number())]);
      times.number();
    }
    row.ends();
    times.ends();
    for (let token = 0; token < samples; token += 1) sample(sampled);
    sampled.ends();
    for (const [at, bytes] of found) {
      this.content[at].update(bytes);
      this.bytes += bytes.length;
    }
    this.frames.update(rows);
    this.timing.update(times.bytes);
    this.sampling.update(sampled.bytes);
    this.count += count;
    this.samples += samples;
    this.parts.push(sha256(part));
  }

  channel(bytes) {
    const name = bytes.toString();
    const named = name === "rest" || (name.includes(":") && points(name) <= MOST_NAME);
    if (!isUtf8(bytes) || !named || this.names.includes(name) || this.names.length >= MOST_CHANNELS)
      throw new Wrong("no name of a channel");
    this.names.push(name);
    this.content.push(createHash("sha256"));
  }

  /** How many frames, and their digest. */
  framesSoFar() {
    return { count: this.count, sha256: this.frames.copy().digest("hex") };
  }

  /** What a record has to state, but for why it ended. */
  stated() {
    const content = Object.create(null);
    this.names.forEach((name, at) => (content[name] = this.content[at].copy().digest("hex")));
    const sampling = { count: this.samples, sha256: this.sampling.copy().digest("hex") };
    return {
      bytes: this.bytes,
      content,
      frames: this.framesSoFar(),
      timing: this.timing.copy().digest("hex"),
      ...(this.samples > 0 ? { sampling } : {}),
    };
  }
}

/** One sampled token. @param {Row} row */
function sample(row) {
  row.number();
  for (let left = row.number(); left > 0; left -= 1) {
    const flags = row.number();
    if (flags > 7) throw new Wrong("a flag that is not known");
    if (flags & 1) row.number();
    if (flags & 2) row.take(8);
    if (flags & 4) row.take(row.number());
  }
}

/** The streams of one log, in the order of its records. */
export class Streams {
  /** @param {{there(part: any): boolean, load(digest: string): Buffer | null}} blobs */
  constructor(blobs) {
    this.blobs = blobs;
    /** @type {Map<string, Running>} those with a checkpoint and without an end */
    this.open = new Map();
    /** @type {Set<string>} streams that began or ended, and lists of parts: each is looked into once */
    this.told = new Set();
  }

  /** Whether something is told for the first time. */
  first(name) {
    const first = !this.told.has(name);
    this.told.add(name);
    return first;
  }

  /** Whether all is well with the stream that a record states, if it does. */
  isRight({ content, context }, { checkpoints = true } = {}) {
    const { stream } = context;
    if (!isObject(stream) || stream.v !== 1) return true;
    try {
      if (content.op === "stream" && content.phase === "point") {
        if (checkpoints) this.checkpoint(stream);
      } else if (content.phase === "end" && context.late !== true) this.end(context.call, stream);
    } catch (error) {
      if (error instanceof Wrong) return false;
      if (!(error instanceof Absent)) throw error;
    }
    return true;
  }

  checkpoint({ call, number, frames, part }) {
    if (typeof call !== "string" || !isCount(number, 1) || !isCounted(frames))
      throw new Wrong("a checkpoint lacks what it has to say");
    const running = number === 1 ? new Running(call) : this.open.get(call);
    this.open.delete(call);
    if (part === undefined || (number === 1 && !this.first(`begun ${call}`))) return;
    if (running === undefined && this.told.has(`begun ${call}`)) return;
    if (running === undefined || running.parts.length !== number - 1)
      throw new Wrong("a checkpoint does not follow the one before");
    this.take(running, isPart(part));
    if (!sameCounted(running.framesSoFar(), frames)) throw new Wrong("the frames are others");
    this.open.set(call, running);
  }

  end(call, stream) {
    const known = typeof call === "string" ? this.open.get(call) : undefined;
    if (typeof call === "string") this.open.delete(call);
    if (typeof call !== "string" || !isEnd(stream)) throw new Wrong("what is stated is no stream");
    if (stream.parts === undefined || !this.first(`ended ${call}`)) return;
    const parts = this.listed(stream.parts);
    const goesOn = known !== undefined && known.parts.every((digest, at) => parts[at]?.sha256 === digest);
    const running = goesOn ? known : new Running(call);
    for (const part of parts.slice(running.parts.length)) this.take(running, part);
    if (!isStated(running.stated(), stream)) throw new Wrong("the digests are others");
  }

  /** @returns {Reference[]} */
  listed(parts) {
    if (looksLikeReference(parts) && !isReference(parts)) throw new Wrong("the parts are no list");
    let list = parts;
    if (isReference(parts)) {
      if (!this.blobs.there(parts)) throw new Absent();
      if (!this.first(`list ${parts.sha256}`)) throw new Wrong("the list is another stream's");
      const bytes = parts.media === VALUE && parts.size <= MOST_PART ? this.blobs.load(parts.sha256) : null;
      const { value } = attempt(() => readCanonical(bytes ?? Buffer.alloc(0)).value);
      list = Array.isArray(value) ? value.map((one) => (hasExactly(one, "$ref") ? one.$ref : null)) : null;
    }
    if (!Array.isArray(list)) throw new Wrong("the parts are no list");
    return list.map(isPart);
  }

  /** @param {Running} running @param {Reference} part */
  take(running, part) {
    if (!this.blobs.there(part)) throw new Absent();
    const bytes = part.size > MOST_PART ? null : this.blobs.load(part.sha256);
    if (bytes === null) throw new Wrong("a part is too long");
    running.take(bytes);
  }
}

/** @returns {Reference} */
function isPart(value) {
  if (looksLikeReference(value) && !isReference(value)) throw new Absent();
  if (!isReference(value) || value.media !== BYTES) throw new Wrong("what is cited is no part of a stream");
  return value;
}

const isDigest = (value) => typeof value === "string" && HEX64.test(value);

function isCounted(value) {
  return hasExactly(value, "count", "sha256") && isCount(value.count) && isDigest(value.sha256);
}

function sameCounted(one, other) {
  return one.count === other.count && one.sha256 === other.sha256;
}

function isEnd({ bytes, content, end, frames, sampling, timing }) {
  return (
    isCount(bytes) &&
    isObject(content) &&
    Object.values(content).every(isDigest) &&
    typeof end === "string" &&
    end !== "" &&
    isCounted(frames) &&
    (sampling === undefined || isCounted(sampling)) &&
    isDigest(timing)
  );
}

/** Whether a record states what its parts give. */
export function isStated(found, { bytes, content, frames, sampling, timing }) {
  const names = Object.keys(found.content);
  return (
    found.bytes === bytes &&
    names.length === Object.keys(content).length &&
    names.every((name) => Object.hasOwn(content, name) && content[name] === found.content[name]) &&
    sameCounted(found.frames, frames) &&
    found.timing === timing &&
    (found.sampling === undefined
      ? sampling === undefined
      : sampling !== undefined && sameCounted(found.sampling, sampling))
  );
}
