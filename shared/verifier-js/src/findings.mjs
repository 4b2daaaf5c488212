/** Findings, verdicts and exit codes (spec/log.md, "Verifying"). */

/** @typedef {"intact" | "broken" | "incomplete" | "cannot-tell"} Verdict */
/** @typedef {{code: string, where: string, message: string, hint: string}} Finding */

const INCOMPLETE = new Set(["020", "021", "022", "023", "024", "025", "026", "027", "049", "071"].map((n) => `CF-VERIFY-${n}`));
for (const n of ["023", "024", "026"]) INCOMPLETE.add(`CF-BUNDLE-${n}`);
const CANNOT_TELL = new Set([
  "CF-VERIFY-001",
  "CF-VERIFY-032",
  "CF-VERIFY-042",
  "CF-LOG-022",
  "CF-STMT-004",
  "CF-BUNDLE-001",
  "CF-STORE-001",
  "CF-STORE-006",
]);
for (const n of ["004", "005", "006", "007", "008", "053", "054"]) CANNOT_TELL.add(`CF-TRUST-${n}`);
CANNOT_TELL.add("CF-KEYS-008"); // a home that cannot tell which policy was believed before
const NOTES = new Set(["CF-VERIFY-060", "CF-VERIFY-061", "CF-VERIFY-062", "CF-VERIFY-072", "CF-BUNDLE-025"]);

/** What to do about the findings that a reader can do something about (spec/errors.md). */
const HINTS = {
  "CF-VERIFY-001": "name the folder of a run",
  "CF-VERIFY-003": "restore it from a copy",
  "CF-VERIFY-004": "restore it from a copy",
  "CF-VERIFY-024": "compare with a checkpoint held elsewhere",
  "CF-VERIFY-027": "compare with a checkpoint held elsewhere",
  "CF-VERIFY-032": "get the fingerprint from the evidence's owner, and put it among the pins of the keyring",
  "CF-VERIFY-042": "get the fingerprint from the sender, and put it among the pins of the keyring",
  "CF-VERIFY-062": "compare with a checkpoint held elsewhere",
  "CF-VERIFY-071": "run counterfoil archive again",
  "CF-VERIFY-072": "check both together: counterfoil verify --archive",
  "CF-LOG-022": "read this evidence with a newer verifier",
  "CF-STMT-004": "read this evidence with a newer verifier",
  "CF-STORE-006": "verify as a user who may read it",
  "CF-BUNDLE-001": "read this bundle with a newer verifier",
};

export const EXIT = { intact: 0, broken: 3, incomplete: 4, "cannot-tell": 5 };
const MOST = 1_000;
const GRAVITY = ["intact", "incomplete", "cannot-tell", "broken"];

/** @param {string} code @returns {Verdict} */
export function gravity(code) {
  if (INCOMPLETE.has(code)) return "incomplete";
  return CANNOT_TELL.has(code) ? "cannot-tell" : "broken";
}

/** Findings in order: the first 1,000 are listed (of notes too), of the rest only how grave they are. */
export class Findings {
  constructor() {
    /** @type {Finding[]} */
    this.list = [];
    /** @type {Finding[]} */
    this.notes = [];
    /** @type {Set<Verdict>} verdicts of those that are not listed */
    this.more = new Set();
    this.moreNotes = false;
  }

  /** @param {string} code @param {string} where @param {string} message @param {string} [hint] */
  add(code, where, message, hint = HINTS[code] ?? "") {
    this.take({ code, where, message, hint });
  }

  /** @param {Finding} finding */
  take(finding) {
    if (NOTES.has(finding.code)) {
      if (this.notes.length < MOST) this.notes.push(finding);
      else this.moreNotes = true;
    } else if (this.list.length < MOST) this.list.push(finding);
    else this.more.add(gravity(finding.code));
  }

  /** @param {Findings} other */
  addAll(other) {
    for (const finding of other.list) this.take(finding);
    for (const note of other.notes) this.take(note);
    for (const verdict of other.more) this.more.add(verdict);
    this.moreNotes ||= other.moreNotes;
  }

  /** What is listed, and one that says there are more. */
  capped() {
    const more = {
      code: "CF-VERIFY-009",
      where: "",
      message: "there are more findings than are listed",
      hint: "mend or explain those that are, then verify again",
    };
    return {
      list: this.more.size === 0 ? this.list : [...this.list, more],
      notes: this.moreNotes ? [...this.notes, more] : this.notes,
      verdict: this.verdict,
    };
  }

  get broken() {
    return this.verdict === "broken";
  }

  /** @returns {Verdict} */
  get verdict() {
    return [...this.list.map(({ code }) => gravity(code)), ...this.more].reduce(
      (a, b) => (GRAVITY.indexOf(a) >= GRAVITY.indexOf(b) ? a : b),
      "intact",
    );
  }
}

/** Counts of one log or bundle. */
export class Counts {
  constructor() {
    this.records = 0;
    this.statements = 0;
    this.logs = 0;
    this.runs = 0;
    this.handoffs = 0;
    this.blobs = 0;
    this.losses = 0;
    this.open = 0;
    this.tail = 0;
  }

  /** @param {Counts} other */
  addAll(other) {
    for (const name of Object.keys(this)) this[name] += other[name];
  }
}
