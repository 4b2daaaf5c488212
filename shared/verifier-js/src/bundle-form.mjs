/** Reading a bundle line by line: form, trees, blobs (spec/bundle.md, "Verifying", step 1). */
import { statSync } from "node:fs";
import { hasExactly, isObject } from "./canonical.mjs";
import { BlobLines } from "./bundle-blobs.mjs";
import { fault, linesOf } from "./bundle-lines.mjs";
import { Section } from "./bundle-section.mjs";
import { attempt } from "./errors.mjs";
import { PublicKey } from "./keys.mjs";
import { count, either, hex, list, object, text } from "./schema.mjs";

/** @typedef {{digest: string, line: number}} Absent */
/** @typedef {{key: PublicKey, line: number}} KeyLine */
/**
 * @typedef {object} Bundle
 * @property {{run?: string, handoff?: string}} asked
 * @property {Section[]} sections
 * @property {BlobLines} blobs
 * @property {Absent[]} absent
 * @property {KeyLine[]} keys
 */

const LIMITS = {
  absent: 2 ** 20,
  blobs: 2 ** 24,
  bytes: 2 ** 40,
  entries: 2 ** 24,
  keys: 65_536,
  logs: 65_536,
};
const ANY = () => true;
const SHAPES = {
  contents: object({
    asked: either(object({ run: text(64) }), object({ handoff: hex(64) })),
    counts: object(Object.fromEntries(Object.keys(LIMITS).map((name) => [name, count()]))),
    kind: ANY,
  }),
  log: object({ kind: ANY, note: text(1_048_576), spki: text(1_048_576, 0) }),
  gap: object({ count: count(1), hashes: list(hex(64)), kind: ANY }),
  head: object({ kind: ANY, root: hex(64), size: count(1) }),
  entry: object({ body: ANY, i: count(), prev: hex(64) }),
  blob: either(
    object({ base64: text(1_048_576, 0), kind: ANY, sha256: hex(64), size: count() }),
    object({ kind: ANY, sha256: hex(64), size: count(), text: text(1_048_576, 0) }),
  ),
  more: either(
    object({ base64: text(1_048_576, 0), kind: ANY }),
    object({ kind: ANY, text: text(1_048_576, 0) }),
  ),
  absent: object({ digest: hex(64), kind: ANY }),
  key: object({ kind: ANY, spki: text(1_048_576, 0) }),
};
/** Kinds in the order of a bundle's parts. */
const PARTS = { log: 1, gap: 1, head: 1, entry: 1, blob: 2, more: 2, absent: 3, key: 4 };

class FormReader {
  /** @param {number} size of the file */
  constructor(size) {
    this.size = size;
    this.part = 0;
    this.line = 0;
    this.asked = null;
    this.counts = null;
    this.passed = { absent: 0, blobs: 0, bytes: 0, entries: 0, keys: 0, logs: 0 };
    /** @type {Section[]} */
    this.sections = [];
    /** @type {Section | null} */
    this.section = null;
    this.blobs = new BlobLines();
    this.absent = [];
    this.keys = [];
  }

  fail(code, message) {
    return fault(`CF-BUNDLE-${code}`, message, this.line);
  }

  /** @param {import("./bundle-lines.mjs").Line} line */
  take({ number, bytes, value, plain }) {
    this.line = number;
    if (number === 1) return this.first(value);
    const kind = kindOf(value);
    // A section ends with its last line, whatever the next one holds.
    if (this.section !== null && !["entry", "gap", "head"].includes(kind)) this.endSection();
    if (this.blobs.open && kind !== "more") throw this.blobs.cut(number);
    if (kind === "" || !SHAPES[kind](value))
      throw this.fail("003", "a line has not the members and types of any kind");
    if ((kind === "contents") !== (number === 2)) throw this.fail("003", "a line may not stand here");
    if (kind === "contents") return this.contents(value);
    const part = PARTS[kind];
    if (part < this.part || (kind !== "log" && part === 1 && this.section === null))
      throw this.fail("003", "a line may not stand here");
    this.part = part;
    return kind === "absent" ? this.absentDigest(value) : this[kind](value, bytes, plain);
  }

