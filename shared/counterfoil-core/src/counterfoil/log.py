"""Reads one log as a stream of events and finds where a writer may go on; it checks structure and leaves trust to
verify.

An entry is RFC 8785 of ``{"body": B, "i": n, "prev": SHA-256 of entry n-1}``; its leaf is SHA-256(0x00 || entry).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

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
    NoteBehind,
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
    "State",
    "Step",
    "entry_bytes",
    "read_blob",
]


class Step(NamedTuple):
    """How a segment is read: what is recovered of it, whether it may be torn, and its first entry's operation."""

    number: int
    recovered: dict[str, Any] | None
    last: bool
    opening: str


class State(NamedTuple):
    """Where the reading of a log is (fields of ``LogScan``); ``covered`` is -1 where no checkpoint passed by."""

    index: int
    prev: str
    peaks: list[bytes]
    segment: int
    good: int
    covered: int
    noted: int
    last_note: bytes | None
    clean: bool
    broken: bool
    suspects: dict[int, int]


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
        for step in self.plan():
            yield from self.read(step)
            if self.broken:
                return

    def plan(self) -> list[Step]:
        """How to read each segment; all but the first segments of the log are looked into for that."""
        numbers = self.store.segments(self.log)
        openings = self._openings(numbers)
        recovered = self._recoveries(openings)
        # A stop while a segment is begun leaves one without an opening: the one before it is still the last.
        last = max(openings, default=0)
        steps = [
            Step(number, recovered.get(number), number >= last, openings[number].op if number in openings else "")
            for number in numbers
        ]
        gap = next((at for at, number in enumerate(numbers) if at != number), None)
        if gap is not None:
            steps = [*steps[:gap], Step(gap, None, last=True, opening="missing")]
        return steps or [Step(-1, None, last=True, opening="missing")]

    def read(self, step: Step) -> Iterator[Event]:
        """One segment; ``broken`` is set where the reading of the log ends."""
        if step.number < 0:
            yield Problem("CF-LOG-013", self.log, "a log without segments", torn=True)
        elif step.opening == "missing":
            where = self.store.segment_name(self.log, step.number)
            yield self._problem("CF-LOG-012", where, "a segment is missing")
        else:
            yield from self._segment(step.number, step.recovered, last=step.last)

    def start_at(self, number: int) -> bool:
        """Begin at a segment, with what its first entry tells of all before it; False when it tells nothing."""
        opening = self._opening(number)
        if opening is None:
            return False
        self.covered = -1
        return self._resume(opening)

    def state(self) -> State:
        """Where the reading is."""
        return State(
            self.index,
            self.prev,
            self.tree.peaks(),
            self.segment,
            self.good,
            self.covered,
            self.noted,
            self.last_note,
            self.clean,
            self.broken,
            dict(self.suspects),
        )

    def go_on(self, state: State) -> None:
        """Take the state at the end of a segment that was read elsewhere."""
        self.index, self.prev = state.index, state.prev
        self.tree = tree.Tree.from_peaks(state.index, state.peaks)
        self.segment, self.good, self.clean, self.broken = state.segment, state.good, state.clean, state.broken
        if state.covered >= 0:
            self.covered, self.noted, self.last_note = state.covered, state.noted, state.last_note
        self.suspects |= state.suspects

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
                    alone = segments.stands_alone(chunk)
                    listed = segments.items(chunk, where=where)
                    if awaiting is not None and not (alone and chunk.data[0] == segments.NOTE):
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
                return
            if end is not None:
                for _, note in segments.notes_from(file, self.log, end):
                    yield NoteBehind(note, self.index, number)

    def _note_follows(self, file: BinaryIO, offset: int) -> bool:
        """Whether a whole checkpoint stands behind bytes that are no chunk: then they are damage, no torn tail.

        A hole of zeros is not held against anybody: after a power failure later blocks may be there without earlier.
        """
        found = next(segments.notes_from(file, self.log, offset), None)
        return found is not None and not segments.has_hole(file, offset, found[0])

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
        op = str(body["content"]["op"]) if records.is_record(body) else "statement"
        return Entry(self.log, value["i"], sha256_hex(data), body, raw, number, offset, op)

    def _peaks(self) -> dict[str, Any]:
        return {"peaks": [peak.hex() for peak in self.tree.peaks()], "size": self.tree.size}

    def _resume(self, opening: Entry) -> bool:
        """Take index, previous digest and tree from a segment's first entry, which a checkpoint must cover later."""
        state = opening.body["context"].get("tree") if records.is_record(opening.body) else None
        try:
            assert isinstance(state, dict)
            self.tree = tree.Tree.from_peaks(state["size"], [bytes.fromhex(peak) for peak in state["peaks"]])
        except (AssertionError, KeyError, TypeError, ValueError, CounterfoilError):
            return False
        self.index = opening.index
        where = self.store.segment_name(self.log, opening.segment)
        with self.store.open_segment(self.log, opening.segment) as file:
            for chunk in segments.read_chunks(file, where=where):
                for item in segments.items(chunk, where=where):
                    if item.kind == segments.ENTRY:
                        self.prev = canonical.loads(item.data)["prev"]
                        return True
        return False

    def _problem(self, code: str, where: str, message: str) -> Problem:
        self.broken = True
        return Problem(code, where, message)


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
