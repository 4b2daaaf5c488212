/** Entries and records (spec/log.md, "Entries"; spec/record.md). */
import { hasExactly, isObject, readCanonical } from "./canonical.mjs";
import { CounterfoilError } from "./errors.mjs";

/** @typedef {{content: Record<string, any>, context: Record<string, any>, v: number}} RecordBody */
/**
 * @typedef {object} Entry
 * @property {number} index
 * @property {string} prev
 * @property {string} text
 * @property {any} body
 * @property {boolean} plain neither null nor double stands in it
 */

/** An entry's size in bytes, at most. */
export const MOST_ENTRY = 65_535;
export const ZEROS = "0".repeat(64);
const refuse = (code, message) => new CounterfoilError(`CF-LOG-${code}`, message);

/**
 * Reads an entry's text; its place in the chain is not looked at.
 * @param {Buffer} bytes
 * @returns {Entry}
 */
export function parseEntry(bytes) {
  if (bytes.length > MOST_ENTRY) throw refuse("016", "an entry is longer than 65,535 bytes");
  const { value, nulls, doubles } = readCanonical(bytes, { maxDepth: 64 });
  if (!hasExactly(value, "body", "i", "prev") || !Number.isInteger(value.i) || typeof value.prev !== "string")
    throw refuse("021", "an entry has other members than body, i and prev");
  return {
    index: value.i,
    prev: value.prev,
    text: bytes.toString(),
    body: value.body,
    plain: nulls + doubles === 0,
  };
}

/**
 * Whether a body is an envelope; throws where it is neither that nor a record.
 * @param {unknown} body
 * @returns {"record" | "envelope"}
 */
export function bodyKind(body) {
  if (isObject(body) && Object.hasOwn(body, "payload")) return "envelope";
  const bad = refuse("021", "an entry is neither a record nor an envelope");
  if (!hasExactly(body, "content", "context", "v")) throw bad;
  if (body.v !== 1) throw refuse("022", "a record is of a version that is not known here");
  if (!isObject(body.content) || !isObject(body.context) || typeof body.content.op !== "string") throw bad;
  return "record";
}

/** The operation of a body that is a record of any version, or "". @param {any} body */
export function operation(body) {
  return isObject(body) && isObject(body.content) && typeof body.content.op === "string"
    ? body.content.op
    : "";
}
