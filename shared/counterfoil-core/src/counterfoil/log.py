"""Reads one log as a stream of events and finds where a writer may go on; it checks structure and leaves trust to
verify.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from counterfoil import canonical, records, segments, tree
from counterfoil.entries import (
    ZERO,
    BlobSeen,
    CheckpointSeen,
    Entry,
    Event,
    Problem,
    entry_bytes,
    read_entry,
    same,
)
from counterfoil.errors import CounterfoilError, LogError, StoreError
from counterfoil.scanning import MEMBERS, SegmentScan, State
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import store_error

__all__ = [
    "ZERO",
    "BlobSeen",
    "CheckpointSeen",
    "Entry",
    "LogScan",
    "Problem",
    "State",
    "Step",
    "covered",
    "entry_bytes",
    "read_blob",
]


class Step(NamedTuple):
    """How a segment is read: what is recovered of it, whether it may be torn, and its first entry's operation.

    ``unread``: code and message, where the system does not let its beginning be read.
    """

    number: int
    recovered: dict[str, Any] | None
    last: bool
    opening: str
    unread: tuple[str, str] | None = None


@dataclass(slots=True)
class LogScan(SegmentScan):
    """Streams one log from a segment on; afterwards its fields tell the state a writer continues from."""

    def events(self) -> Iterator[Event]:
        """Entries, blobs, checkpoints and problems in file order; stops at the first problem that breaks the chain."""
        if told := getattr(self.store, "events", None):
            for event in told(self.log):  # a place without segments tells what it holds by itself
                self.covered = event.size if isinstance(event, CheckpointSeen) else self.covered
                yield event
            return
        for step in self.plan():
            yield from self.read(step)
            if self.broken:
                return

    def plan(self) -> list[Step]:
        """How to read each segment; all but the first segments of the log are looked into for that."""
        # What has a segment's name and is no file holds nothing; that it is there is told of the folder.
        numbers = [at for at in self.store.segments(self.log) if self.store.is_segment(self.log, at)]
        openings: dict[int, Entry] = {}
        unread: dict[int, tuple[str, str]] = {}
        for at, number in enumerate(numbers):
            try:
                opening = self._opening(number)
            except StoreError as exc:
                # What it says of those before it is not known, so nothing is held against them that it could explain.
                unread[number] = exc.code, exc.message
                numbers = numbers[: at + 1]
                break
            if opening is not None:
                openings[number] = opening
        recovered = self._recoveries(openings)
        # A stop while a segment is begun leaves one without an opening: the one before it is still the last.
        last = max(openings, default=0)
        steps = [
            Step(
                number,
                recovered.get(number),
                number >= last,
                openings[number].op if number in openings else "",
                unread.get(number),
            )
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
            yield self.problem("CF-LOG-012", where, "a segment is missing")
        elif step.unread is not None:
            self.unread = True
            yield self.problem(step.unread[0], self.store.segment_name(self.log, step.number), step.unread[1])
        else:
            yield from self.segment_events(step.number, step.recovered, last=step.last)

    def start_at(self, number: int) -> bool:
        """Begin at a segment, with what its first entry tells of all before it; False when it tells nothing."""
        opening = self._openings([number]).get(number)
        if opening is None:
            return False
        self.covered = -1
        return self._resume(opening)

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
                yield from self.segment_events(number, recovered.get(number), last=number >= max(openings))

    def since(self, number: int) -> Iterator[Event]:
        """The same from a segment on, for who knows what stands before it; nothing when it cannot be begun there."""
        numbers = [one for one in self.store.segments(self.log) if one >= number]
        openings = self._openings(numbers)
        if number in openings:
            recovered = self._recoveries(openings)
            self._resume(openings[number])
            for one in numbers:
                yield from self.segment_events(one, recovered.get(one), last=one >= max(openings))

    # -- segments -----------------------------------------------------------------------------------------------------

    def _opening(self, number: int) -> Entry | None:
        """First entry of a segment, None when its first chunk is no whole one; raises StoreError: nobody knows."""
        where = self.store.segment_name(self.log, number)
        try:
            with self.store.open_segment(self.log, number) as file:
                for chunk in segments.read_chunks(file, where=where):
                    for item in segments.items(chunk, where=where):
                        if item.kind == segments.ENTRY:
                            value, cited, plain = read_entry(item.data)
                            if (
                                type(value) is not dict
                                or value.keys() != MEMBERS
                                or type(value["i"]) is not int
                            ):
                                return None
                            return self.entry(value, item.data, number, chunk.start, cited, plain)
                    return None
        except StoreError:
            raise
        except CounterfoilError:
            return None
        except OSError as exc:
            raise store_error(exc, "cannot read the evidence", where) from exc
        return None

    def _openings(self, numbers: list[int]) -> dict[int, Entry]:
        found: dict[int, Entry] = {}
        for number in numbers:
            with contextlib.suppress(StoreError):
                opening = self._opening(number)
                if opening is not None:
                    found[number] = opening
        return found

    def _has_note(self, number: int) -> bool:
        where = self.store.segment_name(self.log, number)
        try:
            with self.store.open_segment(self.log, number) as file:
                for chunk in segments.read_chunks(file, where=where):
                    if any(item.kind == segments.NOTE for item in segments.items(chunk, where=where)):
                        return True
        except (CounterfoilError, OSError):
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

    def _resume(self, opening: Entry) -> bool:
        """Take index, previous digest and tree from a segment's first entry, which a checkpoint must cover later."""
        told: Any = opening.body["context"].get("tree") if records.is_record(opening.body) else None
        try:
            # Compared with types: another size with as many peaks would give every later checkpoint another root.
            if not same(told["size"], opening.index):
                return False
            self.tree = tree.Tree.from_peaks(told["size"], [bytes.fromhex(peak) for peak in told["peaks"]])
        except (KeyError, TypeError, ValueError, CounterfoilError):
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


def covered(store: FolderStore, log: str) -> int:
    """How many entries of a log have a checkpoint behind them, as far as the log can be read (not verified here)."""
    scan = LogScan(store, log)
    for _ in scan.events():
        pass
    return scan.covered


def read_blob(store: FolderStore, log: str, place: tuple[int, int, int, int]) -> bytes:
    """Read one blob again from where a scan saw it; raises LogError (CF-LOG-019) when it is no longer there."""
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
