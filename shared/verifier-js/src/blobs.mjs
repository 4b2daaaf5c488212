/**
 * The blobs of one log as they pass: which are there, whole with all their parts (spec/log.md, "A reference is there").
 *
 * Only digests, sizes and what is missing are kept; the bytes of the last few are held, others are read again.
 */
import { FOLD, VALUE } from "./references.mjs";

/** @typedef {{media: string, sha256: string, size: number | null}} Part */
/**
 * `missing` null: hollow. `parent`: the node before, "" for none; null: it begins as a node and does not end as one.
 * @typedef {{size: number, missing: Part[] | null, parent: string | null, place: any}} Known
 */

const MARK = Buffer.from('{"$ref":{"media":"');
const REST = /^","sha256":"([0-9a-f]{64})","size":([0-9]{1,20})\}\}/;
const MOST_REST = 512;
const NODE_START = Buffer.from('{"add":');
const NODE_END = /,"n":[0-9]{1,20},"parent":"([0-9a-f]{64}|)"\}$/;
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
    const missing = isComposite(bytes) ? this.missingParts(bytes) : [];
    this.known.set(digest, { size: bytes.length, missing, parent: parentOf(bytes), place });
    this.hold(digest, bytes);
  }

  missingParts(bytes) {
    /** @type {Map<string, Part>} */
    const missing = new Map();
    for (const part of partsOf(bytes)) {
      const name = `${part.media} ${part.sha256} ${part.size}`;
      if (missing.has(name) || this.there(part)) continue;
      missing.set(name, part);
      if (missing.size > MOST_MISSING) return null;
    }
    return [...missing.values()];
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
      if (media !== FOLD) continue;
      if (known.parent === null) return false;
      if (known.parent !== "") open.push({ media: FOLD, sha256: known.parent, size: null });
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

const isComposite = (bytes) => bytes[0] === 0x7b || bytes[0] === 0x5b;

/** Digest of the node before; "" for none; null for what begins as a node and does not end as one. @param {Buffer} bytes */
function parentOf(bytes) {
  if (!bytes.subarray(0, NODE_START.length).equals(NODE_START)) return "";
  return NODE_END.exec(bytes.subarray(Math.max(0, bytes.length - 160)).toString("latin1"))?.[1] ?? null;
}

/** All parts of a blob that is a composite. @param {Buffer} bytes @returns {{parts: Part[], parent: string | null}} */
export function compositeOf(bytes) {
  return { parts: isComposite(bytes) ? [...partsOf(bytes)] : [], parent: parentOf(bytes) };
}

/** The references inside a composite, in their order. @param {Buffer} bytes @returns {Generator<Part>} */
export function* partsOf(bytes) {
  for (let at = bytes.indexOf(MARK); at >= 0; at = bytes.indexOf(MARK, at + 1)) {
    const start = at + MARK.length;
    let end = start;
    while (end < bytes.length && bytes[end] !== 0x22) end += bytes[end] === 0x5c ? 2 : 1;
    const match = REST.exec(bytes.subarray(end, end + MOST_REST).toString("latin1"));
    if (match !== null) yield { media: bytes.subarray(start, end).toString(), sha256: match[1], size: Number(match[2]) };
  }
}
