import assert from "node:assert/strict";
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { verifyEvidence } from "../src/evidence.mjs";
import { LogReader } from "../src/log.mjs";
import { sha256 } from "../src/bytes.mjs";
import { bodyText } from "../src/judge.mjs";
import { Policy } from "../src/policy.mjs";
import { leafHash, rootOf } from "../src/tree.mjs";
import { ZstdStream } from "../src/zstd.mjs";
import { inFolder, vectors, writeEvidence, writeHome } from "./support.mjs";

const { cases, complete, keys, streams } = vectors("log");
const codes = (findings) => findings.map(({ code }) => code);

describe("every evidence of log.json gets its verdict, findings, notes and counts", () => {
  for (const given of cases)
    test(given.name, () =>
      inFolder((folder) => {
        const root = join(realpathSync(folder), "evidence");
        writeEvidence(root, given);
        const policy = given.policy === undefined ? null : Policy.parse(given.policy);
        const result = verifyEvidence(root, writeHome(join(folder, "home"), root, given, keys), { policy });
        assert.deepEqual(codes(result.findings), given.findings);
        assert.equal(result.verdict, given.verdict);
        for (const [name, count] of Object.entries(given.counts ?? {}))
          assert.equal(result.counts[name], count, name);
        const notes = codes(result.notes).filter((code) => code !== "CF-VERIFY-062");
        assert.deepEqual(notes, given.notes ?? []);
      }),
    );
});

test("a log with a record of a later version is looked at for every run", () =>
  inFolder((folder) => {
    const given = cases.find(({ name }) => name === "a run, and another log with a record of a later version");
    const root = join(realpathSync(folder), "evidence");
    writeEvidence(root, given);
    const keyring = writeHome(join(folder, "home"), root, given, keys);
    const { verdict, counts } = verifyEvidence(root, keyring, { run: "1".repeat(32) });
    assert.deepEqual([verdict, counts.logs], ["cannot-tell", 2]);
  }));

test("the complete log is read as its vectors say", () =>
  inFolder((folder) => {
    writeEvidence(folder, complete);
    const names = Object.keys(complete.files)
      .filter((path) => path.endsWith(".seg"))
      .sort();
    const [name] = names[0].split("/");
    const entries = [];
    const blobs = {};
    const checkpoints = [];
    const reader = new LogReader(
      name,
      names.map((path, number) => ({ number, path: join(folder, path) })),
      {
        blob: (bytes, digest) => void (blobs[digest] = bytes.length),
        entry: ({ index, text }) =>
          entries.push({ digest: sha256(text), index, leaf: leafHash(text).toString("hex"), text }),
        note: (bytes) =>
          checkpoints.push({
            note: bytes.toString(),
            root: reader.tree.root().toString("hex"),
            size: reader.tree.size,
          }),
        fault: (error) => assert.fail(error),
        torn: (where) => assert.fail(where),
      },
    );
    reader.read();
    assert.deepEqual(entries, complete.entries);
    assert.deepEqual(blobs, complete.blobs);
    assert.deepEqual(checkpoints, complete.checkpoints);
    assert.deepEqual(contentRoots(entries), complete.content_roots);
  }));

function contentRoots(entries) {
  const parts = {};
  for (const { text } of entries) {
    const body = JSON.parse(bodyText(text));
    const statement = body.payload === undefined ? null : JSON.parse(Buffer.from(body.payload, "base64"));
    if (statement !== null && statement.predicateType !== "urn:counterfoil:handoff:v1") continue;
    const run = statement === null ? body.context.run : statement.predicate.run;
    const content = statement === null ? body.content : statement.predicate.content;
    // The texts are canonical, and none of these objects has a key that looks like an array index.
    if (run !== undefined) (parts[run] ??= []).push(Buffer.from(JSON.stringify(content)));
  }
  return Object.fromEntries(
    Object.entries(parts).map(([run, all]) => [run, rootOf(all.sort(Buffer.compare)).toString("hex")]),
  );
}

test("compressed streams of log.json give their parts, flush by flush", () => {
  for (const { chunks, parts } of streams) {
    const stream = new ZstdStream();
    chunks.forEach((chunk, index) => {
      const bytes = Buffer.from(chunk, "base64");
      const raw = stream.next(bytes.subarray(16), bytes.readUInt32LE(8));
      const part = parts[index];
      assert.ok(raw.equals(Buffer.from(part)) || raw.equals(Buffer.from(part, "base64")), `part ${index}`);
    });
  }
});
