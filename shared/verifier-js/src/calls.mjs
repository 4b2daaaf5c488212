/** Calls and runs of one log: starts and ends, tied together (spec/log.md, "record"). */
import { isObject } from "./canonical.mjs";

export class Calls {
  /** @param {import("./judge.mjs").Judge} judge */
  constructor(judge) {
    this.judge = judge;
    /** @type {Set<string>} calls that were started and not ended */
    this.open = new Set();
    /** @type {Set<string>} those of which that was said: it is said once a call */
    this.told = new Set();
    /** @type {Map<string, {started: number, ended: number}>} by run, since its last totals */
    this.tallies = new Map();
    /** @type {Set<string>} */
    this.runs = new Set();
  }

  /** @param {import("./entries.mjs").RecordBody} body */
  record({ content, context }) {
    const { phase, totals } = content;
    const { call, run } = context;
    if (typeof run === "string") this.runs.add(run);
    if (typeof call !== "string") return;
    if (phase === "start") {
      if (typeof run === "string") this.tally(run).started += 1;
      this.open.add(call);
      if (call === run) this.judge.counts.runs += 1;
      return;
    }
    if (phase !== "end" || context.late === true) return;
    if (!this.open.delete(call))
      this.judge.find("CF-VERIFY-022", "a call ended that never started in this log");
    if (typeof run !== "string") return; // a call all the same, and counted for no run
    const tally = this.tally(run);
    tally.ended += 1;
    if (!isObject(totals)) return;
    this.tallies.delete(run);
    const same =
      Object.keys(totals).length === 2 && totals.started === tally.started && totals.ended === tally.ended;
    if (!same) this.judge.find("CF-VERIFY-023", "a run had other totals than the log holds");
  }

  tally(run) {
    let tally = this.tallies.get(run);
    if (tally === undefined) this.tallies.set(run, (tally = { started: 0, ended: 0 }));
    return tally;
  }

  /** A session, or the log without a live writer, ended: what is still open should have ended. */
  ended() {
    const untold = [...this.open].filter((call) => !this.told.has(call));
    if (untold.length === 0) return;
    this.judge.find("CF-VERIFY-025", `calls were never ended, and their writer is gone: ${untold.length}`);
    for (const call of untold) this.told.add(call);
  }
}
