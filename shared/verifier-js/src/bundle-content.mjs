/** What a bundle must hold and may hold: the wanted entries and what they cite (spec/bundle.md, "What is in it"). */
import { HEX64, sha256 } from "./bytes.mjs";
import { readCanonical } from "./canonical.mjs";
import { fault } from "./bundle-lines.mjs";
import { isCitation } from "./citations.mjs";
import { Envelope } from "./dsse.mjs";
import { operation } from "./entries.mjs";
import { attempt } from "./errors.mjs";
import { bodyText } from "./judge.mjs";
import { parseCheckpoint, parseNote } from "./notes.mjs";
import { VALUE, isReference, looksLikeReference } from "./references.mjs";
import { parseParentSet, parseStatement, runOf } from "./statements.mjs";
import { pushAll } from "./push.mjs";

/** @typedef {import("./bundle-section.mjs").Section} Section */
/**
 * An entry of a bundle, with what the rules look at.
 * @typedef {object} Item
 * @property {Section} section
 * @property {import("./bundle-section.mjs").BundleEntry} entry
 * @property {string} digest "" where it has none
 * @property {any} record its body, or null
 * @property {import("./statements.mjs").Statement | null} statement
 * @property {Envelope | null} envelope
 */
/** @typedef {{digest: string, by: "parents" | "handoffs" | "decision" | "handoff" | "grant" | "receipt"}} Cited */

const MOST_LIST = 64 * 1024 * 1024;
const LASTING = ["session", "recovered", "loss"];
const isDigest = (value) => typeof value === "string" && HEX64.test(value);

/** @param {Section} section @param {any} entry @returns {Item} */
function itemOf(section, entry) {
  const item = { section, entry, digest: "", record: null, statement: null, envelope: null };
  if (entry.kind === "record") return { ...item, digest: sha256(bodyText(entry.text)), record: entry.body };
  if (entry.kind !== "envelope") return item;
  const { value: envelope } = attempt(() => Envelope.parse(bodyText(entry.text)));
  if (envelope === null) return item;
  const { value: statement } = attempt(() => parseStatement(envelope.payload));
  return { ...item, digest: envelope.digest, envelope, statement };
}

export class Content {
  /** @param {import("./bundle-form.mjs").Bundle} bundle */
  constructor(bundle) {
    this.bundle = bundle;
    /** @type {Item[]} */
    this.items = bundle.sections.flatMap((section) => section.entries.map((entry) => itemOf(section, entry)));
    /** @type {Map<string, Item[]>} */
    this.byDigest = new Map();
    /** @type {Map<string, Item[]>} receipts by the handoff they are about */
    this.receipts = new Map();
    /** @type {Map<string, Item[]>} starts and ends by log, run and call */
    this.calls = new Map();
    /** @type {Map<Section, {from: number, to: number}>} */
    this.spans = new Map();
    /** @type {Set<Item>} */
    this.wanted = new Set();
    /** @type {Map<Section, Item[]>} */
    this.ofSection = new Map(bundle.sections.map((section) => [section, []]));
    /** @type {Map<Section, Item[]>} session records, in the order of the log */
    this.sessions = new Map();
    /** @type {Map<string, Item[]>} bindings by log and key, in the order of the log */
    this.bindings = new Map();
    /** @type {Set<string>} lists whose parents were followed */
    this.followed = new Set();
    this.index();
  }

  index() {
    const put = (map, key, item) => void (map.get(key)?.push(item) ?? map.set(key, [item]));
    for (const item of this.items) {
      this.ofSection.get(item.section).push(item);
      if (operation(item.record) === "session") put(this.sessions, item.section, item);
      if (item.statement?.kind === "binding")
        put(this.bindings, `${item.section.origin} ${item.statement.predicate.key}`, item);
      if (item.digest !== "") put(this.byDigest, item.digest, item);
      if (item.statement?.kind === "receipt") put(this.receipts, item.statement.predicate.handoff, item);
      const { content, context } = item.record ?? {};
      if (
        content !== undefined &&
        typeof context.call === "string" &&
        ["start", "end"].includes(content.phase)
      )
        put(this.calls, callKey(item.section, context.run, context.call), item);
    }
  }

  /** Entries of the run asked for, or of the handoff. */
  askedFor() {
    const { run, handoff } = this.bundle.asked;
    if (handoff !== undefined)
      return (this.byDigest.get(handoff) ?? []).filter(({ statement }) => statement?.kind === "handoff");
    return this.items.filter(
      ({ record, section, statement }) =>
        (record === null ? runOf(statement, section.origin) : record.context.run) === run,
    );
  }

  /** Finds the wanted entries; throws the first fault of what is here and what is not. */
  check() {
    const asked = this.askedFor();
    if (asked.length === 0) throw fault("CF-BUNDLE-020", "there is no entry of what was asked for", 2);
    if (this.bundle.asked.run !== undefined) this.findSpans(asked);
    const first = [
      ...asked,
      ...this.items.filter((item) => this.inSpan(item) && LASTING.includes(operation(item.record))),
    ];
    this.close(first);
    this.checkEntries();
    this.checkHeads();
    this.checkBlobs();
    this.checkAbsent();
    this.checkKeys();
  }

