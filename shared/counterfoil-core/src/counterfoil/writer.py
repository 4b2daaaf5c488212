"""The one writer of a log: takes finished bodies and blobs from any thread and makes them durable, chained and signed.

One thread owns the file. A group is what arrived within 5 ms (or 256 entries, or until somebody waits): compressed,
appended, fdatasync'ed. A checkpoint follows at 256 uncovered entries, 1 s after an uncovered entry, at a run's end
and at close. The writer never truncates: after a failure it opens a new segment that says what is good of the old one.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from counterfoil import canonical, digest, keys, log, notes, records, segments, tree
from counterfoil.choosing import choose, unlock
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import store_error

__all__ = ["Sealed", "Writer"]

WINDOW: Final = 0.005
GROUP: Final = 256
EVERY: Final = 256
DELAY: Final = 1.0
RETRY: Final = 1.0
SEGMENT_SIZE: Final = 64 << 20
SEEN_MAX: Final = 64
"""Other logs cited inside the session record itself; more are cited as one list by reference."""
PENDING_MAX: Final = 256 << 20
"""Bytes that may wait for a failing disk (four times as many for a slow one) before more are counted as lost."""
CHUNK: Final = 1 << 20
"""Bytes of items after which a group goes on in another chunk."""
MAX_BLOB: Final = segments.MAX_CHUNK - 1024
MAX_BODY: Final = log.MAX_ENTRY - 512

Sealed = Callable[[list[tuple[int, str, bytes]]], None]
"""Called on the writer's thread with (index, entry digest, body bytes) of entries that are durable."""


