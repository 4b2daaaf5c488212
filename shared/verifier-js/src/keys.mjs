/** Ed25519 keys and signatures (spec/keys.md). */
import { createPublicKey, verify as verifySignature } from "node:crypto";
import { fromBase64, sha256 } from "./bytes.mjs";
import { CounterfoilError } from "./errors.mjs";

const PREFIX = Buffer.from("302a300506032b6570032100", "hex");
const FIELD = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
/** y of the points whose order divides 8: 0, 1, -1, the two of order 8; 0 and 1 once more, written unreduced. */
const EIGHT = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n;
const LOW = new Set([0n, 1n, FIELD - 1n, EIGHT, FIELD - EIGHT, FIELD, FIELD + 1n]);
const SIGN = 1n << 255n;

function little(bytes) {
  return BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`);
}

/** Whether 32 bytes are one of the 14 encodings of points of low order. @param {Uint8Array} bytes */
export function isLowOrder(bytes) {
  return LOW.has(little(bytes) & (SIGN - 1n));
}

/** A public key that may be trusted: of full order, canonically encoded. */
export class PublicKey {
  /** @param {Buffer} spki 44 bytes of SubjectPublicKeyInfo DER */
  constructor(spki) {
    if (spki.length !== 44 || !spki.subarray(0, 12).equals(PREFIX))
      throw new CounterfoilError("CF-KEYS-030", "not the SPKI DER of an Ed25519 key");
    this.spki = spki;
    this.raw = spki.subarray(12);
    if ((little(this.raw) & (SIGN - 1n)) >= FIELD || isLowOrder(this.raw))
      throw new CounterfoilError("CF-KEYS-031", "a public key is of low order or not canonically encoded");
    this.fingerprint = sha256(spki);
    this.key = null;
  }

  /** @param {unknown} text base64 of the SPKI DER @returns {PublicKey} */
  static fromText(text) {
    const spki = fromBase64(text);
    if (spki === null)
      throw new CounterfoilError("CF-KEYS-030", "a public key is not base64 of its SPKI DER");
    return new PublicKey(spki);
  }

  /**
   * Whether `signature` is this key's over `data`. S not below the group order, and R of low order, are refused here:
   * what a library does about them is not relied on.
   * @param {Uint8Array} data
   * @param {Uint8Array} signature
   */
  verifies(data, signature) {
    if (signature.length !== 64) return false;
    if (little(signature.subarray(32)) >= ORDER || isLowOrder(signature.subarray(0, 32))) return false;
    try {
      this.key ??= createPublicKey({ key: this.spki, format: "der", type: "spki" });
      return verifySignature(null, data, this.key, signature);
    } catch {
      return false; // 32 bytes that are no point of the curve
    }
  }
}
