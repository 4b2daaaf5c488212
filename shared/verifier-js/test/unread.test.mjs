/** What the system does not let be read says nothing: wherever it stops, the verdict is cannot-tell (spec/log.md). */
import { strict as assert } from "node:assert";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { verifyEvidence } from "../src/evidence.mjs";
import { inFolder, vectors, writeEvidence, writeHome } from "./support.mjs";

const { cases, keys } = vectors("log");
const PARTS = 10;

const honest = cases.filter(
  ({ name, verdict, there, policy, findings }) =>
    ["intact", "incomplete"].includes(verdict) &&
    there === undefined &&
    policy === undefined &&
    !name.endsWith("behind what was recovered") &&
    !findings.includes("CF-VERIFY-071"), // it is that only by the word of another log
);

/** Runs `action` while a file gives nothing from `limit` on; one of limit 0 cannot be opened. */
function withFailing(path, limit, action) {
  const { openSync, readSync } = fs;
  const failing = new Set();
  const failure = (code) => Object.assign(new Error(code), { code, path });
  fs.openSync = (name, ...more) => {
    if (name === path && limit === 0) throw failure("EACCES");
    const fd = openSync(name, ...more);
    if (name === path) failing.add(fd);
    else failing.delete(fd);
    return fd;
  };
  fs.readSync = (fd, buffer, offset, length, position) => {
    if (!failing.has(fd)) return readSync(fd, buffer, offset, length, position);
    if (position >= limit) throw failure("EIO");
    return readSync(fd, buffer, offset, Math.min(length, limit - position), position);
  };
  syncBuiltinESMExports();
  try {
    return action();
  } finally {
    Object.assign(fs, { openSync, readSync });
    syncBuiltinESMExports();
  }
}

for (const one of honest)
  test(`wherever it cannot be read: ${one.name}`, () =>
    inFolder((folder) => {
      const root = join(folder, "evidence");
      writeEvidence(root, one);
      const keyring = writeHome(join(folder, "home"), root, one, keys);
      for (const name of Object.keys(one.files).filter((file) => file.endsWith(".seg"))) {
        const path = join(root, name);
        const { size } = fs.statSync(path);
        for (const limit of new Set(Array.from({ length: PARTS }, (_, part) => Math.floor((size * part) / PARTS)))) {
          const { verdict, findings } = withFailing(path, limit, () => verifyEvidence(root, keyring));
          assert.equal(verdict, "cannot-tell", `${name} ${limit} ${JSON.stringify(findings)}`);
          assert.ok(findings.some(({ code }) => ["CF-STORE-001", "CF-STORE-006"].includes(code)));
        }
      }
    }));
