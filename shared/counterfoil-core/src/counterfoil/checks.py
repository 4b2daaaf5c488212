"""Checks one log for ``verify``: structure, references, signatures, checkpoints, totals, tail, remembered head."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

from counterfoil import canonical, keys, notes, records
from counterfoil.choosing import is_live
from counterfoil.digest import Reference, is_reference, references_in, sha256_hex
from counterfoil.errors import CounterfoilError
from counterfoil.findings import Finding, Verdict
from counterfoil.log import BlobSeen, CheckpointSeen, Entry, LogScan, Problem
from counterfoil.statement_checks import UNKNOWN, StatementCheck
from counterfoil.stored import Stored
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
        self.notes: list[Finding] = []
        self._scan = LogScan(store, name)
        self._store = store
        self._keyring = keyring
        self._heads = heads
        self._own = own
        self._findings: list[Finding] = []
        self._stored = Stored(store, name)
        self._statements = StatementCheck(
            self._stored, keyring, self.checkpoints, self._say, shared or Shared(Heads())
        )
        self._vkey = ""
        self._open: dict[str, str] = {}
        self._started: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self.cites: list[tuple[str, bytes]] = []
        self._torn: Problem | None = None
        self._unended = 0

    @property
    def origin(self) -> str:
        """Origin by the log's first session, empty before ``run``."""
        return self._statements.origin

    @property
    def vkey(self) -> str:
        """Verifier key of the log's own checkpoints, empty before ``run`` or without a usable session."""
        return self._vkey

    def run(self) -> list[Finding]:
        """Findings of this log, in the order of its entries."""
        for event in self._scan.events():
            if isinstance(event, BlobSeen):
                self._stored.blob(event)
            elif isinstance(event, Entry):
                self._entry(event)
            elif isinstance(event, CheckpointSeen):
                self._checkpoint(event)
            elif event.torn:
                self._torn = event
            else:
                self._say(event.code, event.where, event.message)
        live = bool(self._statements.origin) and is_live(self._statements.origin)
        self._tail(live=live)
        if not live and not self._scan.broken:
            self._left_open(self.name)
        self._remembered()
        self.counts["open"] = len(self._open)
        self.counts["handoffs"] = self._statements.handoffs
        self.counts["blobs"] = len(self._stored)
        return self._findings

    def cited(self, everything: dict[str, dict[int, str]], *, partial: bool) -> Iterator[Finding]:
        """Findings about other logs whose last checkpoint a session of this log cites."""
        for name, note in self.cites:
            if name not in everything:
                if not partial:
                    yield Finding(
                        "CF-VERIFY-004",
                        name,
                        f"log {self.name} cites a log that is gone",
                        "restore it from a copy",
                    )
                continue
            try:
                checkpoint = notes.Checkpoint.parse(notes.Note.parse(note).text)
            except CounterfoilError as exc:
                yield Finding(exc.code, name, exc.message, "the citing log was not written by Counterfoil")
                continue
            if everything[name].get(checkpoint.size) != checkpoint.root.hex():
                yield Finding(
                    "CF-VERIFY-005",
                    name,
                    f"log {self.name} cites another history of it",
                    "restore it from a copy",
                )

    # -- entries ------------------------------------------------------------------------------------------------------

    def _entry(self, entry: Entry) -> None:
        at = f"{self.name} entry {entry.index}"
        if not records.is_record(entry.body):
            self.counts["statements"] += 1
            self._statements.check(entry, at)
            return
        self.counts["records"] += 1
        for ref in dict.fromkeys(references_in(entry.body)):
            if not self._stored.there(ref):
                self._say(
                    "CF-VERIFY-010", at, f"{entry.op}: stored bytes it cites are missing ({ref.sha256[:12]})"
                )
        if not records.fits(entry.body_bytes, entry.body):
            self._say(
                "CF-VERIFY-012", at, f"{entry.op}: longer than a record may be, or with a float or null"
            )
        content, context = entry.body["content"], entry.body["context"]
        received = context.get("handoffs", [])
        for digest in received if type(received) is list else [None]:
            if type(digest) is not str or not self._stored.knows(digest):
                self._say("CF-VERIFY-011", at, f"{entry.op}: the handoff it received is not in this log")
        self._stored.add(sha256_hex(entry.body_bytes))
        if entry.op == "session":
            self._session(context, at)
        elif entry.op == "recovered":
            self._say(
                "CF-VERIFY-020",
                at,
                "the writer stopped uncleanly before",
                verdict="incomplete",
                hint="nothing to do: what was lost is at most the last group of records before it",
            )
        elif entry.op == "loss":
            count = context.get("count", 1)
            self.counts["losses"] += count if type(count) is int else 1
            self._say(
                "CF-VERIFY-021", at, f"not recorded: {content.get('name')} ({count})", verdict="incomplete"
            )
        else:
            self._tie(content, context, at)

    def _tie(self, content: dict[str, Any], context: dict[str, Any], at: str) -> None:
        """Starts and ends joined by ``call``; a run's last record ties how many there were."""
        call, run, phase = context.get("call"), context.get("run"), content.get("phase")
        if type(call) is not str or type(run) is not str:
            return
        if phase == "start":
            if call == run:
                self.counts["runs"] += 1
            self._open[call] = run
            self._started[run] = self._started.get(run, 0) + 1
        elif phase == "end" and context.get("late") is not True:
            if self._open.pop(call, None) is None:
                self._say("CF-VERIFY-022", at, "an end without a start", verdict="incomplete")
            self._ended[run] = self._ended.get(run, 0) + 1
            totals = content.get("totals")
            if type(totals) is dict:
                counted = {"ended": self._ended.pop(run, 0), "started": self._started.pop(run, 0)}
                if totals != counted:
                    self._say(
                        "CF-VERIFY-023",
                        at,
                        f"the run had {totals}, the log holds {counted}",
                        verdict="incomplete",
                    )

    def _session(self, context: dict[str, Any], at: str) -> None:
        origin, spki = context.get("origin"), context.get("spki")
        try:
            public = keys.PublicKey.from_spki(base64.b64decode(str(spki), validate=True))
        except (CounterfoilError, binascii.Error, ValueError):
            self._say("CF-VERIFY-030", at, "the session names no usable key")
            return
        if origin != f"{public.keyid}/{self.name}" or (
            self._statements.origin and origin != self._statements.origin
        ):
            self._say("CF-VERIFY-031", at, "the session does not belong to this log")
            return
        if not self._statements.origin:
            self._statements.origin, self._statements.identity = origin, public
            self._vkey = notes.vkey(origin, public)
            if self._keyring.resolve(public.keyid, public.spki) is None:
                self._say(
                    "CF-VERIFY-032",
                    self.name,
                    "signed by a key that is not pinned here",
                    verdict="cannot-tell",
                    hint="get the fingerprint from the evidence's owner, then: counterfoil keys pin FINGERPRINT",
                )
            elif self._own is not None and public.keyid != self._own:
                self.notes.append(
                    Finding(
                        "CF-VERIFY-061",
                        self.name,
                        f"log {self.name} is signed by another pinned identity {public.keyid[:16]}",
                        "find out who put it there, unless this evidence is theirs",
                        "intact",
                    )
                )
        self._statements.new_session()
        self._left_open(at)
        replaced = context.get("replaced")
        for one in replaced if type(replaced) is list else []:
            if type(one) is dict:
                name, size = str(one.get("origin", "")).rpartition("/")[2], one.get("size")
                entries = "1 entry" if size == 1 else f"{size} entries"
                message = f"log {name} ({entries}) stood here before the folder was made anew"
                self.notes.append(
                    Finding(
                        "CF-VERIFY-060", at, message, "restore it if nobody removed it on purpose", "intact"
                    )
                )
        self._cites(context.get("seen"), at)

    def _cites(self, listed: object, at: str) -> None:
        """Note the other logs' checkpoints that a session cites, in its record or by one list it references."""
        apart = is_reference(listed)
        if apart:
            try:
                listed = canonical.loads(self._stored.read(Reference.from_dict(listed)))
            except CounterfoilError as exc:
                self._say(exc.code, at, f"the list of other logs cannot be read: {exc.message}")
                return
        for one in listed if type(listed) is list else []:
            if type(one) is dict and type(one.get("log")) is str and is_reference(one.get("note")):
                ref = Reference.from_dict(one["note"])
                if self._stored.there(ref):
                    self.cites.append((one["log"], self._stored.read(ref)))
                elif apart:
                    self._say("CF-VERIFY-010", at, "the checkpoint of another log that it cites is missing")

    # -- checkpoints, tail, head --------------------------------------------------------------------------------------

    def _checkpoint(self, seen: CheckpointSeen) -> None:
        at = f"{self.name} checkpoint at entry {seen.size}"
        if not self._vkey:
            self._say("CF-VERIFY-030", at, "a checkpoint before the session that names its key")
            return
        try:
            checkpoint = notes.parse_own_checkpoint(seen.note, self._vkey)
        except CounterfoilError as exc:
            self._say(exc.code, at, exc.message)
            return
        if (checkpoint.size, checkpoint.root) != (
            seen.size,
            seen.root,
        ) or checkpoint.origin != self._statements.origin:
            self._say("CF-VERIFY-050", at, "the checkpoint does not match the entries")
        elif not seen.stored_ok:
            self._say("CF-VERIFY-051", at, "the stored bytes are not the ones that were written")
        else:
            self.checkpoints[seen.size] = seen.root.hex()

    def _left_open(self, where: str) -> None:
        """A clean stop ends every call: one that is open after its writer is gone was cut off."""
        found, self._unended = len(self._open) - self._unended, len(self._open)
        if found > 0:
            message = "1 call was never ended" if found == 1 else f"{found} calls were never ended"
            self._say("CF-VERIFY-025", where, message, verdict="incomplete", hint=_CUT)

    def _tail(self, *, live: bool) -> None:
        scan = self._scan
        tail = scan.index - scan.covered
        self.counts["tail"] = max(tail, 0)
        if scan.broken or (scan.clean and self._torn is None):
            return
        if live:
            return
        where = self._torn.where if self._torn is not None else self.name
        what = "stands 1 entry" if tail == 1 else f"stand {tail} entries"
        if self._torn is not None:
            what = "stand bytes that are no whole chunk"
        self._say(
            "CF-VERIFY-024", where, f"after the last checkpoint {what}", verdict="incomplete", hint=_CUT
        )

    def _remembered(self) -> None:
        """The head this machine remembers; elsewhere only a checkpoint held by somebody else shows a cut tail."""
        head = self._heads.get(self._statements.origin) if self._statements.origin else self._by_name()
        if head is None:
            there = self._by_name()
            if there is not None and there.evidence in self._store.names:
                self._say("CF-VERIFY-053", self.name, "another log stood here by this name, of another key")
            elif self._statements.origin and not self._findings and self.counts["tail"] == 0:
                self.notes.append(
                    Finding(
                        "CF-VERIFY-062",
                        self.name,
                        "its end is not remembered on this machine: a tail cut off at a checkpoint would not show",
                        "compare with a checkpoint held elsewhere, or verify where it was written",
                        "intact",
                    )
                )
            return
        if self._scan.covered < head.size and not self._scan.broken:
            self._say(
                "CF-VERIFY-052",
                self.name,
                f"the log ends at entry {self._scan.covered}, this machine remembers {head.size}",
                hint="entries were cut off or an older copy was put back: restore the newest copy",
            )
        elif self.checkpoints.get(head.size) != head.root and all(
            finding.verdict != "broken" for finding in self._findings
        ):
            self._say("CF-VERIFY-053", self.name, "the log is not the one this machine remembers")

    def _by_name(self) -> keys.Head | None:
        found = [head for origin, head in self._heads.items() if origin.endswith(f"/{self.name}")]
        return found[0] if found else None

    def _say(
        self, code: str, where: str, message: str, *, verdict: Verdict = "broken", hint: str = ""
    ) -> None:
        if code == "CF-STORE-006":
            verdict, hint = "cannot-tell", "verify as a user who may read it"
        elif code in UNKNOWN:
            verdict, hint = "cannot-tell", hint or "read this evidence with a newer Counterfoil"
        if not hint and verdict == "broken":
            hint = "do not rely on what follows: compare with another copy of this evidence"
        self._findings.append(Finding(code, where, message, hint, verdict))
