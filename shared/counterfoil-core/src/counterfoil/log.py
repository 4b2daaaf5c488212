"""Reads one log as a stream of events and finds where a writer may go on; it checks structure and leaves trust to
verify.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from counterfoil import canonical, records, segments, tree
from counterfoil.digest import sha256_hex
from counterfoil.entries import (
    MAX_ENTRY,
    OPENERS,
    ZERO,
    BlobSeen,
    CheckpointSeen,
    Entry,
    Event,
    Problem,
    entry_bytes,
)
from counterfoil.errors import CounterfoilError, LogError, StoreError
from counterfoil.stores import FolderStore

__all__ = [
    "ZERO",
    "BlobSeen",
    "CheckpointSeen",
    "Entry",
    "LogScan",
    "Problem",
    "covered",
    "entry_bytes",
    "read_blob",
]


_WINDOW: Final = 1 << 20
_LONGEST_NOTE: Final = 4096
"""Bytes of a log's own checkpoint with its chunk's head, at most: it has one signature and no extensions."""


@dataclass(slots=True)
class LogScan:
    """Streams one log from a segment on; afterwards its fields tell the state a writer continues from.

    ``suspects`` are segments that do not end in a checkpoint, with the bytes that are good of each; ``noted`` is the
    one that holds the last checkpoint.
    """

    store: FolderStore
    log: str
    index: int = 0
    prev: str = ZERO
    tree: tree.Tree = field(default_factory=tree.Tree)
    segment: int = -1
    good: int = 0
    covered: int = 0
    noted: int = -1
    last_note: bytes | None = None
    clean: bool = False
    first: dict[str, Any] | None = None
    broken: bool = False
    _last_op: str = ""
    suspects: dict[int, int] = field(default_factory=dict)

    def events(self) -> Iterator[Event]:
        """Entries, blobs, checkpoints and problems in file order; stops at the first problem that breaks the chain."""
        if told := getattr(
            self.store, "events", None
        ):  # a place without segments tells what it holds by itself
            yield from told(self.log)
            return
        numbers = self.store.segments(self.log)
        openings = self._openings(numbers)
        recovered = self._recoveries(openings)
        for expected, number in enumerate(numbers):
            if number != expected:
                yield self._problem(
                    "CF-LOG-012", self.store.segment_name(self.log, expected), "a segment is missing"
                )
                return
            # A stop while a segment is begun leaves one without an opening: the one before it is still the last.
            last = number >= max(openings, default=0)
            for event in self._segment(number, recovered.get(number), last=last):
                yield event
                if isinstance(event, Problem) and not (event.torn or event.unknown):
                    return
        if not numbers:
            yield Problem("CF-LOG-013", self.log, "a log without segments", torn=True)

    def tail(self) -> Iterator[Event]:
        """The same from the last segment that holds a checkpoint, for a writer that continues the log."""
        numbers = self.store.segments(self.log)
        openings = self._openings(numbers)
        recovered = self._recoveries(openings)
        if not openings:
            if numbers:
                self.segment = numbers[-1]
            return
        start = max(openings)
        while start > min(openings) and not self._has_note(start):
            start = max(number for number in openings if number < start)
        self._resume(openings[start])
        for number in numbers:
            if number >= start:
                yield from self._segment(number, recovered.get(number), last=number >= max(openings))

    # -- segments -----------------------------------------------------------------------------------------------------

    def _opening(self, number: int) -> Entry | None:
        """First entry of a segment, or None when its first chunk cannot be read."""
        where = self.store.segment_name(self.log, number)
        try:
            with self.store.open_segment(self.log, number) as file:
                for chunk in segments.read_chunks(file, where=where):
                    for item in segments.items(chunk, where=where):
                        if item.kind == segments.ENTRY:
                            value = canonical.loads_canonical(item.data, max_bytes=MAX_ENTRY)
                            return self._entry(value, item.data, number, chunk.start, where)
                    return None
        except CounterfoilError:
            return None
        return None

    def _openings(self, numbers: list[int]) -> dict[int, Entry]:
        found = ((number, self._opening(number)) for number in numbers)
        return {number: opening for number, opening in found if opening is not None}

    def _has_note(self, number: int) -> bool:
        where = self.store.segment_name(self.log, number)
        try:
            with self.store.open_segment(self.log, number) as file:
                for chunk in segments.read_chunks(file, where=where):
                    if any(item.kind == segments.NOTE for item in segments.items(chunk, where=where)):
                        return True
        except CounterfoilError:
            pass
        return False

    def _recoveries(self, openings: dict[int, Entry]) -> dict[int, dict[str, Any]]:
        out: dict[int, dict[str, Any]] = {}
        for number, opening in sorted(openings.items()):
            if opening.op != "recovered":
                continue
            listed = opening.body["content"].get("segments")
            for one in listed if type(listed) is list else []:
                if type(one) is dict and type(one.get("segment")) is int and one["segment"] < number:
                    out[one["segment"]] = one
        return out

    def _segment(self, number: int, recovered: dict[str, Any] | None, *, last: bool) -> Iterator[Event]:
        where = self.store.segment_name(self.log, number)
        try:
            yield from self._chunks(number, where, recovered, last=last)
        except (LogError, StoreError) as exc:
            yield self._problem(exc.code, exc.where or where, exc.message)
        if self.broken or recovered is not None or self.clean:
            return
        self.suspects[number] = self.good
        if not last:
            # Nothing signed says where this segment ends.
            yield self._problem("CF-LOG-023", where, "a segment does not end in a checkpoint")

    def _chunks(
        self, number: int, where: str, recovered: dict[str, Any] | None, *, last: bool
    ) -> Iterator[Event]:
        self.segment, self.good, self.clean = number, 0, False
        end = None
        if recovered is not None:
            problem = self._check_recovered(number, recovered, where)
            if problem is not None:
                yield problem
                return
            end = recovered["good"]
        hasher = hashlib.sha256()
        start_of_stream = 0
        opened = False
        awaiting: bool | None = None  # whether the `stored` entry just read was right; a note must follow it
        with self.store.open_segment(self.log, number) as file:
            try:
                for chunk in segments.read_chunks(file, where=where, end=end, hasher=hasher):
                    if chunk.form == segments.ZSTD_FIRST:
                        start_of_stream = chunk.start
                    self.clean = False
                    listed = list(segments.items(chunk, where=where))
                    alone = chunk.form == segments.RAW and len(listed) == 1
                    if awaiting is not None and not (alone and listed[0].kind == segments.NOTE):
                        yield self._problem(
                            "CF-LOG-014", f"{where} byte {chunk.start}", "no note after `stored`"
                        )
                        return
                    for position, item in enumerate(listed):
                        if item.kind == segments.NOTE:
                            if awaiting is None:
                                yield self._problem(
                                    "CF-LOG-014", f"{where} byte {chunk.start}", "a note out of place"
                                )
                                return
                            self.last_note, self.covered, self.clean = item.data, self.index, True
                            self.noted = number
                            yield CheckpointSeen(
                                item.data, self.index, self.tree.root(), number, chunk.end, awaiting
                            )
                            awaiting = None
                            continue
                        if item.kind == segments.BLOB:
                            place = (number, start_of_stream, chunk.start, position)
                            yield BlobSeen(sha256_hex(item.data), item.data, place)
                            continue
                        outcome = self._next(item.data, number, chunk.start, where, opened=opened)
                        yield outcome
                        opened = True
                        if isinstance(outcome, Problem):
                            if not outcome.unknown:
                                return
                            continue
                        if outcome.op == "stored":
                            awaiting = alone and outcome.body["content"] == {
                                "offset": chunk.start,
                                "op": "stored",
                                "segment": number,
                                "sha256": hasher.hexdigest(),
                            }
                    self.good = chunk.end
            except segments.TornChunk as exc:
                self.clean = False
                if not last or self._note_follows(file, exc.offset):
                    yield self._problem(exc.code, exc.where or where, exc.message)
                    return
                yield Problem(exc.code, exc.where or where, exc.message, torn=True)

    def _note_follows(self, file: BinaryIO, offset: int) -> bool:
        """Whether a whole checkpoint stands behind bytes that are no chunk: then they are damage, no torn tail.

        A hole of zeros is not held against anybody: after a power failure later blocks may be there without earlier.
        """
        file.seek(offset)
        mark = f"/{self.log}\n".encode()
        at, kept = offset, b""
        file.seek(at)
        while data := file.read(_WINDOW):
            window, begin = kept + data, at - len(kept)
            found = window.find(mark)
            while found >= 0:
                # A note begins with the origin: 64 hex digits, and the log's name behind a slash.
                start = begin + found - 64 - segments.NOTE_HEAD
                if start > offset:
                    file.seek(start)
                    if segments.is_note(file.read(_LONGEST_NOTE), 0):
                        return not _hole_between(file, offset, start)
                found = window.find(mark, found + 1)
            at, kept = at + len(data), window[-len(mark) :]
            file.seek(at)
        return False

    def _check_recovered(self, number: int, recovered: dict[str, Any], where: str) -> Problem | None:
        if recovered.keys() != {"good", "segment", "sha256", "size"} or type(recovered["good"]) is not int:
            return self._problem("CF-LOG-015", where, "the recovery entry of this segment is malformed")
        hasher = hashlib.sha256()
        with self.store.open_segment(self.log, number) as file:
            while data := file.read(1 << 20):
                hasher.update(data)
            size = file.tell()
        if (recovered["sha256"], recovered["size"]) != (hasher.hexdigest(), size):
            return self._problem("CF-LOG-015", where, "the segment changed after it was recovered")
        return None

    # -- entries ------------------------------------------------------------------------------------------------------

    def _next(self, data: bytes, number: int, offset: int, where: str, *, opened: bool) -> Entry | Problem:
        at = f"{where} entry {self.index}"
        try:
            if len(data) > MAX_ENTRY:
                raise LogError("an entry is too long", code="CF-LOG-016", where=at)
            value = canonical.loads_canonical(data, max_bytes=MAX_ENTRY)
            if (
                type(value) is not dict
                or value.keys() != {"body", "i", "prev"}
                or type(value["i"]) is not int
            ):
                raise LogError("not an entry", code="CF-LOG-021", where=at)
            if value["i"] != self.index or value["prev"] != self.prev:
                raise LogError("the hash chain is broken", code="CF-LOG-017", where=at)
            entry = self._entry(value, data, number, offset, at)
        except CounterfoilError as exc:
            if exc.code != "CF-LOG-022":
                return self._problem(exc.code, at, exc.message)
            self._advance(sha256_hex(data), data, "unknown")
            return Problem(exc.code, at, exc.message, unknown=True)
        if not opened:
            if entry.op not in OPENERS or entry.body["context"].get("tree") != self._peaks():
                return self._problem("CF-LOG-018", at, "a segment does not open with the tree it continues")
        elif entry.op in OPENERS and not (entry.op == "session" and self._last_op == "recovered"):
            return self._problem("CF-LOG-018", at, "an opening entry inside a segment")
        if self.first is None:
            self.first = entry.body
        self._advance(entry.digest, data, entry.op)
        return entry

    def _advance(self, digest: str, data: bytes, op: str) -> None:
        self.prev = digest
        self.index += 1
        self.tree.append(tree.leaf_hash(data))
        self._last_op = op

    def _entry(self, value: Any, data: bytes, number: int, offset: int, at: str) -> Entry:
        if type(value) is not dict or value.keys() != {"body", "i", "prev"} or type(value["i"]) is not int:
            raise LogError("not an entry", code="CF-LOG-021", where=at)
        body = records.parse_body(value["body"], at)
        # `{"body":` is 8 bytes; behind the body stand `,"i":N,"prev":"<64>"}`.
        raw = data[8 : len(data) - len(b',"i":,"prev":""}') - 64 - len(str(value["i"]))]
        return Entry(self.log, value["i"], sha256_hex(data), body, raw, number, offset)

    def _peaks(self) -> dict[str, Any]:
        return {"peaks": [peak.hex() for peak in self.tree.peaks()], "size": self.tree.size}

    def _resume(self, opening: Entry) -> None:
        """Take index, previous digest and tree from a segment's first entry, which a checkpoint must cover later."""
        # The first entry of a damaged segment may be a statement, which has no context.
        state = opening.body.get("context", {}).get("tree") if records.is_record(opening.body) else None
        try:
            assert isinstance(state, dict)
            self.tree = tree.Tree.from_peaks(state["size"], [bytes.fromhex(peak) for peak in state["peaks"]])
        except (AssertionError, KeyError, TypeError, ValueError, CounterfoilError):
            return
        self.index = opening.index
        where = self.store.segment_name(self.log, opening.segment)
        with self.store.open_segment(self.log, opening.segment) as file:
            for chunk in segments.read_chunks(file, where=where):
                for item in segments.items(chunk, where=where):
                    if item.kind == segments.ENTRY:
                        self.prev = canonical.loads(item.data)["prev"]
                        return

    def _problem(self, code: str, where: str, message: str) -> Problem:
        self.broken = True
        return Problem(code, where, message)


def covered(store: FolderStore, log: str) -> int:
    """How many entries of a log have a checkpoint behind them, as far as the log can be read (not verified here)."""
    scan = LogScan(store, log)
    for _ in scan.events():
        pass
    return scan.covered


def read_blob(store: FolderStore, log: str, place: tuple[int, int, int, int]) -> bytes:
    """Read one blob again from where a scan saw it; raises LogError when it is no longer there."""
    number, stream, start, position = place
    where = store.segment_name(log, number)
    with store.open_segment(log, number) as file:
        for chunk in segments.read_chunks(file, where=where, start=stream):
            if chunk.start == start:
                for at, item in enumerate(segments.items(chunk, where=where)):
                    if at == position and item.kind == segments.BLOB:
                        return item.data
                break
    raise LogError(
        "a blob is no longer where it was", code="CF-LOG-019", where=where, hint="run counterfoil verify"
    )


def _hole_between(file: BinaryIO, start: int, end: int) -> bool:
    """Whether a part of a file has a hole (``segments.has_hole``), a window at a time."""
    while start < end:
        stop = min(end, start + _WINDOW - start % segments.BLOCK)
        file.seek(start)
        if segments.has_hole(file.read(stop - start), start):
            return True
        start = stop
    return False
