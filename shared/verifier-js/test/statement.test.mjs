import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../src/bytes.mjs";
import { dumps } from "../src/canonical.mjs";
import { Envelope } from "../src/dsse.mjs";
import { PublicKey } from "../src/keys.mjs";
import { parseStatement, sortParents } from "../src/statements.mjs";
import { codeOf, vectors } from "./support.mjs";

const {
  envelopes,
  keys,
  parents,
  refused_envelopes: badEnvelopes,
  refused_statements: bad,
  statements,
} = vectors("statement");

const known = (names) => {
  const found = new Map(names.map((name) => [keys[name].fingerprint, PublicKey.fromText(keys[name].spki)]));
  return (keyid) => found.get(keyid) ?? null;
};

test("keys have their fingerprints", () => {
  for (const { fingerprint, spki } of Object.values(keys))
    assert.equal(PublicKey.fromText(spki).fingerprint, fingerprint);
});

for (const given of statements)
  test(`a statement: ${given.name}`, () => {
    const envelope = Envelope.parse(given.envelope);
    assert.equal(envelope.payload.toString(), given.payload);
    assert.equal(envelope.pae().toString("hex"), given.pae);
    assert.equal(envelope.digest, given.digest);
    assert.equal(envelope.toText(), given.envelope);
    assert.equal(parseStatement(envelope.payload).digest, given.digest);
    assert.ok(envelope.verify(known(Object.keys(keys))).size > 0);
    if (given.compact === undefined) {
      assert.equal(
        codeOf(() => envelope.toCompact()),
        "CF-DSSE-006",
      );
      return;
    }
    assert.equal(envelope.toCompact(), given.compact);
    assert.equal(Envelope.parseCompact(given.compact).toText(), given.envelope);
  });

for (const { name, payload, code } of bad)
  test(`refused statement: ${name}`, () =>
    assert.equal(
      codeOf(() => parseStatement(Buffer.from(payload))),
      code,
    ));

for (const { name, envelope, normal } of envelopes)
  test(`normal form: ${name}`, () => assert.equal(Envelope.parse(envelope).toText(), normal));

for (const { name, envelope, code, known: names } of badEnvelopes)
  test(`refused envelope: ${name}`, () => {
    const refused = () => {
      const parsed = Envelope.parse(envelope);
      if (names !== undefined) parsed.verify(known(names));
    };
    assert.equal(codeOf(refused), code);
  });

test("parents, sorted, and the list of many", () => {
  for (const { given, inline, parentSet } of parents) {
    const sorted = sortParents(given);
    if (parentSet === undefined || parentSet === null) {
      assert.deepEqual(sorted, inline);
      continue;
    }
    const text = dumps(sorted);
    assert.deepEqual(inline, []);
    assert.deepEqual(parentSet, {
      count: sorted.length,
      sha256: sha256(text),
      size: Buffer.byteLength(text),
    });
  }
});
