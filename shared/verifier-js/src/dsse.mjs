/** DSSE envelopes (spec/statement.md, "Envelope"). */
import { fromBase64Url, fromEitherBase64, points, sha256 } from "./bytes.mjs";
import { dumps, isObject, loads } from "./canonical.mjs";
import { CounterfoilError } from "./errors.mjs";
import { PublicKey } from "./keys.mjs";

/** @typedef {{keyid: string, sig: Buffer, spki: Buffer | null}} Signature */

export const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const RECEIVED = 65_536;
const NORMAL = 65_000;
const KEYID = /^[!-~]{1,128}$/;
const refuse = (code, message) => new CounterfoilError(`CF-DSSE-${code}`, message);

export class Envelope {
  /** @param {Buffer} payload @param {Signature[]} signatures */
  constructor(payload, signatures) {
    this.payload = payload;
    this.signatures = signatures;
    /** Identity of the statement: SHA-256 of the payload bytes. */
    this.digest = sha256(payload);
  }

  /**
   * @param {Uint8Array | string} data JSON, not necessarily in normal form
   * @param {{received?: number, normal?: number}} [most] bytes as received, and in normal form
   * @returns {Envelope}
   */
  static parse(data, { received = RECEIVED, normal = NORMAL } = {}) {
    if (Buffer.byteLength(data) > received) throw refuse("001", "an envelope is larger than 64 KiB");
    let value;
    try {
      value = loads(data, { maxDepth: 16 });
    } catch (error) {
      if (!(error instanceof CounterfoilError)) throw error;
      throw refuse("002", "an envelope is not strict JSON");
    }
    return Envelope.fromValue(value, normal);
  }

  /** @param {import("./canonical.mjs").Json} value @param {number} normal @returns {Envelope} */
  static fromValue(value, normal) {
    if (!isObject(value) || typeof value.payload !== "string" || typeof value.payloadType !== "string")
      throw refuse("002", "an envelope lacks a member");
    if (value.payloadType !== PAYLOAD_TYPE)
      throw refuse("003", "the payload type is not that of a statement");
    const payload = decoded(value.payload);
    const given = value.signatures;
    if (!Array.isArray(given) || given.length < 1 || given.length > 4)
      throw refuse("005", "not 1 to 4 signatures");
    const signatures = given.map(signature);
    if (new Set(signatures.map((one) => one.keyid)).size !== signatures.length)
      throw refuse("005", "a keyid is repeated");
    const envelope = new Envelope(payload, signatures);
    if (Buffer.byteLength(envelope.toText()) > normal)
      throw refuse("001", "an envelope is larger than 64 KiB");
    return envelope;
  }

  /** @param {string} text `payload.sig.keyid` @returns {Envelope} */
  static parseCompact(text) {
    const parts = text.length <= RECEIVED * 2 ? text.split(".").map(fromBase64Url) : [];
    if (
      parts.length !== 3 ||
      parts.some((part) => part === null || part.length === 0) ||
      parts[2].length !== 32
    )
      throw refuse("006", "a compact form is malformed");
    const [payload, sig, keyid] = parts;
    return new Envelope(payload, [{ keyid: keyid.toString("hex"), sig, spki: null }]);
  }

  /** The compact form, for headers. @returns {string} */
  toCompact() {
    const [one] = this.signatures;
    if (this.signatures.length !== 1 || one.spki !== null || !/^[0-9a-f]{64}$/.test(one.keyid))
      throw refuse("006", "the envelope has no compact form");
    return [this.payload, one.sig, Buffer.from(one.keyid, "hex")]
      .map((part) => part.toString("base64url"))
      .join(".");
  }

  /** The normal form, which a log holds. @returns {string} */
  toText() {
    const sorted = [...this.signatures].sort((a, b) => (a.keyid < b.keyid ? -1 : 1));
    return dumps({
      payload: this.payload.toString("base64"),
      payloadType: PAYLOAD_TYPE,
      signatures: sorted.map(({ keyid, sig, spki }) => {
        const plain = { keyid, sig: sig.toString("base64") };
        return spki === null ? plain : { ...plain, spki: spki.toString("base64") };
      }),
    });
  }

  /** What is signed. @returns {Buffer} */
  pae() {
    return Buffer.concat([
      Buffer.from(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${this.payload.length} `),
      this.payload,
    ]);
  }

  /**
   * Fingerprints of the keys that verified: at least one.
   * @param {(keyid: string, spki: Buffer | null) => PublicKey | null} find the known key of this fingerprint, if any
   * @returns {Set<string>}
   */
  verify(find) {
    const pae = this.pae();
    const verified = new Set();
    let known = false;
    for (const { keyid, sig, spki } of this.signatures) {
      const key = find(keyid, spki);
      if (key === null || key.fingerprint !== keyid) continue;
      known = true;
      if (key.verifies(pae, sig)) verified.add(keyid);
    }
    if (!known) throw refuse("010", "no known key signed the envelope");
    if (verified.size === 0) throw refuse("011", "a known key is named but did not sign this payload");
    return verified;
  }
}

function decoded(text) {
  const bytes = fromEitherBase64(text);
  if (bytes === null || bytes.length === 0) throw refuse("004", "payload or signature is not strict base64");
  return bytes;
}

function signature(value) {
  const bad = refuse("005", "a signature is malformed");
  if (!isObject(value)) throw bad;
  const { keyid, sig, spki = null } = value;
  if (typeof keyid !== "string" || !KEYID.test(keyid) || typeof sig !== "string") throw bad;
  if (spki !== null && (typeof spki !== "string" || points(spki) > 256)) throw bad;
  return { keyid, sig: decoded(sig), spki: spki === null ? null : decoded(spki) };
}
