"""The file side of a writer: chains entries, compresses groups, opens segments and signs checkpoints.

Used by the writer's thread alone. A group is written whole or not at all: on failure the state goes back to what is
known to be on disk, and the segment is given up (never truncated); the next one says what is good of it.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from counterfoil import _locks, canonical, digest, keys, log, notes, records, segments, tree
from counterfoil.choosing import Chosen, Only, choose
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.packing import BLOB, ENTRY, Beside, Group, Item, Packer, put_out
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import gone, store_error

__all__ = ["BLOB", "ENTRY", "SEGMENT_SIZE", "Appender", "Opening", "Sealed"]

_log: Final = logging.getLogger("counterfoil")

SEGMENT_SIZE: Final = 64 << 20
SEEN_MAX: Final = 64
"""Other logs cited inside the session record itself; more are cited as one list by reference."""
PATIENCE: Final = 1.0
"""Seconds to wait for a home that another process holds: callers may be waiting for this thread."""

Opening = Callable[[], tuple[dict[str, Any], list[tuple[str, bytes]]]]
"""Makes the context of the ``session`` record and the blobs it cites."""

Sealed = Callable[[list[tuple[int, str, bytes]]], None]
"""Called on the writer's thread with (index, entry digest, body bytes) of entries that are durable."""


