import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../src/bytes.mjs";
import { dumps, loads, readCanonical } from "../src/canonical.mjs";
import { codeOf, vectors } from "./support.mjs";

const { exact, numbers, reading } = vectors("canonical");

for (const given of reading) {
  test(`reading: ${given.name}`, () => {
    const bytes = given.hex === undefined ? Buffer.from(given.text) : Buffer.from(given.hex, "hex");
    const limits = { maxDepth: given.max_depth ?? 64, maxBytes: given.max_bytes ?? null };
    if (given.code !== undefined) {
      assert.equal(
        codeOf(() => loads(bytes, limits)),
        given.code,
      );
      return;
    }
    const text = dumps(loads(bytes, limits));
    assert.equal(Buffer.from(text).toString("hex"), given.canonical);
    assert.equal(sha256(text), given.sha256);
  });
}

for (const { name, text, code = "" } of exact)
  test(`exact: ${name}: ${text}`, () =>
    assert.equal(
      codeOf(() => readCanonical(Buffer.from(text))),
      code,
    ));

test("numbers print as ECMAScript prints doubles", () => {
  for (const { ieee754, text } of numbers)
    assert.equal(dumps(Buffer.from(ieee754, "hex").readDoubleBE()), text, ieee754);
});

test("what has no JSON form is refused", () => {
  const deep = (depth) => JSON.parse("[".repeat(depth) + "]".repeat(depth));
  for (const [value, code] of [
    [undefined, "CF-CANON-001"],
    [[() => 1], "CF-CANON-001"],
    [new Date(0), "CF-CANON-001"],
    [2n ** 53n, "CF-CANON-002"],
    [-(2n ** 53n), "CF-CANON-002"],
    [Number.NaN, "CF-CANON-003"],
    [[-Infinity], "CF-CANON-003"],
    ["\ud800", "CF-CANON-004"],
    [{ "\udc00": 1 }, "CF-CANON-004"],
    [deep(129), "CF-CANON-005"],
    [deep(128), ""],
    [2n ** 53n - 1n, ""],
  ])
    assert.equal(
      codeOf(() => dumps(value)),
      code,
    );
});

test("a member named __proto__ is a member like any other", () => {
  const text = '{"__proto__":{"x":1},"constructor":2}';
  assert.equal(dumps(loads(text)), text);
  assert.equal(
    codeOf(() => loads('{"__proto__":1,"__proto__":2}')),
    "CF-CANON-012",
  );
});
