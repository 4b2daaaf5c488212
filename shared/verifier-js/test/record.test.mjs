import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../src/bytes.mjs";
import { dumps, loads, readCanonical } from "../src/canonical.mjs";
import { bodyKind, parseEntry } from "../src/entries.mjs";
import { bodyText } from "../src/judge.mjs";
import { actor, address, label, step } from "../src/names.mjs";
import { leafHash, rootOf } from "../src/tree.mjs";
import { codeOf, vectors } from "./support.mjs";

const {
  actors,
  addresses,
  content_roots: roots,
  entries,
  labels,
  records,
  refused,
  steps,
} = vectors("record");

for (const { name, text, size, sha256: digest } of records)
  test(`a record: ${name}`, () => {
    assert.equal(bodyKind(readCanonical(Buffer.from(text)).value), "record");
    assert.deepEqual([Buffer.byteLength(text), sha256(text)], [size, digest]);
    const entry = parseEntry(Buffer.from(`{"body":${text},"i":0,"prev":"${"0".repeat(64)}"}`));
    assert.equal(bodyText(entry.text), text);
  });

for (const { name, body, code } of refused)
  test(`refused: ${name}`, () =>
    assert.equal(
      codeOf(() => bodyKind(loads(dumps(body)))),
      code,
    ));

test("entries, their digests and leaves", () => {
  for (const { text, digest, leaf } of entries) {
    assert.equal(dumps(readCanonical(Buffer.from(text)).value), text);
    assert.deepEqual([sha256(text), leafHash(text).toString("hex")], [digest, leaf]);
  }
});

test("names", () => {
  for (const { path, text } of actors) assert.equal(actor(path), text);
  for (const given of labels) assert.equal(label(given.name), given.label);
  for (const given of steps) assert.equal(step(given), given.text);
  for (const given of addresses) assert.equal(address(given.above, given.step), given.address);
});

test("content roots", () => {
  for (const { contents, root } of roots) {
    const sorted = contents.map((text) => Buffer.from(text)).sort(Buffer.compare);
    assert.equal(rootOf(sorted).toString("hex"), root);
  }
});