class Appender(Packer):
    """One log opened for appending; raises StoreError or LogError when none can be opened."""

    only: Only | None = None
    """The one log that is wanted, for those that ask for one."""

    def __init__(
        self, store: FolderStore, identity: keys.SigningKey, *, opening: Opening, sealed: Sealed | None
    ) -> None:
        self.store = store
        self.identity = identity
        self.error: CounterfoilError | None = None
        self.gone = False
        self._sealed = sealed
        self._opening = opening
        self._written = 0
        # Callers' only, and reentrant: a signal handler may record, flush or close while its own thread is inside, so
        # the writer's thread must never wait for it.
        self._gate = threading.RLock()
        self._closed = False
        self._fd = -1
        self._offset = 0
        self._good = 0
        self._items: list[Item] = []
        self._out: list[bytes] = []
        self._flight: Group | None = None  # on its way to the disk
        self._session_done = False
        self._forgetful = self._unremembered = ""
        self._unkept: tuple[int, int] | None = (
            None  # where the last checkpoint ends that the home does not know yet
        )
        self._kept = -math.inf
        self._replaced = [] if store.exists() or store.remote else self._remembered_here()
        store.prepare()
        keys.sweep_heads()
        self._choose()

    def _choose(self, left_alone: Collection[str] = ()) -> Chosen:
        """Lock the log to write, and take its end for where this goes on."""
        chosen = choose(self.store, self.identity, left_alone=left_alone, only=self.only)
        self.log, self.origin, self._locks = chosen.name, chosen.origin, chosen.locks
        self._others, self._moved = chosen.others, chosen.moved
        self._take(chosen.scan)
        return chosen

    def _remembered_here(self) -> list[keys.Head]:
        """Heads of logs that were written in this place, of which nothing is left: the whole folder was removed."""
        return [
            head
            for head in keys.remembered_heads(damaged=set()).values()
            if head.evidence in self.store.names
        ]

    def _take(self, scan: log.LogScan) -> None:
        self._index = scan.index
        self._prev = scan.prev
        self._tree = scan.tree
        self._covered = scan.covered
        self._segment = scan.segment
        self._suspects = dict(scan.suspects)
        self._blobs: set[str] = set()
        self._head: dict[str, Any] | None = None
        if scan.last_note is not None:  # of an earlier session: chosen because it is this identity's own
            found = notes.Checkpoint.parse(notes.Note.parse(scan.last_note).text)
            self._head = {"origin": self.origin, "root": found.root.hex(), "size": found.size}

    def _describe(self, number: int, good: int) -> dict[str, Any]:
        with contextlib.suppress(OSError):
            # What is told of the file must still be so after a power failure.
            self.store.sync(self.log, number, reread=True)
        hasher = hashlib.sha256()
        with self.store.open_segment(self.log, number) as file:
            while data := file.read(1 << 20):
                hasher.update(data)
            size = file.tell()
        return {"good": good, "segment": number, "sha256": hasher.hexdigest(), "size": size}

    def _commit(self, items: list[Item], *, checkpoint: bool, ahead: bool = False) -> bool:
        """Write one group; on failure nothing of it counts and the segment is given up.

        With ``ahead`` it goes to the disk meanwhile: the next call, or ``_settle``, tells how it went. There is never
        more than one such group; should it fail, its items stand in front of ``_items`` again.
        """
        uncovered = self._index - self._covered
        if not items and not (checkpoint and uncovered):
            return self._settle() and self.error is None
        another = self._fd < 0 or (self._offset >= SEGMENT_SIZE and not uncovered)
        if another and not self._settle():
            return False
        group = Group(items, (self._index, self._prev, self._tree.size, self._tree.peaks(), self._covered))
        failed: Exception | None = None
        try:
            if another:
                self._open_segment(group)
            self._pack(items, group)
            if checkpoint:
                self._write_checkpoint(group)
            group.segment, group.end = self._segment, self._offset
        except Exception as exc:
            failed = exc
        if not self._settle():  # what is made behind it has no place any more
            self._blobs.difference_update(group.blobs)
            return False
        try:
            if failed is not None:
                raise failed
            out, self._out = self._out, []
            if ahead:
                with contextlib.suppress(RuntimeError):  # no thread can be started
                    group.flight, self._flight = Beside(put_out, self._fd, out), group
                    return True
            put_out(self._fd, out)
            self._look_around()
        except Exception as exc:
            self._give_up(exc, group)
            return False
        self._keep(group)
        return True

    def _settle(self) -> bool:
        """Wait for the group that is still on its way, if any; False when it failed, and then nothing of it counts."""
        group, self._flight = self._flight, None
        if group is None or group.flight is None:
            return True
        try:
            group.flight.finish()
            self._look_around()
        except Exception as exc:
            self._give_up(exc, group)
            self._items[:0] = group.items
            return False
        self._keep(group)
        return True

    def _keep(self, group: Group) -> None:
        """A group is on disk."""
        self._good = group.end
        self._session_done = True
        self._suspects.clear()
        self.error = self.error if self.gone else None
        self._written += group.size
        if group.head is not None:
            self._head, self._unkept = group.head, (group.segment, group.end)
        if self._sealed is not None and group.done:
            with contextlib.suppress(Exception):
                self._sealed(group.done)

    def _look_around(self) -> None:
        """Notice that the log was removed or moved away; raises StoreError (CF-STORE-007) when this group is lost."""
        if self.store.in_place(self.log, self._segment, self._fd):
            return
        self.gone = True
        if os.fstat(self._fd).st_nlink == 0:
            raise gone(self.store.root / self.log)
        self.error = gone(self.store.root / self.log)  # moved, and all there: it is ended where it is now

    def _open_segment(self, group: Group) -> None:
        """Create the next segment and write its opening entries (and what they cite) as its first chunk."""
        for number in self.store.segments(self.log):
            if number > self._segment:  # an earlier attempt created it and failed
                self._suspects[number] = 0
                self._segment = number
        recovered = [self._describe(number, good) for number, good in sorted(self._suspects.items())]
        self._leave_segment()
        self._fd = self.store.create_segment(self.log, self._segment + 1)
        if len(self._locks) == 1 and (held := self.store.hold(self.log)) is not None:
            _locks.keep_lock(held)
            self._locks.append(held)
        self._segment += 1
        self._offset = self._good = 0
        self._file_hash = hashlib.sha256()
        self._compressor = segments.Compressor()
        now = records.now()
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
                group.blobs.append(sha256)
                parts.append(segments.pack_item(segments.BLOB, data))
            context |= {"at": now, **state}
            parts.append(self._chain(records.build({"op": "session", "phase": "point"}, context)))
        elif not recovered:
            parts.append(
                self._chain(records.build({"op": "segment", "phase": "point"}, {"at": now, **state}))
            )
        self._write(self._compressor.chunk(b"".join(parts)))

    def _leave_segment(self) -> None:
        """Close the segment, which ends in its checkpoint, or nothing when none is open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _session(self) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
        """Context of the session record and its blobs: who writes, on what, and the last word of the other logs."""
        context, blobs = self._opening()
        context = {
            **context,
            "closes": True,
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

    def _write_checkpoint(self, group: Group) -> None:
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
        group.head = {"origin": self.origin, "root": root.hex(), "size": self._tree.size}

    def _remember(self) -> None:
        """Keep the last checkpoint in the home; putting a file in another's place waits for the disk (ext4)."""
        head, place, self._unkept = self._head, self._unkept, None
        if head is None or place is None:
            return
        self._kept = time.monotonic()
        try:
            keys.remember_head(
                self.origin,
                size=head["size"],
                root=head["root"],
                evidence=self.store.uri,
                segment=place[0],
                offset=place[1],
                sync=self._closed,
                patience=PATIENCE,
            )
            # The session record, now signed, says what stood here before; those heads no longer belong to this place.
            for old in self._replaced:
                keys.remember_head(**_placed(old, ""))
            # What was moved here with this log belongs to this place, also what is no longer in it.
            for old in self._moved:
                keys.remember_head(**_placed(old, self.store.uri))
            self._replaced = self._moved = []
            self._forgetful = ""
        except (CounterfoilError, OSError) as exc:
            # Without the remembered head a cut or older log would look whole here, so the log itself says so, once.
            code = getattr(exc, "code", "CF-KEYS-008")
            if self._forgetful != code:
                self._forgetful = code
                _log.error("counterfoil: the end of the log cannot be remembered: %s", exc)
                self._unremembered = code

    def _give_up(self, exc: Exception, group: Group) -> None:
        """Undo a failed group in memory; its segment may hold anything, so what is good of it is told later."""
        where = self.store.segment_name(self.log, max(self._segment, 0))
        if isinstance(exc, OSError):
            exc = store_error(exc, "cannot write the evidence", where)
        elif not isinstance(exc, CounterfoilError):
            exc = LogError(f"cannot write the evidence: {type(exc).__name__}", code="CF-LOG-034", where=where)
        self.error = exc
        self.gone |= exc.code == "CF-STORE-007" or not os.path.isdir(self.store.root)
        self._index, self._prev, size, peaks, self._covered = group.before
        self._tree = tree.Tree.from_peaks(size, peaks)
        self._blobs.difference_update(group.blobs)
        self._out.clear()
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


def _placed(head: keys.Head, evidence: str) -> dict[str, Any]:
    """The same head for another place, as ``remember_head`` takes it."""
    return {**dataclasses.asdict(head), "evidence": evidence, "patience": PATIENCE, "sync": False}
