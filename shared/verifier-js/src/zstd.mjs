/**
 * Zstandard decoding of a stream that is flushed and never ended (RFC 8878; spec/log.md, "Chunks").
 *
 * Node has no decoder before 22.15, and where it has one it cannot be asked for the bytes of one flush at a time, which
 * is what a chunk is. So this one is used on every Node. What is not as the RFC says throws `ZstdError`.
 */
import { BitReader, HuffmanTable, SequenceTable } from "./zstd-tables.mjs";
import { ZstdError } from "./zstd-error.mjs";

export { ZstdError };

const MAGIC = 0xfd2fb528;
const BLOCK = 131_072;
const MAX_WINDOW = 2 ** 27;
const LITERAL_BASE = [
  ...Array(16).keys(),
  16,
  18,
  20,
  22,
  24,
  28,
  32,
  40,
  48,
  64,
  128,
  256,
  512,
  1024,
  2048,
  4096,
  8192,
  16384,
  32768,
  65536,
];
const LITERAL_BITS = [
  ...Array(16).fill(0),
  1,
  1,
  1,
  1,
  2,
  2,
  3,
  3,
  4,
  6,
  7,
  8,
  9,
  10,
  11,
  12,
  13,
  14,
  15,
  16,
];
const MATCH_BASE = [...Array(32).keys()]
  .map((n) => n + 3)
  .concat([
    35, 37, 39, 41, 43, 47, 51, 59, 67, 83, 99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539,
  ]);
const MATCH_BITS = [
  ...Array(32).fill(0),
  1,
  1,
  1,
  1,
  2,
  2,
  3,
  3,
  4,
  4,
  5,
  7,
  8,
  9,
  10,
  11,
  12,
  13,
  14,
  15,
  16,
];
const LITERAL_DEFAULT = [
  4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1,
  -1,
];
const MATCH_DEFAULT = [
  1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];
const OFFSET_DEFAULT = [
  1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1,
];
const TABLES = [
  { standard: SequenceTable.of(LITERAL_DEFAULT, 6), accuracy: 9, symbols: 36 },
  { standard: SequenceTable.of(OFFSET_DEFAULT, 5), accuracy: 8, symbols: 32 },
  { standard: SequenceTable.of(MATCH_DEFAULT, 6), accuracy: 9, symbols: 53 },
];

const bad = (message) => new ZstdError(message);

export class ZstdStream {
  constructor() {
    this.window = 0;
    this.history = Buffer.alloc(0);
    this.held = 0;
    this.repeats = [1, 4, 8];
    /** @type {(SequenceTable | null)[]} */
    this.tables = [null, null, null];
    /** @type {HuffmanTable | null} */
    this.huffman = null;
  }

  /**
   * Decodes the next flush of the stream: whole blocks that give exactly `size` bytes.
   * @param {Buffer} stored
   * @param {number} size
   * @returns {Buffer} valid until the next call
   */
  next(stored, size) {
    let at = this.window === 0 ? this.header(stored) : 0;
    const start = this.room(size);
    const end = start + size;
    while (at < stored.length) {
      if (at + 3 > stored.length) throw bad("a block is cut");
      const word = stored.readUIntLE(at, 3);
      at += 3;
      if ((word & 1) === 1) throw bad("the frame ends");
      const kind = (word >> 1) & 3;
      const length = word >>> 3;
      if (length > Math.min(BLOCK, this.window)) throw bad("a block is too large");
      const taken = kind === 1 ? 1 : length;
      if (kind === 3 || at + taken > stored.length) throw bad("a block is malformed or cut");
      this.limit = Math.min(end, this.held + Math.min(BLOCK, this.window));
      if (kind === 2) this.compressed(stored.subarray(at, at + length));
      else {
        if (this.held + length > this.limit) throw bad("more bytes than the chunk says");
        if (kind === 0) stored.copy(this.history, this.held, at, at + length);
        else this.history.fill(stored[at], this.held, this.held + length);
        this.held += length;
      }
      at += taken;
    }
    if (this.held !== end) throw bad("fewer bytes than the chunk says");
    return this.history.subarray(start, end);
  }

  header(stored) {
    if (stored.length < 6 || stored.readUInt32LE(0) !== MAGIC) throw bad("not a zstd frame");
    // No checksum, content size or dictionary, and nothing reserved: only a window.
    if (stored[4] !== 0) throw bad("a frame header says more than its window");
    const base = 2 ** (10 + (stored[5] >> 3));
    this.window = base + (base / 8) * (stored[5] & 7);
    if (this.window > MAX_WINDOW) throw bad("a window is too large");
    return 6;
  }

  /** Keeps what the window can reach, and makes room for `size` bytes behind it. */
  room(size) {
    const kept = Math.min(this.held, this.window);
    if (this.held + size > this.history.length) {
      const wanted = kept + size;
      const next =
        wanted > this.history.length ? Buffer.alloc(wanted + Math.min(wanted, 4_194_304)) : this.history;
      this.history.copy(next, 0, this.held - kept, this.held);
      this.history = next;
      this.held = kept;
    }
    return this.held;
  }

