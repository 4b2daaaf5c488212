"""What a writer does where its log goes on to another place: it claims the log before it builds on it, and seals
segments by time, so that they can go.

A place without anything behind it is written as ever: a segment ends when it is full.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from typing import Any

from counterfoil import records
from counterfoil.appending import Appender
from counterfoil.choosing import Chosen
from counterfoil.errors import CounterfoilError
from counterfoil.locking import unlock
from counterfoil.packing import ENTRY, Group, put_out

__all__ = ["Sealer"]


class Sealer(Appender):
    """An appender that knows where its log goes on to, if it does."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._begun = math.inf
        self._sealed_last = -1
        self._starts: dict[int, int] = {}
        super().__init__(*arguments, **named)

    def _choose(self, left_alone: Collection[str] = ()) -> Chosen:
        """The first log that can be gone on with there, too; a new one where none can."""
        remote = self.store.remote
        if remote is None:
            return super()._choose()
        remote.start()
        left: set[str] = set(left_alone)
        try:
            while True:
                chosen = super()._choose(left)
                ready = chosen.scan.segment < 0 or remote.ready(self.log)
                if ready and (chosen.scan.segment < 0 or self._claim()):
                    return chosen
                # Where nobody can tell, no other log is asked for either: whoever opens this waits.
                left.update(self.store.logs() if ready is None else (self.log,))
                for lock in self._locks:
                    unlock(lock)
        except BaseException:
            remote.finish("", -1)
            raise

    def _claim(self) -> bool:
        """Begin the session in a segment of its own and put that there before anything builds on it."""
        remote = self.store.remote
        assert remote is not None
        self._session_done = False
        if not self._alone([]):
            return False
        number = self._segment
        found = remote.claim(self.log, number)
        if found:
            self._sealed_last = number
            return True
        if found is None:
            # It may be there or not, and goes there later: the session ends behind it, for it goes on in another log.
            if self._alone(
                [(ENTRY, records.build({"op": "closed", "phase": "point"}, {"at": records.now()}))]
            ):
                remote.sealed(self.log, self._segment)
            self._remember()
        else:
            self.store.remove_segment(self.log, number)
        self._unkept = self._head = None
        self._session_done = False
        return False

    def _alone(self, items: list[Any]) -> bool:
        """A segment with its opening, these items and a checkpoint, on disk; what cannot be written is left alone."""
        group = Group(items, (self._index, self._prev, self._tree.size, self._tree.peaks(), self._covered))
        try:
            self._open_segment(group)
            self._pack(items, group)
            self._write_checkpoint(group)
            group.segment, group.end = self._segment, self._offset
            out, self._out = self._out, []
            put_out(self._fd, out)
        except (CounterfoilError, OSError) as exc:
            self._give_up(exc, group)
            self.error = None
            return False
        self._keep(group)
        super()._leave_segment()
        return True

    def _leave_segment(self) -> None:
        """Close the segment; it can go now."""
        there = self._fd >= 0
        super()._leave_segment()
        if there and self.store.remote is not None:
            self._seal_now(self.store.remote)

    def _seal_now(self, remote: Any) -> None:
        self._sealed_last, self._begun = self._segment, math.inf
        remote.sealed(self.log, self._segment)

    def _open_segment(self, group: Group) -> None:
        """Create the next segment; from now on its time runs."""
        before, remote = self._index, self.store.remote
        super()._open_segment(group)
        self._begun = time.monotonic()
        if remote is not None:
            self._starts = {
                number: at for number, at in self._starts.items() if not remote.is_there(self.log, number)
            }
            self._starts[self._segment] = before

    def _seal_at(self) -> float:
        """When the segment is to be sealed."""
        remote = self.store.remote
        return math.inf if remote is None or self._fd < 0 else self._begun + remote.seal_after

    def _sealing(self, *, closing: bool, asked: bool) -> bool:
        """Whether the segment is sealed behind what is written next."""
        return self.store.remote is not None and (
            closing or asked or self.gone or time.monotonic() >= self._seal_at()
        )

    def _seal(self) -> bool:
        """Seal the segment, which ends in its checkpoint; False when that failed."""
        if not self._settle() or self._index != self._covered:
            return False
        self._leave_segment()
        return True

    def _notice_taken(self) -> None:
        """Let go of a log that somebody else went on with: what is queued is still written, and stays here."""
        found = self.store.remote.taken(self.log) if self.store.remote is not None else None
        if found is not None and not self.gone:
            self.error, self.gone = found, True

    @property
    def stranded(self) -> int:
        """Entries of a log that somebody else went on with which stay here."""
        remote = self.store.remote
        if remote is None or remote.taken(self.log) is None:
            return 0
        first = min(
            (at for number, at in self._starts.items() if not remote.is_there(self.log, number)), default=0
        )
        return self._index - first if self._starts else 0

    def _finish(self) -> None:
        """Wait for what was sealed last, within bounds."""
        if self.store.remote is not None:
            self.store.remote.finish(self.log, self._sealed_last)
