/** Verifies on request: a JSON line in (`path`, `keyring`, `run`, `policy`), a JSON line out. For tests that compare verifiers. */
import { createInterface } from "node:readline";
import { main } from "../src/cli.mjs";

// A test runner that takes every file here for a test gives it nothing to read, and no end.
const input = process.env.NODE_TEST_CONTEXT === undefined ? createInterface({ input: process.stdin }) : [];
for await (const line of input) {
  const { path, keyring, run, policy } = JSON.parse(line);
  const out = { code: 0, text: "", error: "" };
  const argv = [
    path,
    "--json",
    ...(keyring ? ["--keyring", keyring] : []),
    ...(run ? ["--run", run] : []),
    ...(policy ? ["--policy", policy] : []),
  ];
  out.code = main(
    argv,
    (text) => (out.text += text),
    (text) => (out.error += text),
  );
  process.stdout.write(`${JSON.stringify(out)}\n`);
}
