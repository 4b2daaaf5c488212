/** Verifies on request: a JSON line in (`path`, `keyring`, `run`, `policy`), a JSON line out. For tests that compare verifiers. */
import { createInterface } from "node:readline";
import { main } from "../src/cli.mjs";

for await (const line of createInterface({ input: process.stdin })) {
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
