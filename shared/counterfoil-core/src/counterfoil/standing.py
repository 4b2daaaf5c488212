"""What stands in this evidence already, for those who seal and accept: checkpoints, sealed handoffs, taints.

What this process wrote is in memory; what was there before, or another process writes, is read when it is asked for.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from counterfoil import log, notes, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.places import open_written
from counterfoil.reader import read

if TYPE_CHECKING:
    from counterfoil.recorder import Recorder

__all__ = ["Standing"]


class Standing:
    """Heads, sealed handoffs, taken receipts and taints, as far as one evidence tells."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.RLock()
        self._heads: dict[str, dict[int, str]] = {}
        self._sealed: dict[str, str | None] = {}
        self._accepted: set[tuple[str, str]] = set()
        self._taints: dict[str, tuple[str, ...]] = {}
        self._scanned = False
        self._placed: set[tuple[str, str]] = set()
        self._origin = ""

    # -- what this process writes -------------------------------------------------------------------------------------

    def said(self, head: dict[str, Any] | None) -> None:
        """Note a head of an own log that is signed into a statement: a peer may tell it back."""
        if head is not None:
            with self._lock:
                self._heads.setdefault(head["origin"], {})[head["size"]] = head["root"]

    def add(self, statement: statements.Statement, origin: str) -> None:
        """Note a statement that this process appended to the log of that origin."""
        with self._lock:
            self._add(statement, self._recorder.open().identity.keyid)
            self._placed.add((origin, statement.digest))

    # -- what is asked ------------------------------------------------------------------------------------------------

    def had(self, head: statements.Head) -> bool | None:
        """Whether a log of this evidence had a checkpoint; None when the log is not in it, or not that far yet."""
        name = head.origin.rpartition("/")[2]
        reader = read(open_written(self._recorder.evidence))
        if name not in reader.store.logs():
            return None
        with self._lock:
            if self._heads.get(head.origin, {}).get(head.size) == head.root:
                return True
            self._recorder.flush()
            for event in log.LogScan(reader.store, name).events():
                if isinstance(event, log.CheckpointSeen):
                    self._checkpoint(event)
            known = self._heads.get(head.origin, {})
            if reader.store.lags and head.size > max(known, default=0):
                return None  # another machine's log, whose end is still on its way into the bucket
            return known.get(head.size) == head.root

    def audience(self, handoff: str, *, origin: str) -> str | None:
        """Whom a handoff that this identity sealed here was for; None when it sealed no such.

        ``origin`` is of the log that is written: what others put into it before this process had it is read then.
        """
        with self._lock:
            if handoff not in self._sealed or self._origin not in ("", origin):
                self._scan()
            self._origin = origin
            return self._sealed.get(handoff)

    def chain(self, handoff: str) -> list[Envelope]:
        """A handoff that stands in some log here, and the grants it rests on, as far as they do, the first one last."""
        self._recorder.flush()
        found: dict[str, tuple[Envelope, str | None]] = {}
        for entry, statement in read(open_written(self._recorder.evidence)).statements():
            one = statement.predicate
            if isinstance(one, statements.Handoff) and one.proof == "countersigned":
                grant = None if one.authority is None else one.authority.grant
                found[statement.digest] = (Envelope.parse(entry.body), grant)
        chain: list[Envelope] = []
        link: str | None = handoff
        while link is not None and link in found:
            envelope, link = found.pop(link)
            chain.append(envelope)
        return chain

    def is_accepted(self, handoff: str, key: str) -> bool:
        """Whether a receipt by this key that accepts a handoff stands here (ask ``audience`` first, which reads)."""
        return (handoff, key) in self._accepted

    def taint(self, digest: str) -> tuple[str, ...]:
        """The taint of a handoff that stands here."""
        with self._lock:
            if digest not in self._taints and not self._scanned:
                self._scan()  # what comes later is this process's own
            return self._taints.get(digest, ())

    def listed(self, apart: statements.ParentSet | None) -> list[statements.Parent]:
        """The parents in a list that stands apart, as far as this evidence holds it."""
        if apart is None:
            return []
        try:
            self._recorder.flush()
            return statements.parse_parents(read(open_written(self._recorder.evidence)).blob(apart.sha256))
        except CounterfoilError:
            return []

    def placed(self, digest: str, origin: str) -> bool:
        """Whether a statement is known to stand in the log of that origin."""
        return (origin, digest) in self._placed

    # -- reading ------------------------------------------------------------------------------------------------------

    def _scan(self) -> None:
        identity = self._recorder.open().identity.keyid
        self._recorder.flush()
        self._scanned = True
        for entry, statement in read(open_written(self._recorder.evidence)).statements():
            self._add(statement, identity)
            if isinstance(statement.predicate, statements.Handoff):
                self._placed.add((f"{identity}/{entry.log}", statement.digest))

    def _add(self, statement: statements.Statement, identity: str) -> None:
        predicate = statement.predicate
        if isinstance(predicate, statements.Handoff):
            if predicate.taint:
                self._taints[statement.digest] = tuple(predicate.taint)
            if predicate.proof == "countersigned" and predicate.sender.key == identity:
                self._sealed[statement.digest] = predicate.audience
        elif isinstance(predicate, statements.Receipt) and predicate.status == "accepted":
            self._accepted.add((predicate.handoff, predicate.sender.key))

    def _checkpoint(self, seen: log.CheckpointSeen) -> None:
        try:
            found = notes.Checkpoint.parse(notes.Note.parse(seen.note).text)
        except CounterfoilError:
            return
        if (found.size, found.root) == (seen.size, seen.root):
            self._heads.setdefault(found.origin, {})[found.size] = found.root.hex()
