"""The one writer of a log: takes finished bodies and blobs from any thread and makes them durable, chained and signed.

One thread owns the file. A group is what arrived within 5 ms (or 1,024 entries, or until somebody waits): compressed,
appended, fdatasync'ed. A checkpoint follows behind a group at 256 uncovered entries, 1 s after an uncovered entry, at
a run's end and at close; the home knows of the last one at these times too, but under load only once a second. The
writer never truncates: after a failure it opens a new segment that says what is good of the old one.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from typing import Any, Final

from counterfoil import appending, keys, records, segments
from counterfoil.appending import BLOB, ENTRY, Opening, Sealed
from counterfoil.bells import Bell, Waiter
from counterfoil.entries import MAX_ENTRY
from counterfoil.errors import LogError
from counterfoil.locking import unlock
from counterfoil.packing import Item, entries_in, first_of, size_of
from counterfoil.sealing import Sealer
from counterfoil.stated import Stated
from counterfoil.stores import FolderStore

__all__ = ["Sealed", "Writer"]

WINDOW: Final = 0.005
GROUP: Final = 1024
"""Entries of a group at most: a group waits for the disk once, and who waits for the disk waits for a group."""
EVERY: Final = 256
PART: Final = 8 << 20
"""Bytes that are written and synced at once; less after a failure, and where the disk has little room left."""
PART_MIN: Final = 16 << 10
DELAY: Final = 1.0
KEEP: Final = 1.0
"""Seconds for which the home may know an older checkpoint than the last, under load."""
RETRY: Final = 1.0
LOOK: Final = 0.5
"""Seconds after which a waiting caller looks whether the writer is still alive."""
PENDING_MAX: Final = 256 << 20
"""Bytes that may wait for a failing disk (four times as many for a slow one) before more are counted as lost."""
MAX_BLOB: Final = segments.MAX_CHUNK - (2 << 20)
"""With what may stand before it in its chunk."""
MAX_BODY: Final = MAX_ENTRY - 512


class Writer(Sealer):
    """Appends to one log of one identity; safe to call from any thread.

    ``opening`` makes the context of the ``session`` record. Raises StoreError or LogError when no log can be opened.
    """

    def __init__(
        self, store: FolderStore, identity: keys.SigningKey, *, opening: Opening, sealed: Sealed | None = None
    ) -> None:
        super().__init__(store, identity, opening=opening, sealed=sealed)
        self.lost = 0
        self.stated = Stated(store, self.log)
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._queued: set[str] = set()
        self._urgent = Bell()
        self._waiters: list[Waiter] = []
        self._taken = 0
        self._untaken = self._told = 0
        self._refused = 0
        self._part = PART
        self._asked = False
        self._end = b""
        self.ended = False
        self._thread = threading.Thread(target=self._run, name="counterfoil-writer", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._release()  # or this process itself would keep the log locked
            raise

    # -- callers ------------------------------------------------------------------------------------------------------

    def blob(self, sha256: str, data: bytes) -> bool:
        """Queue a blob; it stands in the log before every entry queued later. False when it cannot be kept."""
        if sha256 in self._queued:
            return True
        if len(data) > MAX_BLOB or not self._put((BLOB, sha256, data), len(data)):
            return False
        self._queued.add(sha256)
        return True

    def has(self, sha256: str) -> bool:
        """Whether a blob was taken, so that an entry queued from now on may cite it."""
        return sha256 in self._queued

    def entry(self, body: bytes) -> bool:
        """Queue the RFC 8785 bytes of a record or envelope. False when it cannot be kept: then the log tells a loss."""
        if not self._put((ENTRY, body), len(body), fits=len(body) <= MAX_BODY):
            return False
        self.stated.take(body)
        return True

    def checkpoint(self) -> None:
        """Ask for a checkpoint over everything queued so far (returns at once)."""
        self._put((_CHECKPOINT,), 0)

    def flush(self, *, timeout: float | None = None, remote: bool = False) -> bool:
        """Wait until everything queued so far is on disk; False when that failed or ``timeout`` (seconds) passed.

        With ``remote``, where the log goes on to another place: until it is there, at most as long as the settings say.
        Also False once after something was not taken at all. On the writer's own thread (a plugin) it cannot wait.
        """
        done = Waiter(seal=remote and self.store.remote is not None)
        with self._gate:
            if self._closed or threading.current_thread() is self._thread:
                return self._closed and self.error is None and self.lost == 0
            self._queue.put((_SYNC, done))
        self._urgent.ring()
        until = None if timeout is None else time.monotonic() + timeout
        while not done.wait(LOOK if until is None else max(0.0, min(LOOK, until - time.monotonic()))):
            if not self._thread.is_alive() or (until is not None and time.monotonic() >= until):
                return False
        if not done.ok or not done.seal or self.store.remote is None:
            return done.ok
        left = None if until is None else max(0.0, until - time.monotonic())
        return self.store.remote.wait(self.log, done.upto, left)

    def close(self) -> None:
        """Write what is queued, a last checkpoint, and release the log; idempotent."""
        with self._gate:
            self._asked, closed, self._closed = True, self._closed, True
            if not closed:
                self._queue.put((_CLOSE,))
        self._urgent.ring()
        self._thread.join()
        self._drain()  # what another thread put in while the writer ended
        self._release()

    def abandon(self) -> None:
        """Forget this writer in a forked child: the parent still owns the log, its lock and its thread."""
        self._closed = True
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._fd, self._locks = -1, []  # copies of locks are closed at every fork

    def last_checkpoint(self) -> dict[str, Any] | None:
        """{origin, size, root} of the last checkpoint on disk, for statements that cite it."""
        return self._head

    def _put(self, item: Item, size: int, *, fits: bool = True) -> bool:
        with self._gate:
            limit = 4 * PENDING_MAX if self.error is None else PENDING_MAX
            if self._closed or not fits or self._taken - self._written > limit:
                if item[0] == ENTRY:
                    self.lost += 1
                    self._untaken += 1
                return False
            self._taken += size
            self._queue.put(item)
        if self._queue.qsize() >= GROUP and not self._urgent.rung:
            self._urgent.ring()  # a whole group waits: the window would only keep it from the disk
        return True

    def _release(self) -> None:
        self._finish()
        with self._gate:
            fd, self._fd = self._fd, -1
            locks, self._locks = self._locks, []
        if fd >= 0:
            os.close(fd)
        for lock in locks:
            unlock(lock)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as exc:
            # Callers wait for this thread: it must not die without a word.
            self.error = LogError(
                f"the writer failed: {type(exc).__name__}",
                code="CF-LOG-033",
                where=self.origin,
                hint="report this",
            )
        finally:
            self._closed = True
            with contextlib.suppress(Exception):
                self._settle()
            self._drain()
            self._answer(ok=False)
            self.ended = not self._asked

    def _work(self) -> None:
        uncovered_since: float | None = None
        retry_at, owed, closing = 0.0, False, False
        while not closing:
            timeout = None
            seal_at, waits = self._seal_at(), self._items or self._unkept is not None
            if waits or uncovered_since is not None or seal_at < math.inf:
                due_at = math.inf if uncovered_since is None else uncovered_since + DELAY
                due_at = min(retry_at if self._items else due_at, seal_at)
                if self._unkept is not None:
                    due_at = min(due_at, self._kept + KEEP)
                timeout = max(0.0, max(due_at, retry_at) - time.monotonic())
            try:
                first = self._queue.get(timeout=timeout)
            except queue.Empty:
                pass
            else:
                if first[0] in (BLOB, ENTRY) and self._queue.qsize() < GROUP:
                    self._urgent.wait(WINDOW)
                self._urgent.still()
                closing, wanted = self._gather(first)
                owed |= wanted
            if time.monotonic() < retry_at and not closing and not self._waiters:
                continue  # a failing disk is asked once a second, or when somebody waits for it
            self._notice_taken()
            self._tell_losses()
            if closing and (self._session_done or self._items or self._flight is not None):
                self._tell_end()
            due = uncovered_since is not None and time.monotonic() >= uncovered_since + DELAY
            full = (
                self._index + entries_in(self._items) - self._covered >= EVERY
                or self._offset >= appending.SEGMENT_SIZE
            )
            seal = self._sealing(closing=closing, asked=any(one.seal for one in self._waiters))
            # Where nobody waits and a whole group is there, it is made while the disk is busy with this one.
            ahead = (
                not (owed or seal or closing or self._waiters or self.gone) and self._queue.qsize() >= GROUP
            )
            ok = self._write_out(
                checkpoint=owed or due or seal or closing or full, closing=closing, ahead=ahead
            )
            ok = ok and (not seal or self._seal())
            if self._unkept is not None and (
                owed or due or closing or self.gone or time.monotonic() >= self._kept + KEEP
            ):
                self._remember()
            if self.gone:
                break
            if ok:
                owed, retry_at = False, 0.0
                uncovered_since = (
                    None if self._index == self._covered else uncovered_since or time.monotonic()
                )
            else:
                retry_at = time.monotonic() + RETRY
            self._answer(ok=ok)

    def _write_out(self, *, checkpoint: bool, closing: bool, ahead: bool) -> bool:
        """Write what is there in parts, each a group of its own: a disk with little room takes as much as fits.

        With ``ahead`` the last of them may still be on its way to the disk.
        """
        failed = False
        while True:
            part = self._next_part()
            last, there = len(part) == len(self._items), len(self._items)
            # Behind a failure nothing goes ahead: on a disk that fails for good there would always be something back.
            if self._commit(part, checkpoint=checkpoint and last, ahead=(ahead or not last) and not failed):
                del self._items[: len(part)]
                self._part = PART if last else self._part if failed else min(PART, 2 * self._part)
                if last:
                    return True
                continue
            failed = True
            # The group before may be what failed, and stands in front again.
            back = self._items[: len(self._items) - there]
            if size := size_of(back or part):  # a checkpoint alone says nothing of how much is too much
                self._part = min(self._part, max(size // 2, 1))
            if self.gone or not closing:
                return False
            if len(part) <= 1 and not back:
                # Nothing more fits; what is there already may still be signed.
                self._commit([], checkpoint=True)
                return False

    def _next_part(self) -> list[Item]:
        room = self.store.room() if self._items else None
        limit = self._part if room is None else min(self._part, max(room - 4 * PART_MIN, PART_MIN))
        return first_of(self._items, limit)

    def _tell_losses(self) -> None:
        """What was not taken, and a head that could not be remembered, become losses in the log itself."""
        count = self._untaken - self._told
        self._told += count
        code, self._unremembered = self._unremembered, ""
        for name, number in (
            ("not taken by the writer", count),
            (f"head not remembered: {code}", len(code[:1])),
        ):
            if number:
                content = {"name": name, "op": "loss", "phase": "point"}
                body = records.build(content, {"at": records.now(), "count": number})
                self._items.append((ENTRY, body))
                self._written -= len(body)  # nobody put it in

    def _tell_end(self) -> None:
        """The last record of a session that was closed: without it nobody knows what came after its last checkpoint."""
        body = self._end = records.build({"op": "closed", "phase": "point"}, {"at": records.now()})
        self._items.append((ENTRY, body))
        self._written -= len(body)  # nobody put it in

    def _drain(self) -> None:
        """Count what is left when nothing more is written."""
        while not self._queue.empty():
            self._gather(self._queue.get())
        # The end of the session is nobody's entry: where it could not be written, that it is missing says enough.
        self.lost += sum(item[0] == ENTRY and item[1] is not self._end for item in self._items)
        self._items.clear()

    def _answer(self, *, ok: bool) -> None:
        ok = ok and self.lost == self._refused
        if self._waiters:
            self._refused = self.lost
        for waiter in self._waiters:
            waiter.done(ok=ok, upto=self._sealed_last)
        self._waiters.clear()

    def _gather(self, item: Item) -> tuple[bool, bool]:
        """Take what is queued, bounded by count; returns (closing, checkpoint wanted)."""
        wanted, count, take, items = False, 0, self._queue.get_nowait, self._items
        while True:
            kind = item[0]
            if kind == ENTRY:
                items.append(item)
                count += 1
                if count >= GROUP:
                    return False, wanted
            elif kind == BLOB:
                items.append(item)
            elif kind == _SYNC:
                self._waiters.append(item[1])
            elif kind == _CHECKPOINT:
                wanted = True
            else:
                return True, True
            try:
                item = take()
            except queue.Empty:
                return False, wanted


_CHECKPOINT: Final = 2
_SYNC: Final = 3
_CLOSE: Final = 4
