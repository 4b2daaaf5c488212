/** C2SP signed notes and checkpoints, in the one form a log holds (spec/log.md, "Note"). */
import { fromBase64, sha256Bytes } from "./bytes.mjs";
import { CounterfoilError } from "./errors.mjs";

/** @typedef {{name: string, keyid: Buffer, signature: Buffer}} NoteSignature */
/** @typedef {{text: string, signatures: NoteSignature[]}} Note `text` up to and including its last newline */
/** @typedef {{origin: string, size: number, root: string}} Checkpoint `root` in hex */

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const refuse = (code, message) => new CounterfoilError(`CF-NOTE-${code}`, message);

/** @param {Uint8Array} bytes @returns {Note} */
export function parseNote(bytes) {
  if (bytes.length > 1_000_000) throw refuse("001", "a note is larger than 1,000,000 bytes");
  let whole;
  try {
    whole = UTF8.decode(bytes);
  } catch {
    throw refuse("001", "a note is not UTF-8");
  }
  if (/[\u0000-\u0009\u000b-\u001f]/.test(whole)) throw refuse("002", "a note has control characters");
  const border = whole.lastIndexOf("\n\n");
  if (border < 0 || !whole.endsWith("\n"))
    throw refuse("003", "a note is not text, an empty line, and signatures");
  const lines = whole.slice(border + 2).split("\n");
  lines.pop();
  if (lines.length === 0 || border === 0)
    throw refuse("003", "a note is not text, an empty line, and signatures");
  if (lines.length > 100) throw refuse("005", "a note has more than 100 signatures");
  return { text: whole.slice(0, border + 1), signatures: lines.map(signatureLine) };
}

function signatureLine(line) {
  const match = /^\u2014 ([^ ]+) ([^ ]+)$/u.exec(line);
  const bytes = match === null ? null : fromBase64(match[2]);
  if (bytes === null || bytes.length < 5 || !isKeyName(match[1]))
    throw refuse("004", "a signature line is malformed");
  return { name: match[1], keyid: bytes.subarray(0, 4), signature: bytes.subarray(4) };
}

const isKeyName = (name) => name !== "" && !/[\p{White_Space}+]/u.test(name);

/** The four bytes that say which key signed. @param {string} name @param {Uint8Array} raw the 32 bytes of the key */
export function noteKeyId(name, raw) {
  return sha256Bytes(name, "\n", Buffer.of(1), raw).subarray(0, 4);
}

/**
 * Throws unless a key, under a name, signed the note.
 * @param {Note} note
 * @param {string} name
 * @param {import("./keys.mjs").PublicKey} key
 */
export function verifyNote(note, name, key) {
  const keyid = noteKeyId(name, key.raw);
  const own = note.signatures.filter((line) => line.name === name && line.keyid.equals(keyid));
  if (own.length === 0) throw refuse("011", "no known key signed the note");
  const text = Buffer.from(note.text);
  if (!own.every((line) => key.verifies(text, line.signature)))
    throw refuse("012", "a known key's signature does not verify");
}

/**
 * A checkpoint in its one form: origin, size and root, no extension, one signature under the origin's name.
 * @param {Note} note
 * @returns {Checkpoint}
 */
export function parseCheckpoint(note) {
  const lines = note.text.split("\n");
  lines.pop();
  const bad = refuse("020", "the text is not a checkpoint in its one form");
  if (lines.length < 3 || lines[0] === "" || !/^(0|[1-9][0-9]*)$/.test(lines[1])) throw bad;
  const size = Number(lines[1]);
  const root = fromBase64(lines[2]);
  if (!Number.isSafeInteger(size) || root === null || root.length !== 32) throw bad;
  const one = lines.length === 3 && note.signatures.length === 1 && note.signatures[0].name === lines[0];
  if (!one)
    throw refuse("021", "a checkpoint has extra signatures or extensions, or is not signed as its origin");
  return { origin: lines[0], size, root: root.toString("hex") };
}
