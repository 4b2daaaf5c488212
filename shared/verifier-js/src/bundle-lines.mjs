/** Lines of a bundle: each a canonical JSON text and a newline (spec/bundle.md, "Lines"). */
import { readCanonical } from "./canonical.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { BytesOfFile } from "./segments.mjs";

/** @typedef {{number: number, bytes: Buffer, value: any, plain: boolean}} Line `bytes` without the newline */

const MOST_LINE = 1_048_576;
const BLOCK = 1 << 20;
const START = '{"counterfoil":"bundle"';

/** A fault of a bundle, at a line. @param {string} code @param {string} message @param {number | string} line */
export function fault(code, message, line, word = "line") {
  return new CounterfoilError(code, message, { where: `${word} ${line}` });
}

/** Whether a file begins as a bundle does. @param {string} path */
export function isBundle(path) {
  const file = new BytesOfFile(path);
  try {
    return file.read(0, START.length).equals(Buffer.from(START));
  } finally {
    file.close();
  }
}

/** @param {string} path @returns {Generator<Line, void, void>} */
export function* linesOf(path) {
  const file = new BytesOfFile(path);
  try {
    let number = 1;
    for (const bytes of rawLines(file)) {
      if (bytes === null)
        throw fault("CF-BUNDLE-002", "a line is too long, or the last one lacks its newline", number);
      const { value: reading } = attempt(() => readCanonical(bytes, { maxDepth: 64 }));
      if (reading === null) throw fault("CF-BUNDLE-002", "a line is not canonical JSON", number);
      yield { number, bytes, value: reading.value, plain: reading.nulls + reading.doubles === 0 };
      number += 1;
    }
  } finally {
    file.close();
  }
}

/** Each line without its newline; null, as the last, where one is too long or cut. */
function* rawLines(file) {
  let rest = Buffer.alloc(0);
  for (let at = 0; ;) {
    const block = file.read(at, BLOCK);
    at += block.length;
    if (block.length === 0) break;
    const bytes = rest.length === 0 ? block : Buffer.concat([rest, block]);
    let start = 0;
    for (let end = bytes.indexOf(10, rest.length); end >= 0; end = bytes.indexOf(10, start)) {
      if (end + 1 - start > MOST_LINE) return yield null;
      yield bytes.subarray(start, end);
      start = end + 1;
    }
    rest = bytes.subarray(start);
    if (rest.length >= MOST_LINE) return yield null;
  }
  if (rest.length > 0) yield null;
  return undefined;
}
