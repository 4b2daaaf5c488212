import assert from "node:assert/strict";
import { test } from "node:test";
import { covers, isCapability } from "../src/patterns.mjs";
import { Policy } from "../src/policy.mjs";
import { codeOf, vectors } from "./support.mjs";

const { capabilities, covers: covered, judged, policies, refused_policies: refused } = vectors("statement");

test("policies are read", () => {
  for (const { envelope, digest } of policies) assert.equal(Policy.parse(envelope).digest, digest);
});

for (const { name, envelope, code, spaces = 0 } of refused)
  test(`refused policy: ${name}`, () =>
    assert.equal(
      codeOf(() => Policy.parse(envelope + " ".repeat(spaces))),
      code,
    ));

test("what a key is worth for a statement", () => {
  const policy = Policy.parse(policies[1].envelope);
  for (const { key, issued, proven = null, worth } of judged)
    assert.equal(policy.worth(key, issued, proven), worth);
});

test("patterns", () => {
  for (const { granted, asked, covered: yes } of covered)
    assert.equal(covers(granted, asked), yes, `${granted} ${asked}`);
  for (const { text, good } of capabilities) assert.equal(isCapability(text), good, text);
});
