/** Verifying a bundle (spec/bundle.md). */
import { Content } from "./bundle-content.mjs";
import { readBundle } from "./bundle-form.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { Counts, Findings } from "./findings.mjs";
import { acceptedAgain, forks } from "./authority.mjs";
import { Judge } from "./judge.mjs";
import { keyringOf } from "./policy.mjs";
import { pushAll } from "./push.mjs";

export { isBundle } from "./bundle-lines.mjs";

/**
 * @param {string} path
 * @param {import("./keyring.mjs").Keyring} keyring
 * @param {{policy?: import("./policy.mjs").Policy | null, now?: number}} [options] `now` in Unix milliseconds
 * @returns {import("./evidence.mjs").Verification}
 */
export function verifyBundle(path, keyring, { policy = null, now = Date.now() } = {}) {
  const findings = new Findings();
  const counts = new Counts();
  const doubt = policy === null ? null : attempt(() => policy.believe(keyring, now)).error;
  if (doubt !== null) findings.add(doubt.code, doubt.where, doubt.message);
  const believed = doubt === null ? policy : null;
  const keys = believed === null ? keyring : keyringOf(keyring, believed);
  const { value: content, error } = attempt(() => {
    const read = new Content(readBundle(path));
    read.check();
    return read;
  });
  if (error instanceof CounterfoilError) findings.add(error.code, error.where, error.message);
  else new BundleCheck(content, keys, findings, counts, believed).check();
  const { list, notes, verdict } = findings.capped();
  return { verdict, findings: list, notes, counts };
}

/** Judges the records and statements of one section. */
class SectionJudge extends Judge {
  /** @param {import("./bundle-section.mjs").Section} section @param {BundleCheck} check */
  constructor(section, check) {
    super({ name: section.name, keyring: check.keyring, blobs: check.bundle.blobs, policy: check.policy });
    this.section = section;
    this.carried = check.carried;
    this.run = check.bundle.asked.run;
    this.identity = section.key;
    this.origin = section.origin;
    /** Verified handoffs signed by the identity, by the index of their entry. */
    this.byIdentity = new Set();
    this.seesCheckpoints = false;
    this.checkPin();
    this.begun = false;
  }

  /** In a bundle the end of a session ends no call, and which checkpoints it cites is looked at elsewhere. */
  begin(context) {
    this.bound.clear();
    if (!this.begun) this.checkStatus();
    this.begun = true;
    if (context.seen !== undefined) this.citations.session(context.seen);
  }

  /** Parents of records that are not here are absent, and counted as such. */
  recordParents() {}

  /** Manifests of weights stand in the log only, and so do the lists of their files. */
  recordWeights() {}

  weights() {}

  /** Records of runs that were not asked for tie nothing. */
  tie(body) {
    if (this.run !== undefined && body.context.run === this.run) this.calls.record(body);
  }

  key(keyid, carried) {
    return super.key(keyid, carried) ?? this.keyring.key(keyid, this.carried.get(keyid) ?? null);
  }

  handoff(predicate, digest) {
    if (predicate.sender.key === this.identity.fingerprint) this.byIdentity.add(this.index);
    super.handoff(predicate, digest);
  }
}

class BundleCheck {
  /** @param {Content} content */
  constructor(content, keyring, findings, counts, policy) {
    this.policy = policy;
    this.content = content;
    this.bundle = content.bundle;
    this.keyring = keyring;
    this.findings = findings;
    this.counts = counts;
    this.carried = new Map(this.bundle.keys.map(({ key }) => [key.fingerprint, key.spki]));
    this.started = false;
    /** Absent digests by what they mean. */
    this.told = new Set();
    /** @type {Set<string>} lists of parents, and of other logs' checkpoints, that were looked into */
    this.lists = new Set();
    this.stood = new Set();
    this.missing = new Set();
    this.foreign = new Set();
    this.absent = new Set(this.bundle.absent.map(({ digest }) => digest));
  }

