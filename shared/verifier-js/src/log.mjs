/** Reading one log from its segments: structure, chain, opening entries, torn tails (spec/log.md, "Reading a log"). */
import { createHash } from "node:crypto";
import { HEX64, sha256 } from "./bytes.mjs";
import { hasExactly, isCount, isObject } from "./canonical.mjs";
import { ZEROS, bodyKind, operation, parseEntry } from "./entries.mjs";
import { CounterfoilError, attempt, isUnread } from "./errors.mjs";
import { BLOB, BytesOfFile, ChunkReader, ENTRY, HEADER, ITEM_HEADER, NOTE, parseHeader, splitItems } from "./segments.mjs";
import { Tree, leafHash } from "./tree.mjs";

/** @typedef {{segment: number, start: number, stream: number, item: number}} Place where a blob stands */
/** @typedef {{offset: number, segment: number, sha256: string, alone: boolean, body: any}} Stored */
/** @typedef {{number: number, path: string}} Segment */
/**
 * What is told of a log while it is read, in the order of its bytes.
 * @typedef {object} Visitor
 * @property {(bytes: Buffer, digest: string, place: Place) => void} blob
 * @property {(entry: import("./entries.mjs").Entry, kind: "record" | "envelope" | "later") => void} entry
 * @property {(bytes: Buffer, stored: Stored | null) => void} note
 * @property {(error: CounterfoilError) => void} fault the log is broken here, and not read any further
 * @property {(where: string) => void} torn bytes at the end that are no whole chunk
 */

const SECTOR = 512;
const MOST_NOTE = 4_096;
const OPENINGS = ["session", "segment", "recovered"];
const refuse = (code, message) => new CounterfoilError(`CF-LOG-${code}`, message);

export class LogReader {
  /**
   * @param {string} name
   * @param {Segment[]} segments in the order of their numbers
   * @param {Visitor} visitor
   */
  constructor(name, segments, visitor) {
    this.name = name;
    this.segments = segments;
    this.visitor = visitor;
    this.tree = new Tree();
    this.prev = ZEROS;
    /** @type {{where: string, notes: Buffer[], size: number}[]} notes behind what counts of recovered segments, and where the log goes on */
    this.takenBack = [];
    /** Whether anything stands behind the last note. */
    this.behind = true;
    /** Where in the log reading is, for messages. */
    this.where = name;
  }

  read() {
    try {
      const { last, recovered, unread } = this.openings();
      this.segments.forEach((segment, index) => {
        this.where = `${this.name}/${segment.number}`;
        if (segment.number !== index) throw refuse("012", "a segment is missing");
        if (unread?.number === segment.number) throw unread.error;
        this.segment(segment, segment.number >= last, recovered.get(segment.number) ?? null);
      });
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      error.where = error.where.startsWith("character") || error.where === "" ? this.where : error.where;
      this.visitor.fault(error);
    }
  }

  /**
   * The last segment that has an opening, and what the openings say of recovered segments; as far as the first one that
   * the system does not let be read, where reading ends.
   */
  openings() {
    let last = this.segments[0]?.number ?? 0;
    const recovered = new Map();
    for (const segment of this.segments) {
      const { value: opening, error } = attempt(() => readOpening(segment.path));
      if (error !== null) return { last, recovered, unread: { number: segment.number, error } };
      if (opening === null) continue;
      last = segment.number;
      const said = operation(opening) === "recovered" ? opening.content.segments : null;
      // Only of earlier segments does it say anything.
      if (Array.isArray(said))
        for (const one of said)
          if (isObject(one) && Number.isInteger(one.segment) && one.segment < segment.number)
            recovered.set(one.segment, one);
    }
    return { last, recovered, unread: null };
  }

  segment({ number, path }, mayTear, recovered) {
    const file = new BytesOfFile(path);
    try {
      const end = recovered === null ? file.size : checkRecovered(file, recovered);
      const state = {
        number,
        file,
        hash: createHash("sha256"),
        entries: 0,
        opening: "",
        stored: null,
        noted: false,
      };
      const chunks = new ChunkReader(file, end);
      this.behind = true; // a segment is something, even an empty one
      for (;;) {
        this.where = `${this.name}/${number} byte ${chunks.at}`;
        const { value: chunk, error } = attempt(() => chunks.next());
        if (error !== null) {
          if (isUnread(error) || !mayTear || this.checkpointBehind(file, chunks.at, end)) throw error;
          this.visitor.torn(this.where);
          return;
        }
        if (chunk === null) break;
        this.chunk(chunk, state, chunks.streamStart);
        state.hash.update(chunk.bytes);
      }
      if (recovered !== null) {
        const notes = [...this.notesIn(file.read(end, file.size - end))].map(({ note }) => note);
        this.takenBack.push({ where: `${this.name}/${number}`, notes, size: this.tree.size });
      }
      if (!state.noted && recovered === null && !mayTear)
        throw refuse("023", "a segment that others follow does not end in a checkpoint");
    } finally {
      file.close();
    }
  }

  chunk(chunk, state, stream) {
    const items = splitItems(chunk);
    const due = state.stored;
    const isNote = chunk.form === 0 && items.length === 1 && items[0].kind === NOTE;
    if ((due !== null) !== isNote || (!isNote && items.some((item) => item.kind === NOTE)))
      throw refuse("014", "`stored` and the checkpoint do not stand alone, one behind the other");
    state.stored = null;
    state.noted = isNote;
    this.behind = !isNote;
    if (isNote) {
      this.visitor.note(items[0].bytes, due);
      return;
    }
    items.forEach((item, index) => {
      if (item.kind === BLOB) {
        const place = {
          segment: state.number,
          start: chunk.start,
          stream: chunk.form === 0 ? -1 : stream,
          item: index,
        };
        this.visitor.blob(item.bytes, sha256(item.bytes), place);
      } else this.entry(item.bytes, state, chunk, items.length === 1);
    });
  }

