import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, openSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { main } from "../src/cli.mjs";
import { inFolder, keyringText, vectors, writeEvidence, writeHome } from "./support.mjs";

const BIN = fileURLToPath(new URL("../bin/counterfoil-verify.mjs", import.meta.url));
const { cases, complete, keys } = vectors("log");

function ask(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
}

test("four verdicts, four exit codes, one usage code", () =>
  inFolder((folder) => {
    const root = realpathSync(folder);
    const verdicts = { intact: 0, broken: 3, incomplete: 4, "cannot-tell": 5 };
    for (const [verdict, code] of Object.entries(verdicts)) {
      const given = cases.find(
        (one) => one.verdict === verdict && one.heads === undefined && one.policy === undefined,
      );
      const place = join(root, verdict);
      writeEvidence(place, given);
      writeHome(join(root, `${verdict}-home`), place, given, keys);
      const { status, stdout } = ask(place, "--keyring", join(root, `${verdict}-home`));
      assert.equal(status, code);
      assert.match(stdout.trimEnd().split("\n").pop(), new RegExp(`^${verdict}: `));
    }
  }));

test("JSON has the keys of the first verifier", () =>
  inFolder((folder) => {
    writeEvidence(join(folder, "evidence"), complete);
    writeFileSync(join(folder, "keyring.json"), keyringText(["identity", "peer"], keys));
    const { status, stdout } = ask(
      join(folder, "evidence"),
      "--keyring",
      join(folder, "keyring.json"),
      "--json",
    );
    const told = JSON.parse(stdout);
    assert.equal(status, 0);
    assert.deepEqual(Object.keys(told), ["verdict", "findings", "notes", "counts"]);
    assert.deepEqual(told.counts, {
      logs: 1,
      records: 23,
      statements: 4,
      runs: 2,
      handoffs: 2,
      blobs: 16,
      losses: 0,
      open: 0,
      tail: 0,
    });
  }));

test("--run judges the logs that hold a run", () =>
  inFolder((folder) => {
    writeEvidence(folder, complete);
    const some = ask(folder, "--run", "1111", "--json");
    assert.deepEqual([some.status, JSON.parse(some.stdout).verdict], [5, "cannot-tell"]);
    const none = ask(folder, "--run", "zz");
    assert.deepEqual([none.status, none.stderr.slice(0, 16)], [2, "error CF-CLI-011"]);
  }));

test("bad questions end in one line with a code", () =>
  inFolder((folder) => {
    writeFileSync(join(folder, "a.txt"), "text");
    writeFileSync(join(folder, "keyring.json"), "{}");
    mkdirSync(join(folder, "evidence"));
    const asked = [
      [[], "CF-CLI-001"],
      [[folder, folder], "CF-CLI-001"],
      [[folder, "--nothing"], "CF-CLI-001"],
      [[join(folder, "none")], "CF-STORE-002"],
      [[join(folder, "a.txt")], "CF-STORE-003"],
      [[folder, "--keyring", join(folder, "none")], "CF-KEYS-021"],
      [[folder, "--keyring", folder], "CF-KEYS-020"],
      [[folder, "--policy", join(folder, "a.txt")], "CF-TRUST-002"],
      [[folder, "--policy", join(folder, "none")], "CF-TRUST-001"],
    ];
    for (const [args, code] of asked) {
      const { status, stdout, stderr } = ask(...args);
      assert.deepEqual([status, stdout, stderr.split(/[ :]/)[1]], [2, "", code], args.join(" "));
    }
    assert.equal(ask("--help").status, 0);
  }));

test("an error is told in a line with code and place, and a hint", () =>
  inFolder((folder) => {
    const place = join(folder, "none");
    assert.deepEqual(ask(place).stderr.split("\n"), [
      `error CF-STORE-002 ${place}: there is no evidence here`,
      "  hint: name the folder of a run, or a bundle",
      "",
    ]);
    const { stderr } = ask(folder, "--nothing");
    assert.deepEqual(stderr.split("\n"), [
      "error CF-CLI-001 counterfoil-verify: Unknown option '--nothing'",
      "  hint: counterfoil-verify --help",
      "",
    ]);
  }));

/** What is said when printing fails in a way. */
function saidAfter(error) {
  const told = [];
  const fail = () => {
    throw error;
  };
  return [main(["--help"], fail, (text) => told.push(text)), told.join("")];
}

test("whatever fails inside, nobody reads a stack", () => {
  const inside = "the evidence was not judged; please report it";
  assert.deepEqual(saidAfter(new TypeError("a secret")), [
    2,
    `error CF-CLI-005: an error in this verifier itself: TypeError\n  hint: ${inside}\n`,
  ]);
  assert.deepEqual(saidAfter(null), [
    2,
    `error CF-CLI-005: an error in this verifier itself: unknown\n  hint: ${inside}\n`,
  ]);
  for (const [code, expected] of [
    ["EACCES", "CF-STORE-006"],
    ["EIO", "CF-STORE-001"],
  ]) {
    const [status, text] = saidAfter(Object.assign(new Error("x"), { code, syscall: "read", path: "a/b" }));
    assert.equal(status, 2);
    assert.match(text, new RegExp(`^error ${expected} [^\\n]+\\n`));
    assert.doesNotMatch(text, /\n\s+at /);
  }
});

for (const [name, args] of [
  ["what is printed", ["--help"]],
  ["an error", []],
])
  test(`nobody reads ${name}: the end that a pipe gives, without a word`, async () => {
    const child = spawn(process.execPath, [BIN, ...args]);
    const other = args.length > 0 ? child.stderr : child.stdout;
    let said = "";
    other.on("data", (data) => (said += data));
    (args.length > 0 ? child.stdout : child.stderr).destroy();
    const [status] = await once(child, "close");
    assert.deepEqual([status, said], [141, ""]);
  });

if (existsSync("/dev/full"))
  test("a disk that is full is no verdict", () =>
    inFolder((folder) => {
      writeEvidence(folder, complete);
      const full = openSync("/dev/full", "w");
      const { status } = spawnSync(process.execPath, [BIN, folder], { stdio: ["ignore", full, "pipe"] });
      assert.equal(status, 2);
    }));
