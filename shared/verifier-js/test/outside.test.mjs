/** Other projects' vectors (shared/vectors/outside, SOURCES.md). */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { dumps, loads } from "../src/canonical.mjs";
import { PublicKey } from "../src/keys.mjs";
import { parseNote } from "../src/notes.mjs";
import { Tree, leafHash, rootOf, verifyConsistency, verifyInclusion } from "../src/tree.mjs";
import { codeOf } from "./support.mjs";

const at = (path) => new URL(`../../vectors/outside/${path}`, import.meta.url);
const json = (path) => JSON.parse(readFileSync(at(path), "utf8"));
const hex = (text) => Buffer.from(text, "hex");
const PREFIX = hex("302a300506032b6570032100");

/** Whether a raw key may be trusted, and signed. */
function accepts(raw, message, signature) {
  let key;
  try {
    key = new PublicKey(Buffer.concat([PREFIX, raw]));
  } catch {
    return false;
  }
  return key.verifies(message, signature);
}

test("Wycheproof: Ed25519", () => {
  for (const { publicKey, tests } of json("wycheproof/ed25519.json").testGroups)
    for (const { tcId, msg, sig, result } of tests)
      assert.equal(accepts(hex(publicKey.pk), hex(msg), hex(sig)), result === "valid", `test ${tcId}`);
});

test("CCTV: keys and signatures that anybody could make are refused", () => {
  const counts = { key: 0, signature: 0, accepted: 0 };
  for (const { number, key, sig, msg, flags } of json("cctv/ed25519.json")) {
    const good = codeOf(() => new PublicKey(Buffer.concat([PREFIX, hex(key)]))) === "";
    const mine = accepts(hex(key), Buffer.from(msg), hex(sig));
    counts[mine ? "accepted" : good ? "signature" : "key"] += 1;
    if ((flags ?? []).some((flag) => ["low_order_A", "low_order_R", "non_canonical_A"].includes(flag)))
      assert.equal(mine, false, `vector ${number}`);
  }
  // What SOURCES.md says the first verifier makes of them.
  assert.deepEqual(counts, { key: 196, signature: 129, accepted: 15 });
});

test("RFC 8785: documents and numbers", () => {
  for (const name of readdirSync(at("jcs/input"))) {
    const wanted = readFileSync(at(`jcs/outhex/${name.replace(".json", ".txt")}`), "utf8").replace(/\s/g, "");
    assert.equal(
      Buffer.from(dumps(loads(readFileSync(at(`jcs/input/${name}`))))).toString("hex"),
      wanted,
      name,
    );
  }
  for (const line of readFileSync(at("jcs/es6_first_1000.txt"), "utf8").trim().split("\n")) {
    const [bits, text] = line.split(",");
    assert.equal(dumps(hex(bits.padStart(16, "0")).readDoubleBE()), text, bits);
  }
});

test("JSONTestSuite: what must be read is read, what must not is refused", () => {
  const files = {
    ...json("jsontestsuite/test_parsing_b64.json"),
    ...json("jsontestsuite/test_transform_b64.json"),
  };
  for (const [name, base64] of Object.entries(files)) {
    const code = codeOf(() => loads(Buffer.from(base64, "base64"), { maxDepth: 600 }));
    if (name.startsWith("n_")) assert.notEqual(code, "", name);
    // I-JSON takes less than JSON: no key twice (012).
    if (name.startsWith("y_") && code !== "") assert.ok(["CF-CANON-012"].includes(code), `${name} ${code}`);
  }
});

test("Merkle trees", () => {
  const bytes = (text) => Buffer.from(text ?? "", "base64");
  const holds = (action) => codeOf(action) === "";
  const { leafInputsHex: leaves, rootsHexBySize: roots } = json("merkle/rfc6962_roots.json");
  const tree = new Tree();
  assert.equal(tree.root().toString("hex"), roots[0]);
  leaves.forEach((leaf, index) => {
    tree.add(leafHash(hex(leaf)));
    assert.equal(tree.root().toString("hex"), roots[index + 1]);
    assert.equal(rootOf(leaves.slice(0, index + 1).map(hex)).toString("hex"), roots[index + 1]);
  });
  for (const { leafIdx, treeSize, root, leafHash: leaf, proof, wantErr, file } of json(
    "merkle/inclusion.json",
  )) {
    const mine = holds(() =>
      verifyInclusion(bytes(leaf), leafIdx, treeSize, (proof ?? []).map(bytes), bytes(root)),
    );
    assert.equal(mine, !wantErr, file);
  }
  for (const { size1, size2, root1, root2, proof, wantErr, file } of json("merkle/consistency.json")) {
    const mine = holds(() =>
      verifyConsistency(size1, size2, (proof ?? []).map(bytes), bytes(root1), bytes(root2)),
    );
    // Size 0 proves nothing, and a root is 32 bytes: both are refused here whatever is asked.
    const asked = size1 > 0 && bytes(root1).length === 32 && bytes(root2).length === 32;
    assert.equal(mine, !wantErr && asked, file);
  }
});

test("notes of another log are read", () => {
  for (const text of Object.values(json("tlog/tessera_log.json").checkpoints))
    assert.equal(parseNote(Buffer.from(text)).signatures.length, 1);
});
