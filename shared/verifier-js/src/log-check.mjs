/** Reading and judging one log of an evidence folder (spec/log.md, "Verifying"). */
import { Blobs } from "./blobs.mjs";
import { isObject } from "./canonical.mjs";
import { CounterfoilError, attempt, isUnread } from "./errors.mjs";
import { Judge } from "./judge.mjs";
import { headName } from "./keyring.mjs";
import { isLocked } from "./locks.mjs";
import { LogReader } from "./log.mjs";
import { parseCheckpoint, parseNote, verifyNote } from "./notes.mjs";
import { BytesOfFile, ChunkReader, splitItems } from "./segments.mjs";

/** Reading and judging one log. */
export class LogCheck {
  constructor(log, evidence) {
    this.log = log;
    this.evidence = evidence;
    this.keyring = evidence.keyring;
    this.blobs = new Blobs((place) => readAgain(log.segments, place));
    this.judge = new Judge({
      name: log.name,
      keyring: this.keyring,
      blobs: this.blobs,
      policy: evidence.policy,
    });
    this.faulty = false;
    /** Whether the system did not let the log be read to its end: that accuses nobody. */
    this.unread = false;
    this.tornAt = "";
    this.longer = false;
    this.live = false;
    /** Size at the last note, valid or not. */
    this.noted = 0;
    this.heads = this.keyring.heads.filter((head) => head.origin.endsWith(`/${log.name}`));
  }

  check() {
    const { judge } = this;
    const reader = new LogReader(this.log.name, this.log.segments, {
      blob: (bytes, digest, place) => this.blobs.add(bytes, digest, place),
      entry: (entry, kind) => judge.entry(entry, kind),
      note: (bytes, stored) => this.note(bytes, stored, reader.tree),
      fault: (error) => {
        this.faulty = true;
        this.unread = isUnread(error);
        judge.findings.add(
          error.code,
          error.where,
          error.message,
          error.hint || "compare with another copy of this evidence",
        );
      },
      torn: (where) => {
        this.tornAt = where;
      },
    });
    reader.read();
    judge.where = this.log.name;
    judge.counts.blobs = this.blobs.count;
    judge.counts.open = judge.calls.open.size;
    judge.counts.tail = reader.tree.size - this.noted;
    if (!this.faulty) this.end(reader);
    this.remembered();
    return this;
  }

  /** Whether a run is in this log, or could be: it cannot be read to its end, or not all of it is understood. */
  concerns(run) {
    return this.judge.calls.runs.has(run) || this.judge.later || this.faulty || this.longer;
  }

  note(bytes, stored, tree) {
    const { judge } = this;
    judge.where = `${this.log.name} checkpoint of ${tree.size}`;
    this.noted = tree.size;
    if (judge.identity === null) {
      if (!judge.blind) judge.find("CF-VERIFY-030", "a checkpoint stands before a session");
      return;
    }
    const { value: checkpoint, error } = attempt(() => this.parseOwn(bytes));
    if (error !== null) {
      judge.find(error.code, error.message);
      return;
    }
    if (checkpoint.size !== tree.size || checkpoint.root !== tree.root().toString("hex")) {
      judge.find("CF-VERIFY-050", "a checkpoint does not match the entries");
      return;
    }
    if (!isStored(stored)) {
      judge.find("CF-VERIFY-051", "the stored bytes are not the ones that were written");
      return;
    }
    judge.checkpoints.set(checkpoint.size, checkpoint.root);
  }

  /** The checkpoint in a note that the log's identity signed. @param {Buffer} bytes */
  parseOwn(bytes) {
    const note = parseNote(bytes);
    verifyNote(note, this.judge.origin, this.judge.identity);
    const checkpoint = parseCheckpoint(note);
    if (checkpoint.origin === this.judge.origin) return checkpoint;
    throw new CounterfoilError("CF-NOTE-021", "a log's own checkpoint is not signed as its origin");
  }

  /** The same, or null where it is none. @param {Buffer} bytes */
  ownCheckpoint(bytes) {
    return this.judge.identity === null ? null : attempt(() => this.parseOwn(bytes)).value;
  }

  /** @param {LogReader} reader */
  end({ behind, takenBack }) {
    const { judge } = this;
    for (const { where, notes, size } of takenBack) {
      judge.where = where;
      if (notes.some((note) => this.ownCheckpoint(note)?.size > size))
        judge.find("CF-VERIFY-026", "a signed checkpoint stands behind what was recovered of a segment");
    }
    judge.where = this.log.name;
    this.live = judge.origin !== "" && isLocked(this.keyring.home, headName(judge.origin, "lock"));
    const tail = behind || this.tornAt !== "";
    if (!this.live && tail) {
      if (this.tornAt !== "") judge.where = this.tornAt;
      judge.find("CF-VERIFY-024", "something stands behind the last checkpoint, and no writer is alive");
      judge.where = this.log.name;
    }
    if (!this.live) judge.calls.ended();
    if (!this.live && !tail) judge.leftUnclosed();
  }

  remembered() {
    this.longer = this.heads.some(({ size }) => size > this.noted);
    const { judge } = this;
    if (this.unread || judge.blind) return;
    const head = judge.origin === "" ? largest(this.heads) : this.heads.find((one) => one.origin === judge.origin);
    const other = this.heads.some((one) => one.origin !== judge.origin && this.evidence.isHere(one.evidence));
    if (head === undefined) {
      if (other && judge.origin !== "")
        judge.find("CF-VERIFY-053", "this machine remembers another log by this name");
    } else if (head.size > this.noted) {
      if (!this.faulty) judge.find("CF-VERIFY-052", "this machine remembers a longer log");
    } else if (judge.checkpoints.get(head.size) !== head.root && !judge.findings.broken)
      judge.find("CF-VERIFY-053", "this machine remembers another history of this log");
    if (judge.origin === "") return;
    const { own } = this.keyring;
    const { fingerprint } = judge.identity;
    if (
      this.keyring.home !== null &&
      own !== null &&
      fingerprint !== own &&
      this.keyring.isPinned(fingerprint)
    )
      judge.find("CF-VERIFY-061", "a log is signed by a pinned identity that is not this home's own");
    if (judge.findings.list.length === 0 && head === undefined && !this.live)
      judge.find("CF-VERIFY-062", "no end of this log is remembered on this machine");
  }
}

/** Of the heads remembered of a log that does not say whose it is, the one that tells most. */
function largest(heads) {
  return heads.reduce((a, b) => (a === undefined || b.size > a.size ? b : a), undefined);
}

/** Whether `stored` says what was there. */
export function isStored({ offset, segment, sha256, alone, body }) {
  const { content, context } = body;
  const members =
    Object.keys(content).length === 4 && content.offset === offset && content.segment === segment;
  return (
    alone && members && content.sha256 === sha256 && isObject(context) && Object.keys(context).length === 0
  );
}

function readAgain(segments, place) {
  const segment = segments.find((one) => one.number === place.segment);
  const file = new BytesOfFile(segment.path);
  try {
    const chunks = new ChunkReader(file, file.size);
    chunks.at = place.stream < 0 ? place.start : place.stream;
    for (;;) {
      const { value: chunk, error } = attempt(() => chunks.next());
      if (isUnread(error)) throw error;
      if (chunk === null || chunk === undefined || chunk.start > place.start) return null;
      if (chunk.start === place.start) return splitItems(chunk)[place.item]?.bytes ?? null;
    }
  } finally {
    file.close();
  }
}
