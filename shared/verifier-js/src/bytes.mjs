/** Bytes, hex and base64 in their one spelling; SHA-256. */
import { createHash } from "node:crypto";

export const HEX64 = /^[0-9a-f]{64}$/;

/** @param {string | Uint8Array} data @returns {string} lower-case hex */
export const sha256 = (data) => createHash("sha256").update(data).digest("hex");

/** @param {...(string | Uint8Array)} parts @returns {Buffer} */
export function sha256Bytes(...parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/**
 * Base64 of RFC 4648 section 4, padded, in the one spelling that encodes back to the same text.
 * @param {unknown} text
 * @returns {Buffer | null} null where it is anything else
 */
export function fromBase64(text) {
  if (typeof text !== "string" || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : null;
}

/**
 * Like `fromBase64`, but the URL alphabet is welcome too; both in one text are not.
 * @param {unknown} text
 * @returns {Buffer | null}
 */
export function fromEitherBase64(text) {
  if (typeof text !== "string") return null;
  if (!/[-_]/.test(text)) return fromBase64(text);
  if (/[+/]/.test(text)) return null;
  return fromBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
}

/**
 * Base64url without padding, in its one spelling.
 * @param {string} text
 * @returns {Buffer | null}
 */
export function fromBase64Url(text) {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) return null;
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? bytes : null;
}

/** The length of a text in Unicode code points. @param {string} text */
export function points(text) {
  let count = 0;
  for (let at = 0; at < text.length; at += text.codePointAt(at) > 0xffff ? 2 : 1) count += 1;
  return count;
}