  first(value) {
    if (!hasExactly(value, "counterfoil", "v") || value.counterfoil !== "bundle" || !Number.isSafeInteger(value.v))
      throw this.fail("003", "the first line is not a bundle's");
    if (value.v !== 1) throw this.fail("001", "the bundle is of a version that is not known here");
  }

  contents({ asked, counts }) {
    for (const [name, most] of Object.entries(LIMITS))
      if (counts[name] > most || counts[name] > this.size)
        throw this.fail("004", "the counts say more than a bundle may hold");
    this.asked = asked;
    this.counts = counts;
  }

  /** Counts what passed, and refuses more than the contents say. */
  pass(name, more = 1) {
    this.passed[name] += more;
    if (this.passed[name] > this.counts[name])
      throw this.fail("005", `there are more ${name} than the contents say`);
  }

  log({ note, spki }) {
    const [origin] = note.split("\n", 1);
    if (origin <= (this.sections[this.sections.length - 1]?.origin ?? ""))
      throw this.fail("003", "logs are out of order, or one stands twice");
    this.pass("logs");
    const section = Section.open(note, origin, spki, this.line);
    this.section = section;
    this.sections.push(section);
  }

  endSection() {
    this.section.end();
    this.section = null;
  }

  entry(value, bytes, plain) {
    this.pass("entries");
    this.section.entry(value, bytes, plain, this.line);
  }

  gap(value) {
    this.section.gap(value, this.line);
  }

  head(value) {
    this.section.head(value, this.line);
  }

  blob(value) {
    const last = this.blobs.last;
    if (last !== "" && value.sha256 <= last)
      throw this.fail("003", "blobs are out of order, or one stands twice");
    this.pass("blobs");
    this.pass("bytes", value.size);
    this.blobs.begin(value, this.line);
  }

  more(value) {
    if (!this.blobs.open) throw this.fail("003", "a line may not stand here");
    this.blobs.more(value, this.line);
  }

  absentDigest({ digest }) {
    const last = this.absent[this.absent.length - 1];
    if (last !== undefined && digest <= last.digest)
      throw this.fail("003", "absent digests are out of order, or one stands twice");
    this.pass("absent");
    this.absent.push({ digest, line: this.line });
  }

  key({ spki }) {
    const { value: key } = attempt(() => PublicKey.fromText(spki));
    if (key === null) throw this.fail("013", "a key is no usable key");
    const last = this.keys[this.keys.length - 1];
    if (last !== undefined && key.fingerprint <= last.key.fingerprint)
      throw this.fail("003", "keys are out of order, or one stands twice");
    this.pass("keys");
    this.keys.push({ key, line: this.line });
  }

  /** @returns {Bundle} */
  end() {
    if (this.counts === null) throw this.fail("002", "a bundle ends before its contents");
    if (this.section !== null) this.endSection();
    if (this.blobs.open) throw this.blobs.cut(this.line);
    for (const [name, passed] of Object.entries(this.passed))
      if (passed < this.counts[name]) throw this.fail("005", `there are fewer ${name} than the contents say`);
    const { asked, sections, blobs, absent, keys } = this;
    return { asked, sections, blobs, absent, keys };
  }
}

function kindOf(value) {
  if (!isObject(value)) return "";
  if (Object.hasOwn(value, "body")) return "entry";
  return typeof value.kind === "string" && value.kind !== "entry" && Object.hasOwn(SHAPES, value.kind)
    ? value.kind
    : "";
}

/** Reads a bundle, or throws its first fault. @param {string} path @returns {Bundle} */
export function readBundle(path) {
  const reader = new FormReader(statSync(path).size);
  for (const line of linesOf(path)) reader.take(line);
  return reader.end();
}
