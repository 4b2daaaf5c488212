/** In-toto statements of Counterfoil's profile (spec/statement.md). */
import { sha256 } from "./bytes.mjs";
import { hasExactly, isObject, readCanonical } from "./canonical.mjs";
import { CounterfoilError, attempt } from "./errors.mjs";
import { isCapability, isSorted } from "./patterns.mjs";
import { count, flag, hex, list, object, oneOf, text, that } from "./schema.mjs";
import { WEIGHTS } from "./weights.mjs";

/** @typedef {{digest: string, kind: string, predicate: Record<string, any>, subject: Record<string, any>}} Statement */

export const PREFIX = "urn:counterfoil:";
const TYPE = "https://in-toto.io/Statement/v1";
const MAX_BYTES = 8_192;
const DEPTH = 16;
const refuse = (code, message) => new CounterfoilError(`CF-STMT-${code}`, message);

const hex64 = hex(64);
const short = text(64, 0);
const name = text(1024);
const relation = oneOf("control", "data", "call", "return");
const head = object({ origin: name, root: hex64, size: count(1) });
const parent = object({ digest: hex64, rel: relation });
/** Whether a value is a parent of a record: of any relation. @type {import("./schema.mjs").Shape} */
export const isParent = object({ digest: hex64, rel: text(Infinity) });
const sender = object({ actor: name, key: hex64 });

/** What a later writer says more: passed over. */
const ext = isObject;

const taint = that(list(text(64), 0, 16), isSorted);
const authority = object(
  { allow: that(list(isCapability, 1, 64), isSorted), expires: count(), maxDepth: count(0, 64) },
  { from: hex64 },
);

const handoffContent = object(
  {
    basis: oneOf("sealed", "observed"),
    from: list(name, 1, 256),
    to: name,
    kind: oneOf("edge", "join", "enter", "command", "send", "call", "return", "continue", "message"),
    payload: hex64,
  },
  {
    parents: list(object({ address: text(8192, 0), rel: relation }), 0, 16),
    parentSet: object({ count: count(1), sha256: hex64 }),
  },
);

const handoff = object(
  {
    content: handoffContent,
    exact: flag,
    issued: count(),
    parents: list(parent, 0, 16),
    payload: object({ media: name, size: count() }),
    proof: oneOf("recorded", "countersigned"),
    sender,
  },
  {
    audience: name,
    authority,
    call: short,
    expires: count(),
    ext,
    nonce: hex(32),
    own: head,
    parentSet: object({ count: count(1), sha256: hex64, size: count(1) }),
    policy: hex64,
    purpose: name,
    reason: name,
    run: short,
    seen: list(head, 0, 16),
    taint,
  },
);

const receipt = object(
  {
    handoff: hex64,
    status: oneOf("accepted", "refused", "completed", "failed"),
    issued: count(),
    sender,
    checks: list(name),
  },
  { ext, nonce: hex(32), own: head, policy: hex64, reason: name, run: short, seen: list(head, 0, 16) },
);

const binding = object({ actor: name, key: hex64, spki: text(256, 0), origin: name, issued: count() }, { ext });

const archive = object(
  {
    bytes: count(),
    first: count(),
    issued: count(),
    last: count(),
    log: head,
    manifest: object({ sha256: hex64, size: count(1) }),
    place: name,
    runs: count(),
    verdict: oneOf("intact", "incomplete"),
  },
  { ext, retain: count() },
);

const weights = object(
  {
    cached: count(),
    files: object({
      count: count(1),
      list: object({ media: oneOf(WEIGHTS), sha256: hex64, size: count(1) }),
      size: count(),
    }),
    issued: count(),
    key: hex64,
    name,
    root: hex64,
    without: that(list(name, 0, 64), isSorted),
  },
  { ext, source: object({ repo: name }, { revision: name }) },
);