  entry(bytes, state, chunk, alone) {
    this.where = `${this.name} entry ${this.tree.size}`;
    const entry = parseEntry(bytes);
    if (entry.index !== this.tree.size || entry.prev !== this.prev)
      throw refuse("017", "the hash chain is broken");
    const { value, error } = attempt(() => bodyKind(entry.body));
    if (error !== null && error.code !== "CF-LOG-022") throw error;
    const kind = value ?? "later";
    this.checkOpening(entry.body, kind, state);
    state.entries += 1;
    this.prev = sha256(bytes);
    this.tree.add(leafHash(bytes));
    this.visitor.entry(entry, kind);
    if (kind !== "record" || operation(entry.body) !== "stored") return;
    state.stored = {
      offset: chunk.start,
      segment: state.number,
      sha256: state.hash.copy().digest("hex"),
      alone: alone && chunk.form === 0,
      body: entry.body,
    };
  }

  checkOpening(body, kind, state) {
    const first = state.entries === 0;
    if (kind === "later") return; // what a later version says of openings is not known here
    const op = kind === "record" && OPENINGS.includes(operation(body)) ? operation(body) : "";
    const second = state.entries === 1 && state.opening === "recovered" && op === "session";
    if (first) state.opening = op;
    if (first ? op === "" : op !== "" && !second)
      throw refuse("018", "an opening entry stands elsewhere, or another in its place");
    if (first && !this.continues(body.context.tree))
      throw refuse("018", "a segment does not open with the tree it continues");
  }

  continues(tree) {
    if (!hasExactly(tree, "peaks", "size") || tree.size !== this.tree.size || !Array.isArray(tree.peaks))
      return false;
    const { peaks } = this.tree;
    return (
      tree.peaks.length === peaks.length && peaks.every((peak, i) => peak.toString("hex") === tree.peaks[i])
    );
  }

  /**
   * Whether a checkpoint of this log stands whole behind bytes that are no chunk: then they are damage, unless they have
   * a hole, as a power failure leaves it.
   */
  checkpointBehind(file, from, end) {
    const rest = file.read(from, end - from);
    for (const _ of this.notesIn(rest)) return !hasHole(rest, from);
    return false;
  }

  /** Whole chunks in some bytes that hold a note of this log. @param {Buffer} bytes */
  *notesIn(bytes) {
    const mark = Buffer.from(`/${this.name}\n`);
    for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) {
      const start = at - 64 - ITEM_HEADER - HEADER;
      const note = start < 0 ? null : noteChunk(bytes.subarray(start));
      if (note !== null) yield { start, note };
    }
  }
}

/**
 * Whether the chunk that these bytes begin with, and which is not whole, lacks a sector: one of the pieces that sectors
 * cut it into is all zero up to the border, and holds bytes of it.
 * @param {Buffer} bytes @param {number} offset of the bytes in their file
 */
function hasHole(bytes, offset) {
  const header = parseHeader(bytes);
  const stop = HEADER + (header?.length ?? 0);
  for (let start = 0; start < stop;) {
    const end = start + SECTOR - ((offset + start) % SECTOR);
    if (end > bytes.length) return false;
    // The header of a raw chunk begins with four zeros anyway.
    const raw = start === 0 && end <= 4 && header !== null && header.length === header.size;
    if (!raw && bytes.subarray(start, end).every((byte) => byte === 0)) return true;
    start = end;
  }
  return false;
}

/** The note that fills a whole raw chunk at the start of bytes, or null. Who signed it is not asked. */
function noteChunk(bytes) {
  const view = { read: (offset, length) => bytes.subarray(offset, offset + length) };
  const { value: chunk } = attempt(() => new ChunkReader(view, bytes.length).next());
  if (chunk === null || chunk.form !== 0 || chunk.end > MOST_NOTE) return null;
  const { value: items } = attempt(() => splitItems(chunk));
  return items?.length === 1 && items[0].kind === NOTE ? items[0].bytes : null;
}

/** The body of the first entry in the first chunk, where that can be read: whether it may stand there is not asked. */
function readOpening(path) {
  const file = new BytesOfFile(path);
  try {
    const { value, error } = attempt(() => {
      const chunk = new ChunkReader(file, file.size).next();
      const item = chunk === null ? undefined : splitItems(chunk).find(({ kind }) => kind === ENTRY);
      const body = item === undefined ? null : parseEntry(item.bytes).body;
      if (body !== null) bodyKind(body);
      return body;
    });
    if (isUnread(error)) throw error;
    return value;
  } finally {
    file.close();
  }
}

/** Where a recovered segment ends. */
function checkRecovered(file, said) {
  const bad = refuse("015", "a recovery entry is malformed, or the segment changed after it was recovered");
  const shape =
    hasExactly(said, "good", "segment", "sha256", "size") && isCount(said.good) && isCount(said.size);
  if (!shape || typeof said.sha256 !== "string" || !HEX64.test(said.sha256)) throw bad;
  if (file.size !== said.size || said.good > said.size) throw bad;
  const hash = createHash("sha256");
  for (let at = 0; at < file.size; at += 1 << 20) hash.update(file.read(at, 1 << 20));
  if (hash.digest("hex") !== said.sha256) throw bad;
  return said.good;
}
