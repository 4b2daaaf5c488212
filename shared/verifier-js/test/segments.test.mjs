import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { BLOB, ITEM_HEADER, splitItems } from "../src/segments.mjs";

const MOST = 65_536;

/** A chunk of empty blobs, which takes `stored` bytes of its file. */
function chunk(count, stored) {
  const raw = Buffer.alloc(count * ITEM_HEADER);
  for (let at = 0; at < raw.length; at += ITEM_HEADER) raw[at] = BLOB;
  return { form: 1, start: 100, end: 100 + stored, raw };
}

describe("a chunk holds so many items and no more", () => {
  const asked = [
    ["the most there are", MOST, MOST],
    ["as many as its bytes in the file", 40, 40],
  ];
  for (const [name, count, stored] of asked)
    test(name, () => {
      assert.equal(splitItems(chunk(count, stored)).length, count);
      assert.throws(() => splitItems(chunk(count + 1, stored)), { code: "CF-LOG-011" });
    });

  test("with many bytes in the file too", () => {
    assert.equal(splitItems(chunk(MOST, 2 * MOST)).length, MOST);
    assert.throws(() => splitItems(chunk(MOST + 1, 2 * MOST)), { code: "CF-LOG-011" });
  });
});
