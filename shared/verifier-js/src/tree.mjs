/** RFC 6962 trees: growing roots, peaks, inclusion and consistency (spec/log.md, RFC 9162 section 2.1). */
import { sha256Bytes } from "./bytes.mjs";
import { CounterfoilError } from "./errors.mjs";

const LEAF = Buffer.of(0);
const NODE = Buffer.of(1);

/** @param {string | Uint8Array} entry @returns {Buffer} */
export const leafHash = (entry) => sha256Bytes(LEAF, entry);
/** @param {Uint8Array} left @param {Uint8Array} right @returns {Buffer} */
export const nodeHash = (left, right) => sha256Bytes(NODE, left, right);
export const EMPTY = sha256Bytes();

/** A tree that only grows: it keeps its peaks, the roots of its complete subtrees, the largest first. */
export class Tree {
  constructor() {
    this.size = 0;
    /** @type {Buffer[]} */
    this.peaks = [];
  }

  /** @param {Buffer} leaf */
  add(leaf) {
    let node = leaf;
    for (let size = this.size; size % 2 === 1; size = (size - 1) / 2) node = nodeHash(this.peaks.pop(), node);
    this.peaks.push(node);
    this.size += 1;
  }

  /** @returns {Buffer} */
  root() {
    if (this.size === 0) return EMPTY;
    let root = this.peaks[this.peaks.length - 1];
    for (let i = this.peaks.length - 2; i >= 0; i -= 1) root = nodeHash(this.peaks[i], root);
    return root;
  }
}

/** The root over a list of entries' texts. @param {(string | Uint8Array)[]} entries */
export function rootOf(entries) {
  const tree = new Tree();
  for (const entry of entries) tree.add(leafHash(entry));
  return tree.root();
}

function checkHashes(...hashes) {
  if (hashes.some((hash) => hash.length !== 32))
    throw new CounterfoilError("CF-PROOF-001", "a hash is not 32 bytes");
}

/**
 * Throws unless `proof` leads from the leaf to the root (RFC 9162 section 2.1.3.2).
 * @param {Uint8Array} leaf @param {number} index @param {number} size @param {Uint8Array[]} proof @param {Uint8Array} root
 */
export function verifyInclusion(leaf, index, size, proof, root) {
  checkHashes(leaf, root, ...proof);
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(size) || index < 0 || index >= size)
    throw new CounterfoilError("CF-PROOF-003", "there is no such leaf");
  let fn = index;
  let sn = size - 1;
  let node = Buffer.from(leaf);
  const short = new CounterfoilError("CF-PROOF-004", "a proof is too long or too short");
  for (const step of proof) {
    if (sn === 0) throw short;
    if (fn % 2 === 1 || fn === sn) {
      node = nodeHash(step, node);
      while (fn % 2 === 0 && fn !== 0) {
        fn /= 2;
        sn = Math.floor(sn / 2);
      }
    } else node = nodeHash(node, step);
    fn = Math.floor(fn / 2);
    sn = Math.floor(sn / 2);
  }
  if (sn !== 0) throw short;
  if (!node.equals(root)) throw new CounterfoilError("CF-PROOF-005", "a proof leads to another root");
}

/**
 * Throws unless the tree of `size2` goes on from the tree of `size1` (RFC 9162 section 2.1.4.2).
 * @param {number} size1 @param {number} size2 @param {Uint8Array[]} proof @param {Uint8Array} root1 @param {Uint8Array} root2
 */
export function verifyConsistency(size1, size2, proof, root1, root2) {
  checkHashes(root1, root2, ...proof);
  if (!Number.isSafeInteger(size1) || !Number.isSafeInteger(size2) || size1 < 1 || size1 > size2)
    throw new CounterfoilError("CF-PROOF-003", "there is no such earlier tree");
  const short = new CounterfoilError("CF-PROOF-004", "a proof is too long or too short");
  const wrong = new CounterfoilError("CF-PROOF-005", "a proof leads to another root");
  if (size1 === size2) {
    if (proof.length > 0) throw short;
    if (!Buffer.from(root1).equals(root2)) throw wrong;
    return;
  }
  let fn = size1 - 1;
  let sn = size2 - 1;
  while (fn % 2 === 1) {
    fn = (fn - 1) / 2;
    sn = Math.floor(sn / 2);
  }
  const steps = fn === 0 ? [Buffer.from(root1), ...proof] : [...proof];
  if (steps.length === 0) throw short;
  let first = Buffer.from(steps[0]);
  let second = first;
  for (const step of steps.slice(1)) {
    if (sn === 0) throw short;
    if (fn % 2 === 1 || fn === sn) {
      first = nodeHash(step, first);
      second = nodeHash(step, second);
      while (fn % 2 === 0 && fn !== 0) {
        fn /= 2;
        sn = Math.floor(sn / 2);
      }
    } else second = nodeHash(second, step);
    fn = Math.floor(fn / 2);
    sn = Math.floor(sn / 2);
  }
  if (sn !== 0) throw short;
  if (!first.equals(root1) || !second.equals(root2)) throw wrong;
}
