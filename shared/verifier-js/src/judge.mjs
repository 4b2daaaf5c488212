/** Judging the entries of one log in their order (spec/log.md, "Verifying"). Used for evidence and for bundles. */
import { attempt } from "./errors.mjs";
import { sha256 } from "./bytes.mjs";
import { isCount, isObject } from "./canonical.mjs";
import { Envelope } from "./dsse.mjs";
import { operation } from "./entries.mjs";
import { Counts, Findings } from "./findings.mjs";
import { headsOf, narrows } from "./authority.mjs";
import { PublicKey } from "./keys.mjs";
import { VALUE, isReference, looksLikeReference } from "./references.mjs";
import { failedRule } from "./rules.mjs";
import { isParent, parseParentSet, parseStatement, runOf, signerOf } from "./statements.mjs";
import { archivedBy } from "./archived.mjs";
import { Calls } from "./calls.mjs";
import { Citations } from "./citations.mjs";
import { Streams } from "./streams.mjs";
import { pushAll } from "./push.mjs";
import { isCited, readList } from "./weights.mjs";

/**
 * What a judge is told about the log it judges.
 * @typedef {object} Surroundings
 * @property {string} name the log's name
 * @property {import("./keyring.mjs").Keyring} keyring
 * @property {{there(part: any): boolean, load(digest: string): Buffer | null}} blobs
 * @property {import("./policy.mjs").Policy | null} [policy] one that is believed; then the keyring is of its keys
 */

const MOST_LIST = 64 * 1024 * 1024;
const MOST_RECORD = 32 * 1024;
const MOST_TAINTS = 16;

export class Judge {
  /** @param {Surroundings} surroundings */
  constructor({ name, keyring, blobs, policy = null }) {
    this.name = name;
    this.keyring = keyring;
    this.blobs = blobs;
    this.policy = policy;
    this.findings = new Findings();
    this.counts = new Counts();
    this.calls = new Calls(this);
    this.streams = new Streams(blobs);
    /** Whether the checkpoints of streams pass by too. */
    this.seesCheckpoints = true;
    this.citations = new Citations(this);
    /** @type {PublicKey | null} */
    this.identity = null;
    this.origin = "";
    /** Whether a record of a later version stands before. */
    this.later = false;
    /** @type {Map<string, {key: PublicKey, actor: string}>} keys bound in this session */
    this.bound = new Map();
    /** @type {Set<string>} digests of records and statements that stand before */
    this.before = new Set();
    /** @type {Map<string, string>} digest: kind, of the statements that stand before */
    this.statements = new Map();
    /** @type {Map<string, any>} predicates of the handoffs among them that later statements may build upon */
    this.grants = new Map();
    /** @type {Map<string, any>} predicates of the verified countersigned handoffs among them that were not sealed here */
    this.foreign = new Map();
    /** @type {{where: string, origin: string, size: number, root: string, own: boolean}[]} heads that statements told */
    this.told = [];
    /** @type {Set<string>} handoffs that a receipt accepted, each with the key of its receiver */
    this.accepted = new Set();
    /** @type {Set<string>} handoffs that the identity accepted in this log, and did not take back */
    this.acceptances = new Set();
    /** @type {Map<number, string>} valid checkpoints so far: size, root */
    this.checkpoints = new Map();
    /** @type {Map<string, {number: number, taints: Set<string>}>} lists of parents, by digest and size */
    this.lists = new Map();
    /** @type {Map<string, string>} digest: root, of the manifests of weights that stand before */
    this.manifests = new Map();
    /** @type {Map<string, ReturnType<typeof readList>>} lists of files, by digest and size */
    this.files = new Map();
    this.where = name;
    this.promised = false;
    /** @type {import("./archived.mjs").Archived[]} */
    this.archived = [];
    /** Where the identity's last word stands in the last session, or -1. */
    this.lastWord = -1;
  }

  /** Whether the session that would name the identity may be of a later version. */
  get blind() {
    return this.later && this.identity === null;
  }

