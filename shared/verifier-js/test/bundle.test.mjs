import assert from "node:assert/strict";
import { realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isBundle, verifyBundle } from "../src/bundle.mjs";
import { subtrees } from "../src/bundle-section.mjs";
import { inFolder, vectors, writeHome } from "./support.mjs";

const { cases, cuts, gaps, keys } = vectors("bundle");
const codes = (findings) => findings.map(({ code }) => code);

/** The bytes of a bundle in the vectors: a string, or a list of strings and of `[string, times]`. */
function bytesOf({ bundle, base64 }) {
  if (base64 !== undefined) return Buffer.from(base64, "base64");
  const parts = typeof bundle === "string" ? [bundle] : bundle;
  return Buffer.from(
    parts.map((part) => (typeof part === "string" ? part : part[0].repeat(part[1]))).join(""),
  );
}

function agrees(given) {
  inFolder((folder) => {
    const root = realpathSync(folder);
    const path = join(root, "case.bundle");
    writeFileSync(path, bytesOf(given));
    assert.equal(isBundle(path), true);
    const result = verifyBundle(path, writeHome(join(root, "home"), root, given, keys));
    assert.deepEqual(codes(result.findings), given.findings);
    assert.equal(result.verdict, given.verdict);
    assert.deepEqual(codes(result.notes), given.notes ?? []);
    if (given.where !== undefined) assert.equal(result.findings[0].where, given.where);
    for (const [name, count] of Object.entries(given.counts ?? {}))
      assert.equal(result.counts[name], count, name);
  });
}

describe("bundles that were cut", () => {
  for (const given of cuts) test(given.name, () => agrees(given));
});

describe("bundles of all kinds", () => {
  for (const given of cases) test(given.name, () => agrees(given));
});

test("the subtrees of a gap", () => {
  for (const { start, count, sizes } of gaps) assert.deepEqual(subtrees(start, count), sizes);
});
