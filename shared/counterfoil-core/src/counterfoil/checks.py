"""Checks one log for ``verify``: structure, references, signatures, checkpoints, totals, tail, remembered head."""

from __future__ import annotations

from typing import Any, Final

from counterfoil import keys, notes
from counterfoil.citations import Citations, Cited
from counterfoil.entries import OWN, BlobSeen, CheckpointSeen, Entry, Event, NoteBehind, Problem, place
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.evidence_checks import UNREAD, on_its_way
from counterfoil.findings import Finding, Findings, Verdict
from counterfoil.locking import is_live
from counterfoil.log import LogScan
from counterfoil.record_checks import RecordCheck
from counterfoil.statement_checks import UNKNOWN, StatementCheck
from counterfoil.stored import RECORD, STATEMENT, Stored
from counterfoil.stores import FolderStore
from counterfoil.trust_checks import Heads, Shared

__all__ = ["LogCheck"]

_CUT: Final = "a process was killed, or the end was cut: compare with a checkpoint held elsewhere"


class LogCheck:
    """One pass over one log; ``checkpoints`` (size to root), ``cites`` (notes of other logs) and ``counts`` are there
    afterwards.

    ``own`` is the fingerprint of this home's identity: a log of another one gets a note. ``shared`` is what the checks
    of all logs have in common.
    """

    def __init__(
        self,
        store: FolderStore,
        name: str,
        keyring: keys.Keyring,
        heads: dict[str, keys.Head],
        *,
        own: str | None = None,
        shared: Shared | None = None,
    ) -> None:
        self.name = name
        self.checkpoints: dict[int, str] = {}
        self.counts = dict.fromkeys(
            ("records", "statements", "runs", "handoffs", "blobs", "losses", "open", "tail"), 0
        )
        self.findings = Findings()
        self.notes = Findings()
        self.scan = LogScan(store, name)
        self.note_check: notes.Check | None = None
        shared = shared or Shared(Heads())
        self.stored = Stored(store, name, known=shared.known)
        self.records = RecordCheck(self.stored, self.say, self.ask, known=shared.known)
        self.statements = StatementCheck(self.stored, keyring, self.checkpoints, self.say, shared)
        self.scan.shorts = (self.records.short, self.statements.short)
        self._store = store
        self._keyring = keyring
        self._heads = heads
        self._own = own
        self._vkey = ""
        self._citations = Citations(self.stored, self.say)
        self._behind: list[NoteBehind] = []
        self._torn: Problem | None = None
        self._unended: set[str] = set()
        self._later: Finding | None = None
        self._promised = self._stopped = False
        self.last_word = -1

    @property
    def cites(self) -> list[Cited]:
        """Checkpoints of other logs."""
        return self._citations.found

    @property
    def origin(self) -> str:
        """Origin by the log's first session, empty before ``run``."""
        return self.statements.origin

    @property
    def vkey(self) -> str:
        """Verifier key of the log's own checkpoints, empty before ``run`` or without a usable session."""
        return self._vkey

    def run(self) -> list[Finding]:
        """Findings of this log, in the order of its entries."""
        for event in self.scan.events():
            self.take(event)
        self.finish()
        return self.findings.whole()

    def take(self, event: Event) -> None:
        """Judge what stands next in the log; nothing more once the system did not let be read what it cites."""
        if self._stopped:
            return
        try:
            self._take(event)
        except StoreError as exc:
            self._stopped = True
            self.say(exc.code, self.name, exc.message)

    def _take(self, event: Event) -> None:
        if isinstance(event, Entry):
            self._entry(event)
        elif isinstance(event, BlobSeen):
            self.stored.blob(event)
        elif isinstance(event, CheckpointSeen):
            self._checkpoint(event)
        elif isinstance(event, NoteBehind):
            self._behind.append(event)
        elif event.torn:
            self._torn = event
        else:
            self.statements.blind |= event.unknown
            self.say(event.code, event.where, event.message)

    def finish(self) -> None:
        """Judge the end of the log, where everything has passed by; what took memory for that is let go."""
        if self._stopped:
            self.scan.unread = self.scan.broken = True
        # A log whose first group is not on disk yet does not say whose it is: this home's own may be just beginning.
        origin = self.origin or (f"{self._own}/{self.name}" if self._own else "")
        if not self.scan.broken:
            self._later = on_its_way(self._store, self.name, self._heads.get(origin), self.scan.covered)
        live = (bool(origin) and is_live(origin)) or self._later is not None
        self._taken_back()
        told = self._tail(live=live)
        if not live and not self.scan.broken:
            self._left_open(self.name)
            if not told:
                self._left_unclosed(self.name)
        self._remembered()
        self.counts["records"], self.counts["statements"] = self.records.count, self.statements.count
        self.counts["open"], self.counts["runs"] = len(self.records.open), self.records.runs
        self.counts["handoffs"] = self.statements.handoffs
        self.counts["blobs"] = len(self.stored)
        self.stored.clear()

    def ask(self, code: str, at: str, message: str, digest: Any) -> None:
        """Say that a digest is no statement's (011), or no record's or statement's, before; or that digest and root are
        no manifest's (056)."""
        least = STATEMENT if code == "CF-VERIFY-011" else RECORD
        known = type(digest) is str and self.stored.knows(digest, least=least)
        if not known and digest not in self.stored.weights.items():
            self.say(code, at, message)

    # -- entries ------------------------------------------------------------------------------------------------------

    def _entry(self, entry: Entry) -> None:
        if "payload" in entry.body:
            self.statements.check(entry, place(entry))
            return
        self.records.check(entry)
        if entry.op in OWN:
            at = place(entry)
            content, context = entry.body["content"], entry.body["context"]
            self._promised &= entry.op not in ("closed", "recovered")  # these say how it ended
            if entry.op == "session":
                self._session(context, at)
            elif entry.op == "archived":
                self.last_word = entry.index
            elif entry.op == "recovered":
                self.say(
                    "CF-VERIFY-020",
                    at,
                    "the writer stopped uncleanly before",
                    verdict="incomplete",
                    hint="nothing to do: what was lost is at most the last group of records before it",
                )
            elif entry.op == "loss":
                count = context.get("count", 1)
                self.counts["losses"] += count if type(count) is int and count > 0 else 1
                self.say(
                    "CF-VERIFY-021",
                    at,
                    f"not recorded: {content.get('name')} ({count})",
                    verdict="incomplete",
                )

    def _session(self, context: dict[str, Any], at: str) -> None:
        origin, spki = context.get("origin"), context.get("spki")
        try:
            public = keys.PublicKey.from_text(spki)
        except CounterfoilError:
            self.say("CF-VERIFY-030", at, "the session names no usable key")
            return
        if origin != f"{public.keyid}/{self.name}" or (
            self.statements.origin and origin != self.statements.origin
        ):
            self.say("CF-VERIFY-031", at, "the session does not belong to this log")
            return
        if not self.statements.origin:
            self.statements.origin, self.statements.identity = origin, public
            self._vkey = notes.vkey(origin, public)
            if self._keyring.resolve(public.keyid, public.spki) is None:
                self.say(
                    "CF-VERIFY-032",
                    self.name,
                    "signed by a key that is not pinned here",
                    verdict="cannot-tell",
                    hint="get the fingerprint from the evidence's owner, then: counterfoil keys pin FINGERPRINT",
                )
            elif self._own is not None and public.keyid != self._own:
                message = f"log {self.name} is signed by another pinned identity {public.keyid[:16]}"
                hint = "find out who put it there, unless this evidence is theirs"
                self.notes.add(Finding("CF-VERIFY-061", self.name, message, hint, "intact"))
        self.statements.new_session()
        self.records.streams.open.clear()
        self._left_open(at)
        self._left_unclosed(at)
        self._promised, self.last_word = context.get("closes") is True, -1
        replaced = context.get("replaced")
        for one in replaced if type(replaced) is list else []:
            if type(one) is dict:
                name, size = str(one.get("origin", "")).rpartition("/")[2], one.get("size")
                entries = "1 entry" if size == 1 else f"{size} entries"
                message = f"log {name} ({entries}) stood here before the folder was made anew"
                hint = "restore it if nobody removed it on purpose"
                self.notes.add(Finding("CF-VERIFY-060", at, message, hint, "intact"))
        self._citations.session(context.get("seen"), at)

    # -- checkpoints, tail, head --------------------------------------------------------------------------------------

    def _checkpoint(self, seen: CheckpointSeen) -> None:
        at = f"{self.name} checkpoint at entry {seen.size}"
        if not self._vkey:
            if self.statements.is_blind:
                return
            self.say("CF-VERIFY-030", at, "a checkpoint before the session that names its key")
            return
        try:
            checkpoint = notes.parse_own_checkpoint(seen.note, self._vkey, check=self.note_check)
        except CounterfoilError as exc:
            self.say(exc.code, at, exc.message)
            return
        if (checkpoint.size, checkpoint.root) != (
            seen.size,
            seen.root,
        ) or checkpoint.origin != self.statements.origin:
            self.say("CF-VERIFY-050", at, "the checkpoint does not match the entries")
        elif not seen.stored_ok:
            self.say("CF-VERIFY-051", at, "the stored bytes are not the ones that were written")
        else:
            self.checkpoints[seen.size] = seen.root.hex()

    def _taken_back(self) -> None:
        """Checkpoints that the identity signed behind what was recovered of a segment: the log once went on there."""
        if not self._vkey or self.scan.broken:
            return
        largest: dict[int, tuple[int, int]] = {}
        for behind in self._behind:
            try:
                size = notes.parse_own_checkpoint(behind.note, self._vkey).size
            except CounterfoilError:
                continue
            if size > max(behind.index, largest.get(behind.segment, (0, 0))[0]):
                largest[behind.segment] = (size, behind.index)
        for segment, (size, index) in sorted(largest.items()):
            self.say(
                "CF-VERIFY-026",
                self._store.segment_name(self.name, segment),
                f"behind what was recovered a signed checkpoint tells {size} entries, the log went on after {index}",
                verdict="incomplete",
                hint="a failing disk does this; if it did not fail, compare with a checkpoint held elsewhere",
            )

    def _left_open(self, where: str) -> None:
        """A clean stop ends every call: one that is open after its writer is gone was cut off."""
        told = [call for call in self.records.open if call not in self._unended]
        self._unended.update(told)
        found = len(told)
        if found:
            message = "1 call was never ended" if found == 1 else f"{found} calls were never ended"
            self.say("CF-VERIFY-025", where, message, verdict="incomplete", hint=_CUT)

    def _left_unclosed(self, where: str) -> None:
        """A session that says it will be closed and is not: what came after its last checkpoint is not known."""
        if self._promised:
            self.say(
                "CF-VERIFY-027",
                where,
                "the session before was never closed: what came after its last checkpoint is not known",
                verdict="incomplete",
                hint=_CUT,
            )
            self._promised = False

    def _tail(self, *, live: bool) -> bool:
        """Say what stands behind the last checkpoint; whether there was anything to say."""
        scan = self.scan
        tail = scan.index - scan.covered
        self.counts["tail"] = max(tail, 0)
        if scan.broken or live or (scan.clean and self._torn is None):
            return False
        where = self._torn.where if self._torn is not None else self.name
        what = "stands 1 entry" if tail == 1 else f"stand {tail} entries"
        if self._torn is not None:
            what = "stand bytes that are no whole chunk"
        self.say("CF-VERIFY-024", where, f"after the last checkpoint {what}", verdict="incomplete", hint=_CUT)
        return True

    def _remembered(self) -> None:
        """The head this machine remembers; elsewhere only a checkpoint held by somebody else shows a cut tail."""
        if self.statements.is_blind or self.scan.unread:
            return  # what could not be read accuses nobody
        named = [head for origin, head in self._heads.items() if origin.endswith(f"/{self.name}")]
        if self.statements.origin:
            head = self._heads.get(self.statements.origin)
        else:
            head = max(named, key=lambda one: one.size, default=None)
        if head is None:
            if any(one.evidence in self._store.names for one in named):
                self.say("CF-VERIFY-053", self.name, "another log stood here by this name, of another key")
            elif self.statements.origin and not self.findings.has() and self.counts["tail"] == 0:
                self.notes.add(
                    Finding(
                        "CF-VERIFY-062",
                        self.name,
                        "its end is not remembered on this machine: a tail cut off at a checkpoint would not show",
                        "compare with a checkpoint held elsewhere, or verify where it was written",
                        "intact",
                    )
                )
            return
        if self._later is not None:
            self.findings.add(self._later)
        elif self.scan.covered < head.size and not self.scan.broken:
            self.say(
                "CF-VERIFY-052",
                self.name,
                f"the log ends at entry {self.scan.covered}, this machine remembers {head.size}",
                hint="entries were cut off or an older copy was put back: restore the newest copy",
            )
        elif self.checkpoints.get(head.size) != head.root and not self.findings.has("broken"):
            self.say("CF-VERIFY-053", self.name, "the log is not the one this machine remembers")

    def say(
        self, code: str, where: str, message: str, *, verdict: Verdict = "broken", hint: str = ""
    ) -> None:
        """Add a finding."""
        if code in UNREAD:
            verdict, hint = "cannot-tell", UNREAD[code]
        elif code in UNKNOWN:
            verdict, hint = "cannot-tell", hint or "read this evidence with a newer Counterfoil"
        if not hint and verdict == "broken":
            hint = "do not rely on what follows: compare with another copy of this evidence"
        self.findings.add(Finding(code, where, message, hint, verdict))
