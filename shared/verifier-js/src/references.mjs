/** References, the reduced form, folded message lists and digests (spec/references.md). */
import { HEX64, fromBase64, sha256 } from "./bytes.mjs";
import { dumps, hasExactly, isCount } from "./canonical.mjs";
import { CounterfoilError } from "./errors.mjs";

/** @typedef {{media: string, sha256: string, size: number}} Reference */
/** @typedef {(bytes: Buffer, sha256: string) => void} Keep called once for every stored blob, in order */

export const TEXT = "text/plain;charset=utf-8";
export const BYTES = "application/octet-stream";
export const VALUE = "application/vnd.counterfoil.value+json";
export const FOLD = "application/vnd.counterfoil.fold+json";
const LONG = 256;

/** Whether a value has exactly the three members of a reference, whatever is in them. */
export const looksLikeReference = (value) => hasExactly(value, "media", "sha256", "size");

/** A keyed commitment to personal data, which stands where a reference would. @param {unknown} value */
export function isCommitment(value) {
  if (!hasExactly(value, "commit", "media", "size")) return false;
  return (
    typeof value.media === "string" &&
    typeof value.commit === "string" &&
    HEX64.test(value.commit) &&
    isCount(value.size)
  );
}

/** @param {unknown} value @returns {value is Reference} */
export function isReference(value) {
  if (!looksLikeReference(value)) return false;
  return (
    typeof value.media === "string" &&
    typeof value.sha256 === "string" &&
    HEX64.test(value.sha256) &&
    isCount(value.size)
  );
}

/**
 * Reduces a canonical value and cites it; gives every blob to `keep` before what cites it.
 * @param {import("./canonical.mjs").Json} value
 * @param {Keep} [keep]
 * @returns {{reduced: import("./canonical.mjs").Json, reference: Reference}}
 */
export function cite(value, keep = () => {}) {
  const reduced = reduce(value, keep);
  if (hasExactly(reduced, "$ref") && isReference(reduced.$ref)) return { reduced, reference: reduced.$ref };
  const short = hasExactly(value, "$bytes") ? decoded(value.$bytes) : null;
  if (short !== null) return { reduced, reference: store(short, BYTES, keep) };
  if (typeof value === "string") return { reduced, reference: store(Buffer.from(value), TEXT, keep) };
  return { reduced, reference: store(Buffer.from(dumps(reduced)), VALUE, keep) };
}

/** The plain `sha256` of a payload that leaves its process: of the unreduced value. */
export function plainDigest(value) {
  if (typeof value === "string") return sha256(value);
  if (hasExactly(value, "$bytes")) return sha256(decoded(value.$bytes));
  return sha256(dumps(value));
}

function store(bytes, media, keep) {
  const digest = sha256(bytes);
  keep(bytes, digest);
  return { media, sha256: digest, size: bytes.length };
}

function decoded(text) {
  const bytes = fromBase64(text);
  if (bytes === null)
    throw new CounterfoilError("CF-CANON-024", "$bytes does not hold base64 in its one spelling");
  return bytes;
}

function reduce(value, keep) {
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new CounterfoilError("CF-CANON-021", "a string holds a lone surrogate");
    if (Buffer.byteLength(value) < LONG) return value;
    return { $ref: store(Buffer.from(value), TEXT, keep) };
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return reduceArray(value, keep);
  if (hasExactly(value, "$bytes")) {
    const bytes = decoded(value.$bytes);
    return bytes.length < LONG ? value : { $ref: store(bytes, BYTES, keep) };
  }
  if (hasExactly(value, "$ref")) {
    if (!isReference(value.$ref) && !isCommitment(value.$ref))
      throw new CounterfoilError("CF-CANON-020", "an object that should be a reference is none");
    return value;
  }
  const members = Object.create(null);
  for (const key of Object.keys(value).sort()) {
    if (!key.isWellFormed()) throw new CounterfoilError("CF-CANON-023", "a key is not a well-formed string");
    members[key] = reduce(value[key], keep);
  }
  return shorten(members, keep);
}

function reduceArray(value, keep) {
  if (value.length > 0 && value.every((item) => hasExactly(item, "$msg"))) return fold(value, keep);
  return shorten(
    value.map((item) => reduce(item, keep)),
    keep,
  );
}

function shorten(reduced, keep) {
  const text = Buffer.from(dumps(reduced));
  return text.length < LONG ? reduced : { $ref: store(text, VALUE, keep) };
}

function fold(messages, keep) {
  let reference = null;
  const elements = messages.map((message) => reduce(message, keep));
  elements.forEach((add, index) => {
    const node = dumps({ add, n: index + 1, parent: reference === null ? "" : reference.sha256 });
    reference = store(Buffer.from(node), FOLD, keep);
  });
  return { $ref: reference };
}