  findSpans(asked) {
    for (const { section, entry, record } of asked) {
      if (record !== null && record.content.phase === "end" && record.context.late === true) continue;
      const span = this.spans.get(section);
      if (span === undefined) this.spans.set(section, { from: entry.index, to: entry.index });
      else span.to = entry.index;
    }
  }

  /** @param {Item} item */
  inSpan({ section, entry }) {
    const span = this.spans.get(section);
    return span !== undefined && entry.index >= span.from && entry.index <= span.to;
  }

  close(first) {
    const open = [...first];
    while (open.length > 0) {
      const item = open.pop();
      if (this.wanted.has(item)) continue;
      this.wanted.add(item);
      for (const one of this.following(item)) open.push(one);
    }
  }

  /** @param {Item} item @returns {Item[]} */
  following(item) {
    const found = this.cited(item, this.followed).flatMap(({ digest }) => this.byDigest.get(digest) ?? []);
    const { section, record, statement } = item;
    if (record !== null) {
      const { call, parent, run } = record.context;
      if (typeof call === "string") pushAll(found, this.calls.get(callKey(section, run, call)) ?? []);
      const above = typeof parent === "string" ? (this.calls.get(callKey(section, run, parent)) ?? []) : [];
      pushAll(found, above.filter((one) => one.record.content.phase === "start"));
    }
    if (statement?.kind === "handoff") pushAll(found, this.receipts.get(item.digest) ?? []);
    const session = this.session(item);
    if (session !== null) found.push(session);
    const binding = this.binding(item, session);
    if (binding !== null) found.push(binding);
    return found;
  }

  /**
   * Digests that an entry cites. `lists` are the lists that its caller looked into: each is once, for many entries may
   * name one that is long.
   * @param {Item} item @param {Set<string>} lists @returns {Cited[]}
   */
  cited({ record, section, statement }, lists) {
    const all = [];
    const put = (by, digests) => {
      for (const digest of digests) if (isDigest(digest)) all.push({ by, digest });
    };
    const first = (sort, { sha256, size }) => {
      const name = `${section.origin} ${sort} ${sha256} ${size}`;
      return !lists.has(name) && lists.add(name) !== null;
    };
    if (record !== null) {
      const { parents } = record.context;
      if (!isReference(parents) || first("parents", parents))
        put(
          "parents",
          this.parents(parents).map((one) => one?.digest),
        );
      put("handoffs", Array.isArray(record.context.handoffs) ? record.context.handoffs : []);
      put("decision", [record.content.handoff]);
    }
    if (statement?.kind === "receipt") put("receipt", [statement.predicate.handoff]);
    if (statement?.kind === "handoff") {
      const { authority, parents, parentSet, proof, sender } = statement.predicate;
      const sort = `${proof} ${sender.key === section.key.fingerprint}`;
      const fresh = parentSet !== undefined && first(sort, parentSet);
      const bytes = fresh ? this.list({ media: VALUE, ...parentSet }) : null;
      const listed = bytes === null ? null : attempt(() => parseParentSet(bytes)).value;
      put("grant", [authority?.from]);
      for (const one of [parents, listed ?? []])
        put(
          "handoff",
          one.map(({ digest }) => digest),
        );
    }
    return all;
  }

  parents(given) {
    if (Array.isArray(given)) return given;
    const bytes = isReference(given) ? this.list(given) : null;
    const value = bytes === null ? null : attempt(() => readCanonical(bytes)).value?.value;
    return Array.isArray(value) ? value : [];
  }

  /** The bytes of a list that stands apart, or null. */
  list({ sha256: digest, size }) {
    const bytes = size > MOST_LIST ? null : this.bundle.blobs.load(digest);
    return bytes !== null && bytes.length === size ? bytes : null;
  }

  /** The last session record of the log that does not stand behind the entry. @param {Item} item @returns {Item | null} */
  session({ section, entry }) {
    return lastBefore(this.sessions.get(section), entry.index + 1);
  }

  /** The last binding of a statement's key before it, in the same session. @param {Item} item @param {Item | null} session */
  binding({ section, entry, statement }, session) {
    const key = statement?.predicate.sender?.key;
    if (key === undefined || key === section.key.fingerprint || session === null) return null;
    const bound = lastBefore(this.bindings.get(`${section.origin} ${key}`), entry.index);
    return bound !== null && bound.entry.index > session.entry.index ? bound : null;
  }

  /** @param {Section} section @returns {Item[]} */
  bySection(section) {
    return this.ofSection.get(section);
  }

  checkEntries() {
    for (const item of this.items)
      if (this.wanted.has(item) && this.session(item) === null)
        throw fault("CF-BUNDLE-022", "a wanted entry stands without a session", item.entry.line);
    for (const item of this.items)
      if (!this.wanted.has(item) && !this.inSpan(item))
        throw fault("CF-BUNDLE-021", "an entry is neither wanted nor within the run", item.entry.line);
  }

