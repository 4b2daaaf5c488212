import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../src/bytes.mjs";
import { dumps, loads } from "../src/canonical.mjs";
import { cite } from "../src/references.mjs";
import { codeOf, vectors } from "./support.mjs";

const { folds, refused, values } = vectors("references");
const recorded = vectors("values");

/** What stands in the vectors of a blob: its text, or its bytes where it is none. */
function blobText({ text, base64 }) {
  return text === undefined ? Buffer.from(base64, "base64") : Buffer.from(text);
}

for (const given of values)
  test(`reduced form, reference and blobs: ${given.name}`, () => {
    const blobs = new Map();
    const { reduced, reference } = cite(loads(given.value, { maxDepth: 128 }), (bytes, digest) => {
      if (!blobs.has(digest)) blobs.set(digest, bytes);
    });
    assert.equal(dumps(reduced), given.reduced);
    assert.deepEqual({ ...reference }, given.reference);
    assert.deepEqual(
      [...blobs.keys()],
      given.blobs.map((blob) => blob.sha256),
    );
    for (const blob of given.blobs) {
      assert.ok(blobs.get(blob.sha256).equals(blobText(blob)));
      assert.equal(blobs.get(blob.sha256).length, blob.size);
    }
  });

test("a list that grows adds one node a message", () => {
  const list = [];
  for (const { message, node, sha256: digest, size } of folds) {
    list.push(loads(message));
    const nodes = [];
    const { reference } = cite(list, (bytes) => nodes.push(bytes.toString()));
    assert.equal(nodes[nodes.length - 1], node);
    assert.deepEqual([reference.sha256, reference.size, sha256(node)], [digest, size, digest]);
  }
});

for (const { name, value, code } of refused)
  test(`refused: ${name}`, () =>
    assert.equal(
      codeOf(() => cite(loads(value))),
      code,
    ));

for (const given of [...recorded.values, ...recorded.messages, ...recorded.libraries])
  test(`a recorded value and its reference: ${given.name}`, () => {
    const value = loads(given.value, { maxDepth: 256 });
    assert.equal(dumps(value), given.value);
    assert.deepEqual({ ...cite(value).reference }, given.reference);
  });
