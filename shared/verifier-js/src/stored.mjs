/** Stored values and nodes: which blobs can be cited as a value or a fold (spec/references.md, "Stored values"). */
import { HEX64, fromBase64 } from "./bytes.mjs";
import { MAX_SAFE, dumps, hasExactly, isCount, readCanonical } from "./canonical.mjs";
import { attempt } from "./errors.mjs";
import { FOLD, VALUE, isReference } from "./references.mjs";

/** @typedef {{media: string, sha256: string, size: number | null, n?: number}} Part `n`: the number a node must have */
/** @typedef {{parts: Part[], node: {n: number, parent: string} | null}} Stored */

const DEPTH = 128;
const LONG = 256;
const MOST_NODES = 2 ** 30 - 1;

/**
 * What a blob is as a stored value, or null where it is none.
 * @param {Buffer} bytes
 * @returns {Stored | null}
 */
export function parseStored(bytes) {
  if (bytes.length === 0 || bytes[0] === 0x22 || bytes[0] === 0x20) return null;
  const value = canonicalValue(bytes);
  if (value === undefined || !couldBeStored(value)) return null;
  const parts = [];
  return look(value, parts) ? { parts, node: nodeOf(value) } : null;
}

/** The value of a canonical text, or undefined. Most texts are canonical, and JSON.parse is faster than a strict reader. */
function canonicalValue(bytes) {
  const text = bytes.toString();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  // Written again it is the same text: so no key stood twice, and no escape for a lone surrogate or other spelling.
  const { value: again } = attempt(() => dumps(value));
  if (again === text && Buffer.byteLength(text) === bytes.length && !bytes.includes("\ufffd")) return value;
  return attempt(() => readCanonical(bytes, { maxDepth: DEPTH })).value?.value;
}

function couldBeStored(value) {
  if (typeof value === "string" || hasExactly(value, "$bytes")) return false;
  if (hasExactly(value, "$ref") && isReference(value.$ref)) return false;
  if (typeof value !== "object" || value === null) return true;
  return Object.values(value).every(stays);
}

function stays(value) {
  if (typeof value === "string") return Buffer.byteLength(value) < LONG;
  if (typeof value !== "object" || value === null) return true;
  if (hasExactly(value, "$ref") && isReference(value.$ref)) return true;
  if (hasExactly(value, "$bytes")) {
    const bytes = fromBase64(value.$bytes);
    return bytes !== null && bytes.length < LONG;
  }
  return Buffer.byteLength(dumps(value)) < LONG;
}

/** Collects the references; false where a number is beyond the integers, or a list of messages is not folded. */
function look(value, parts) {
  if (typeof value === "number")
    return !Number.isInteger(value) || Math.abs(value) <= MAX_SAFE || Math.abs(value) >= 1e21;
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value) && value.length > 0 && value.every((one) => hasExactly(one, "$msg"))) return false;
  if (hasExactly(value, "$ref") && isReference(value.$ref)) parts.push(value.$ref);
  return Object.values(value).every((one) => look(one, parts));
}

function nodeOf(value) {
  if (!hasExactly(value, "add", "n", "parent")) return null;
  const { add, n, parent } = value;
  const cited = hasExactly(add, "$ref") && isReference(add.$ref) && add.$ref.media === VALUE;
  if (!cited && !hasExactly(add, "$msg")) return null;
  if (!isCount(n, 1) || n > MOST_NODES || typeof parent !== "string") return null;
  return (n === 1 ? parent === "" : HEX64.test(parent)) ? { n, parent } : null;
}

/** The node before, as something that must be there, or null. @param {Stored} stored @returns {Part | null} */
export function partBefore({ node }) {
  return node === null || node.parent === ""
    ? null
    : { media: FOLD, sha256: node.parent, size: null, n: node.n - 1 };
}

/** A name for a part: two with one name are the same demand. @param {Part} part */
export const partName = ({ media, sha256, size, n }) => `${media} ${sha256} ${size} ${n}`;
