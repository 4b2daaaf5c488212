/** Whether a log's writer is alive: it holds an flock on a file of its home (spec/keys.md). */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/**
 * Node cannot test an flock; Linux lists them. Elsewhere, and for a home on another machine, no writer is seen.
 * @param {string | null} home
 * @param {string} name
 */
export function isLocked(home, name) {
  if (home === null) return false;
  try {
    const { ino } = statSync(join(home, "locks", name), { bigint: true });
    return readFileSync("/proc/locks", "utf8")
      .split("\n")
      .some((line) => {
        const fields = line.trim().split(/\s+/);
        return fields[1] === "FLOCK" && fields[5]?.split(":")[2] === String(ino);
      });
  } catch {
    return false;
  }
}
