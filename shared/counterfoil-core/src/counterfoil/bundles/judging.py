"""Judges the wanted entries of one log in a bundle as ``verify`` judges a log (step 3 of verifying)."""

from __future__ import annotations

from typing import Any, Final

from counterfoil import keys, records
from counterfoil.bundles.facts import Facts, Looked, heads_of
from counterfoil.bundles.opened import Opened
from counterfoil.bundles.parts import BlobGraph, part_from
from counterfoil.citations import is_list_of_citations, read_list
from counterfoil.digest import Reference, is_reference, looks_like_reference, sha256_hex
from counterfoil.entries import BlobSeen, Entry, same
from counterfoil.errors import CounterfoilError
from counterfoil.findings import Finding, Verdict
from counterfoil.shapes import Part
from counterfoil.statement_checks import UNKNOWN, StatementCheck
from counterfoil.stored import HANDOFF, RECORD, STATEMENT, Stored
from counterfoil.stream_checks import CODE, StreamCheck, states
from counterfoil.trust_checks import Shared

__all__ = ["Judge"]

_ANOTHER: Final = "do not rely on it: compare with the evidence it was cut from"
_NEWER: Final = "read this bundle with a newer Counterfoil"
_CUT: Final = "a process was killed, or the run was going on when the bundle was cut"


_KINDS: Final = {"handoff": HANDOFF, "receipt": STATEMENT, "binding": STATEMENT, "weights": STATEMENT}


