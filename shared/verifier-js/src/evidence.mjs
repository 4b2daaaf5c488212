/** Verifying an evidence folder (spec/log.md). */
import { readFileSync, readdirSync, realpathSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { isPart, largest } from "./archived.mjs";
import { acceptedAgain } from "./authority.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { Counts, Findings } from "./findings.mjs";
import { LogCheck, isStored } from "./log-check.mjs";
import { LogReader } from "./log.mjs";
import { keyringOf } from "./policy.mjs";

/** @typedef {import("./policy.mjs").Policy} Policy */
/** @typedef {{verdict: string, findings: import("./findings.mjs").Finding[], notes: import("./findings.mjs").Finding[], counts: Counts}} Verification */

/**
 * @param {string} path
 * @param {import("./keyring.mjs").Keyring} keyring
 * @param {{run?: string | null, policy?: Policy | null, now?: number}} [options] `now` in Unix milliseconds
 * @returns {Verification}
 */
export function verifyEvidence(path, keyring, { run = null, policy = null, now = Date.now() } = {}) {
  let result = null;
  const doubt = policy === null ? null : attempt(() => policy.believe(keyring, now)).error;
  const believed = doubt === null ? policy : null;
  const keys = believed === null ? keyring : keyringOf(keyring, believed);
  for (let turn = 0; turn < 3; turn += 1) {
    const before = state(path);
    const check = new EvidenceCheck(path, keys, run, believed);
    if (doubt !== null) check.findings.add(doubt.code, doubt.where, doubt.message);
    result = check.result();
    if (result.verdict === "intact" || state(path) === before) break;
  }
  return result;
}

/** Names and sizes of all segments: a writer may be at work. */
function state(path) {
  return JSON.stringify(
    attemptFile(() =>
      listLogs(path).logs.map(({ segments }) => segments.map((s) => [s.path, statSync(s.path).size])),
    ),
  );
}

function attemptFile(action) {
  try {
    return action();
  } catch {
    return null; // went away meanwhile
  }
}

/** Logs by name with their segments, and what does not belong. @param {string} path */
function listLogs(path) {
  const foreign = [];
  const logs = [];
  let ignore = false;
  for (const entry of readdirSync(path, { withFileTypes: true }).sort(byName)) {
    if (entry.isDirectory() && /^[0-9a-f]{16}$/.test(entry.name)) {
      const segments = [];
      for (const file of readdirSync(join(path, entry.name), { withFileTypes: true }).sort(byName)) {
        if (file.isFile() && /^[0-9]{8}\.seg$/.test(file.name))
          segments.push({ number: Number(file.name.slice(0, 8)), path: join(path, entry.name, file.name) });
        else foreign.push(`${entry.name}/${file.name}`);
      }
      logs.push({ name: entry.name, segments });
    } else if (entry.name === ".gitignore" && entry.isFile()) {
      ignore = readFileSync(join(path, entry.name)).equals(Buffer.from("*\n"));
      if (!ignore) foreign.push(entry.name);
      ignore = true;
    } else foreign.push(entry.name);
  }
  if (!ignore) foreign.push(".gitignore");
  return { logs, foreign };
}

const byCodePoint = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));
const byName = (a, b) => (a.name < b.name ? -1 : 1);

class EvidenceCheck {
  constructor(path, keyring, run, policy) {
    this.path = path;
    this.policy = policy;
    this.real = realpathSync(path);
    this.keyring = keyring;
    this.run = run;
    this.findings = new Findings();
    this.counts = new Counts();
  }

