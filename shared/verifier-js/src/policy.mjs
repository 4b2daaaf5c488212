/** Trust policies: their form, who believes one, and what its keys are worth (spec/trust.md). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "./bytes.mjs";
import { dumps, isObject, loads } from "./canonical.mjs";
import { Envelope } from "./dsse.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { PublicKey } from "./keys.mjs";
import { covers, isActorPattern, isCapability, isSorted } from "./patterns.mjs";
import { count, hex, list, object, oneOf, text } from "./schema.mjs";
import { parseStatement } from "./statements.mjs";

/** @typedef {"valid" | "unknown" | "outside" | "revoked" | "unproven"} Worth */

const RECEIVED = 524_288;
const PAYLOAD = 262_144;
const SKEW = 60_000;
const hex64 = hex(64);
const name = text(1024);
const word = (value) => typeof value === "string" && /^[!-~]{1,128}$/.test(value);
const refuse = (code, message) => new CounterfoilError(`CF-TRUST-${code}`, message);

const keyShape = object(
  {
    key: hex64,
    alg: oneOf("ed25519"),
    spki: text(256),
    notBefore: count(),
    status: oneOf("active", "superseded", "compromised"),
  },
  { notAfter: count(), since: count() },
);
const edgeShape = object(
  { from: name, to: name },
  {
    purposes: list(name, 1, 64),
    allow: list(text(256), 0, 64),
    maxDepth: count(0, 64),
    ttlMs: count(1),
    acceptTaint: list(text(64), 0, 16),
  },
);
const policyShape = object(
  {
    name: word,
    version: count(1),
    validFrom: count(),
    admins: object({ keys: list(hex64, 1, 16), threshold: count(1, 4) }),
    keys: list(keyShape, 1, 1024),
    agents: list(object({ id: name, keys: list(hex64, 1, 64), threshold: count(1, 4) }), 1, 1024),
  },
  {
    previous: hex64,
    edges: list(edgeShape, 0, 4096),
    ext: isObject,
    roots: list(name, 0, 1024),
    limits: object({}, { maxDepth: count(0, 64), ttlMs: count(1) }),
    time: object({}, { skewMs: count(0, 86_400_000) }),
  },
);
const KINDS = {
  "policy:v1": {
    shape: policyShape,
    subject: object({ digest: object({ sha256: hex64 }), name }),
    about: () => true,
  },
};
const rememberedShape = object({
  admins: object({ keys: list(hex64, 1, 16), threshold: count(1, 4) }),
  digest: hex64,
  name: word,
  policy: count(1),
  version: count(0, 0),
});

export class Policy {
  /** @param {Envelope} envelope @param {any} predicate */
  constructor(envelope, predicate) {
    this.envelope = envelope;
    this.digest = envelope.digest;
    this.predicate = predicate;
    this.skew = predicate.time?.skewMs ?? SKEW;
    /** @type {Map<string, any>} */
    this.keys = new Map(predicate.keys.map((key) => [key.key, { ...key, public: usable(key.spki) }]));
  }

  /** @param {Uint8Array | string} data the text of a policy's file @returns {Policy} */
  static parse(data) {
    if (Buffer.byteLength(data) > RECEIVED) throw refuse("001", "a policy is larger than 512 KiB");
    const { value, error } = attempt(() => {
      const envelope = Envelope.parse(data, { received: RECEIVED, normal: RECEIVED });
      return { envelope, statement: parseStatement(envelope.payload, { kinds: KINDS, most: PAYLOAD }) };
    });
    if (error !== null) throw refuse("002", "no envelope or statement of a policy");
    const { predicate, subject } = value.statement;
    if (
      subject.name !== predicate.name ||
      subject.digest.sha256 !== sha256(dumps(predicate)) ||
      !isConsistent(predicate)
    )
      throw refuse("003", "the members of a policy contradict each other");
    return new Policy(value.envelope, predicate);
  }

  /**
   * Throws unless this keyring's admins stand behind the policy.
   * @param {import("./keyring.mjs").Keyring} keyring
   * @param {number} now Unix milliseconds
   */
  believe(keyring, now) {
    const find = (keyid, carried) => (keyring.isAdmin(keyid) ? keyring.key(keyid, carried) : null);
    const signed = attempt(() => this.envelope.verify(find)).value ?? new Set();
    const { admins, name: called, version, validFrom, previous } = this.predicate;
    const counted = (keys) => keys.filter((key) => signed.has(key)).length;
    if (counted(admins.keys) < admins.threshold) throw refuse("004", "too few admins signed the policy");
    if (validFrom > now + this.skew) throw refuse("008", "the policy is not in force yet");
    const before = keyring.home === null ? null : remembered(keyring.home, called);
    if (before === null) return;
    if (version < before.policy) throw refuse("005", "a later version of this policy was believed before");
    if (version === before.policy && this.digest !== before.digest)
      throw refuse("006", "another policy of this name and version was believed before");
    if (version === before.policy) return;
    const follows = version > before.policy + 1 || previous === before.digest;
    if (counted(before.admins.keys) < before.admins.threshold || !follows)
      throw refuse("007", "the policy does not follow the one that was believed before");
  }