class Writer:
    """Appends to one log of one identity; safe to call from any thread.

    ``opening`` makes the context of the ``session`` record. Raises StoreError or LogError when no log can be opened.
    """

    def __init__(
        self,
        store: FolderStore,
        identity: keys.SigningKey,
        *,
        opening: Callable[[], tuple[dict[str, Any], list[tuple[str, bytes]]]],
        sealed: Sealed | None = None,
    ) -> None:
        self.store = store
        self.identity = identity
        self.error: CounterfoilError | None = None
        self.lost = 0
        self._sealed = sealed
        self._opening = opening
        self._queue: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._urgent = threading.Event()
        self._pending = 0
        # Reentrant: a signal handler may record, or close, while its own thread is inside.
        self._gate = threading.RLock()
        self._closed = False
        self._items: list[tuple[Any, ...]] = []
        self._waiters: list[_Waiter] = []
        self._untold = 0
        self._refused = 0
        self._fd = -1
        self._offset = 0
        self._good = 0
        self._suspects: dict[int, int] = {}
        self._session_done = False
        self._replaced = [] if store.exists() else self._remembered_here()
        store.prepare()
        chosen = choose(store, identity)
        self.log, self.origin, self._lock_fd, self._others = (
            chosen.name,
            chosen.origin,
            chosen.lock,
            chosen.others,
        )
        self._take(chosen.scan)
        self._thread = threading.Thread(target=self._run, name="counterfoil-writer", daemon=True)
        self._thread.start()

    # -- callers ------------------------------------------------------------------------------------------------------

    def blob(self, sha256: str, data: bytes) -> bool:
        """Queue a blob; it stands in the log before every entry queued later. False when it cannot be kept."""
        if sha256 in self._queued:
            return True
        if len(data) > MAX_BLOB or not self._put((_BLOB, sha256, data), len(data)):
            return False
        self._queued.add(sha256)
        return True

    def has(self, sha256: str) -> bool:
        """Whether a blob was taken, so that an entry queued from now on may cite it."""
        return sha256 in self._queued

    def entry(self, body: bytes) -> bool:
        """Queue the RFC 8785 bytes of a record or envelope. False when it cannot be kept: then the log tells a loss."""
        return self._put((_ENTRY, body), len(body), fits=len(body) <= MAX_BODY)

    def checkpoint(self) -> None:
        """Ask for a checkpoint over everything queued so far (returns at once)."""
        self._put((_CHECKPOINT,), 0)

    def flush(self, *, timeout: float | None = None) -> bool:
        """Wait until everything queued so far is on disk; False when that failed or ``timeout`` (seconds) passed.

        Also False once after something was not taken at all. On the writer's own thread (a plugin) it cannot wait.
        """
        done = _Waiter()
        with self._gate:
            if self._closed or threading.current_thread() is self._thread:
                return self._closed and self.error is None and self.lost == 0
            self._queue.put((_SYNC, done))
        self._urgent.set()
        return done.wait(timeout) and done.ok

    def close(self) -> None:
        """Write what is queued, a last checkpoint, and release the log; idempotent."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put((_CLOSE,))
        self._urgent.set()
        self._thread.join()
        self._release()

    def abandon(self) -> None:
        """Forget this writer in a forked child: the parent still owns the log, its lock and its thread."""
        self._closed = True
        for fd in (self._fd, self._lock_fd):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._fd = self._lock_fd = -1

    def last_checkpoint(self) -> dict[str, Any] | None:
        """{origin, size, root} of the last checkpoint on disk, for statements that cite it."""
        return self._head

    def _put(self, item: tuple[Any, ...], size: int, *, fits: bool = True) -> bool:
        with self._gate:
            if self._closed or not fits or self._pending > PENDING_MAX * (1 if self.error is not None else 4):
                if item[0] == _ENTRY:
                    self.lost += 1
                    self._untold += 1
                return False
            self._pending += size
            self._queue.put(item)
            return True

    # -- choosing a log -----------------------------------------------------------------------------------------------

    def _remembered_here(self) -> list[keys.Head]:
        """Heads of logs that were written in this place, of which nothing is left: the whole folder was removed."""
        return [head for head in keys.remembered_heads().values() if head.evidence == self.store.uri]

    def _take(self, scan: log.LogScan) -> None:
        self._index = scan.index
        self._prev = scan.prev
        self._tree = scan.tree
        self._covered = scan.covered
        self._segment = scan.segment
        self._suspects = dict(scan.suspects)
        self._blobs: set[str] = set()
        self._queued: set[str] = set()
        self._head: dict[str, Any] | None = None

    def _describe(self, number: int, good: int) -> dict[str, Any]:
        hasher = hashlib.sha256()
        with self.store.open_segment(self.log, number) as file:
            while data := file.read(1 << 20):
                hasher.update(data)
            size = file.tell()
        return {"good": good, "segment": number, "sha256": hasher.hexdigest(), "size": size}

    def _release(self) -> None:
        with self._gate:
            fd, self._fd = self._fd, -1
            lock, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            os.close(fd)
        if lock >= 0:
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
            with self._gate:
                self._closed = True
                while not self._queue.empty():
                    self._gather(self._queue.get())
                self.lost += sum(item[0] == _ENTRY for item in self._items)
            self._answer(ok=False)

    def _work(self) -> None:
        uncovered_since: float | None = None
        retry_at = 0.0
        owed = closing = False
        while not closing:
            timeout = None
            if self._items or uncovered_since is not None:
                due_at = retry_at if self._items or uncovered_since is None else uncovered_since + DELAY
                timeout = max(0.0, max(due_at, retry_at) - time.monotonic())
            try:
                first = self._queue.get(timeout=timeout)
            except queue.Empty:
                pass
            else:
                if first[0] in (_BLOB, _ENTRY):
                    self._urgent.wait(WINDOW)
                self._urgent.clear()
                closing, wanted = self._gather(first)
                owed |= wanted
            if time.monotonic() < retry_at and not closing and not self._waiters:
                continue  # a failing disk is asked once a second, or when somebody waits for it
            self._tell_losses()
            due = uncovered_since is not None and time.monotonic() >= uncovered_since + DELAY
            entries = sum(item[0] == _ENTRY for item in self._items)
            full = self._index + entries - self._covered >= EVERY or self._offset >= SEGMENT_SIZE
            ok = self._commit(self._items, checkpoint=owed or due or closing or full)
            if ok:
                self._items.clear()
                owed, retry_at = False, 0.0
                uncovered_since = (
                    None if self._index == self._covered else uncovered_since or time.monotonic()
                )
            else:
                retry_at = time.monotonic() + RETRY
            self._answer(ok=ok)

    def _tell_losses(self) -> None:
        """What was not taken becomes a loss in the log itself."""
        with self._gate:
            count, self._untold = self._untold, 0
            if count:
                content = {"name": "not taken by the writer", "op": "loss", "phase": "point"}
                body = records.build(content, {"at": time.time_ns() // 1000, "count": count})
                self._items.append((_ENTRY, body))
                self._pending += len(body)

    def _answer(self, *, ok: bool) -> None:
        ok = ok and self.lost == self._refused
        if self._waiters:
            self._refused = self.lost
        for waiter in self._waiters:
            waiter.done(ok=ok)
        self._waiters.clear()

    def _gather(self, item: tuple[Any, ...]) -> tuple[bool, bool]:
        """Take what is queued, bounded by count; returns (closing, checkpoint wanted)."""
        wanted, count = False, 0
        while True:
            kind = item[0]
            if kind == _SYNC:
                self._waiters.append(item[1])
            elif kind == _CHECKPOINT:
                wanted = True
            elif kind == _CLOSE:
                return True, True
            else:
                self._items.append(item)
                count += kind == _ENTRY
            if count >= GROUP:
                return False, wanted
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return False, wanted

    def _commit(self, items: list[tuple[Any, ...]], *, checkpoint: bool) -> bool:
        """Write one group; on failure nothing of it counts and the segment is given up."""
        uncovered = self._index - self._covered
        if not items and not (checkpoint and uncovered):
            return self.error is None
        before = (self._index, self._prev, self._tree.size, self._tree.peaks(), self._covered)
        new_blobs: list[str] = []
        done: list[tuple[int, str, bytes]] = []
        try:
            if self._fd < 0 or (self._offset >= SEGMENT_SIZE and not uncovered):
                self._open_segment(new_blobs)
            for data in self._pack(items, new_blobs, done):
                self._write(self._compressor.chunk(data))
            if checkpoint:
                self._write_checkpoint()
            os.fdatasync(self._fd)
        except Exception as exc:
            self._give_up(exc, before)
            self._blobs.difference_update(new_blobs)
            return False
        self._good = self._offset
        self._session_done = True
        self._suspects.clear()
        self.error = None
        with self._gate:
            self._pending -= sum(len(item[-1]) for item in items)
        if checkpoint:
            self._remember()
        if self._sealed is not None and done:
            with contextlib.suppress(Exception):
                self._sealed(done)
        return True

    def _pack(
        self, items: list[tuple[Any, ...]], new_blobs: list[str], done: list[tuple[int, str, bytes]]
    ) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for item in items:
            if size >= CHUNK:
                yield b"".join(parts)
                parts, size = [], 0
            size += len(item[-1])
            if item[0] == _BLOB:
                if item[1] not in self._blobs:
                    self._blobs.add(item[1])
                    new_blobs.append(item[1])
                    parts.append(segments.pack_item(segments.BLOB, item[2]))
            else:
                parts.append(self._chain(item[1]))
                if self._sealed is not None:
                    done.append((self._index - 1, self._prev, item[1]))
        if parts:
            yield b"".join(parts)

    def _chain(self, body: bytes) -> bytes:
        data = log.entry_bytes(body, self._index, self._prev)
        self._prev = hashlib.sha256(data).hexdigest()
        self._tree.append(tree.leaf_hash(data))
        self._index += 1
        return segments.pack_item(segments.ENTRY, data)

    def _write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            view = view[os.write(self._fd, view) :]
        self._file_hash.update(chunk)
        self._offset += len(chunk)

    def _open_segment(self, new_blobs: list[str]) -> None:
        """Create the next segment and write its opening entries (and what they cite) as its first chunk."""
        for number in self.store.segments(self.log):
            if number > self._segment:  # an earlier attempt created it and failed
                self._suspects[number] = 0
                self._segment = number
        recovered = [self._describe(number, good) for number, good in sorted(self._suspects.items())]
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._fd = self.store.create_segment(self.log, self._segment + 1)
        self._segment += 1
        self._offset = self._good = 0
        self._file_hash = hashlib.sha256()
        self._compressor = segments.Compressor()
        now = time.time_ns() // 1000
        state = {"tree": {"peaks": [peak.hex() for peak in self._tree.peaks()], "size": self._tree.size}}
        parts: list[bytes] = []
        if recovered:
            content: dict[str, Any] = {"op": "recovered", "phase": "point", "segments": recovered}
            parts.append(self._chain(records.build(content, {"at": now, **state})))
            state = {}
        if not self._session_done:
            context, blobs = self._session()
            for sha256, data in blobs:
                self._blobs.add(sha256)
                new_blobs.append(sha256)
                parts.append(segments.pack_item(segments.BLOB, data))
            context |= {"at": now, **state}
            parts.append(self._chain(records.build({"op": "session", "phase": "point"}, context)))
        elif not recovered:
            parts.append(
                self._chain(records.build({"op": "segment", "phase": "point"}, {"at": now, **state}))
            )
        self._write(self._compressor.chunk(b"".join(parts)))

    def _session(self) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
        """Context of the session record and its blobs: who writes, on what, and the last word of the other logs."""
        context, blobs = self._opening()
        context = {
            **context,
            "origin": self.origin,
            "spki": base64.b64encode(self.identity.spki).decode(),
        }
        seen = []
        for name, note in self._others:
            sha256 = hashlib.sha256(note).hexdigest()
            blobs.append((sha256, note))
            seen.append(
                {"log": name, "note": {"media": digest.MEDIA_TEXT, "sha256": sha256, "size": len(note)}}
            )
        if self._replaced:
            context["replaced"] = [
                {"origin": head.origin, "root": head.root, "size": head.size}
                for head in self._replaced[:SEEN_MAX]
            ]
        if len(seen) > SEEN_MAX:
            listed = canonical.dumps(seen)
            sha256 = hashlib.sha256(listed).hexdigest()
            blobs.append((sha256, listed))
            context["seen"] = {"media": digest.MEDIA_JSON, "sha256": sha256, "size": len(listed)}
        elif seen:
            context["seen"] = seen
        return context, blobs

    def _write_checkpoint(self) -> None:
        content = {
            "offset": self._offset,
            "op": "stored",
            "segment": self._segment,
            "sha256": self._file_hash.hexdigest(),
        }
        self._write(segments.raw_chunk(self._chain(records.build(content, {}))))
        root = self._tree.root()
        text = notes.Checkpoint(self.origin, self._tree.size, root).to_text()
        note = notes.sign_note(text, self.origin, self.identity).encode()
        self._write(segments.raw_chunk(segments.pack_item(segments.NOTE, note)))
        self._covered = self._index
        self._next_head: dict[str, Any] = {"origin": self.origin, "root": root.hex(), "size": self._tree.size}

    def _remember(self) -> None:
        head = self._head = self._next_head
        with contextlib.suppress(CounterfoilError, OSError):
            keys.remember_head(
                self.origin,
                size=head["size"],
                root=head["root"],
                evidence=self.store.uri,
                segment=self._segment,
                offset=self._offset,
                sync=self._closed,
            )
            # The session record, now signed, says what stood here before; those heads no longer belong to this place.
            for old in self._replaced:
                keys.remember_head(
                    old.origin,
                    size=old.size,
                    root=old.root,
                    evidence="",
                    segment=old.segment,
                    offset=old.offset,
                    sync=False,
                )
            self._replaced = []

    def _give_up(self, exc: Exception, before: tuple[int, str, int, list[bytes], int]) -> None:
        """Undo a failed group in memory; its segment may hold anything, so what is good of it is told later."""
        where = self.store.segment_name(self.log, max(self._segment, 0))
        if isinstance(exc, OSError):
            exc = store_error(exc, "cannot write the evidence", where)
        elif not isinstance(exc, CounterfoilError):
            exc = LogError(f"cannot write the evidence: {type(exc).__name__}", code="CF-LOG-034", where=where)
        self.error = exc
        self._index, self._prev, size, peaks, self._covered = before
        self._tree = tree.Tree.from_peaks(size, peaks)
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        # A segment begun by this group holds nothing that anybody was told is on disk: without it nothing piles up.
        if self._good == 0 and self.store.remove_segment(self.log, self._segment):
            self._segment -= 1
        else:
            self._suspects[self._segment] = self._good
        self._offset = 0


class _Waiter:
    """One caller waiting for the disk."""

    __slots__ = ("_event", "ok")

    def __init__(self) -> None:
        self._event = threading.Event()
        self.ok = False

    def done(self, *, ok: bool) -> None:
        self.ok = ok
        self._event.set()

    def wait(self, timeout: float | None) -> bool:
        return self._event.wait(timeout)


_BLOB: Final = 0
_ENTRY: Final = 1
_CHECKPOINT: Final = 2
_SYNC: Final = 3
_CLOSE: Final = 4
