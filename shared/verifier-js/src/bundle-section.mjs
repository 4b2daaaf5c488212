/** A section of a bundle: one log's checkpoint and the entries and gaps that lead to it (spec/bundle.md). */
import { sha256 } from "./bytes.mjs";
import { fault } from "./bundle-lines.mjs";
import { MOST_ENTRY, ZEROS, bodyKind } from "./entries.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { PublicKey } from "./keys.mjs";
import { parseCheckpoint, parseNote, verifyNote } from "./notes.mjs";
import { leafHash, nodeHash } from "./tree.mjs";

/** @typedef {import("./entries.mjs").Entry & {kind: "record" | "envelope" | "later", line: number}} BundleEntry */
/** @typedef {{size: number, root: string, line: number}} HeadLine */

/** The sizes of the complete subtrees that `count` entries from `at` on are made of, from left to right. */
export function subtrees(at, count) {
  const sizes = [];
  for (let from = at, left = count; left > 0;) {
    let size = 1;
    while (size * 2 <= left && from % (size * 2) === 0) size *= 2;
    sizes.push(size);
    from += size;
    left -= size;
  }
  return sizes;
}

export class Section {
  /**
   * @param {{origin: string, size: number, root: string}} checkpoint
   * @param {PublicKey} key
   * @param {number} line
   */
  constructor({ origin, size, root }, key, line) {
    this.origin = origin;
    this.name = origin.slice(65);
    this.key = key;
    this.size = size;
    this.root = root;
    this.line = line;
    this.lastLine = line;
    this.at = 0;
    /** @type {{hash: Buffer, size: number}[]} */
    this.stack = [];
    /** @type {BundleEntry[]} */
    this.entries = [];
    /** @type {HeadLine[]} */
    this.heads = [];
    /** @type {{from: number, to: number}[]} */
    this.gaps = [];
    this.last = "";
    this.afterGap = false;
  }

  /**
   * @param {string} text the checkpoint
   * @param {string} origin its first line, looked at before its form
   * @param {string} spki
   * @param {number} line
   * @returns {Section}
   */
  static open(text, origin, spki, line) {
    const { value: key } = attempt(() => PublicKey.fromText(spki));
    if (key === null) throw fault("CF-BUNDLE-013", "a log's key is no usable key", line);
    if (!/^[0-9a-f]{64}\/[0-9a-f]{16}$/.test(origin) || !origin.startsWith(`${key.fingerprint}/`))
      throw fault("CF-BUNDLE-013", "a log's key is not that of its origin", line);
    try {
      const note = parseNote(Buffer.from(text));
      verifyNote(note, origin, key);
      const checkpoint = parseCheckpoint(note);
      return new Section(checkpoint, key, line);
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      throw fault(error.code, error.message, line);
    }
  }

  push(hash, size) {
    let top = { hash, size };
    for (let below = this.stack.at(-1); below?.size === top.size; below = this.stack.at(-1)) {
      this.stack.pop();
      top = { hash: nodeHash(below.hash, top.hash), size: top.size * 2 };
    }
    this.stack.push(top);
  }

  rootNow() {
    return this.stack
      .map(({ hash }) => hash)
      .reduceRight((right, left) => nodeHash(left, right))
      .toString("hex");
  }

  entry(value, bytes, plain, line) {
    this.lastLine = line;
    const follows = value.i === this.at && this.at < this.size && bytes.length <= MOST_ENTRY;
    const prev = this.at === 0 ? ZEROS : this.last;
    if (!follows || (prev !== "" && value.prev !== prev))
      throw fault("CF-BUNDLE-010", "an entry does not follow, is beyond the note's size, or too long", line);
    const { value: known, error } = attempt(() => bodyKind(value.body));
    if (error !== null && error.code !== "CF-LOG-022") throw fault(error.code, error.message, line);
    const kind = known ?? "later";
    this.entries.push({
      index: value.i,
      prev: value.prev,
      text: bytes.toString(),
      body: value.body,
      plain,
      kind,
      line,
    });
    this.push(leafHash(bytes), 1);
    this.last = sha256(bytes);
    this.at += 1;
    this.afterGap = false;
  }

  gap({ count, hashes }, line) {
    this.lastLine = line;
    if (this.afterGap) throw fault("CF-BUNDLE-003", "a gap follows a gap", line);
    if (this.at + count > this.size) throw fault("CF-BUNDLE-011", "a gap goes beyond the note's size", line);
    const sizes = subtrees(this.at, count);
    if (sizes.length !== hashes.length)
      throw fault("CF-BUNDLE-011", "a gap has not the hashes of its place and count", line);
    sizes.forEach((size, index) => this.push(Buffer.from(hashes[index], "hex"), size));
    this.gaps.push({ from: this.at, to: this.at + count });
    this.at += count;
    this.last = "";
    this.afterGap = true;
  }

  head({ root, size }, line) {
    this.lastLine = line;
    if (size !== this.at || size >= this.size || this.heads.at(-1)?.size === size)
      throw fault("CF-BUNDLE-003", "a head may not stand here", line);
    if (root !== this.rootNow())
      throw fault("CF-BUNDLE-012", "a head's root is not the one the lines lead to", line);
    this.heads.push({ size, root, line });
    this.afterGap = false; // "A gap ends at it"
  }

  end() {
    const where = `${this.line} to ${this.lastLine}`;
    if (this.entries.length === 0) throw fault("CF-BUNDLE-003", "a section has no entry", where, "lines");
    if (this.at !== this.size)
      throw fault("CF-BUNDLE-011", "a section ends before the note's size", where, "lines");
    if (this.rootNow() !== this.root)
      throw fault("CF-BUNDLE-012", "the note's root is not the one the lines lead to", where, "lines");
    this.stack = [];
  }

  /** The root this section shows for a size, or null. @param {number} size */
  rootAt(size) {
    return size === this.size ? this.root : (this.heads.find((head) => head.size === size)?.root ?? null);
  }
}
