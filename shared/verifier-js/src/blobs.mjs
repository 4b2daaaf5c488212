/**
 * The blobs of one log as they pass: which are there, whole with all their parts (spec/log.md, "A reference is there").
 *
 * Only digests, sizes and what is missing are kept; the bytes of the last few are held, others are read again.
 */
import { FOLD, VALUE } from "./references.mjs";

/** @typedef {{media: string, sha256: string, size: number | null}} Part */
/** @typedef {{size: number, missing: Part[] | null, parent: string | null, place: any}} Known `missing` null: hollow */

const MARK = Buffer.from('{"$ref":{"media":"');
const PART = /^\{"\$ref":\{"media":"((?:[^"\\]|\\.)*)","sha256":"([0-9a-f]{64})","size":(0|[1-9][0-9]{0,15})\}\}/;
const NODE_START = Buffer.from('{"add":');
const NODE_END = /,"n":[1-9][0-9]*,"parent":"([0-9a-f]{64})"\}$/;
const MOST_MISSING = 256;
const HELD = 16 * 1024 * 1024;

export class Blobs {
  /** @param {(place: any) => Buffer | null} again reads a blob once more from where it stands */
  constructor(again) {
    this.again = again;
    /** @type {Map<string, Known>} */
    this.known = new Map();
    /** @type {Set<string>} composites of which every part is known to be there, as `m:digest` */
    this.whole = new Set();
    /** @type {Map<string, Buffer>} */
    this.held = new Map();
    this.heldBytes = 0;
  }

  get count() {
    return this.known.size;
  }

  /** @param {Buffer} bytes @param {string} digest @param {any} place */
  add(bytes, digest, place) {
    if (this.known.has(digest)) return;
    const known = { size: bytes.length, missing: [], parent: null, place };
    if (bytes[0] === 0x7b || bytes[0] === 0x5b) {
      known.missing = this.missingParts(bytes);
      if (bytes.subarray(0, NODE_START.length).equals(NODE_START)) {
        const end = bytes.subarray(Math.max(0, bytes.length - 160)).toString("latin1");
        known.parent = NODE_END.exec(end)?.[1] ?? null;
      }
    }
    this.known.set(digest, known);
    this.hold(digest, bytes);
  }

  missingParts(bytes) {
    const missing = [];
    for (const part of partsOf(bytes)) {
      if (this.there(part)) continue;
      missing.push(part);
      if (missing.length > MOST_MISSING) return null;
    }
    return missing;
  }

  /** Whether what a reference cites is there, with all its parts. @param {Part} reference */
  there(reference) {
    const open = [reference];
    const seen = new Set();
    while (open.length > 0) {
      const { media, sha256, size } = open.pop();
      const known = this.known.get(sha256);
      if (known === undefined || (size !== null && known.size !== size)) return false;
      if (media !== VALUE && media !== FOLD) continue;
      const name = `${media === FOLD ? "f" : "v"}:${sha256}`;
      if (this.whole.has(name) || seen.has(name)) continue;
      seen.add(name);
      if (known.missing === null) return false;
      open.push(...known.missing);
      if (media === FOLD && known.parent !== null) open.push({ media: FOLD, sha256: known.parent, size: null });
    }
    for (const name of seen) this.whole.add(name);
    return true;
  }

  /** The bytes of a blob that has passed, or null. @param {string} digest @returns {Buffer | null} */
  load(digest) {
    const known = this.known.get(digest);
    if (known === undefined) return null;
    return this.held.get(digest) ?? this.again(known.place);
  }

  hold(digest, bytes) {
    if (bytes.length > HELD / 4) return;
    this.held.set(digest, Buffer.from(bytes));
    this.heldBytes += bytes.length;
    for (const [oldest, old] of this.held) {
      if (this.heldBytes <= HELD) return;
      this.held.delete(oldest);
      this.heldBytes -= old.length;
    }
  }
}

/** The references inside a composite, in their order. @param {Buffer} bytes @returns {Generator<Part>} */
export function* partsOf(bytes) {
  for (let at = bytes.indexOf(MARK); at >= 0; at = bytes.indexOf(MARK, at + 1)) {
    const match = PART.exec(bytes.subarray(at, at + 4096).toString("latin1"));
    if (match !== null) yield { media: match[1], sha256: match[2], size: Number(match[3]) };
  }
}
