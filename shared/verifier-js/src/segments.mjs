/** Segment files: chunks and their items (spec/log.md, "Chunks" and "Items"). */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import * as zlib from "node:zlib";
import { CounterfoilError, refusalOf } from "./errors.mjs";
import { ZstdError, ZstdStream } from "./zstd.mjs";

/** @typedef {{form: number, start: number, end: number, raw: Buffer}} Chunk `raw` is valid until the next chunk */
/** @typedef {{kind: number, bytes: Buffer}} Item */

export const HEADER = 16;
export const ITEM_HEADER = 5;
export const ENTRY = 1;
export const BLOB = 2;
export const NOTE = 3;
const MOST = 320 * 2 ** 20;
const MOST_ITEMS = 65_536;
/** Raw bytes that a chunk may hold by byte of the file. */
const EXPANSION = 1_024;

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let i = 0; i < 8; i += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

function crc32Table(bytes, before = 0) {
  let c = ~before;
  for (let i = 0; i < bytes.length; i += 1) c = TABLE[(c ^ bytes[i]) & 0xff] ^ (c >>> 8);
  return ~c >>> 0;
}

/** CRC-32 (ISO-HDLC); Node has its own from 20.15. @type {(bytes: Uint8Array, before?: number) => number} */
export const crc32 = typeof zlib.crc32 === "function" ? zlib.crc32 : crc32Table;

function asked(path, action) {
  try {
    return action();
  } catch (error) {
    throw refusalOf(error, path);
  }
}

/** A file that is read piece by piece; throws CF-STORE-006 or -001 where the system does not let it be read. */
export class BytesOfFile {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    this.fd = asked(path, () => openSync(path, "r"));
    this.size = asked(path, () => fstatSync(this.fd).size);
  }

  /** Up to `length` bytes from `offset`. @param {number} offset @param {number} length @returns {Buffer} */
  read(offset, length) {
    const wanted = Math.max(0, Math.min(length, this.size - offset));
    const bytes = Buffer.allocUnsafe(wanted);
    let done = 0;
    while (done < wanted) {
      const got = asked(this.path, () => readSync(this.fd, bytes, done, wanted - done, offset + done));
      if (got === 0) break;
      done += got;
    }
    return bytes.subarray(0, done);
  }

  close() {
    closeSync(this.fd);
  }
}

const torn = (message) => new CounterfoilError("CF-LOG-010", message);

/**
 * What a chunk's header says, or null where the bytes can be none.
 * @param {Buffer} bytes @returns {{form: number, length: number, size: number} | null}
 */
export function parseHeader(bytes) {
  if (bytes.length < HEADER || bytes[0] > 2 || bytes.readUIntLE(1, 3) !== 0) return null;
  const length = bytes.readUInt32LE(4);
  const size = bytes.readUInt32LE(8);
  const large = Math.max(length, size) > MOST || size > EXPANSION * (HEADER + length);
  return large ? null : { form: bytes[0], length, size };
}

/** Reads the chunks of one segment in their order. */
export class ChunkReader {
  /**
   * @param {{read(offset: number, length: number): Buffer}} file
   * @param {number} end where reading stops: the size of the file, or less
   */
  constructor(file, end) {
    this.file = file;
    this.end = end;
    this.at = 0;
    /** @type {ZstdStream | null} */
    this.stream = null;
    this.streamStart = -1;
  }

  /**
   * The next chunk, with its stored bytes, or null at the end. Throws CF-LOG-010 where there is no whole chunk.
   * @returns {(Chunk & {bytes: Buffer}) | null} `bytes`: header and stored bytes
   */
  next() {
    if (this.at === this.end) return null;
    const start = this.at;
    const header = this.file.read(start, HEADER);
    if (header.length < HEADER || start + HEADER > this.end) throw torn("a chunk's header is cut");
    const told = parseHeader(header);
    if (told === null || (told.form === 0 && told.length !== told.size)) throw torn("a chunk's header is malformed");
    const { form, length, size } = told;
    const end = start + HEADER + length;
    if (end > this.end) throw torn("the file ends inside a chunk");
    const bytes = this.file.read(start, HEADER + length);
    if (bytes.length !== HEADER + length) throw torn("the file ends inside a chunk");
    const stored = bytes.subarray(HEADER);
    if (crc32(stored, crc32(header.subarray(0, 12))) !== header.readUInt32LE(12))
      throw torn("a chunk's checksum is wrong");
    const raw = this.decode(form, stored, size, start);
    this.at = end;
    return { form, start, end, raw, bytes };
  }

  decode(form, stored, size, start) {
    if (form === 0) return stored;
    if (form === 1) {
      this.stream = new ZstdStream();
      this.streamStart = start;
    }
    if (this.stream === null) throw torn("a stream lacks its first chunk");
    try {
      return this.stream.next(stored, size);
    } catch (error) {
      if (!(error instanceof ZstdError)) throw error;
      throw torn(`a chunk does not decompress: ${error.message}`);
    }
  }
}

/**
 * The items of a chunk, which they must fill exactly.
 * @param {Chunk} chunk
 * @returns {Item[]}
 */
export function splitItems({ raw, start, end }) {
  const most = Math.min(MOST_ITEMS, end - start);
  const items = [];
  const bad = new CounterfoilError("CF-LOG-011", "a chunk is not filled by whole items");
  for (let at = 0; at < raw.length;) {
    if (at + ITEM_HEADER > raw.length) throw bad;
    const kind = raw[at];
    const end = at + ITEM_HEADER + raw.readUInt32LE(at + 1);
    if (kind < ENTRY || kind > NOTE || end > raw.length) throw bad;
    if (items.length === most) throw bad;
    items.push({ kind, bytes: raw.subarray(at + ITEM_HEADER, end) });
    at = end;
  }
  return items;
}
