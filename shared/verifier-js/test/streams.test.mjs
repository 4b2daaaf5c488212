import assert from "node:assert/strict";
import { test } from "node:test";
import { sha256 } from "../src/bytes.mjs";
import { Running, isStated } from "../src/streams.mjs";
import { vectors } from "./support.mjs";

const { refused, streams } = vectors("streams");

for (const { name, call, parts } of streams)
  test(`a stream: ${name}`, () => {
    const running = new Running(call);
    for (const { hex, sha256: digest, stated } of parts) {
      const part = Buffer.from(hex, "hex");
      assert.equal(sha256(part), digest);
      running.take(part);
      assert.deepEqual({ ...running.stated(), content: { ...running.stated().content }, v: 1 }, stated);
      assert.ok(isStated(running.stated(), stated));
    }
    assert.deepEqual(running.parts, parts.map((one) => one.sha256));
  });

for (const { name, before, hex } of refused)
  test(`no part: ${name}`, () => {
    const running = new Running("c1");
    for (const part of before) running.take(Buffer.from(part, "hex"));
    assert.throws(() => running.take(Buffer.from(hex, "hex")));
  });