  /**
   * What a key is worth for a statement.
   * @param {string} fingerprint
   * @param {number} issued
   * @param {number | null} [proven] a time proven from outside
   * @returns {Worth}
   */
  worth(fingerprint, issued, proven = null) {
    const key = this.keys.get(fingerprint);
    if (key === undefined) return "unknown";
    const { notBefore, notAfter = Infinity, status, since } = key;
    if (issued < notBefore || issued > notAfter) return "outside";
    if (status === "active") return "valid";
    if (status === "superseded") return proven !== null && proven <= notAfter ? "valid" : "unproven";
    if (proven !== null && proven < since) return "valid";
    return issued >= since ? "revoked" : "unproven";
  }

  /** The agent that covers an actor: the exact one, else the longest. @param {string} actor */
  agent(actor) {
    let found = null;
    for (const agent of this.predicate.agents) {
      if (!covers(agent.id, actor)) continue;
      if (agent.id === actor) return agent;
      if (found === null || agent.id.length > found.id.length) found = agent;
    }
    return found;
  }

  /** Whether limits and edges allow a handoff. @param {any} predicate */
  allows(predicate) {
    const { edges, limits = {} } = this.predicate;
    if (!within(limits, predicate)) return false;
    return edges === undefined || edges.some((edge) => edgeAllows(edge, predicate));
  }
}

function within({ ttlMs, maxDepth }, { authority, expires, issued }) {
  if (ttlMs !== undefined && (expires === undefined || expires - issued > ttlMs)) return false;
  return maxDepth === undefined || authority === undefined || authority.maxDepth <= maxDepth;
}

function edgeAllows(edge, predicate) {
  const { sender, content, purpose, authority, taint = [] } = predicate;
  if (!covers(edge.from, sender.actor) || !covers(edge.to, content.to)) return false;
  if (edge.purposes !== undefined && !edge.purposes.includes(purpose)) return false;
  if (edge.allow !== undefined && authority !== undefined)
    if (!authority.allow.every((asked) => edge.allow.some((granted) => covers(granted, asked)))) return false;
  if (edge.acceptTaint !== undefined && !taint.every((one) => edge.acceptTaint.includes(one))) return false;
  return within(edge, predicate);
}

const usable = (spki) => attempt(() => PublicKey.fromText(spki)).value;

function isConsistent({ admins, agents, edges = [], keys, previous, roots = [], version }) {
  const listed = new Set(keys.map(({ key }) => key));
  const sorted = [admins.keys, keys.map(({ key }) => key), agents.map(({ id }) => id), roots];
  for (const { keys: of } of agents) sorted.push(of);
  for (const { purposes = [], allow = [], acceptTaint = [] } of edges)
    sorted.push(purposes, allow, acceptTaint);
  const patterns = [...roots, ...agents.map(({ id }) => id), ...edges.flatMap(({ from, to }) => [from, to])];
  return (
    sorted.every(isSorted) &&
    admins.threshold <= admins.keys.length &&
    (version === 1) === (previous === undefined) &&
    keys.every(isKey) &&
    agents.every(
      (agent) => agent.threshold <= agent.keys.length && agent.keys.every((key) => listed.has(key)),
    ) &&
    patterns.every(isActorPattern) &&
    edges.every(({ allow = [] }) => allow.every(isCapability))
  );
}

function isKey({ key, spki, notBefore, notAfter, status, since }) {
  if (usable(spki)?.fingerprint !== key) return false;
  if (notAfter !== undefined && notAfter < notBefore) return false;
  if (status === "superseded" && notAfter === undefined) return false;
  return (status === "compromised") === (since !== undefined);
}

/** What a home remembers of the policy of a name, or null. */
function remembered(home, called) {
  const path = join(home, "policies", `${sha256(called).slice(0, 32)}.json`);
  const untold = new CounterfoilError(
    "CF-KEYS-008",
    "the home cannot tell which policy was believed before",
    { where: path },
  );
  let bytes;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    if (error.code === "ENOENT") return null;
    throw untold;
  }
  const { value, error } = attempt(() => loads(bytes, { maxDepth: 4, maxBytes: 65_536 }));
  if (error !== null || !rememberedShape(value) || value.name !== called) throw untold;
  return value;
}

/**
 * The keyring of a policy: its keys take the place of the pinned ones.
 * @param {import("./keyring.mjs").Keyring} keyring
 * @param {Policy} policy
 */
export function keyringOf(keyring, policy) {
  return Object.assign(Object.create(keyring), {
    pins: new Map([...policy.keys].map(([fingerprint, key]) => [fingerprint, key.public])),
  });
}
