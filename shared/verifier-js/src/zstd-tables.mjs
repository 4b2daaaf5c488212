/** Entropy tables of Zstandard: FSE and Huffman (RFC 8878 section 4). */
import { ZstdError } from "./zstd-error.mjs";

const bad = (message) => new ZstdError(message);

/** Reads bits from the end of a buffer to its start; the highest set bit of the last byte is where they begin. */
export class BitReader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    const last = bytes.length === 0 ? 0 : bytes[bytes.length - 1];
    if (last === 0) throw bad("a bit stream has no end mark");
    this.bytes = bytes;
    /** How many bits are left; below zero, zeros were read beyond the start. */
    this.left = bytes.length * 8 - 8 + (31 - Math.clz32(last));
  }

  /** @param {number} count at most 32 @returns {number} */
  read(count) {
    if (count === 0) return 0;
    this.left -= count;
    if (this.left < 0) throw bad("a bit stream is too short");
    return this.bitsAt(this.left, count);
  }

  /** `count` bits from position `at` up; zeros below the start. */
  bitsAt(at, count) {
    if (at < 0) return at + count <= 0 ? 0 : this.bitsAt(0, at + count) * 2 ** -at;
    const byte = at >>> 3;
    const shift = at & 7;
    const { bytes } = this;
    if (shift + count <= 24)
      return (
        ((bytes[byte] | ((bytes[byte + 1] ?? 0) << 8) | ((bytes[byte + 2] ?? 0) << 16)) >>> shift) &
        ((1 << count) - 1)
      );
    let value = 0;
    for (let i = 4; i >= 0; i -= 1) value = value * 256 + (bytes[byte + i] ?? 0);
    return Math.floor(value / 2 ** shift) % 2 ** count;
  }

  empty() {
    return this.left === 0;
  }
}

/**
 * Reads the counts of an FSE table (section 4.1.1), bits from the lowest up.
 * @returns {{counts: number[], accuracy: number, used: number}}
 */
function readCounts(bytes, maxAccuracy, symbols) {
  let at = 0;
  const peek = (count) => {
    let value = 0;
    for (let i = 0; i < 4; i += 1) value += (bytes[(at >> 3) + i] ?? 0) * 2 ** (8 * i);
    return Math.floor(value / 2 ** (at & 7)) % 2 ** count;
  };
  const take = (count) => {
    const value = peek(count);
    at += count;
    return value;
  };
  const accuracy = take(4) + 5;
  if (accuracy > maxAccuracy) throw bad("a table is too large");
  let left = 2 ** accuracy;
  const counts = [];
  while (left > 0 && counts.length < symbols) {
    const width = 32 - Math.clz32(left + 1);
    const low = 2 ** width - 1 - (left + 1);
    let value = peek(width - 1);
    if (value < low) at += width - 1;
    else {
      value = take(width);
      if (value >= 2 ** (width - 1)) value -= low;
    }
    const count = value - 1;
    left -= Math.abs(count);
    counts.push(count);
    if (count !== 0) continue;
    for (let more = 3; more === 3;) {
      more = take(2);
      for (let i = 0; i < more; i += 1) counts.push(0);
    }
  }
  const used = (at + 7) >> 3;
  if (left !== 0 || counts.length > symbols || used > bytes.length) throw bad("a table is malformed");
  return { counts, accuracy, used };
}

export class SequenceTable {
  /** @param {number} accuracy */
  constructor(accuracy) {
    const size = 2 ** accuracy;
    this.accuracy = accuracy;
    this.symbols = new Uint8Array(size);
    this.bits = new Uint8Array(size);
    this.base = new Uint16Array(size);
  }

  /** A table of one symbol, which takes no bits. @param {number} symbol */
  static single(symbol) {
    const table = new SequenceTable(0);
    table.symbols[0] = symbol;
    return table;
  }

  static read(bytes, maxAccuracy, symbols) {
    const { counts, accuracy, used } = readCounts(bytes, maxAccuracy, symbols);
    return { table: SequenceTable.of(counts, accuracy), used };
  }

  /** Spreads the symbols over the states. @param {number[]} counts @param {number} accuracy */
  static of(counts, accuracy) {
    const table = new SequenceTable(accuracy);
    const size = 2 ** accuracy;
    let high = size - 1;
    counts.forEach((count, symbol) => {
      if (count === -1) {
        table.symbols[high] = symbol;
        high -= 1;
      }
    });
    const step = (size >> 1) + (size >> 3) + 3;
    let at = 0;
    counts.forEach((count, symbol) => {
      for (let i = 0; i < count; i += 1) {
        table.symbols[at] = symbol;
        do at = (at + step) & (size - 1);
        while (at > high);
      }
    });
    const next = counts.map((count) => Math.abs(count));
    for (let state = 0; state < size; state += 1) {
      const symbol = table.symbols[state];
      const value = next[symbol];
      next[symbol] += 1;
      const bits = accuracy - (31 - Math.clz32(value));
      table.bits[state] = bits;
      table.base[state] = value * 2 ** bits - size;
    }
    return table;
  }
}

