/** Blobs of a bundle: their lines, their bytes, and whether a reference is there (spec/bundle.md, "Blobs"). */
import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { fromBase64 } from "./bytes.mjs";
import { fault } from "./bundle-lines.mjs";
import { FOLD, TEXT, VALUE } from "./references.mjs";
import { parseStored, partBefore, partName } from "./stored.mjs";
import { pushAll } from "./push.mjs";

/** @typedef {import("./stored.mjs").Part} Part */
/** @typedef {{bytes: Buffer, stored: import("./stored.mjs").Stored | null, line: number}} Held */

const MOST_PIECE = 131_072;

export class BlobLines {
  constructor() {
    /** @type {Map<string, Held>} */
    this.held = new Map();
    this.last = "";
    /** @type {{size: number, pieces: Buffer[], given: number, isText: boolean, line: number} | null} */
    this.current = null;
  }

  get open() {
    return this.current !== null;
  }

  begin(value, line) {
    this.last = value.sha256;
    this.current = { size: value.size, pieces: [], given: 0, isText: Object.hasOwn(value, "text"), line };
    this.piece(value, line);
  }

  more(value, line) {
    this.piece(value, line);
  }

  /** The fault of a blob that lacks some of its bytes, at the line that is none of it. @param {number} line */
  cut(line) {
    return fault("CF-BUNDLE-014", "a blob lacks some of its bytes", line);
  }

  piece(value, line) {
    const bad = fault(
      "CF-BUNDLE-014",
      "a blob's bytes are not of the SHA-256 and size told, or not spelled as they must be",
      line,
    );
    const { current } = this;
    if (current.isText !== Object.hasOwn(value, "text")) throw bad;
    const bytes = current.isText ? Buffer.from(value.text) : fromBase64(value.base64);
    if (bytes === null || bytes.length > MOST_PIECE) throw bad;
    const before = current.pieces.at(-1);
    if (before !== undefined) {
      const fits = current.isText
        ? Buffer.byteLength(String.fromCodePoint(value.text.codePointAt(0) ?? 0))
        : 1;
      if (bytes.length === 0 || before.length + fits <= MOST_PIECE) throw bad;
    }
    current.pieces.push(bytes);
    current.given += bytes.length;
    if (current.given > current.size) throw bad;
    if (current.given === current.size) this.close(bad);
    else if (bytes.length === 0) throw bad;
  }

  close(bad) {
    const { pieces, isText, line } = this.current;
    const bytes = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
    if (createHash("sha256").update(bytes).digest("hex") !== this.last) throw bad;
    if (!isText && isUtf8(bytes)) throw bad;
    this.held.set(this.last, { bytes, stored: parseStored(bytes), line });
    this.current = null;
  }

  /** @param {string} digest @returns {Buffer | null} */
  load(digest) {
    return this.held.get(digest)?.bytes ?? null;
  }

  /** Whether a reference is there with all its parts. @param {Part} reference */
  there(reference) {
    for (const { part, held } of this.walk(reference)) {
      const { media, size, n } = part;
      if (held === undefined || (size !== null && held.bytes.length !== size)) return false;
      if (media === TEXT && !isUtf8(held.bytes)) return false;
      if ((media === VALUE || media === FOLD) && held.stored === null) return false;
      if (media === FOLD && (held.stored.node === null || (n !== undefined && held.stored.node.n !== n)))
        return false;
    }
    return true;
  }

  /** A reference and all its parts, each once for each way it is read. @param {Part} reference */
  *walk(reference, seen = new Set()) {
    const open = [reference];
    while (open.length > 0) {
      const part = open.pop();
      const held = this.held.get(part.sha256);
      const name = partName(part);
      if (seen.has(name)) continue;
      seen.add(name);
      yield { part, held };
      if (held === undefined || held.stored === null || (part.media !== VALUE && part.media !== FOLD))
        continue;
      pushAll(open, held.stored.parts);
      const before = part.media === FOLD ? partBefore(held.stored) : null;
      if (before !== null) open.push(before);
    }
  }
}