  compressed(block) {
    if (block.length < 2) throw bad("a block is cut");
    const { literals, used } = this.literals(block);
    let at = used;
    if (at >= block.length) throw bad("a block is cut");
    let sequences = block[at];
    at += 1;
    if (sequences >= 128) {
      const more = sequences === 255 ? 2 : 1;
      if (at + more > block.length) throw bad("a block is cut");
      sequences = sequences === 255 ? block.readUInt16LE(at) + 0x7f00 : ((sequences - 128) << 8) + block[at];
      at += more;
    }
    if (sequences === 0) {
      if (at !== block.length) throw bad("a block has bytes left over");
      this.append(literals, 0, literals.length);
      return;
    }
    if (at >= block.length) throw bad("a block is cut");
    const modes = block[at];
    if ((modes & 3) !== 0) throw bad("a reserved bit is set");
    at += 1;
    for (let i = 0; i < 3; i += 1) at += this.table(i, (modes >> (6 - 2 * i)) & 3, block.subarray(at));
    this.sequences(new BitReader(block.subarray(at)), sequences, literals);
  }

  /** @returns {number} how many bytes the table's description takes */
  table(index, mode, bytes) {
    const { standard, accuracy, symbols } = TABLES[index];
    if (mode === 3) {
      if (this.tables[index] === null) throw bad("there is no table to repeat");
      return 0;
    }
    if (mode === 0) {
      this.tables[index] = standard;
      return 0;
    }
    if (mode === 1) {
      if (bytes.length < 1 || bytes[0] >= symbols) throw bad("a symbol is unknown");
      this.tables[index] = SequenceTable.single(bytes[0]);
      return 1;
    }
    const { table, used } = SequenceTable.read(bytes, accuracy, symbols);
    this.tables[index] = table;
    return used;
  }

  sequences(bits, total, literals) {
    const [lengths, offsets, matches] = this.tables;
    let l = bits.read(lengths.accuracy);
    let o = bits.read(offsets.accuracy);
    let m = bits.read(matches.accuracy);
    let given = 0;
    for (let i = 0; i < total; i += 1) {
      const code = offsets.symbols[o];
      const value = 2 ** code + bits.read(code);
      const mcode = matches.symbols[m];
      const match = MATCH_BASE[mcode] + bits.read(MATCH_BITS[mcode]);
      const lcode = lengths.symbols[l];
      const length = LITERAL_BASE[lcode] + bits.read(LITERAL_BITS[lcode]);
      const distance = this.offset(value, length);
      if (given + length > literals.length) throw bad("there are not enough literals");
      this.append(literals, given, given + length);
      given += length;
      this.copy(distance, match);
      if (i + 1 < total) {
        l = lengths.base[l] + bits.read(lengths.bits[l]);
        m = matches.base[m] + bits.read(matches.bits[m]);
        o = offsets.base[o] + bits.read(offsets.bits[o]);
      }
    }
    if (!bits.empty()) throw bad("a block has bits left over");
    this.append(literals, given, literals.length);
  }

  offset(value, length) {
    const [first, second, third] = this.repeats;
    if (value > 3) {
      this.repeats = [value - 3, first, second];
      return value - 3;
    }
    const which = value - 1 + (length === 0 ? 1 : 0);
    if (which === 0) return first;
    const distance = which === 1 ? second : which === 2 ? third : first - 1;
    if (distance === 0) throw bad("an offset is zero");
    this.repeats = which === 1 ? [distance, first, third] : [distance, first, second];
    return distance;
  }

  append(literals, from, to) {
    if (this.held + to - from > this.limit) throw bad("more bytes than the chunk says");
    if (to - from > 48) literals.copy(this.history, this.held, from, to);
    else for (let i = from, h = this.held; i < to; i += 1, h += 1) this.history[h] = literals[i];
    this.held += to - from;
  }

  copy(distance, length) {
    if (distance > this.held || distance > this.window) throw bad("an offset is beyond the window");
    if (this.held + length > this.limit) throw bad("more bytes than the chunk says");
    const { history } = this;
    let to = this.held;
    if (distance >= length && length > 32) history.copy(history, to, to - distance, to - distance + length);
    else for (const end = to + length; to < end; to += 1) history[to] = history[to - distance];
    this.held += length;
  }

  /** The literals section of a block (RFC 8878 section 3.1.1.3.1). */
  literals(block) {
    const kind = block[0] & 3;
    const format = (block[0] >> 2) & 3;
    const packed = kind >= 2;
    const header = packed ? [3, 3, 4, 5][format] : [1, 2, 1, 3][format];
    if (block.length < header) throw bad("a block is cut");
    if (!packed) {
      const size = header === 1 ? block[0] >> 3 : block.readUIntLE(0, header) >> 4;
      const taken = kind === 1 ? 1 : size;
      if (size > BLOCK || block.length < header + taken) throw bad("literals are cut");
      const literals = kind === 1 ? Buffer.alloc(size, block[header]) : block.subarray(header, header + size);
      return { literals, used: header + taken };
    }
    const width = [10, 10, 14, 18][format];
    const word = block.readUIntLE(0, header);
    const size = Math.floor(word / 16) % 2 ** width;
    const stored = Math.floor(word / 2 ** (4 + width));
    const end = header + stored;
    if (size > BLOCK || end > block.length) throw bad("literals are cut");
    let at = header;
    if (kind === 2) {
      const { table, used } = HuffmanTable.read(block.subarray(at, end));
      this.huffman = table;
      at += used;
    }
    if (this.huffman === null) throw bad("there is no tree to repeat");
    return { literals: this.huffman.decode(block.subarray(at, end), size, format === 0 ? 1 : 4), used: end };
  }
}
