#!/usr/bin/env node
import { main } from "../src/cli.mjs";

const PIPE = 141;

for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error) => {
    // Who reads may go away (`| head`); a disk that is full is no verdict.
    process.exit(/** @type {NodeJS.ErrnoException} */ (error).code === "EPIPE" ? PIPE : 2);
  });

process.exitCode = main(
  process.argv.slice(2),
  (text) => process.stdout.write(text),
  (text) => process.stderr.write(text),
);
