import assert from "node:assert/strict";
import { test } from "node:test";
import * as zlib from "node:zlib";
import { ZstdError, ZstdStream } from "../src/zstd.mjs";

const HEADER = Buffer.from("28b52ffd0058", "hex");

/** A block: kind 0 raw, 1 repeated, 2 compressed. */
function block(kind, length, body, last = 0) {
  const head = Buffer.alloc(3);
  head.writeUIntLE((length << 3) | (kind << 1) | last, 0, 3);
  return Buffer.concat([head, body]);
}

const raw = (text) => block(0, text.length, Buffer.from(text));

test("blocks that are stored or repeated", () => {
  const stream = new ZstdStream();
  const first = Buffer.concat([HEADER, raw("ab"), block(1, 5, Buffer.from("x")), raw("")]);
  assert.equal(stream.next(first, 7).toString(), "abxxxxx");
  assert.equal(stream.next(raw("cd"), 2).toString(), "cd");
});

test("what is no flush of a stream is refused", () => {
  const refused = [
    [Buffer.alloc(0), 0],
    [HEADER.subarray(0, 4), 0],
    [Buffer.concat([HEADER, raw("ab")]), 1],
    [Buffer.concat([HEADER, raw("ab")]), 3],
    [Buffer.concat([HEADER, raw("ab"), Buffer.of(0)]), 2],
    [Buffer.concat([HEADER, raw("ab").subarray(0, 4)]), 2],
    [Buffer.concat([HEADER, block(0, 2, Buffer.from("ab"), 1)]), 2],
    [Buffer.concat([HEADER, block(3, 2, Buffer.from("ab"))]), 2],
    [Buffer.concat([HEADER, block(2, 2, Buffer.from("ab"))]), 2],
    [Buffer.concat([HEADER, block(1, 131_073, Buffer.from("a"))]), 131_073],
    [Buffer.from("28b52ffd0858", "hex"), 0],
    [Buffer.from("28b52ffd015805", "hex"), 0],
    [Buffer.from("28b52ffd00f8", "hex"), 0],
    [Buffer.from("502a4d180000000028b52ffd0058", "hex"), 0],
  ];
  for (const [stored, size] of refused)
    assert.throws(() => new ZstdStream().next(stored, size), ZstdError, stored.toString("hex"));
});

test("damaged streams end in an error or in other bytes, never in anything else", () => {
  const stored = Buffer.from(
    "KLUv/QBYZQQAogkbHoCnATMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzMzM7MzMzMzMzMzM4MMAAAAQIAAAAAA",
    "base64",
  );
  for (let at = 0; at < stored.length; at += 1) {
    for (let bit = 0; bit < 8; bit += 1) {
      const changed = Buffer.from(stored);
      changed[at] ^= 1 << bit;
      try {
        new ZstdStream().next(changed, 4096);
      } catch (error) {
        assert.ok(error instanceof ZstdError, `byte ${at} bit ${bit}: ${error}`);
      }
    }
  }
});

test("frames that Node's own encoder makes, where it has one", () => {
  if (typeof zlib.zstdCompressSync !== "function") {
    assert.ok(Number(process.versions.node.split(".")[0]) < 24, "every later Node has an encoder");
    return;
  }
  let state = 1;
  const dice = (most) => (state = (state * 48_271) % 2_147_483_647) % most;
  for (let round = 0; round < 60; round += 1) {
    const words = Array.from(
      { length: 1 + dice(4000) },
      () => "abcdefgh".slice(dice(5), 5 + dice(4)) + dice(50),
    );
    const text = Buffer.from(words.join(" "));
    const frame = zlib.zstdCompressSync(text, {
      params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 + dice(19) },
    });
    const open = unended(frame);
    assert.ok(new ZstdStream().next(open, text.length).equals(text), `round ${round}`);
  }
});

/** A frame without the mark of its last block, as a log holds it. */
function unended(frame) {
  const open = Buffer.from(frame);
  const flags = open[4];
  const single = (flags & 0x20) !== 0;
  let at = 5 + (single ? 0 : 1) + [0, 1, 2, 4][flags & 3] + [single ? 1 : 0, 2, 4, 8][flags >> 6];
  for (;;) {
    const word = open.readUIntLE(at, 3);
    if ((word & 1) === 1) {
      open[at] &= 0xfe;
      const end = at + 3 + (((word >> 1) & 3) === 1 ? 1 : word >>> 3);
      return open.subarray(0, end);
    }
    at += 3 + (((word >> 1) & 3) === 1 ? 1 : word >>> 3);
  }
}
