/**
 * Canonical JSON (spec/canonical.md): the strict I-JSON reader and the RFC 8785 writer.
 *
 * `JSON.parse` alone is not enough for evidence: it takes the last of two equal keys, rounds integers beyond 2^53-1,
 * lets lone surrogates pass and never says how deep a text is.
 */
import { CounterfoilError } from "./errors.mjs";

/** @typedef {null | boolean | number | string | Json[] | {[key: string]: Json}} Json */
/** @typedef {{value: Json, nulls: number, doubles: number}} Reading what was read, and how many nulls and doubles it holds */

export const MAX_SAFE = Number.MAX_SAFE_INTEGER;
const WRITE_DEPTH = 128;
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const WORDS = { t: ["true", true], f: ["false", false], n: ["null", null] };
const INFINITE = /-?Infinity|NaN/y;
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

const refuse = (code, message, at) =>
  new CounterfoilError(`CF-CANON-${code}`, message, { where: `character ${at}` });

/** @param {unknown} value @returns {value is {[key: string]: Json}} */
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether an object has exactly these members. @param {unknown} value @param {string[]} names */
export function hasExactly(value, ...names) {
  return (
    isObject(value) &&
    Object.keys(value).length === names.length &&
    names.every((n) => Object.hasOwn(value, n))
  );
}

/** An integer from `least` to 2^53-1. Of a value read by this module: 1.0 and 1e0 never are canonical. */
export const isCount = (value, least = 0) =>
  Number.isSafeInteger(value) && value >= least && !Object.is(value, -0);

/**
 * RFC 8785 text of a value.
 * @param {Json | bigint} value
 * @returns {string}
 */
export function dumps(value) {
  return write(value, 0);
}

function write(value, depth) {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed())
        throw new CounterfoilError("CF-CANON-004", "a string holds a lone surrogate");
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new CounterfoilError("CF-CANON-003", "a number is not finite");
      return String(value);
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      if (value > BigInt(MAX_SAFE) || value < -BigInt(MAX_SAFE))
        throw new CounterfoilError("CF-CANON-002", "an integer is beyond 2^53-1");
      return String(value);
    case "object":
      break;
    default:
      throw new CounterfoilError("CF-CANON-001", "a value has no JSON form");
  }
  if (value === null) return "null";
  if (depth >= WRITE_DEPTH) throw new CounterfoilError("CF-CANON-005", "a value is nested too deeply");
  if (Array.isArray(value)) {
    const parts = new Array(value.length);
    for (let i = 0; i < value.length; i += 1) parts[i] = write(value[i], depth + 1);
    return `[${parts.join(",")}]`;
  }
  const proto = Object.getPrototypeOf(value);
  if (proto !== null && proto !== Object.prototype)
    throw new CounterfoilError("CF-CANON-001", "a value has no JSON form");
  const keys = Object.keys(value).sort();
  const parts = new Array(keys.length);
  for (let i = 0; i < keys.length; i += 1) {
    if (!keys[i].isWellFormed()) throw new CounterfoilError("CF-CANON-004", "a key holds a lone surrogate");
    parts[i] = `${JSON.stringify(keys[i])}:${write(value[keys[i]], depth + 1)}`;
  }
  return `{${parts.join(",")}}`;
}

/**
 * Reads a text that need not be canonical, as strict I-JSON.
 * @param {Uint8Array | string} data
 * @param {{maxDepth?: number, maxBytes?: number | null}} [limits]
 * @returns {Json}
 */
export function loads(data, limits = {}) {
  return read(data, limits).value;
}

/**
 * `loads`, with the number of nulls and doubles: a double is a number *written* with fraction or exponent.
 * @param {Uint8Array | string} data
 * @param {{maxDepth?: number, maxBytes?: number | null}} [limits]
 * @returns {Reading}
 */
export function read(data, { maxDepth = 64, maxBytes = null } = {}) {
  const bytes = typeof data === "string" ? null : data;
  if (bytes === null && !data.isWellFormed()) throw refuse("010", "the text holds a lone surrogate", 0);
  const size = bytes === null ? Buffer.byteLength(data) : bytes.length;
  if (maxBytes !== null && size > maxBytes) throw refuse("017", "the text is larger than allowed", 0);
  const text = bytes === null ? data : decode(bytes);
  if (text.charCodeAt(0) === 0xfeff) throw refuse("010", "the text starts with a byte order mark", 0);
  checkDepth(text, maxDepth);
  return new Reader(text).whole();
}

function decode(bytes) {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw refuse("010", "the text is not UTF-8", 0);
  }
}