  check() {
    const told = [];
    const judged = this.bundle.sections.map((section) => this.section(section));
    for (const one of judged) pushAll(told, one.told);
    const here = new Set(this.bundle.sections.map(({ origin }) => origin));
    for (const { where } of forks(told.filter(({ own, origin }) => own && !here.has(origin))))
      this.findings.add("CF-TRUST-042", where, "a peer told two histories of its log");
    for (const name of acceptedAgain(judged))
      this.findings.add("CF-VERIFY-048", name, "a handoff was accepted in another log as well");
    if (this.bundle.asked.run !== undefined && !this.started)
      this.findings.add("CF-BUNDLE-026", "", "the run's start is not here");
    const missing = [...this.missing].filter((digest) => !this.told.has(digest)).length;
    if (missing > 0)
      this.findings.add("CF-BUNDLE-024", "", `${missing} of the digests that entries follow from are absent`);
    const foreign = [...this.foreign].filter(
      (digest) => !this.told.has(digest) && !this.missing.has(digest),
    ).length;
    if (foreign > 0)
      this.findings.add("CF-BUNDLE-025", "", `the ancestry goes on elsewhere: ${foreign} digests are absent`);
    this.counts.logs = this.bundle.sections.length;
    this.counts.blobs = this.bundle.blobs.held.size;
  }

  section(section) {
    const judge = new SectionJudge(section, this);
    this.remembered(section, judge);
    const heads = [...section.heads];
    for (const item of this.content.bySection(section)) {
      const { entry } = item;
      for (; heads.length > 0 && heads[0].size <= entry.index; heads.shift())
        judge.checkpoints.set(heads[0].size, heads[0].root);
      const wanted = this.content.wanted.has(item);
      if (!wanted && !(entry.kind === "later" && this.content.inSpan(item))) continue;
      judge.index = entry.index;
      judge.entry(entry, entry.kind);
      if (!wanted) continue;
      this.heads(item, judge);
      this.absentOf(item, judge);
      const { content, context } = item.record ?? {};
      if (
        content?.phase === "start" &&
        context.call === this.bundle.asked.run &&
        typeof context.call === "string"
      )
        this.started = true;
    }
    judge.where = section.name;
    judge.counts.open = judge.calls.open.size;
    judge.calls.ended();
    const span = this.content.spans.get(section);
    if (span !== undefined && section.gaps.some(({ from, to }) => from <= span.to && to > span.from))
      judge.find("CF-BUNDLE-023", "entries within the run are left out");
    this.findings.addAll(judge.findings);
    this.counts.addAll(judge.counts);
    const { name, identity, acceptances, told } = judge;
    return { name, identity, acceptances, told };
  }

  remembered(section, judge) {
    for (const { origin, size, root } of this.keyring.heads) {
      const here = origin === section.origin ? section.rootAt(size) : null;
      if (here !== null && here !== root)
        judge.find("CF-VERIFY-053", "this machine remembers another history of this log");
    }
  }

  /** Heads of logs in the bundle that an entry cites must be theirs. */
  heads(item, judge) {
    for (const { head, section } of this.content.heads(item, this.stood)) {
      if (head.own === true && head.origin === judge.origin && judge.comparesOwn(item.statement)) continue;
      if (head.size > section.size || section.rootAt(head.size) !== head.root)
        judge.find("CF-VERIFY-005", "an entry cites another history of a log, or a longer one");
    }
  }

  absentOf(item, judge) {
    const { statement, entry } = item;
    for (const { digest, by } of this.content.cited(item, this.lists)) {
      if (!this.absent.has(digest)) continue;
      const recorded = by === "handoff" && statement.predicate.proof === "recorded";
      const accepted = by === "receipt" && statement.predicate.status === "accepted";
      if (by === "handoffs" || by === "grant" || recorded || accepted) this.told.add(digest);
      else if (by === "parents" || (by === "handoff" && judge.byIdentity.has(entry.index)))
        this.missing.add(digest);
      else this.foreign.add(digest);
    }
  }
}
