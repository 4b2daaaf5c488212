"""The one writer of a log: takes finished bodies and blobs from any thread and makes them durable, chained and signed.

One thread owns the file. A group is what arrived within 5 ms (or 256 entries, or until somebody waits): compressed,
appended, fdatasync'ed. A checkpoint follows at 256 uncovered entries, 1 s after an uncovered entry, at a run's end
and at close. The writer never truncates: after a failure it opens a new segment that says what is good of the old one.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from counterfoil import canonical, digest, keys, log, notes, records, segments, tree
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
"""Bytes that may wait for a failing or slow disk before records are counted as lost instead of kept."""

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
        self._pending_lock = threading.Lock()
        self._closed = False
        self._fd = -1
        self._lock_fd = -1
        self._offset = 0
        self._good = 0
        self._suspects: dict[int, int] = {}
        self._session_done = False
        self._replaced = [] if store.exists() else self._remembered_here()
        store.prepare()
        self._choose_log()
        self._thread = threading.Thread(target=self._run, name="counterfoil-writer", daemon=True)
        self._thread.start()

    # -- callers ------------------------------------------------------------------------------------------------------

    def blob(self, sha256: str, data: bytes) -> None:
        """Queue a blob; it stands in the log before every entry queued later. Known blobs are dropped here."""
        if sha256 not in self._blobs:
            self._put((_BLOB, sha256, data), len(data))

    def entry(self, body: bytes) -> None:
        """Queue the RFC 8785 bytes of a record or envelope."""
        self._put((_ENTRY, body), len(body))

    def checkpoint(self) -> None:
        """Ask for a checkpoint over everything queued so far (returns at once)."""
        self._put((_CHECKPOINT,), 0)

    def flush(self, *, timeout: float | None = None) -> bool:
        """Wait until everything queued so far is on disk; False when that failed or ``timeout`` (seconds) passed."""
        if self._closed or not self._thread.is_alive():
            return self.error is None and self.lost == 0
        done = _Waiter()
        self._queue.put((_SYNC, done))
        self._urgent.set()
        return done.wait(timeout) and done.ok

    def close(self) -> None:
        """Write what is queued, a last checkpoint, and release the log; idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._thread.is_alive():
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

    def _put(self, item: tuple[Any, ...], size: int) -> None:
        if self._closed:
            self.lost += item[0] == _ENTRY
            return
        if size:
            with self._pending_lock:
                self._pending += size
            if self._pending > PENDING_MAX and self.error is not None:
                with self._pending_lock:
                    self._pending -= size
                    self.lost += item[0] == _ENTRY
                return
        self._queue.put(item)

    # -- choosing a log -----------------------------------------------------------------------------------------------

    def _remembered_here(self) -> list[keys.Head]:
        """Heads of logs that were written in this place, of which nothing is left: the whole folder was removed."""
        return [head for head in keys.remembered_heads().values() if head.evidence == self.store.uri]

    def _choose_log(self) -> None:
        fingerprint = self.identity.keyid
        heads = keys.remembered_heads()
        self._others: list[tuple[str, bytes]] = []
        chosen = False
        for name in self.store.logs():
            scan = log.LogScan(self.store, name)
            origin = f"{fingerprint}/{name}"
            problem = False
            for event in scan.tail():
                problem |= isinstance(event, log.Problem) and not event.torn
            if scan.last_note is not None:
                self._others.append((name, scan.last_note))
            if chosen or problem or not self._ours(scan, origin) or not self._lock(origin):
                continue
            head = heads.get(origin)
            if head is not None and not _continues(scan, head):
                self._unlock()
                continue
            self._take(scan, name, origin)
            self._others.pop()
            chosen = True
        if not chosen:
            name = secrets.token_hex(8)
            origin = f"{fingerprint}/{name}"
            if not self._lock(origin):
                raise LogError("a new log is already locked", code="CF-LOG-030", where=origin)
            self._take(log.LogScan(self.store, name), name, origin)

    def _ours(self, scan: log.LogScan, origin: str) -> bool:
        """Whether the log's last checkpoint is validly signed by this identity for this origin."""
        if scan.last_note is None:
            return False
        try:
            checkpoint = notes.parse_own_checkpoint(scan.last_note, self._vkey(origin))
        except CounterfoilError:
            return False
        return checkpoint.size <= scan.index

    def _vkey(self, origin: str) -> str:
        return notes.vkey(origin, self.identity.public)

    def _take(self, scan: log.LogScan, name: str, origin: str) -> None:
        self.log = name
        self.origin = origin
        self._index = scan.index
        self._prev = scan.prev
        self._tree = scan.tree
        self._covered = scan.covered
        self._segment = scan.segment
        self._blobs: set[str] = set()
        self._head: dict[str, Any] | None = None
        if scan.segment >= 0 and not (
            scan.clean and scan.good == self.store.segment_size(name, scan.segment)
        ):
            later = (number for number in self.store.segments(name) if number >= scan.segment)
            self._suspects = {number: scan.good if number == scan.segment else 0 for number in later}

    def _describe(self, number: int, good: int) -> dict[str, Any]:
        hasher = hashlib.sha256()
        with self.store.open_segment(self.log, number) as file:
            while data := file.read(1 << 20):
                hasher.update(data)
            size = file.tell()
        return {"good": good, "segment": number, "sha256": hasher.hexdigest(), "size": size}

    def _lock(self, origin: str) -> bool:
        path = keys.lock_path(origin)
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        self._lock_fd = fd
        return True

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._unlock()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        items: list[tuple[Any, ...]] = []
        uncovered_since: float | None = None
        retry_at = 0.0
        while True:
            timeout = (
                None if uncovered_since is None else max(0.0, uncovered_since + DELAY - time.monotonic())
            )
            if items:
                timeout = max(0.0, retry_at - time.monotonic())
            closing = wanted = False
            waiters: list[_Waiter] = []
            first: tuple[Any, ...] | None
            try:
                first = self._queue.get(timeout=timeout)
            except queue.Empty:
                first = None
            if first is not None:
                if first[0] in (_BLOB, _ENTRY):
                    self._urgent.wait(WINDOW)
                self._urgent.clear()
                closing, wanted = self._gather(first, items, waiters)
            due = uncovered_since is not None and time.monotonic() >= uncovered_since + DELAY
            entries = sum(item[0] == _ENTRY for item in items)
            full = self._index + entries - self._covered >= EVERY or self._offset >= SEGMENT_SIZE
            wanted |= due or closing or full
            ok = self._commit(items, checkpoint=wanted)
            if ok:
                items.clear()
                uncovered_since = (
                    None if self._index == self._covered else uncovered_since or time.monotonic()
                )
            else:
                retry_at = time.monotonic() + RETRY
            for waiter in waiters:
                waiter.done(ok=ok)
            if closing:
                if not ok:
                    self.lost += sum(item[0] == _ENTRY for item in items)
                return

    def _gather(
        self, item: tuple[Any, ...], items: list[tuple[Any, ...]], waiters: list[_Waiter]
    ) -> tuple[bool, bool]:
        """Take what is queued, bounded by count; returns (closing, checkpoint wanted)."""
        wanted, count = False, 0
        while True:
            kind = item[0]
            if kind == _SYNC:
                waiters.append(item[1])
            elif kind == _CHECKPOINT:
                wanted = True
            elif kind == _CLOSE:
                return True, True
            else:
                items.append(item)
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
            data = self._pack(items, new_blobs, done)
            if data:
                self._write(self._compressor.chunk(data))
            if checkpoint:
                self._write_checkpoint()
            os.fdatasync(self._fd)
        except (OSError, CounterfoilError) as exc:
            self._give_up(exc, before)
            self._blobs.difference_update(new_blobs)
            return False
        self._good = self._offset
        self._session_done = True
        self._suspects.clear()
        self.error = None
        with self._pending_lock:
            self._pending -= sum(len(item[-1]) for item in items)
        if checkpoint:
            self._remember()
        if self._sealed is not None and done:
            with contextlib.suppress(Exception):
                self._sealed(done)
        return True

    def _pack(
        self, items: list[tuple[Any, ...]], new_blobs: list[str], done: list[tuple[int, str, bytes]]
    ) -> bytes:
        parts: list[bytes] = []
        for item in items:
            if item[0] == _BLOB:
                if item[1] not in self._blobs:
                    self._blobs.add(item[1])
                    new_blobs.append(item[1])
                    parts.append(segments.pack_item(segments.BLOB, item[2]))
            else:
                parts.append(self._chain(item[1]))
                if self._sealed is not None:
                    done.append((self._index - 1, self._prev, item[1]))
        return b"".join(parts)

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

    def _give_up(
        self, exc: OSError | CounterfoilError, before: tuple[int, str, int, list[bytes], int]
    ) -> None:
        """Undo a failed group in memory; its segment may hold anything, so what is good of it is told later."""
        where = self.store.segment_name(self.log, max(self._segment, 0))
        self.error = (
            exc if isinstance(exc, CounterfoilError) else store_error(exc, "cannot write the evidence", where)
        )
        self._index, self._prev, size, peaks, self._covered = before
        self._tree = tree.Tree.from_peaks(size, peaks)
        if self._fd >= 0:
            self._suspects[self._segment] = self._good
            os.close(self._fd)
            self._fd = -1


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


def _continues(scan: log.LogScan, head: keys.Head) -> bool:
    """Whether a log still has what is remembered of it (a shorter or other log is left alone)."""
    if scan.covered < head.size or scan.last_note is None:
        return False
    if scan.covered > head.size:
        return True
    try:
        return notes.Checkpoint.parse(notes.Note.parse(scan.last_note).text).root.hex() == head.root
    except CounterfoilError:
        return False


_BLOB: Final = 0
_ENTRY: Final = 1
_CHECKPOINT: Final = 2
_SYNC: Final = 3
_CLOSE: Final = 4
