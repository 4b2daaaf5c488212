"""How a writer's callers wake it and wait for it, safe also where a signal (Ctrl-C) ends either in the middle.

An Event has a lock that Python code takes and gives back: an exception out of a signal handler can come in between, and
then whoever wants it next waits for ever. A SimpleQueue has no such moment.
"""

from __future__ import annotations

import contextlib
import queue

__all__ = ["Bell", "Waiter"]


class Bell:
    """Rung by anybody, heard by one: ``rung`` until it is ``still`` again."""

    __slots__ = ("_queue", "rung")

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.rung = False

    def ring(self) -> None:
        """Wake who waits, or keep the next wait from waiting."""
        if not self.rung:
            self.rung = True  # first: were it said behind a wait that was woken, nobody would ring again
            self._queue.put(None)

    def wait(self, timeout: float) -> None:
        """Until it is rung, or ``timeout`` seconds."""
        with contextlib.suppress(queue.Empty):
            self._queue.get(timeout=timeout)

    def still(self) -> None:
        """Forget every ring until now; what it was rung for must be looked after next."""
        while not self._queue.empty():
            with contextlib.suppress(queue.Empty):
                self._queue.get_nowait()
        self.rung = False


class Waiter:
    """One caller waiting for the disk, for one answer; with ``seal`` for the segment ``upto`` to be sealed, too."""

    __slots__ = ("_queue", "ok", "seal", "upto")

    def __init__(self, *, seal: bool = False) -> None:
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.ok = False
        self.seal = seal
        self.upto = -1

    def done(self, *, ok: bool, upto: int = -1) -> None:
        """Answer."""
        self.ok, self.upto = ok, upto
        self._queue.put(None)

    def wait(self, timeout: float | None) -> bool:
        """Whether the answer came within ``timeout`` seconds."""
        try:
            self._queue.get(timeout=timeout)
        except queue.Empty:
            return False
        return True