  /** Whether the identity ended the log to keep it apart from those it cites, under a checkpoint. */
  get apart() {
    return this.lastWord >= 0 && [...this.checkpoints.keys()].some((size) => size > this.lastWord);
  }

  /** @param {string} code @param {string} message */
  find(code, message) {
    this.findings.add(code, this.where, message);
  }

  /**
   * @param {import("./entries.mjs").Entry} entry
   * @param {"record" | "envelope" | "later"} kind
   */
  entry(entry, kind) {
    this.where = `${this.name} entry ${entry.index}`;
    if (kind === "later") {
      this.later = true;
      this.find("CF-LOG-022", "a record is of a version that is not known here");
      return;
    }
    const text = bodyText(entry.text);
    if (kind === "record") this.record(entry, text);
    else this.envelope(entry, text);
  }

  record(entry, text) {
    const { body } = entry;
    this.counts.records += 1;
    this.references(body);
    if (!entry.plain || Buffer.byteLength(text) > MOST_RECORD)
      this.find("CF-VERIFY-012", "a record is longer than a record may be, or holds a float or null");
    this.handoffs(body.context.handoffs);
    this.recordParents(body.context.parents);
    this.recordWeights(body.context.weights);
    this.stream(body);
    this.tie(body);
    const op = operation(body);
    if (op === "session") this.session(body);
    else if (op === "closed") this.promised = false;
    else if (op === "archived") this.lastWord = entry.index;
    else if (op === "recovered") {
      this.promised = false;
      this.find("CF-VERIFY-020", "the writer stopped uncleanly before, and the log was recovered");
    }
    else if (op === "loss") {
      this.counts.losses += isCount(body.context.count, 1) ? body.context.count : 1;
      this.find("CF-VERIFY-021", "something was not recorded, and was counted");
    }
    this.before.add(sha256(text));
  }

  /** @param {import("./entries.mjs").RecordBody} body */
  stream(body) {
    if (!this.streams.isRight(body, { checkpoints: this.seesCheckpoints }))
      this.find("CF-VERIFY-013", "a stream that a record states is not what is stored of it");
  }

  /** @param {import("./entries.mjs").RecordBody} body */
  tie(body) {
    this.calls.record(body);
  }

  /** One finding for each reference, counted once, to something that is not there. */
  references({ content, context }) {
    const open = [content, context];
    const told = new Set();
    while (open.length > 0) {
      const value = open.pop();
      if (looksLikeReference(value)) {
        const name = JSON.stringify([value.media, value.sha256, value.size]);
        if (told.has(name) || (isReference(value) && this.blobs.there(value))) continue;
        told.add(name);
        this.find("CF-VERIFY-010", "stored bytes that an entry cites are missing");
      } else if (typeof value === "object" && value !== null) pushAll(open, Object.values(value));
    }
  }

  /** One finding for each parent that is not there, or is none; one for what is no list. A list apart is its bytes. */
  recordParents(list) {
    if (list === undefined || isReference(list)) return;
    const missing = "a record cites a parent that is not in this log";
    if (!Array.isArray(list)) this.find("CF-VERIFY-045", missing);
    else
      for (const one of list)
        if (!isParent(one) || !this.before.has(one.digest)) this.find("CF-VERIFY-045", missing);
  }

  /** The manifest that a record names stands before it, and tells the same root. */
  recordWeights(named) {
    if (named === undefined || (isCited(named) && this.manifests.get(named.statement) === named.root)) return;
    this.find("CF-VERIFY-056", "the weights that a record names are not in this log");
  }

  /** One finding for each handoff that is not there. */
  handoffs(given) {
    const missing = "the handoff that a call received is not in the log";
    if (given === undefined) return;
    if (!Array.isArray(given)) this.find("CF-VERIFY-011", missing);
    else for (const one of given) if (!this.statements.has(one)) this.find("CF-VERIFY-011", missing);
  }

