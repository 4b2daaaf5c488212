/** A keyring folder: pins and remembered heads of a home (spec/keys.md, "Home"). Nothing is ever written to it. */
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "./bytes.mjs";
import { loads } from "./canonical.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { PublicKey } from "./keys.mjs";
import { count, flag, hex, object, text, that } from "./schema.mjs";

/** @typedef {{evidence: string, offset: number, origin: string, root: string, segment: number, size: number}} Head */

const KEYRING_BYTES = 4 * 1024 * 1024;
const HEAD_BYTES = 16 * 1024;
const pinShape = object({}, { note: text(200, 0), own: flag, spki: text(256), admin: flag });
const version = that(count(), (value) => value === 0);
const headShape = object({
  evidence: text(8192, 0),
  offset: count(),
  origin: text(1024),
  root: hex(64),
  segment: count(),
  size: count(1),
  version,
});
const isFingerprint = hex(64);

export class Keyring {
  constructor() {
    /** @type {Map<string, PublicKey | null>} fingerprint: key, or null where only the fingerprint is pinned */
    this.pins = new Map();
    /** @type {string | null} fingerprint of the home's own identity */
    this.own = null;
    /** @type {Set<string>} fingerprints of keys that may sign trust policies */
    this.admins = new Set();
    /** @type {Head[]} */
    this.heads = [];
    /** @type {string | null} the folder, where a home was given */
    this.home = null;
  }

  /** @param {string} path a folder with `keyring.json`, or such a file alone @returns {Keyring} */
  static open(path) {
    const keyring = new Keyring();
    const stat = attemptFile(
      path,
      () => statSync(path),
      "CF-KEYS-021",
      "there is no keyring at the path given",
    );
    const folder = stat.isDirectory();
    const file = folder ? join(path, "keyring.json") : path;
    const bytes = attemptFile(
      file,
      () => readFileSync(file),
      "CF-KEYS-021",
      "there is no keyring file at the path given",
    );
    keyring.readPins(bytes, file);
    if (folder) {
      keyring.home = path;
      keyring.readHeads(join(path, "heads"));
    }
    return keyring;
  }

  /** @param {Uint8Array} bytes @param {string} [where] */
  readPins(bytes, where = "") {
    const bad = new CounterfoilError("CF-KEYS-020", "the keyring file is malformed", {
      where,
      hint: "restore it, or pin the keys again",
    });
    const { value, error } = attempt(() => loads(bytes, { maxDepth: 4, maxBytes: KEYRING_BYTES }));
    if (error !== null || !object({ pins: (pins) => typeof pins === "object", version })(value)) throw bad;
    const { pins } = value;
    if (pins === null || Array.isArray(pins)) throw bad;
    for (const [fingerprint, pin] of Object.entries(pins)) {
      if (!isFingerprint(fingerprint) || !pinShape(pin)) throw bad;
      const key = pin.spki === undefined ? null : attempt(() => PublicKey.fromText(pin.spki)).value;
      if (pin.spki !== undefined && key?.fingerprint !== fingerprint) throw bad;
      if (pin.own === true && this.own !== null) throw bad;
      if (pin.own === true) this.own = fingerprint;
      if (pin.admin === true || pin.own === true) this.admins.add(fingerprint);
      this.pins.set(fingerprint, key);
    }
  }

  readHeads(folder) {
    let names;
    try {
      names = readdirSync(folder);
    } catch {
      return; // a keyring folder need not remember anything
    }
    for (const name of names.filter((one) => /^[0-9a-f]{32}\.json$/.test(one)).sort()) {
      const where = join(folder, name);
      const bad = new CounterfoilError("CF-KEYS-040", "a remembered head is malformed", { where });
      const bytes = attemptFile(where, () => readFileSync(where), "CF-KEYS-008", "a file cannot be read");
      if (bytes.every((byte) => byte === 0)) continue; // a power failure left the name without the bytes
      const { value, error } = attempt(() => loads(bytes, { maxDepth: 4, maxBytes: HEAD_BYTES }));
      if (error !== null || !headShape(value) || headName(value.origin) !== name) throw bad;
      this.heads.push(value);
    }
  }

  /** @param {string} fingerprint */
  isAdmin(fingerprint) {
    return this.admins.has(fingerprint);
  }

  /** @param {string} fingerprint */
  isPinned(fingerprint) {
    return this.pins.has(fingerprint);
  }

  /**
   * The pinned key of a fingerprint; a key that is carried along is used where its fingerprint is pinned.
   * @param {string} fingerprint
   * @param {Uint8Array | null} carried SPKI DER
   * @returns {PublicKey | null}
   */
  key(fingerprint, carried = null) {
    const pinned = this.pins.get(fingerprint);
    if (pinned === undefined || pinned !== null || carried === null) return pinned ?? null;
    const key = attempt(() => new PublicKey(Buffer.from(carried))).value;
    return key !== null && key.fingerprint === fingerprint ? key : null;
  }
}

/** File name of the head or lock of a log. @param {string} origin */
export const headName = (origin, ending = "json") => `${sha256(origin).slice(0, 32)}.${ending}`;

function attemptFile(path, action, code, message) {
  try {
    return action();
  } catch (error) {
    throw new CounterfoilError(error.code === "ENOENT" ? code : "CF-KEYS-008", message, { where: path });
  }
}
