/** Manifests of model weights: the list of a tree's files and the root over it (spec/weights.md). */
import { points, sha256 } from "./bytes.mjs";
import { isCount, isObject, readCanonical } from "./canonical.mjs";
import { attempt } from "./errors.mjs";
import { hex, object, that } from "./schema.mjs";

export const WEIGHTS = "application/vnd.counterfoil.weights+json";
const MOST_NAME = 4096;
const hex64 = hex(64);

/** Whether a value is what a record names its weights by. @type {import("./schema.mjs").Shape} */
export const isCited = object({ root: hex64, statement: hex64 });

const isFile = that(
  isObject,
  ({ name, sha256: digest, size }) => isName(name) && hex64(digest) && isCount(size),
);

/** Whether a value is a path that stays below a folder. */
function isName(name) {
  if (typeof name !== "string" || name === "" || points(name) > MOST_NAME || name.includes("\0")) return false;
  return name.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

/**
 * What the blob of a list says: number of files, bytes in all, root; null where it is no list.
 * @param {Buffer | null} bytes
 * @returns {{count: number, size: number, root: string} | null}
 */
export function readList(bytes) {
  const value = bytes === null ? null : attempt(() => readCanonical(bytes)).value?.value;
  if (!Array.isArray(value) || value.length === 0 || !value.every(isFile)) return null;
  const paths = value.map(({ name }) => name.split("/"));
  if (paths.some((path, index) => index > 0 && order(paths[index - 1], path) >= 0)) return null;
  return {
    count: value.length,
    size: value.reduce((sum, one) => sum + one.size, 0),
    root: sha256(Buffer.concat(value.map((one) => Buffer.from(one.sha256, "hex")))),
  };
}

/** Paths are compared name by name, names by code points. @param {string[]} a @param {string[]} b */
function order(a, b) {
  for (let at = 0; at < Math.min(a.length, b.length); at += 1) {
    const compared = Buffer.compare(Buffer.from(a[at]), Buffer.from(b[at]));
    if (compared !== 0) return compared;
  }
  return a.length - b.length;
}