  session({ context }) {
    const key = attempt(() => PublicKey.fromText(context.spki)).value;
    if (key === null) {
      this.find("CF-VERIFY-030", "a session names no usable key");
      return;
    }
    if (
      context.origin !== `${key.fingerprint}/${this.name}` ||
      (this.identity !== null && context.origin !== this.origin)
    ) {
      this.find("CF-VERIFY-031", "a session does not belong to this log");
      return;
    }
    if (this.identity === null) {
      this.identity = key;
      this.origin = context.origin;
      this.checkPin();
      this.checkStatus();
    }
    this.begin(context);
  }

  /** Whether the log's identity is trusted here. */
  checkPin() {
    if (!this.keyring.isPinned(this.identity.fingerprint))
      this.find("CF-VERIFY-032", "the log is signed by a key that is not pinned here");
  }

  /** Whether the policy, at the log's first session, still lets its identity count. */
  checkStatus() {
    const { fingerprint } = this.identity;
    const status = this.policy?.keys.get(fingerprint)?.status ?? "active";
    if (status !== "active") this.find("CF-TRUST-054", "the log's identity is superseded or compromised");
  }

  /** A session of this log: what the one before left open is over. */
  begin(context) {
    this.calls.ended();
    this.streams.open.clear();
    this.leftUnclosed();
    this.promised = context.closes === true;
    this.lastWord = -1;
    this.bound.clear();
    if (Array.isArray(context.replaced) && context.replaced.some(isObject))
      this.find("CF-VERIFY-060", "other logs stood here before the folder was made anew");
    if (context.seen !== undefined) this.citations.session(context.seen);
  }

  /** A session that says it will be closed and is not: what came after its last checkpoint is not known. */
  leftUnclosed() {
    if (this.promised)
      this.find("CF-VERIFY-027", "the session before was never closed: what came after its end is not known");
    this.promised = false;
  }

  /** A list that stands apart: the bytes of a blob that is there, or null. */
  list(reference) {
    const bytes = reference.size > MOST_LIST ? null : this.blobs.load(reference.sha256);
    return bytes !== null && bytes.length === reference.size ? bytes : null;
  }

  key(keyid, carried) {
    if (this.identity !== null && this.identity.fingerprint === keyid) return this.identity;
    return this.bound.get(keyid)?.key ?? this.keyring.key(keyid, carried);
  }

  envelope(entry, text) {
    this.counts.statements += 1;
    const { value: envelope, error } = attempt(() => Envelope.parse(text));
    if (error !== null) {
      this.find(error.code, error.message);
      return;
    }
    if (envelope.toText() !== text) {
      this.find("CF-VERIFY-040", "an envelope is not in its normal form");
      return;
    }
    const signed = attempt(() => envelope.verify((keyid, carried) => this.key(keyid, carried)));
    const { value: statement, error: fault } = attempt(() => parseStatement(envelope.payload));
    if (statement === null) this.find(fault.code, fault.message);
    else {
      if (signed.error !== null) this.unverified(signed.error, statement, envelope);
      else this.statement(statement, signed.value);
      this.statements.set(statement.digest, statement.kind);
      this.before.add(statement.digest);
      if (statement.kind === "weights") this.manifests.set(statement.digest, statement.predicate.root);
      this.keep(statement);
      const run = runOf(statement, this.origin);
      if (run !== null) this.calls.runs.add(run);
    }
  }

  /** Keeps of a handoff what the statements behind it are compared with. */
  keep({ digest, kind, predicate }) {
    const { authority, taint, proof } = predicate;
    if (kind === "handoff" && (authority !== undefined || taint !== undefined || proof === "countersigned"))
      this.grants.set(digest, predicate);
  }

  unverified(error, { kind, predicate }, envelope) {
    const foreign = kind === "receipt" || kind === "weights" || predicate.proof === "countersigned";
    const claimed = envelope.signatures.some(({ keyid }) => keyid === signerOf(predicate));
    if (error.code !== "CF-DSSE-010" || !foreign || !claimed) {
      if (this.blind && error.code === "CF-DSSE-010") return;
      this.find(error.code, error.message);
      return;
    }
    if (kind === "handoff") this.counts.handoffs += 1;
    this.find("CF-VERIFY-042", "a statement comes from a sender whose key is not known here");
  }

