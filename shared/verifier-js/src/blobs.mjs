/**
 * The blobs of one log as they pass: which are there, whole with all their parts (spec/log.md, "A reference is there").
 *
 * Only digests, sizes and what is missing are kept; the bytes of the last few are held, others are read again.
 */
import { isUtf8 } from "node:buffer";
import { FOLD, TEXT, VALUE } from "./references.mjs";
import { parseStored, partBefore, partName } from "./stored.mjs";
import { pushAll } from "./push.mjs";

/** @typedef {import("./stored.mjs").Part} Part */
/**
 * @typedef {object} Known
 * @property {number} size
 * @property {boolean} text it is UTF-8
 * @property {Part[] | null} missing parts that were not there when it passed; null: it is no stored value
 * @property {Part | null} before the node before, where it is a node that has one
 * @property {number} n its number, where it is a node; else 0
 * @property {any} place
 */

const MOST_MISSING = 256;
const HELD = 16 * 1024 * 1024;

export class Blobs {
  /** @param {(place: any) => Buffer | null} again reads a blob once more from where it stands */
  constructor(again) {
    this.again = again;
    /** @type {Map<string, Known>} */
    this.known = new Map();
    /** @type {Set<string>} what is known to be there with all its parts, as `m:digest` */
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
    const stored = parseStored(bytes);
    const before = stored === null ? null : partBefore(stored);
    const missing = stored === null ? null : this.missing(stored.parts, before);
    this.known.set(digest, {
      size: bytes.length,
      text: isUtf8(bytes),
      missing,
      before,
      n: stored?.node?.n ?? 0,
      place,
    });
    this.hold(digest, bytes);
  }

  /** Parts that are not there now, or null where they are too many. */
  missing(parts, before) {
    /** @type {Map<string, Part>} */
    const missing = new Map();
    for (const part of before === null ? parts : [...parts, before]) {
      const name = partName(part);
      if (missing.has(name) || this.there(part)) continue;
      missing.set(name, part);
      if (missing.size > MOST_MISSING) return null;
    }
    return [...missing.values()].filter((part) => part !== before);
  }

  /** Whether what a reference cites is there, with all its parts. @param {Part} reference */
  there(reference) {
    const open = [reference];
    const seen = new Set();
    while (open.length > 0) {
      const { media, sha256, size, n } = open.pop();
      const known = this.known.get(sha256);
      if (known === undefined || (size !== null && known.size !== size)) return false;
      if (media === TEXT && !known.text) return false;
      if (media !== VALUE && media !== FOLD) continue;
      if (known.missing === null || (media === FOLD && known.n === 0) || (n !== undefined && known.n !== n))
        return false;
      const name = `${media === FOLD ? "f" : "v"}:${sha256}`;
      if (this.whole.has(name) || seen.has(name)) continue;
      seen.add(name);
      pushAll(open, known.missing);
      if (media === FOLD && known.before !== null) open.push(known.before);
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
