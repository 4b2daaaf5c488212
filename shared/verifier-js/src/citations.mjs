/** Checkpoints of other logs that a log's sessions cite (spec/log.md, `seen`). */
import { isObject, readCanonical } from "./canonical.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { parseCheckpoint, parseNote } from "./notes.mjs";
import { isReference, looksLikeReference } from "./references.mjs";

/** @typedef {{log: string, where: string, checkpoint: import("./notes.mjs").Checkpoint | null, code: string}} Citation */

export const isCitation = (value) => isObject(value) && typeof value.log === "string";

const MOST_NOTE = 512;
const ORIGIN = /^[0-9a-f]{64}\/[0-9a-f]{16}\n/;

/** The checkpoint in a note of a log. @param {Buffer} bytes */
function read(bytes) {
  if (bytes.length > MOST_NOTE || !ORIGIN.test(bytes.toString("latin1", 0, 82)))
    throw new CounterfoilError("CF-NOTE-003", "what is cited of another log is no checkpoint");
  return parseCheckpoint(parseNote(bytes));
}

export class Citations {
  /** @param {import("./judge.mjs").Judge} judge */
  constructor(judge) {
    this.judge = judge;
    /** @type {Citation[]} */
    this.list = [];
    /** @type {Set<string>} lists that were looked into: each is once, for many sessions may cite one that is long */
    this.lists = new Set();
    /** @type {Map<string, {value: any, error: any}>} */
    this.told = new Map();
  }

  /** @param {unknown} seen a list of citations, or the reference of one */
  session(seen) {
    if (!looksLikeReference(seen)) {
      if (Array.isArray(seen)) for (const one of seen) this.cite(one);
      return;
    }
    if (isReference(seen)) {
      const name = `${seen.sha256} ${seen.size}`; // under whatever media type
      if (this.lists.has(name)) return;
      this.lists.add(name);
    }
    const bytes = isReference(seen) ? this.judge.list(seen) : null;
    const list = bytes === null ? null : attempt(() => readCanonical(bytes)).value?.value;
    if (!Array.isArray(list) || !list.every(isCitation)) {
      this.judge.find("CF-CANON-011", "the list of other logs cannot be read");
      return;
    }
    for (const one of list) {
      // A list that stands apart is no composite, so nobody else looks at what it cites.
      if (isReference(one.note) && !this.judge.blobs.there(one.note))
        this.judge.find("CF-VERIFY-010", "the checkpoint of another log that is cited is missing");
      this.cite(one);
    }
  }

  cite(one) {
    if (!isCitation(one) || !isReference(one.note) || !this.judge.blobs.there(one.note)) return;
    const { sha256 } = one.note;
    if (!this.told.has(sha256)) {
      const bytes = this.judge.blobs.load(sha256);
      if (bytes === null) return;
      this.told.set(
        sha256,
        attempt(() => read(bytes)),
      );
    }
    const { value, error } = this.told.get(sha256);
    this.list.push({ log: one.log, where: this.judge.where, checkpoint: value, code: error?.code ?? "" });
  }
}