const MAX_BITS = 11;

export class HuffmanTable {
  /** @param {number[]} weights without the last one, which follows from the others */
  constructor(weights) {
    let sum = 0;
    for (const weight of weights) {
      if (weight > MAX_BITS) throw bad("a weight is too large");
      sum += weight === 0 ? 0 : 2 ** (weight - 1);
    }
    if (sum === 0) throw bad("a tree is empty");
    this.width = 32 - Math.clz32(sum);
    const rest = 2 ** this.width - sum;
    if (this.width > MAX_BITS || (rest & (rest - 1)) !== 0) throw bad("a tree is not complete");
    const all = [...weights, 32 - Math.clz32(rest)];
    if (all.length > 256 || all.filter((weight) => weight === 1).length < 2)
      throw bad("a tree is not complete");
    const size = 2 ** this.width;
    this.symbols = new Uint8Array(size);
    this.bits = new Uint8Array(size);
    let at = 0;
    for (let weight = 1; weight <= this.width; weight += 1) {
      all.forEach((one, symbol) => {
        if (one !== weight) return;
        const span = 2 ** (weight - 1);
        this.symbols.fill(symbol, at, at + span);
        this.bits.fill(this.width + 1 - weight, at, at + span);
        at += span;
      });
    }
  }

  /** Reads a tree's description (section 4.2.1). @param {Uint8Array} bytes */
  static read(bytes) {
    if (bytes.length < 1) throw bad("a tree is cut");
    const first = bytes[0];
    const length = first >= 128 ? (first - 126) >> 1 : first;
    if (bytes.length < 1 + length) throw bad("a tree is cut");
    const body = bytes.subarray(1, 1 + length);
    const weights = first >= 128 ? directWeights(body, first - 127) : packedWeights(body);
    return { table: new HuffmanTable(weights), used: 1 + length };
  }

  /** @param {Uint8Array} bytes @param {number} size @param {number} streams 1 or 4 @returns {Buffer} */
  decode(bytes, size, streams) {
    const out = Buffer.allocUnsafe(size);
    if (streams === 1) {
      this.stream(bytes, out);
      return out;
    }
    if (bytes.length < 10 || size < 6) throw bad("literals are cut");
    const part = Math.floor((size + 3) / 4);
    const ends = [0, 2, 4].map((at) => bytes[at] + bytes[at + 1] * 256);
    let at = 6;
    for (let i = 0; i < 4; i += 1) {
      const end = i < 3 ? at + ends[i] : bytes.length;
      if (end > bytes.length || part * 3 > size) throw bad("literals are cut");
      this.stream(bytes.subarray(at, end), out.subarray(part * i, i < 3 ? part * (i + 1) : size));
      at = end;
    }
    return out;
  }

  stream(bytes, out) {
    const reader = new BitReader(bytes);
    const { width, symbols, bits } = this;
    for (let i = 0; i < out.length; i += 1) {
      const state = reader.bitsAt(reader.left - width, width);
      out[i] = symbols[state];
      reader.left -= bits[state];
      if (reader.left < 0) throw bad("literals are cut");
    }
    if (!reader.empty()) throw bad("literals are left over");
  }
}

function directWeights(bytes, count) {
  const weights = [];
  for (let i = 0; i < count; i += 1) weights.push(i % 2 === 0 ? bytes[i >> 1] >> 4 : bytes[i >> 1] & 15);
  return weights;
}

/** Weights under FSE: two states take turns until the bits run out. */
function packedWeights(bytes) {
  const { table, used } = SequenceTable.read(bytes, 6, 13);
  const reader = new BitReader(bytes.subarray(used));
  const weights = [];
  const states = [reader.read(table.accuracy), reader.read(table.accuracy)];
  for (let turn = 0; ; turn = 1 - turn) {
    if (weights.length > 255) throw bad("a tree is too large");
    const state = states[turn];
    weights.push(table.symbols[state]);
    const need = table.bits[state];
    if (reader.left < need) {
      weights.push(table.symbols[states[1 - turn]]);
      return weights;
    }
    states[turn] = table.base[state] + reader.read(need);
  }
}