  /** Checkpoints of logs of the bundle that an entry cites. @param {Item} item @param {Set<string>} lists as in `cited` */
  heads({ record, section, statement }, lists) {
    const origins = new Map(this.bundle.sections.map((section) => [section.origin, section]));
    const cited = [];
    if (statement?.kind === "handoff" || statement?.kind === "receipt") {
      const { own, seen = [] } = statement.predicate;
      if (own !== undefined) cited.push({ ...own, own: true });
      pushAll(cited, seen);
    } else if (operation(record) === "session")
      pushAll(cited, this.notesOf(section, record.context.seen, lists).flatMap((one) => one.checkpoint ?? []));
    return cited.flatMap((head) =>
      origins.has(head.origin) ? { head, section: origins.get(head.origin) } : [],
    );
  }

  /** What a session's `seen` cites: references of notes, and the checkpoints in those that are here. */
  notesOf(section, seen, lists) {
    let list = seen;
    if (isReference(seen)) {
      const name = `${section.origin} ${seen.sha256} ${seen.size}`;
      if (lists.has(name)) return [];
      lists.add(name);
    }
    if (looksLikeReference(seen)) list = this.parents(seen);
    if (!Array.isArray(list)) return [];
    return list.flatMap((one) => {
      if (!isCitation(one) || !isReference(one.note)) return [];
      const bytes = this.list(one.note);
      const checkpoint = bytes === null ? null : attempt(() => parseCheckpoint(parseNote(bytes))).value;
      return { reference: one.note, checkpoint };
    });
  }

  checkHeads() {
    const needed = new Set();
    const lists = new Set();
    for (const item of this.items) {
      if (!this.wanted.has(item)) continue;
      for (const { head, section } of this.heads(item, lists)) {
        if (head.size >= section.size) continue;
        needed.add(`${section.origin} ${head.size}`);
        if (!section.heads.some(({ size }) => size === head.size))
          throw fault("CF-BUNDLE-022", "a cited head is not here", section.line);
      }
    }
    for (const { origin, heads } of this.bundle.sections)
      for (const { size, line } of heads)
        if (!needed.has(`${origin} ${size}`)) throw fault("CF-BUNDLE-021", "nothing cites this head", line);
  }

  checkBlobs() {
    const { blobs } = this.bundle;
    const seen = new Set();
    const reached = new Set();
    const lists = new Set();
    for (const item of this.wanted)
      for (const reference of this.references(item, lists))
        for (const { part } of blobs.walk(reference, seen)) reached.add(part.sha256);
    for (const [digest, { line }] of blobs.held)
      if (!reached.has(digest)) throw fault("CF-BUNDLE-021", "nothing cites this blob", line);
  }

  references({ record, section, statement }, lists) {
    if (statement?.kind === "handoff") {
      const { content, payload, parentSet } = statement.predicate;
      const cited = [{ media: payload.media, sha256: content.payload, size: payload.size }];
      return parentSet === undefined
        ? cited
        : [...cited, { media: VALUE, sha256: parentSet.sha256, size: parentSet.size }];
    }
    if (record === null) return [];
    const cited = referencesIn(record);
    if (operation(record) === "session" && looksLikeReference(record.context.seen))
      pushAll(cited, this.notesOf(section, record.context.seen, lists).map(({ reference }) => reference));
    return cited;
  }

  checkAbsent() {
    const absent = new Map(this.bundle.absent.map(({ digest, line }) => [digest, line]));
    const cited = new Set();
    const lists = new Set();
    for (const item of this.items) {
      if (!this.wanted.has(item)) continue;
      for (const { digest } of this.cited(item, lists)) {
        cited.add(digest);
        if (!this.byDigest.has(digest) && !absent.has(digest))
          throw fault("CF-BUNDLE-022", "what an entry cites is neither here nor absent", 2);
      }
    }
    for (const [digest, line] of absent)
      if (!cited.has(digest) || this.byDigest.has(digest))
        throw fault("CF-BUNDLE-021", "an absent digest is here, or nothing cites it", line);
  }

  checkKeys() {
    const named = new Set(
      [...this.wanted].flatMap(({ envelope }) => envelope?.signatures.map(({ keyid }) => keyid) ?? []),
    );
    const identities = new Set(this.bundle.sections.map(({ key }) => key.fingerprint));
    for (const { key, line } of this.bundle.keys)
      if (!named.has(key.fingerprint) || identities.has(key.fingerprint))
        throw fault("CF-BUNDLE-021", "nothing names this key", line);
  }
}

const callKey = (section, run, call) => JSON.stringify([section.origin, run ?? null, call]);

/** The last of some items of one log, in its order, before an index. @param {Item[] | undefined} items @param {number} index */
function lastBefore(items, index) {
  if (items === undefined) return null;
  let low = 0;
  for (let high = items.length; low < high;) {
    const middle = (low + high) >> 1;
    if (items[middle].entry.index < index) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? null : items[low - 1];
}

/** Every reference in a record. */
export function referencesIn({ content, context }) {
  const open = [content, context];
  const found = [];
  while (open.length > 0) {
    const value = open.pop();
    if (looksLikeReference(value)) {
      if (isReference(value)) found.push(value);
    } else if (typeof value === "object" && value !== null) pushAll(open, Object.values(value));
  }
  return found;
}