function checkDepth(text, maxDepth) {
  let depth = 0;
  for (let i = 0; i < text.length; i += 1) {
    const c = text.charCodeAt(i);
    if (c === 0x22) {
      for (i += 1; i < text.length && text.charCodeAt(i) !== 0x22; i += 1)
        if (text.charCodeAt(i) === 0x5c) i += 1;
    } else if (c === 0x7b || c === 0x5b) {
      depth += 1;
      if (depth > maxDepth) throw refuse("016", "the text is nested deeper than allowed", i);
    } else if (c === 0x7d || c === 0x5d) depth -= 1;
  }
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.nulls = 0;
    this.doubles = 0;
  }

  whole() {
    this.space();
    const value = this.value();
    this.space();
    if (this.at !== this.text.length) throw refuse("011", "something stands behind the value", this.at);
    return { value, nulls: this.nulls, doubles: this.doubles };
  }

  space() {
    for (;;) {
      const c = this.text.charCodeAt(this.at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      this.at += 1;
    }
  }

  fail(message = "the text is not JSON") {
    return refuse("011", message, this.at);
  }

  value() {
    const c = this.text[this.at];
    if (c === "{") return this.object();
    if (c === "[") return this.array();
    if (c === '"') return this.string();
    const word = Object.hasOwn(WORDS, c ?? "") ? WORDS[c] : null;
    if (word !== null && this.text.startsWith(word[0], this.at)) {
      this.at += word[0].length;
      if (word[1] === null) this.nulls += 1;
      return word[1];
    }
    return this.number();
  }

  number() {
    INFINITE.lastIndex = this.at;
    if (INFINITE.test(this.text)) throw refuse("013", "a number is not finite", this.at);
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null) throw this.fail();
    const value = Number(match[0]);
    const double = match[1] !== undefined || match[2] !== undefined;
    if (double && !Number.isFinite(value)) throw refuse("013", "a number overflows a double", this.at);
    if (!double && !Number.isSafeInteger(value)) throw refuse("014", "an integer is beyond 2^53-1", this.at);
    if (double) this.doubles += 1;
    this.at += match[0].length;
    return value;
  }

  string() {
    const start = this.at;
    this.at += 1;
    const parts = [];
    for (;;) {
      PLAIN.lastIndex = this.at;
      const plain = PLAIN.exec(this.text)[0];
      parts.push(plain);
      this.at += plain.length;
      const c = this.text[this.at];
      if (c === '"') break;
      if (c !== "\\")
        throw this.fail(c === undefined ? "a text is cut" : "a control character stands in a text");
      parts.push(this.escape());
    }
    this.at += 1;
    const value = parts.length === 1 ? parts[0] : parts.join("");
    if (!value.isWellFormed()) throw refuse("015", "an escape stands for a lone surrogate", start);
    return value;
  }

  escape() {
    const c = this.text[this.at + 1] ?? "";
    if (Object.hasOwn(ESCAPES, c)) {
      this.at += 2;
      return ESCAPES[c];
    }
    const hex = this.text.slice(this.at + 2, this.at + 6);
    if (c !== "u" || !/^[0-9a-fA-F]{4}$/.test(hex)) throw this.fail("an escape is unknown");
    this.at += 6;
    return String.fromCharCode(Number.parseInt(hex, 16));
  }

  array() {
    const items = [];
    this.at += 1;
    this.space();
    if (this.text[this.at] === "]") {
      this.at += 1;
      return items;
    }
    for (;;) {
      this.space();
      items.push(this.value());
      this.space();
      const c = this.text[this.at];
      if (c !== "," && c !== "]") throw this.fail();
      this.at += 1;
      if (c === "]") return items;
    }
  }

  object() {
    // Without prototype: a member named __proto__ is a member like any other.
    const members = Object.create(null);
    this.at += 1;
    this.space();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return members;
    }
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') throw this.fail();
      const where = this.at;
      const key = this.string();
      if (Object.hasOwn(members, key)) throw refuse("012", "an object has the same key twice", where);
      this.space();
      if (this.text[this.at] !== ":") throw this.fail();
      this.at += 1;
      this.space();
      members[key] = this.value();
      this.space();
      const c = this.text[this.at];
      if (c !== "," && c !== "}") throw this.fail();
      this.at += 1;
      if (c === "}") return members;
    }
  }
}

/**
 * Reads a text that must be exactly the RFC 8785 form of its value. A check, never a repair.
 * @param {Uint8Array | string} data
 * @param {{maxDepth?: number, maxBytes?: number | null}} [limits]
 * @returns {Reading}
 */
export function readCanonical(data, limits = {}) {
  const reading = read(data, limits);
  const text = typeof data === "string" ? data : decode(data);
  if (dumps(reading.value) !== text) throw refuse("018", "the text is not in its RFC 8785 form", 0);
  return reading;
}
