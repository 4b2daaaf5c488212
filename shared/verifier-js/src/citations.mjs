/** Checkpoints of other logs that a log's sessions cite (spec/log.md, `seen`). */
import { readCanonical } from "./canonical.mjs";
import { attempt } from "./errors.mjs";
import { parseCheckpoint, parseNote } from "./notes.mjs";
import { isReference, looksLikeReference } from "./references.mjs";

/** @typedef {{log: string, where: string, checkpoint: import("./notes.mjs").Checkpoint | null, code: string}} Citation */

export class Citations {
  /** @param {import("./judge.mjs").Judge} judge */
  constructor(judge) {
    this.judge = judge;
    /** @type {Citation[]} */
    this.list = [];
  }

  /** @param {unknown} seen a list of citations, or the reference of one */
  session(seen) {
    let list = seen;
    if (looksLikeReference(seen)) {
      const bytes = isReference(seen) ? this.judge.list(seen) : null;
      list = bytes === null ? null : attempt(() => readCanonical(bytes)).value?.value;
      if (!Array.isArray(list)) this.judge.find("CF-CANON-011", "the list of other logs cannot be read");
    }
    if (Array.isArray(list)) for (const one of list) this.cite(one);
  }

  cite(one) {
    const { where } = this.judge;
    const bytes = isReference(one?.note) && this.judge.blobs.there(one.note) ? this.judge.blobs.load(one.note.sha256) : null;
    if (bytes === null || typeof one.log !== "string") return;
    const { value, error } = attempt(() => parseCheckpoint(parseNote(bytes)));
    this.list.push({ log: one.log, where, checkpoint: value, code: error?.code ?? "" });
  }
}