class Judge:
    """One pass over the wanted entries of one log; ``counts`` is there afterwards."""

    def __init__(
        self, opened: Opened, origin: str, ring: keys.Keyring, head: keys.Head | None, shared: Shared
    ) -> None:
        self.counts = dict.fromkeys(("records", "statements", "runs", "handoffs", "losses", "open"), 0)
        self._opened = opened
        self._origin = origin
        self._log = opened.logs[origin]
        self._name = self._log.section.name
        self._ring = ring
        self._head = head
        self._findings: list[Finding] = []
        self._held = Held(opened, origin)
        self._streams = StreamCheck(self._held, whole=False)
        self._listed, self._stood = Looked(), Looked()
        self._checkpoints: dict[int, str] = {}
        self._statements = StatementCheck(self._held, ring, self._checkpoints, self._say, shared)
        self._statements.origin, self._statements.identity = origin, self._log.section.identity
        self._run = opened.contents.asked if opened.contents.kind == "run" else None
        self._open: set[str] = set()
        self._tied = {"started": 0, "ended": 0}

    def run(self) -> list[Finding]:
        """Findings of this log, in the order of its entries."""
        identity = self._log.section.identity
        if self._ring.resolve(identity.keyid, identity.spki) is None:
            self._say(
                "CF-VERIFY-032",
                self._name,
                "signed by a key that is not pinned here",
                verdict="cannot-tell",
                hint="get the fingerprint from the evidence's owner, then: counterfoil keys pin FINGERPRINT",
            )
        if (
            self._head is not None
            and self._log.heads.get(self._head.size, self._head.root) != self._head.root
        ):
            self._say("CF-VERIFY-053", self._name, "the log is not the one this machine remembers")
        ahead = sorted(size for size in self._log.head_lines)
        for facts in self._opened.selection.logs[self._origin]:
            while ahead and ahead[0] <= facts.index:
                passed = ahead.pop(0)
                self._checkpoints[passed] = self._log.heads[passed]
            if facts.kind == "unknown":
                if self._opened.selection.within(self._origin, facts.index):
                    at = f"{self._name} entry {facts.index}"
                    self._say("CF-LOG-022", at, "a record of a version that is not known here")
            elif facts.wanted:
                self._entry(facts)
            elif facts.digest:
                self._held.add(facts.digest.hex(), _KINDS.get(facts.kind, RECORD))
        self._end()
        self.counts["handoffs"] = self._statements.handoffs
        return self._findings

    # -- entries ------------------------------------------------------------------------------------------------------

    def _entry(self, facts: Facts) -> None:
        entry = self._opened.entry(facts)
        at = f"{self._name} entry {facts.index}"
        if records.is_record(entry.body):
            self.counts["records"] += 1
            self._record(entry, facts, at)
        else:
            self.counts["statements"] += 1
            self._statements.check(entry, at)
        ours = facts.recorded or facts.key == self._log.section.identity.keyid
        for origin, size, root, own in heads_of(entry, self._held.read, self._stood):
            log = self._opened.logs.get(origin)
            if log is None or (own and ours and origin == self._origin):
                continue  # what it says of this log was judged with the statement
            if log.heads.get(size) != root:
                name = log.section.name
                self._say("CF-VERIFY-005", at, f"it cites another history of log {name}, or a longer one")

    def _record(self, entry: Entry, facts: Facts, at: str) -> None:
        content, context = entry.body["content"], entry.body["context"]
        for ref in entry.cited:
            if not ref[0] or not self._held.there(Reference(*ref)):
                message = f"{entry.op}: stored bytes it cites are missing ({ref[0][:12]})"
                self._say("CF-VERIFY-010", at, message)
        if not records.fits(entry.body_bytes, entry.body):
            self._say(
                "CF-VERIFY-012", at, f"{entry.op}: longer than a record may be, or with a float or null"
            )
        received = context.get("handoffs", [])
        for digest in received if type(received) is list else [None]:
            if type(digest) is not str or not self._held.knows(digest, least=STATEMENT):
                self._say("CF-VERIFY-011", at, f"{entry.op}: the handoff it received is not in this log")
        self._held.add(sha256_hex(entry.body_bytes))
        if states(content, context) and (fault := self._streams.fault(content, context)):
            self._say(CODE, at, f"{entry.op}: {fault}")
        if self._run is not None and facts.run == self._run and facts.call is not None:
            self._tie(content, facts, at)
        if entry.op == "session":
            self._session(entry, at)
        elif entry.op == "recovered":
            message = "the writer stopped uncleanly before"
            hint = "nothing to do: what was lost is at most the last group of records before it"
            self._say("CF-VERIFY-020", at, message, verdict="incomplete", hint=hint)
        elif entry.op == "loss":
            count = context.get("count", 1)
            self.counts["losses"] += count if type(count) is int and count > 0 else 1
            message = f"not recorded: {content.get('name')} ({count})"
            self._say("CF-VERIFY-021", at, message, verdict="incomplete")

    def _session(self, entry: Entry, at: str) -> None:
        context = entry.body["context"]
        try:
            public = keys.PublicKey.from_text(context.get("spki"))
        except CounterfoilError:
            self._say("CF-VERIFY-030", at, "the session names no usable key")
            return
        if context.get("origin") != self._origin or public.keyid != self._log.section.identity.keyid:
            self._say("CF-VERIFY-031", at, "the session does not belong to this log")
            return
        self._statements.new_session()
        listed = context.get("seen")
        apart = looks_like_reference(listed)
        if apart:
            if is_reference(listed) and not self._listed.first(Reference.from_dict(listed)):
                return
            try:
                listed = read_list(self._held.read(Reference.from_dict(listed)))
            except CounterfoilError:
                listed = None
            if not is_list_of_citations(listed):
                self._say("CF-CANON-011", at, "the list of other logs cannot be read")
                return
        # What stands in the record itself was looked at with its other references.
        for one in listed if apart else []:
            if is_reference(one.get("note")) and not self._held.there(Reference.from_dict(one["note"])):
                self._say("CF-VERIFY-010", at, "the checkpoint of another log that it cites is missing")

    def _tie(self, content: dict[str, Any], facts: Facts, at: str) -> None:
        """As in a log: starts and ends of the run, and what its last record says of their number."""
        assert facts.call is not None
        if facts.phase == "start":
            self.counts["runs"] += facts.call == self._run
            self._open.add(facts.call)
            self._tied["started"] += 1
        elif facts.phase == "end" and not facts.late:
            if facts.call not in self._open:
                self._say("CF-VERIFY-022", at, "an end without a start", verdict="incomplete")
            self._open.discard(facts.call)
            self._tied["ended"] += 1
            totals = content.get("totals")
            if type(totals) is dict:
                if not same(totals, self._tied):
                    message = f"the run had {totals}, the bundle holds {self._tied}"
                    self._say("CF-VERIFY-023", at, message, verdict="incomplete")
                self._tied = {"started": 0, "ended": 0}

    def _end(self) -> None:
        self.counts["open"] = len(self._open)
        if self._open:
            count = len(self._open)
            message = "1 call was never ended" if count == 1 else f"{count} calls were never ended"
            self._say("CF-VERIFY-025", self._name, message, verdict="incomplete", hint=_CUT)
        span = self._opened.selection.spans.get(self._origin)
        if span is None:
            return
        hidden = sum(
            max(0, min(gap.start + gap.count, span[1]) - max(gap.start, span[0])) for gap in self._log.gaps
        )
        if hidden:
            entries = "1 entry stands" if hidden == 1 else f"{hidden} entries stand"
            self._say(
                "CF-BUNDLE-023",
                f"{self._name} entries {span[0]} to {span[1]}",
                f"{entries} between those of the run and not here: nobody can see whether they belong to it",
                verdict="incomplete",
                hint="cut the bundle without --only",
            )

    def _say(
        self, code: str, where: str, message: str, *, verdict: Verdict = "broken", hint: str = ""
    ) -> None:
        if code in UNKNOWN:
            verdict, hint = "cannot-tell", hint or _NEWER
        self._findings.append(Finding(code, where, message, hint or _ANOTHER, verdict))


class Held(Stored):
    """What a bundle holds, as the checks of statements ask for it: blobs all along, digests as they pass by."""

    def __init__(self, opened: Opened, origin: str) -> None:
        super().__init__(None, "")
        self.lists_weights = False
        self._opened = opened
        self._origin = origin
        self._graph: BlobGraph = opened.graph

    def __len__(self) -> int:
        return len(self._graph.blobs)

    def blob(self, blob: BlobSeen) -> None:
        """Blobs are known before."""

    def there(self, ref: Reference) -> bool:
        """Whether the bytes under a reference, and all that a composite cites, are in the bundle."""
        return self._graph.there(ref)

    def has(self, part: Part) -> bool:
        """The same of a part."""
        return self._graph.holds(part_from(part))

    def read(self, ref: Reference) -> bytes:
        """Bytes of a list or note, empty where they are not in the bundle."""
        return self._opened.read(self._origin, ref)