  statement({ digest, kind, predicate }, verified) {
    if (kind === "binding") this.binding(predicate, verified);
    else if (kind === "archive") this.archive(predicate, verified);
    else if (!verified.has(signerOf(predicate))) {
      this.find("CF-VERIFY-041", "a statement names another key than the one that signed it");
      return;
    } else if (kind === "weights") this.weights(predicate);
    else {
      if (kind === "handoff") this.handoff(predicate, digest);
      else this.receipt(predicate);
      for (const head of headsOf(predicate)) this.told.push({ ...head, where: this.where });
    }
    this.judgeByPolicy(kind, predicate, verified);
  }

  /** The first rule of the trust policy that fails, if there is a policy (spec/trust.md). */
  judgeByPolicy(kind, predicate, verified) {
    if (this.policy === null || this.identity === null) return;
    const failed = failedRule(this.policy, kind, predicate, this.identity.fingerprint, verified);
    if (failed !== null) this.find(failed.code, failed.message);
  }

  binding(predicate, verified) {
    if (this.blind) return undefined;
    const bad = () =>
      this.find("CF-VERIFY-043", "a binding is not the identity's own for this log, or its key does not fit");
    if (
      this.identity === null ||
      !verified.has(this.identity.fingerprint) ||
      predicate.origin !== this.origin
    )
      return bad();
    const key = attempt(() => PublicKey.fromText(predicate.spki)).value;
    if (key === null || key.fingerprint !== predicate.key || key.fingerprint === this.identity.fingerprint)
      return bad();
    this.bound.set(key.fingerprint, { key, actor: predicate.actor });
    return undefined;
  }

  archive(predicate, verified) {
    if (this.blind) return;
    const fingerprint = this.identity?.fingerprint ?? "";
    const log = {
      fingerprint,
      origin: this.origin,
      list: (reference) => this.list(reference),
      there: (reference) => this.blobs.there(reference),
    };
    const found = verified.has(fingerprint) ? archivedBy(predicate, log) : null;
    if (found === null)
      this.find("CF-VERIFY-070", "an archive statement is not the identity's own, or its list does not fit");
    else this.archived.push(found);
  }

  handoff(predicate, digest) {
    this.counts.handoffs += 1;
    const { proof, sender } = predicate;
    const ours = proof === "recorded" || sender.key === this.identity?.fingerprint;
    if (proof === "recorded" || (ours && predicate.own?.origin === this.origin)) this.payload(predicate);
    else this.foreign.set(digest, predicate); // where its payload is not there, that is said at the receipt that accepts it
    this.own("handoff", predicate);
    if (proof === "recorded") {
      if (!this.blind && this.bound.get(sender.key)?.actor !== sender.actor)
        this.find("CF-VERIFY-044", "a handoff is signed by a key that is not bound to its actor");
      this.parents(predicate);
    }
    this.authority(predicate);
    if (ours || this.bound.has(sender.key)) this.taint(predicate);
  }

  payload({ content, payload }) {
    if (!this.blobs.there({ media: payload.media, sha256: content.payload, size: payload.size }))
      this.find("CF-VERIFY-046", "the payload of a handoff is not in this log");
  }

  own(kind, predicate) {
    const { own } = predicate;
    if (own === undefined || this.blind || !this.comparesOwn({ kind, predicate })) return;
    if (own.origin !== this.origin || this.checkpoints.get(own.size) !== own.root)
      this.find("CF-VERIFY-047", "a statement names a checkpoint that this log never had");
  }

  authority(predicate) {
    const from = predicate.authority?.from;
    if (from === undefined) return;
    const grant = this.grants.get(from);
    if (grant === undefined || !narrows(predicate, grant))
      this.find("CF-TRUST-040", "a handoff gives authority that its sender does not have");
  }