/** Predicates by type: their shape, and whether a subject is what the predicate is about. @type {Record<string, Kind>} */
const KINDS = {
  "handoff:v1": {
    shape: handoff,
    subject: object({
      digest: object({ "counterfoil-v1": hex64 }, { sha256: hex64 }),
      name: oneOf("payload"),
    }),
    about: (subject, predicate) => subject.digest["counterfoil-v1"] === predicate.content.payload,
  },
  "receipt:v1": {
    shape: receipt,
    subject: object({ digest: object({ sha256: hex64 }), name: oneOf("handoff") }),
    about: (subject, predicate) => subject.digest.sha256 === predicate.handoff,
  },
  "binding:v1": {
    shape: binding,
    subject: object({ digest: object({ sha256: hex64 }), name }),
    about: (subject, predicate) =>
      subject.digest.sha256 === predicate.key && subject.name === predicate.actor,
  },
  "archive:v1": {
    shape: archive,
    subject: object({ digest: object({ sha256: hex64 }), name }),
    about: (subject, predicate) =>
      subject.digest.sha256 === predicate.manifest.sha256 && subject.name === predicate.log.origin,
  },
  "weights:v1": {
    shape: weights,
    subject: object({ digest: object({ sha256: hex64 }), name }),
    about: (subject, predicate) =>
      subject.digest.sha256 === predicate.root && subject.name === predicate.name,
  },
};

/** @typedef {{shape: import("./schema.mjs").Shape, subject: import("./schema.mjs").Shape, about: (subject: any, predicate: any) => boolean}} Kind */

/**
 * Parses the payload of an envelope. Verify its signatures first.
 * @param {Buffer} payload
 * @param {{kinds?: Record<string, Kind>, most?: number}} [profile] the predicates that are known, and the size in bytes
 * @returns {Statement}
 */
export function parseStatement(payload, { kinds = KINDS, most = MAX_BYTES } = {}) {
  if (payload.length > most) throw refuse("001", "a statement is longer than 8 KiB");
  const { value: reading, error } = attempt(() => readCanonical(payload, { maxDepth: DEPTH }));
  if (error !== null) throw refuse("002", "a statement is not canonical");
  const { value, nulls, doubles } = reading;
  if (!hasExactly(value, "_type", "predicate", "predicateType", "subject") || value._type !== TYPE)
    throw refuse("003", "not an in-toto Statement v1");
  if (nulls > 0 || doubles > 0) throw refuse("006", "a statement holds a null or a float");
  const { predicateType: type, predicate, subject: subjects } = value;
  const kind = typeof type === "string" && type.startsWith(PREFIX) ? type.slice(PREFIX.length) : "";
  if (!Object.hasOwn(kinds, kind)) throw refuse("004", "the predicate type is unknown");
  const bad = refuse("005", "a member of a statement is missing, unknown, of a wrong type or out of range");
  const rules = kinds[kind];
  if (!Array.isArray(subjects) || subjects.length !== 1 || !rules.subject(subjects[0])) throw bad;
  if (!isObject(predicate) || !rules.shape(predicate) || !rules.about(subjects[0], predicate)) throw bad;
  return { digest: sha256(payload), kind: kind.slice(0, kind.indexOf(":")), predicate, subject: subjects[0] };
}

/**
 * The run that a statement belongs to in the log of an origin, or null: others' word, and what this identity signed into
 * another log, makes no run here (spec/record.md, "Runs").
 * @param {Statement | null} statement
 * @param {string} origin
 * @returns {string | null}
 */
export function runOf(statement, origin) {
  if (statement === null || statement.predicate.run === undefined) return null;
  const { own, proof, run, sender } = statement.predicate; // an archive has no run
  const here = sender.key === origin.slice(0, 64) && (own === undefined || own.origin === origin);
  return proof === "recorded" || here ? run : null;
}

/** The fingerprint of the key that a statement names as its signer's, if it names one. @param {any} predicate */
export const signerOf = ({ key, sender }) => sender?.key ?? key;

/**
 * The parents in the blob of a `parentSet`: the canonical text of a sorted list, each once.
 * @param {Uint8Array} blob
 * @returns {{digest: string, rel: string}[]}
 */
export function parseParentSet(blob) {
  const bad = refuse("007", "a stored list of parents is malformed");
  const { value: reading, error } = attempt(() => readCanonical(blob));
  if (error !== null || !list(parent)(reading.value)) throw bad;
  return reading.value;
}

const order = (a, b) =>
  a.digest === b.digest ? (a.rel < b.rel ? -1 : a.rel > b.rel ? 1 : 0) : a.digest < b.digest ? -1 : 1;

/** Parents as statements hold them: sorted by digest, then relation, each once. @param {{digest: string, rel: string}[]} given */
export function sortParents(given) {
  return [...given].sort(order).filter((one, index, all) => index === 0 || order(all[index - 1], one) !== 0);
}