  /** @returns {Verification} */
  result() {
    const { logs, foreign } = listLogs(this.path);
    if (logs.length > 0 && this.run === null)
      for (const name of foreign)
        this.findings.add("CF-VERIFY-002", name, "something inside does not belong to evidence");
    const checks = logs.map((log) => new LogCheck(log, this).check());
    if (this.run !== null) this.run = theRun(this.run, checks);
    const concerned = checks.filter((check) => this.run === null || check.concerns(this.run));
    this.archived = largest(concerned.flatMap(({ judge }) => judge.archived));
    const parts = this.run === null ? concerned.filter((check) => this.isPart(check)) : [];
    const judged = concerned.filter((check) => !parts.includes(check));
    for (const { judge } of judged) {
      this.findings.addAll(judge.findings);
      this.counts.addAll(judge.counts);
    }
    // What cannot be read may tell of an archive.
    this.partial = this.run !== null || concerned.some(({ unread }) => unread);
    this.citations(judged);
    if (this.run === null) this.archives(judged, parts);
    this.heads(judged, concerned);
    this.acceptances(concerned.filter(({ unread }) => !unread));
    if (!this.partial) this.gone(checks.filter((check) => !parts.includes(check)));
    this.copied(judged);
    if (logs.length === 0)
      this.findings.add("CF-VERIFY-001", "", "there is no log", "name the folder of a run");
    this.counts.logs = judged.length;
    const { list, notes, verdict } = this.findings.capped();
    return { verdict, findings: list, notes, counts: this.counts };
  }

  /** Whether only a part of an archived log is here. */
  isPart({ judge, log }) {
    return [...this.archived.values()].some(
      (one) =>
        logName(one.said.log.origin) === log.name &&
        ["", one.said.log.origin].includes(judge.origin) &&
        isPart(one, log.segments),
    );
  }

  /** Archived logs that are here and are not what was archived, what is left of others, and where the rest is. */
  archives(judged, parts) {
    const byOrigin = new Map(judged.map((check) => [check.judge.origin, check]));
    const places = new Set();
    for (const [origin, { said }] of [...this.archived].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const check = byOrigin.get(origin);
      if (check === undefined) places.add(said.place);
      else if (check.judge.blind || check.unread || check.judge.findings.broken) continue;
      else if (check.judge.checkpoints.get(said.log.size) !== said.log.root)
        this.findings.add("CF-VERIFY-005", check.log.name, "an archive statement tells another history of it");
    }
    for (const { log } of parts)
      this.findings.add("CF-VERIFY-071", log.name, "only a part of an archived log is left here");
    for (const place of [...places].sort(byCodePoint))
      this.findings.add("CF-VERIFY-072", place, "logs of this evidence are archived there");
  }

  citations(judged) {
    const byLog = new Map(judged.map((check) => [check.log.name, check]));
    for (const { judge } of judged) {
      for (const { log, where, checkpoint, code } of judge.citations.list) {
        const cited = byLog.get(log);
        const elsewhere = cited === undefined ? this.archived.get(checkpoint?.origin) : undefined;
        if (elsewhere !== undefined && checkpoint.origin.endsWith(`/${log}`)) {
          if (!this.partial && elsewhere.checkpoints.get(checkpoint.size) !== checkpoint.root)
            this.findings.add("CF-VERIFY-005", where, "a log cites another history of a log, or a longer one");
        } else if (cited === undefined) {
          if (!this.partial && !judge.apart)
            this.findings.add("CF-VERIFY-004", where, "a log cites another one that is gone");
        } else if (checkpoint === null)
          this.findings.add(code, where, "what a session cites is no checkpoint");
        else if (cited.judge.blind || cited.unread) continue;
        else if (
          cited.judge.checkpoints.get(checkpoint.size) !== checkpoint.root ||
          !checkpoint.origin.endsWith(`/${log}`)
        )
          this.findings.add("CF-VERIFY-005", where, "a log cites another history of a log, or a longer one");
      }
    }
  }

  /** Heads that statements told: against the logs that are here, and against each other. */
  heads(judged, all) {
    const whole = judged.filter(({ unread }) => !unread); // what could not be read accuses nobody
    const byOrigin = new Map(whole.map(({ judge }) => [judge.origin, judge]));
    const said = new Set();
    const owners = new Map();
    for (const { judge } of all) {
      for (const { origin, size, root, own, where } of judge.told) {
        const here = byOrigin.get(origin);
        const place = `${origin} ${size}`;
        const name = `${place} ${root}`;
        const another = here !== undefined && !(own && here === judge) && here.checkpoints.get(size) !== root;
        const forked = own && (owners.get(place) ?? root) !== root;
        if (own && !owners.has(place)) owners.set(place, root);
        if ((!another && !forked) || said.has(name)) continue;
        said.add(name);
        if (another)
          this.findings.add(
            "CF-TRUST-043",
            where,
            "a statement names a checkpoint that a log here never had",
          );
        else this.findings.add("CF-TRUST-042", where, "a peer told two histories of its log");
      }
    }
  }

