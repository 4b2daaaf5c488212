"""Heads of logs as one evidence tells them: no two statements that stand in it may name two roots of one size.

In memory as long as there is room; what was let go is looked up in the logs again. Until a statement is on disk, a file
in the Counterfoil home says to other processes which root it names. Source: ``shared/spec/trust.md``.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from counterfoil import _folders, _home, notes, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.peers import PeerHead
from counterfoil.places import open_written
from counterfoil.reader import read

if TYPE_CHECKING:
    from counterfoil.recorder import Recorder

__all__ = ["Told"]

KEPT: Final = 32_768
"""Heads in memory, and logs whose largest is."""
_COMING: Final = 1024
"""Statements in memory that may not be on disk yet."""
_HOUR: Final = 3600.0
_ROOT: Final = re.compile(rb"[0-9a-f]{64}")


class Told:
    """The heads that statements and checkpoints in one evidence tell, by log and size.

    ``settling`` is held from the question whether a head fits until it is taken.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.settling = threading.RLock()
        self._recorder = recorder
        self._lock = threading.Lock()  # never held while another one is taken
        self._roots: OrderedDict[bytes, bytes] = OrderedDict()
        self._largest: OrderedDict[str, float] = OrderedDict()
        self._coming: OrderedDict[bytes, PeerHead] = OrderedDict()
        self._all = self._all_logs = True
        self._swept = -math.inf

    # -- what stands in the evidence ----------------------------------------------------------------------------------

    def statement(self, statement: statements.Statement, envelope: Envelope) -> None:
        """Take note of what a statement that stands here tells, whoever wrote it."""
        head = _told_by(statement, envelope)
        if head is not None:
            self._note(head.origin, head.size, bytes.fromhex(head.root))

    def checkpoint(self, log: str, note: bytes) -> None:
        """Take note of a checkpoint that stands in a log here; what is none of that log tells nothing."""
        try:
            found = notes.Checkpoint.parse(notes.Note.parse(note).text)
        except CounterfoilError:
            return
        if found.origin.rpartition("/")[2] == log:
            self._note(found.origin, found.size, found.root)

    # -- what is asked ------------------------------------------------------------------------------------------------

    def remembered(self, origin: str, size: int) -> str | None:
        """The root that is told here for a size of a log, as far as it is in memory."""
        with self._lock:
            root = self._roots.get(_key(origin, size))
        return None if root is None else root.hex()

    def root(self, origin: str, size: int) -> str | None:
        """The root that is told here for a size of a log; looked up where it may have been let go."""
        known = self.remembered(origin, size)
        with self._lock:
            largest = self._largest.get(origin, 0 if self._all_logs else math.inf)
            sure = self._all or size > largest
        if known is not None or sure:
            return known
        return next((head.root for head in self._look(origin, size)), None)

    def against(self, head: PeerHead) -> PeerHead | None:
        """What a statement here told that cannot be true besides a head."""
        with self._lock:
            coming = self._coming.get(_key(head.origin, head.size))
        if coming is not None and coming.root != head.root:
            return coming
        return next((one for one in self._look(head.origin, head.size) if one.root != head.root), None)

    def take(self, head: PeerHead) -> bool:
        """Take a head that is about to stand here; False when another process takes another root of its size.

        Raises KeyringError when the home cannot tell.
        """
        path = _home.home() / "told" / _home.name_of(f"{head.origin} {head.size}")
        _home.make_private_dir(path.parent)
        if time.monotonic() - self._swept > _HOUR:
            self._swept = time.monotonic()
            # What was about to stand an hour ago does by now, or never will.
            _folders.remove_older(path.parent, _HOUR)
        data = head.root.encode()
        # Not synced: after a power failure the statements on disk tell, and no others count.
        if not _home.create_file(path, data, sync=False):
            found = _home.read_file(path, limit=len(data), secret=False)
            if found is not None and found != data and _ROOT.fullmatch(found):
                return False
            if found != data:  # what a power failure leaves of it
                _home.write_file(path, data, sync=False)
        self._note(head.origin, head.size, bytes.fromhex(head.root))
        with self._lock:
            self._coming[_key(head.origin, head.size)] = head
            if len(self._coming) > _COMING:
                self._coming.popitem(last=False)
        return True

    # -- memory and logs ----------------------------------------------------------------------------------------------

    def _note(self, origin: str, size: int, root: bytes) -> None:
        key = _key(origin, size)
        with self._lock:
            self._roots.setdefault(key, root)
            self._roots.move_to_end(key)
            # Of a log that may have been let go nobody knows how large it was.
            self._largest[origin] = max(size, self._largest.get(origin, 0 if self._all_logs else math.inf))
            self._largest.move_to_end(origin)
            if len(self._roots) > KEPT:
                self._roots.popitem(last=False)
                self._all = False
            if len(self._largest) > KEPT:
                self._largest.popitem(last=False)
                self._all_logs = False

    def _look(self, origin: str, size: int) -> list[PeerHead]:
        self._recorder.flush()
        found = []
        for entry, statement in read(open_written(self._recorder.evidence)).statements():
            head = _told_by(statement, Envelope.parse(entry.body))
            if head is not None and (head.origin, head.size) == (origin, size):
                found.append(head)
        return found


def _told_by(statement: statements.Statement, envelope: Envelope) -> PeerHead | None:
    """The head that a statement tells of its signer's log, as a verifier counts it."""
    predicate = statement.predicate
    if not isinstance(predicate, statements.Handoff | statements.Receipt):
        return None
    head = PeerHead.of(predicate, envelope)
    if head is None or not head.origin.startswith(f"{predicate.sender.key}/"):
        return None
    return head if predicate.sender.key in {one.keyid for one in envelope.signatures} else None


def _key(origin: str, size: int) -> bytes:
    return sha256(f"{origin} {size}".encode()).digest()[:16]