  taint({ parents, parentSet, taint = [] }) {
    const foreign = [...this.taintsOf(parents), ...this.parentSet(parentSet).taints];
    if (!foreign.every((one) => taint.includes(one)))
      this.find("CF-TRUST-041", "a handoff drops a taint of what it follows from");
  }

  /** Whether `own` of a statement must be a checkpoint of this log before it. */
  comparesOwn({ predicate: { proof, sender, own } }) {
    return proof === "recorded" || (sender.key === this.identity?.fingerprint && own?.origin === this.origin);
  }

  /** One finding for each parent that is not there, and one for a list of them. */
  parents({ parents, parentSet }) {
    for (const { digest } of parents)
      if (!this.before.has(digest))
        this.find("CF-VERIFY-045", "a handoff cites a parent that is not in this log");
    if (parentSet === undefined) return;
    if (this.parentSet(parentSet).number !== parentSet.count)
      this.find("CF-VERIFY-045", "a handoff cites a list of parents that is not, or not whole, in this log");
  }

  /** Taints of parents; of more than a handoff can have, one more than that. */
  taintsOf(parents) {
    const found = new Set();
    for (const { digest } of parents) {
      for (const one of this.grants.get(digest)?.taint ?? []) found.add(one);
      if (found.size > MOST_TAINTS) break;
    }
    return found;
  }

  /**
   * How many parents the list holds that a `parentSet` names (0 where it is none, or not all are there), and their
   * taints. Each list is looked into once: many handoffs may name one that is long.
   */
  parentSet(given) {
    if (given === undefined) return { number: 0, taints: new Set() };
    const name = `${given.sha256} ${given.size}`;
    if (!this.lists.has(name)) this.lists.set(name, this.readParents(given));
    return this.lists.get(name);
  }

  readParents({ sha256, size }) {
    const bytes = this.list({ media: VALUE, sha256, size });
    const parents = (bytes === null ? null : attempt(() => parseParentSet(bytes)).value) ?? [];
    const whole = parents.every(({ digest }) => this.before.has(digest));
    return { number: whole ? parents.length : 0, taints: this.taintsOf(parents) };
  }

  /** The list of a manifest's files is here and adds up; each list is looked into once. */
  weights({ files, root }) {
    const name = `${files.list.sha256} ${files.list.size}`;
    if (!this.files.has(name)) this.files.set(name, readList(this.list(files.list)));
    const found = this.files.get(name);
    if (found?.count !== files.count || found.size !== files.size || found.root !== root)
      this.find("CF-VERIFY-055", "the list of a manifest's files is not in this log, or not what it says");
  }

  receipt(predicate) {
    const { handoff, status, sender, nonce, own } = predicate;
    this.own("receipt", predicate);
    const ours = sender.key === this.identity?.fingerprint;
    if (status === "refused" && nonce !== undefined && ours && this.acceptances.delete(handoff))
      this.find("CF-VERIFY-049", "an acceptance was taken back: another process accepted as well, or nobody could tell");
    if (status !== "accepted") return;
    // What names another log of this identity is a copy of the receipt that stands, or was taken back, there.
    const here = ours && (own === undefined || own.origin === this.origin);
    const taken = `${sender.key} ${handoff}`;
    if (this.statements.get(handoff) !== "handoff" || this.accepted.has(taken))
      this.find("CF-VERIFY-048", "a receipt accepts a handoff that is not in this log, or accepts one twice");
    else if (here) this.acceptances.add(handoff);
    this.accepted.add(taken);
    const about = this.foreign.get(handoff);
    if (about === undefined || (this.sealedElsewhere(about) && !here)) return;
    this.foreign.delete(handoff);
    this.payload(about);
  }

  /** Whether this identity sealed a handoff in another log, where its payload is. */
  sealedElsewhere({ own, sender }) {
    return own !== undefined && sender.key === this.identity?.fingerprint;
  }
}

/** The canonical text of an entry's body: what stands between `{"body":` and the last `,"i":`. @param {string} text */
export function bodyText(text) {
  return text.slice(8, text.lastIndexOf(',"i":'));
}
