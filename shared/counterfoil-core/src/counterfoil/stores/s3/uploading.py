"""The thread that sends the sealed segments of a spool to its bucket: one for each process and place.

Everything it knows is its own: callers put messages into a queue and wait for answers, so that a signal handler can
do so at any moment. A failing bucket is tried again for as long as the process lives; what dead processes left is sent
too.
"""

from __future__ import annotations

import logging
import os
import queue
import random
import threading
import time
from typing import Any, Final

from counterfoil.bells import Waiter
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.stores.s3.beside import Beside, beside
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.sending import ALONE, Sender, taken_error
from counterfoil.stores.s3.spool import SpoolStore

__all__ = ["Uploader", "spool_for"]

_log: Final = logging.getLogger("counterfoil")

ASK: Final = 5.0
"""Seconds that the opening of a log waits for the bucket; then a new log is begun."""
LOOK: Final = 0.5
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
DEAD_FIRST: Final = 1.0
DEAD_EVERY: Final = 60.0
"""Seconds after which what dead processes left is looked for: a while after the start, for this one chooses its log."""


class Uploader:
    """What a writer asks of the bucket (``stores.remote.Remote``)."""

    def __init__(self, spool: SpoolStore, bucket: Bucket) -> None:
        self.spool = spool
        self.bucket = bucket
        self.sender = Sender(spool, bucket)
        self._queue: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._life = threading.RLock()
        self._thread: threading.Thread | None = None
        self._writers = 0
        # What the thread knows; others read single values.
        self._there: dict[str, int] = {}
        self._taken: dict[str, CounterfoilError] = {}
        self._sealed: dict[str, int] = {}
        self._waiting: list[tuple[str, int, Waiter]] = []
        self._failing_since: float | None = None
        self._error: CounterfoilError | None = None
        self._pause = 0.0
        self._retry_at = 0.0
        self._dead_at = 0.0
        self._poisoned: dict[str, float] = {}

    # -- a writer's questions -----------------------------------------------------------------------------------------

    @property
    def seal_after(self) -> float:
        """Seconds after its first entry at which a segment is sealed."""
        return self.bucket.options.upload_after

    def written(self) -> Beside:
        """The bucket with the spool beside it."""
        return beside(self.bucket)

    def start(self) -> None:
        """A writer begins."""
        with self._life:
            self._writers += 1
            if self._thread is None:
                self._dead_at = time.monotonic() + DEAD_FIRST
                self._failing_since, self._pause, self._retry_at = None, 0.0, 0.0  # that was another time
                self._thread = threading.Thread(target=self._run, name="counterfoil-upload", daemon=True)
                try:
                    self._thread.start()
                except (
                    RuntimeError
                ):  # at the end of an interpreter none can be started: it stays in the spool
                    self._thread = None

    def ready(self, log: str) -> bool | None:
        """Whether all of a log is in the bucket, and nothing else behind it."""
        return False if self.spool.taken(log) is not None else self._ask(_READY, log, -1)

    def claim(self, log: str, number: int) -> bool | None:
        """Put a segment into the bucket before anything builds on it."""
        return self._ask(_CLAIM, log, number)

    def sealed(self, log: str, number: int) -> None:
        """A segment can go."""
        self._queue.put((_SEALED, log, number))

    def is_there(self, log: str, number: int) -> bool:
        """Whether a segment is known to be in the bucket."""
        return number <= self._there.get(log, -1) or number <= self.spool.sent(log)

    def taken(self, log: str) -> CounterfoilError | None:
        """Why a log is somebody else's now."""
        return self._taken.get(log)

    def wait(self, log: str, number: int, timeout: float | None = None) -> bool:
        """Wait until a sealed segment is in the bucket; without ``timeout`` as long as the settings let closing wait.

        While the bucket fails, that time runs from its first failure on: nobody waits for it twice. Nobody waits for
        what only a person can mend.
        """
        patience = self.bucket.options.close_wait if timeout is None else timeout
        began = time.monotonic()
        done = Waiter()
        self._queue.put((_WAIT, log, number, done))
        while True:
            since = began if timeout is not None else min(began, self._failing_since or began)
            left = since + patience - time.monotonic()
            if done.wait(max(0.0, min(LOOK, left))):
                return done.ok
            hopeless = self._error is not None and not getattr(self._error, "again", False)
            if left <= 0 or self._thread is None or (timeout is None and hopeless):
                return False

    def finish(self, log: str, number: int) -> None:
        """A writer ends: wait for its last segment, and say what stays."""
        if number >= 0 and not self.wait(log, number) and log not in self._taken:
            _log.warning(
                "counterfoil: %s%s; the next process that records there, or `counterfoil push`, sends what is in %s",
                self.spool.backlog(),
                f": {self._error}" if self._error is not None else "",
                self.spool.root,
            )
        with self._life:
            self._writers -= 1
            if self._writers == 0:
                self._queue.put((_STOP,))

    def _ask(self, what: int, log: str, number: int) -> bool | None:
        if self._failing_since is not None or self._thread is None:
            return None
        done = Waiter()
        self._queue.put((what, log, number, done))
        if not done.wait(ASK):
            self._failing_since = time.monotonic()  # the next one that asks does not wait as long again
            return None
        if done.upto < 0:
            return None
        return done.ok

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                if self._hear() and self._ends():
                    return
                self._next()
            except Exception as exc:
                self._failed(exc, None)

    def _hear(self) -> bool:
        """Take messages, waiting until something is due; True when no writer is left."""
        now = time.monotonic()
        due = self._dead_at
        if any(self._owed(log) for log in self._sealed):
            due = min(due, self._retry_at)
        due = min([due, *(at for log, at in self._poisoned.items() if at > now and log in self._sealed)])
        timeout = max(0.0, max(due, self._retry_at) - now)  # a failing bucket is left alone until then
        ending = False
        while True:
            try:
                message = self._queue.get(timeout=timeout)
            except queue.Empty:
                return ending
            timeout = 0.0
            kind = message[0]
            if kind == _STOP:
                ending = True
            elif kind == _SEALED:
                _, log, number = message
                self._sealed[log] = max(number, self._sealed.get(log, -1))
            elif kind == _WAIT:
                self._waiting.append(message[1:])
                self._answer()
            else:
                self._request(*message)

    def _ends(self) -> bool:
        with self._life:
            if self._writers:
                return False
            self._thread = None
            return True

    def _request(self, kind: int, log: str, number: int, done: Waiter) -> None:
        """A question that somebody waits for: it is asked once, now."""
        try:
            if kind == _CLAIM:
                ok = self._sent(log, self.sender.send(log, number), number)
            else:
                ok = self.sender.send_log(log) and not self.sender.follows(log, self.spool.sent(log) + 1)
            self._fine()
        except Exception as exc:
            self._failed(exc, log)
            done.done(ok=False)
        else:
            done.done(ok=ok, upto=0)

    def _owed(self, log: str) -> bool:
        return (
            log not in self._taken
            and self._sealed[log] > self._there.get(log, -1)
            and self._poisoned.get(log, 0.0) <= time.monotonic()
        )

    def _next(self) -> None:
        """Send one segment of a log that is written here, or, when there is none, what dead processes left."""
        if time.monotonic() < self._retry_at:
            return
        for log in [log for log in self._sealed if self._owed(log)]:
            try:
                for number in self.spool.pending(log):
                    if number > self._sealed[log]:
                        break
                    if not self._sent(log, self.sender.send(log, number), number):
                        break
                    self._fine()
                    if not self._queue.empty():
                        return
                else:
                    self._there[log] = self._sealed[log]  # another process may have sent and removed it
            except CounterfoilError as exc:
                if self._failed(exc, log):
                    return
        if time.monotonic() >= self._dead_at:
            self._dead_at = time.monotonic() + DEAD_EVERY
            self._send_dead()
        self._answer()

    def _send_dead(self) -> None:
        for log in self.spool.logs():
            if not self._queue.empty():
                self._dead_at = time.monotonic() + FIRST_PAUSE
                return
            if log not in self._sealed:
                try:
                    self.sender.send_dead(log, go_on=self._queue.empty)
                except CounterfoilError as exc:
                    if self._failed(exc, log):
                        self._dead_at = self._retry_at
                        return

    def _sent(self, log: str, ours: bool, number: int) -> bool:
        if ours:
            self._there[log] = max(number, self._there.get(log, -1))
        else:
            self._taken[log] = error = taken_error(self.spool, log, number)
            _log.error("counterfoil: %s; %s", error, error.hint)
        self._answer()
        return ours

    def _fine(self) -> None:
        if self._error is not None:
            self.spool.note_error(None)
        self._error = self._failing_since = None
        self._pause = self._retry_at = 0.0

    def _failed(self, exc: Exception, log: str | None) -> bool:
        """Wait before the next attempt, longer each time; True when the bucket fails, and not one segment alone."""
        error = exc if isinstance(exc, CounterfoilError) else _unexpected(exc, self.spool.name)
        if self._error is None or self._error.code != error.code:
            self.spool.note_error(error)
            _log.warning("counterfoil: not in the bucket yet: %s; it is tried again", error)
        self._error = error
        now = time.monotonic()
        if log is not None and error.code in ALONE:
            self._poisoned[log] = now + LONGEST_PAUSE
            return False
        if self._failing_since is None:
            self._failing_since = now
        self._pause = min(max(FIRST_PAUSE, self._pause * 2), LONGEST_PAUSE)
        self._retry_at = now + self._pause * (0.5 + random.random() / 2)
        return True

    def _answer(self) -> None:
        """Answer those whose segment is there, or never will be."""
        left = []
        for log, number, done in self._waiting:
            if number <= self._there.get(log, -1):
                done.done(ok=True)
            elif log in self._taken:
                done.done(ok=False)
            else:
                left.append((log, number, done))
        self._waiting = left


_READY: Final = 0
_CLAIM: Final = 1
_SEALED: Final = 2
_WAIT: Final = 3
_STOP: Final = 4

_uploaders: dict[tuple[Any, ...], Uploader] = {}


def spool_for(bucket: Bucket) -> SpoolStore:
    """The spool of a place, with this process's uploader behind it."""
    key = (os.path.abspath(SpoolStore(bucket.name).root), bucket.options)
    found = _uploaders.get(key)
    if found is None:
        spool = SpoolStore(bucket.name)
        found = _uploaders[key] = Uploader(spool, bucket)
        spool.remote = found
    return found.spool


def _unexpected(exc: Exception, where: str) -> StoreError:
    return StoreError(
        f"the upload failed: {type(exc).__name__}", code="CF-S3-041", where=where, hint="report this"
    )


if hasattr(os, "register_at_fork"):
    # The parent's threads send what is the parent's; a child has uploaders of its own.
    os.register_at_fork(after_in_child=_uploaders.clear)
