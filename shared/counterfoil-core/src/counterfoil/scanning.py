"""Reads one segment of a log, entry after entry: chunks, items, hash chain, tree, checkpoints; structure alone.

An entry is RFC 8785 of ``{"body": B, "i": n, "prev": SHA-256 of entry n-1}``; its leaf is SHA-256(0x00 || entry).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from counterfoil import records, segments, tails, tree
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
    read_entry,
    same,
)
from counterfoil.errors import CounterfoilError, LogError, StoreError
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import store_error

__all__ = ["MEMBERS", "SegmentScan", "State"]

_SHORT: Final = 32 * 1024
"""Bytes of an entry that may be read the short way: no more than a record may have."""

Short: TypeAlias = Callable[[bytes], bool]
_RECORD: Final = b'{"body":{"content":'
_ENVELOPE: Final = b'{"body":{"payload":'
MEMBERS: Final = frozenset({"body", "i", "prev"})


class State(NamedTuple):
    """Where the reading of a log is (fields of ``SegmentScan``); ``covered`` is -1 where no checkpoint passed by."""

    index: int  # type: ignore[assignment]
    prev: str
    peaks: list[bytes]
    segment: int
    good: int
    covered: int
    noted: int
    last_note: bytes | None
    clean: bool
    broken: bool
    unread: bool
    suspects: dict[int, int]


@dataclass(slots=True)
class SegmentScan:
    """The state of reading one log; segments are read in order.

    ``suspects`` are segments that do not end in a checkpoint, with the bytes that are good of each; ``noted`` is the
    one that holds the last checkpoint; ``unread`` says that the system did not let the log be read to its end.
    ``shorts`` are offered every body whose place in the chain is right before it is parsed, one the records, one the
    envelopes: where they answer true, they vouch that the body is canonical, of a known form and none of the log's own,
    and have judged it; no event follows.
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
    unread: bool = False
    shorts: tuple[Short, Short] | None = None
    _last_op: str = ""
    suspects: dict[int, int] = field(default_factory=dict)

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
            self.unread,
            dict(self.suspects),
        )

    def go_on(self, state: State) -> None:
        """Take the state at the end of a segment that was read elsewhere."""
        self.index, self.prev = state.index, state.prev
        self.tree = tree.Tree.from_peaks(state.index, state.peaks)
        self.segment, self.good, self.clean, self.broken = (
            state.segment,
            state.good,
            state.clean,
            state.broken,
        )
        if state.covered >= 0:
            self.covered, self.noted, self.last_note = state.covered, state.noted, state.last_note
        self.suspects |= state.suspects

    def segment_events(self, number: int, recovered: dict[str, Any] | None, *, last: bool) -> Iterator[Event]:
        """One segment; ``broken`` is set where the reading of the log ends."""
        where = self.store.segment_name(self.log, number)
        try:
            yield from self._chunks(number, where, recovered, last=last)
        except (LogError, StoreError) as exc:
            self.unread = isinstance(exc, StoreError)
            yield self.problem(exc.code, exc.where or where, exc.message)
        except OSError as exc:
            self.unread = True
            failed = store_error(exc, "cannot read the evidence", where)
            yield self.problem(failed.code, where, failed.message)
        if self.broken or recovered is not None or self.clean:
            return
        self.suspects[number] = self.good
        if not last:
            # Nothing signed says where this segment ends.
            yield self.problem("CF-LOG-023", where, "a segment does not end in a checkpoint")

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
        hasher = sha256()
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
                    bounds = segments.bounds_of(chunk, where=where)
                    noted = bool(bounds) and max(bounds)[0] == segments.NOTE
                    if noted != (awaiting is not None) or (noted and not alone):
                        wrong = "a note out of place" if noted else "no note after `stored`"
                        yield self.problem("CF-LOG-014", f"{where} byte {chunk.start}", wrong)
                        return
                    for position, (kind, begin, stop) in enumerate(bounds):
                        data = chunk.data[begin:stop]
                        if kind == segments.ENTRY and opened and self._shortly(data):
                            continue
                        if awaiting is not None and kind == segments.NOTE:
                            self.last_note, self.covered, self.clean = data, self.index, True
                            self.noted = number
                            yield CheckpointSeen(
                                data, self.index, self.tree.root(), number, chunk.end, awaiting
                            )
                            awaiting = None
                            continue
                        if kind == segments.BLOB:
                            place = (number, start_of_stream, chunk.start, position)
                            yield BlobSeen(sha256(data).hexdigest(), data, place)
                            continue
                        outcome = self._next(data, number, chunk.start, where, opened=opened)
                        yield outcome
                        opened = True
                        if isinstance(outcome, Problem):
                            if not outcome.unknown:
                                return
                            continue
                        if outcome.op == "stored":
                            awaiting = alone and _is_stored(
                                outcome.body, chunk.start, number, hasher.hexdigest()
                            )
                    self.good = chunk.end
            except segments.TornChunk as exc:
                self.clean = False
                if not last or self._note_follows(file, exc.offset):
                    yield self.problem(exc.code, exc.where or where, exc.message)
                    return
                yield Problem(exc.code, exc.where or where, exc.message, torn=True)
                return
            if end is not None:
                for _, note in tails.notes_from(file, self.log, end):
                    yield NoteBehind(note, self.index, number)

    def _note_follows(self, file: BinaryIO, offset: int) -> bool:
        """Whether a whole checkpoint stands behind bytes that are no chunk: then they are damage, no torn tail.

        A hole of zeros is not held against anybody: after a power failure later blocks may be there without earlier.
        """
        return next(tails.notes_from(file, self.log, offset), None) is not None and not tails.has_hole(
            file, offset
        )

    def _check_recovered(self, number: int, recovered: dict[str, Any], where: str) -> Problem | None:
        good, told = recovered.get("good"), recovered.get("size")
        if (
            recovered.keys() != {"good", "segment", "sha256", "size"}
            or type(good) is not int
            or good < 0
            or type(told) is not int
            or good > told
        ):
            return self.problem("CF-LOG-015", where, "the recovery entry of this segment is malformed")
        hasher = sha256()
        with self.store.open_segment(self.log, number) as file:
            while data := file.read(1 << 20):
                hasher.update(data)
            size = file.tell()
        if (recovered["sha256"], recovered["size"]) != (hasher.hexdigest(), size):
            return self.problem("CF-LOG-015", where, "the segment changed after it was recovered")
        return None

    # -- entries ------------------------------------------------------------------------------------------------------

    def _shortly(self, data: bytes) -> bool:
        """Whether an entry's body was judged the short way: what stands around it is what has to be there."""
        if self.shorts is None or len(data) > _SHORT:
            return False
        tail = f',"i":{self.index},"prev":"{self.prev}"}}'.encode()
        if not data.endswith(tail):
            return False
        if data.startswith(_RECORD):
            short = self.shorts[0]
        elif data.startswith(_ENVELOPE):
            short = self.shorts[1]
        else:
            return False
        if not short(data[8 : -len(tail)]):
            return False
        self.prev = sha256(data).hexdigest()
        self.index += 1
        self.tree.add(data)
        self._last_op = ""
        return True

    def _next(self, data: bytes, number: int, offset: int, where: str, *, opened: bool) -> Entry | Problem:
        try:
            if len(data) > MAX_ENTRY:
                raise LogError("an entry is too long", code="CF-LOG-016")
            value, cited, plain = read_entry(data)
            if type(value) is not dict or value.keys() != MEMBERS or type(value["i"]) is not int:
                raise LogError("not an entry", code="CF-LOG-021")
            if value["i"] != self.index or value["prev"] != self.prev:
                raise LogError("the hash chain is broken", code="CF-LOG-017")
            entry = self.entry(value, data, number, offset, cited, plain)
        except CounterfoilError as exc:
            at = f"{where} entry {self.index}"
            if exc.code != "CF-LOG-022":
                return self.problem(exc.code, at, exc.message)
            self._advance(sha256(data).hexdigest(), data, "unknown")
            return Problem(exc.code, at, exc.message, unknown=True)
        op = entry.op
        if not opened:
            if op not in OPENERS or not same(entry.body["context"].get("tree"), self._peaks()):
                return self.problem(
                    "CF-LOG-018",
                    f"{where} entry {self.index}",
                    "a segment does not open with the tree it continues",
                )
        elif op in OPENERS and not (op == "session" and self._last_op == "recovered"):
            return self.problem(
                "CF-LOG-018", f"{where} entry {self.index}", "an opening entry inside a segment"
            )
        if self.first is None:
            self.first = entry.body
        self._advance(entry.digest, data, op)
        return entry

    def _advance(self, digest: str, data: bytes, op: str) -> None:
        self.prev = digest
        self.index += 1
        self.tree.add(data)
        self._last_op = op

    def entry(
        self,
        value: dict[str, Any],
        data: bytes,
        number: int,
        offset: int,
        cited: list[tuple[str, int, str]],
        plain: bool,
    ) -> Entry:
        """The entry in a value that has the three members; raises LogError when its body is of no known form."""
        body = records.parse_body(value["body"], self.log)
        # `{"body":` is 8 bytes; behind the body stand `,"i":N,"prev":"<64>"}`.
        raw = data[8 : len(data) - 80 - len(str(value["i"]))]
        op = "statement" if "payload" in body else body["content"]["op"]
        digest = sha256(data).hexdigest()
        return Entry(self.log, value["i"], digest, body, raw, number, offset, op, cited, plain)

    def _peaks(self) -> dict[str, Any]:
        return {"peaks": [peak.hex() for peak in self.tree.peaks()], "size": self.tree.size}

    def problem(self, code: str, where: str, message: str) -> Problem:
        """A fault that ends the reading of the log."""
        self.broken = True
        return Problem(code, where, message)


def _is_stored(body: dict[str, Any], offset: int, segment: int, sha256: str) -> bool:
    content = {"offset": offset, "op": "stored", "segment": segment, "sha256": sha256}
    return same(body["content"], content) and not body["context"]
