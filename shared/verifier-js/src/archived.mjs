/** Logs that stand in another place, by the word of their identity (spec/statement.md, "Archive"; spec/log.md). */
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { readCanonical } from "./canonical.mjs";
import { attempt } from "./errors.mjs";
import { TEXT } from "./references.mjs";
import { count, hex, object, text } from "./schema.mjs";

/**
 * @typedef {object} Archived
 * @property {Record<string, any>} said the statement's predicate
 * @property {Map<number, string>} checkpoints size, root
 * @property {{sha256: string, size: number}[]} segments
 */

const isCheckpoint = object({ root: hex(64), size: count(1) });
const isSegment = object({ sha256: hex(64), size: count() });
const isRun = object({ run: text(64, 0) });
const ORIGIN = /^[0-9a-f]{64}\/[0-9a-f]{16}$/;

/**
 * What is in the list of an archive statement, or null where it is none.
 * @param {Uint8Array} blob
 */
function parseList(blob) {
  const list = attempt(() => readCanonical(blob)).value?.value;
  if (!Array.isArray(list)) return null;
  const checkpoints = new Map();
  const segments = [];
  let last = 0;
  let run = null;
  for (const one of list) {
    if (segments.length === 0 && isCheckpoint(one) && one.size > last) {
      last = one.size;
      checkpoints.set(last, one.root);
    } else if (run === null && isSegment(one)) segments.push(one);
    else if (segments.length > 0 && isRun(one) && isAfter(run, one.run)) run = one.run;
    else return null;
  }
  return checkpoints.size === 0 || segments.length === 0 ? null : { checkpoints, segments, last };
}

/** Whether a run comes behind another, by code points. */
function isAfter(before, run) {
  if (before === null) return run !== "";
  const [a, b] = [[...before], [...run]];
  for (let at = 0; at < a.length && at < b.length; at += 1)
    if (a[at] !== b[at]) return a[at].codePointAt(0) < b[at].codePointAt(0);
  return a.length < b.length;
}

/**
 * What a statement in a log says, if that is the word of its identity for another log of its own, and its list fits.
 * @param {any} said
 * @param {{fingerprint: string, origin: string, list: (reference: any) => Uint8Array | null, there: (reference: any) => boolean}} log
 * @returns {Archived | null}
 */
export function archivedBy(said, { fingerprint, origin, list, there }) {
  const { log, manifest } = said;
  if (!ORIGIN.test(log.origin) || log.origin === origin || log.origin.slice(0, 64) !== fingerprint) return null;
  const reference = { media: TEXT, sha256: manifest.sha256, size: manifest.size };
  const bytes = there(reference) ? list(reference) : null;
  const found = bytes === null ? null : parseList(bytes);
  if (found === null || found.last !== log.size || found.checkpoints.get(log.size) !== log.root) return null;
  return { said, checkpoints: found.checkpoints, segments: found.segments };
}

/** By origin, the statement that tells most of a log. @param {Archived[]} all @returns {Map<string, Archived>} */
export function largest(all) {
  const found = new Map();
  for (const one of all) {
    const { origin, size } = one.said.log;
    const other = found.get(origin)?.said;
    const less = other === undefined || other.log.size < size;
    if (less || (other.log.size === size && other.issued <= one.said.issued)) found.set(origin, one);
  }
  return found;
}

/** Whether of an archived log only a part is here, every file as it was. @param {Archived} one */
export function isPart(one, segments) {
  return (
    segments.length < one.segments.length &&
    segments.every(({ number, path }) => {
      const told = one.segments[number];
      if (told === undefined || statSync(path).size !== told.size) return false;
      return createHash("sha256").update(readFileSync(path)).digest("hex") === told.sha256;
    })
  );
}