  /** Handoffs that one identity accepted in several of its logs. */
  acceptances(judged) {
    for (const name of acceptedAgain(judged.map(({ judge }) => judge)))
      this.findings.add("CF-VERIFY-048", name, "a handoff was accepted in another log as well");
  }

  /** Whether a path that a head names is this folder, by what it was opened by or by what that resolves to. */
  isHere(path) {
    return path === this.real || path === resolve(this.path);
  }

  /** Remembered logs of this place, or of the one these logs were written in, that are gone: by origin, not by name. */
  gone(checks) {
    const origins = new Map(checks.map((check) => [check.log.name, check.judge.origin]));
    const { heads } = this.keyring;
    const isAmong = ({ origin }) => ["", origin].includes(origins.get(logName(origin)));
    const there = new Set(heads.filter(isAmong).map(({ evidence }) => evidence));
    for (const head of heads) {
      if (isAmong(head) || this.archived.get(head.origin)?.checkpoints.get(head.size) === head.root) continue;
      const name = logName(head.origin);
      const other = origins.get(name); // another identity's: CF-VERIFY-053 of that log, unless it is remembered itself
      const isSaid = other !== undefined && !heads.some(({ origin }) => origin === other);
      const isMissed = this.isHere(head.evidence)
        ? !isSaid
        : head.evidence !== "" && there.has(head.evidence) && !stands(head);
      if (isMissed) this.findings.add("CF-VERIFY-003", name, "a log that was written here is gone");
    }
  }

  /** Logs that were written in another place, which is still there, among logs of this one. */
  copied(checks) {
    const origins = new Set(checks.map((check) => check.judge.origin));
    if (!this.keyring.heads.some((head) => this.isHere(head.evidence) && origins.has(head.origin))) return;
    for (const { judge, log } of checks) {
      const head = this.keyring.heads.find((one) => one.origin === judge.origin);
      const moved = head !== undefined && head.evidence !== "" && !this.isHere(head.evidence);
      if (moved && !judge.apart && isFolder(head.evidence))
        this.findings.add("CF-VERIFY-006", log.name, "a log was brought in from another place, which is still there");
    }
  }
}

const logName = (origin) => origin.slice(origin.indexOf("/") + 1);
const isFolder = (path) => attemptFile(() => statSync(path).isDirectory()) === true;

/** Whether a remembered log stands in the place it is remembered for, as far as it is remembered (spec/log.md). */
function stands({ evidence, origin, size, root }) {
  const name = logName(origin);
  const log = attemptFile(() => listLogs(evidence).logs.find((one) => one.name === name));
  if (log === undefined || log === null) return false;
  let found = null;
  const reader = new LogReader(name, log.segments, {
    blob: () => {},
    entry: () => {},
    note: (_, stored) => {
      const { tree } = reader;
      if (found === null && tree.size >= size)
        found = tree.size === size && tree.root().toString("hex") === root && isStored(stored);
    },
    fault: () => {},
    torn: () => {},
  });
  reader.read();
  return found === true;
}

/** The one run that is called, or begins, like this. */
function theRun(asked, checks) {
  const runs = new Set(checks.flatMap((check) => [...check.judge.calls.runs]));
  const found = runs.has(asked) ? [asked] : [...runs].filter((run) => run.startsWith(asked));
  if (found.length === 1) return found[0];
  if (found.length > 1) throw new CounterfoilError("CF-CLI-012", "more than one run begins like this");
  throw new CounterfoilError("CF-CLI-011", "no run is called or begins like this");
}
