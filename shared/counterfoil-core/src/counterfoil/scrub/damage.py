"""Where a segment file is damaged, and what that costs: reads on behind what cannot be read.

A reader of a log stops at its first fault. This one looks for the next whole chunk behind it, so that damage is told
by byte ranges and lost entries. It believes nothing: whether bytes are right is for ``verify`` to say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from counterfoil import canonical, segments, tails
from counterfoil._checksum import crc32
from counterfoil.entries import MAX_ENTRY, OPENERS
from counterfoil.errors import CounterfoilError
from counterfoil.scrub.filebytes import FileBytes

__all__ = ["Copy", "Fault", "Gap", "Part", "faults", "walk"]

_HEAD: Final = segments.CHUNK_HEADER.size
_ZEROS: Final = bytes(_HEAD)
_INDEX: Final = re.compile(rb',"i":(0|[1-9][0-9]{0,15}),"prev":"[0-9a-f]{64}"\}\Z')
_WORK: Final = 16
"""Times its size that a file's bytes are summed at most while the next whole chunk is looked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk with a right checksum."""

    start: int
    end: int
    form: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no whole chunk."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Damaged bytes of one file; ``first`` to ``last`` are the entries lost with them (None: not known)."""

    code: str
    start: int
    end: int
    message: str
    first: int | None = None
    last: int | None = None


class Copy:
    """One copy of one segment: its bytes, and where whole chunks stand in it; raises StoreError as FileBytes does."""

    __slots__ = ("data", "label", "parts", "regions")

    def __init__(self, label: str, data: FileBytes | bytes) -> None:
        self.label = label
        self.data = FileBytes.of(data) if isinstance(data, bytes) else data
        self.regions = walk(self.data)
        self.parts = {one.start: one for one in self.regions if isinstance(one, Part)}

    def stored(self, part: Part, segment: int) -> str | None:
        """The digest that a ``stored`` entry alone in this chunk gives for all bytes before it."""
        if part.form != segments.RAW or part.end - part.start > _HEAD + MAX_ENTRY:
            return None
        data = self.data[part.start + _HEAD + 5 : part.end]
        if self.data[part.start + _HEAD] != segments.ENTRY or b'"op":"stored"' not in data:
            return None
        try:
            content = canonical.loads(data)["body"]["content"]
        except (CounterfoilError, KeyError, TypeError):
            return None
        if content.get("op") != "stored" or content.get("segment") != segment:
            return None
        return str(content.get("sha256")) if content.get("offset") == part.start else None

    def note(self, start: int) -> bytes | None:
        """The note in a chunk of its own at ``start``."""
        part = self.parts.get(start)
        if part is None or part.end - start > _HEAD + tails.MAX_NOTE:
            return None
        data = self.data[start : part.end]
        return data[segments.NOTE_HEAD :] if tails.is_note(data, 0) else None

    def notes(self) -> list[bytes]:
        """All notes that can be read."""
        found = (self.note(start) for start, part in self.parts.items() if part.form == segments.RAW)
        return [note for note in found if note is not None]

    def ends_clean(self) -> bool:
        """Whether the last thing in the file is a whole note."""
        last = self.regions[-1] if self.regions else None
        return isinstance(last, Part) and self.note(last.start) is not None

    def openings(self) -> Iterator[dict[str, Any]]:
        """Bodies of the opening entries in the first chunk, if that can be read."""
        for part, listed in _contents(self):
            for kind, data in listed or () if part.start == 0 else ():
                try:
                    body = canonical.loads(data)["body"] if kind == segments.ENTRY else None
                except (CounterfoilError, KeyError, TypeError):
                    continue
                if isinstance(body, dict) and isinstance(body.get("content"), dict):
                    if body["content"].get("op") in OPENERS and isinstance(body.get("context"), dict):
                        yield body
            return


def walk(data: FileBytes) -> list[Part | Gap]:
    """Whole chunks and what stands between them, from the first byte to the last."""
    found: list[Part | Gap] = []
    budget = [_WORK * len(data)]
    offset = 0
    while offset < len(data):
        part = _part(data, offset, budget)
        if part is None:
            end = _next(data, offset, budget)
            found.append(Gap(offset, end))
            offset = end
        else:
            found.append(part)
            offset = part.end
    return found


def _part(data: FileBytes, start: int, budget: list[int]) -> Part | None:
    head = data[start : start + _HEAD]
    if len(head) < _HEAD or head[1:4] != b"\0\0\0":
        return None
    form, length, raw_length, checksum = segments.CHUNK_HEADER.unpack(head)
    end = start + _HEAD + length
    if form > segments.ZSTD_NEXT or end > len(data) or (form == segments.RAW and length != raw_length):
        return None
    budget[0] -= length
    if budget[0] < 0:
        return None
    found = data.crc32(start + _HEAD, end, crc32(head[:12]))
    return Part(start, end, form) if found == checksum else None


def _next(data: FileBytes, offset: int, budget: list[int]) -> int:
    """Start of the next whole chunk behind a fault."""
    if offset + _HEAD <= len(data):
        length: int = segments.CHUNK_HEADER.unpack(data[offset : offset + _HEAD])[1]
        end = offset + _HEAD + length
        # Most often the length is still right and the damage ends with the chunk.
        if end == len(data) or (end < len(data) and _part(data, end, budget) is not None):
            return end
    at = data.find(b"\0\0\0", offset + 2)
    while at >= 0 and budget[0] >= 0:
        start = at - 1
        if _part(data, start, budget) is not None:
            return start
        if data[start : start + _HEAD] == _ZEROS:
            # A hole of zeros: no chunk begins before its last bytes.
            solid = data.solid(start)
            at = -1 if solid < 0 else max(at + 1, solid - _HEAD)
        else:
            at += 1
        at = data.find(b"\0\0\0", at) if at >= 0 else at
    return len(data)


def _contents(copy: Copy) -> Iterator[tuple[Part, list[tuple[int, bytes]] | None]]:
    """Every whole chunk with its items; None where they need a chunk of the same stream that is damaged."""
    with copy.data.opened() as file:
        yield from _contents_of(copy.regions, file)


def _contents_of(
    listed: list[Part | Gap], file: BinaryIO
) -> Iterator[tuple[Part, list[tuple[int, bytes]] | None]]:
    at = 0
    while at < len(listed):
        part = listed[at]
        at += 1
        if isinstance(part, Gap):
            continue
        end = part.end
        if part.form == segments.ZSTD_NEXT:
            yield part, None
            continue
        run = [part]
        while part.form == segments.ZSTD_FIRST and at < len(listed):
            more = listed[at]
            if isinstance(more, Gap) or more.form == segments.ZSTD_FIRST:
                break
            run.append(more)
            end, at = more.end, at + 1
        done = 0
        try:
            for chunk in segments.read_chunks(file, where="", start=part.start, end=end):
                items = [(one.kind, one.data) for one in segments.items(chunk, where="")]
                yield run[done], items
                done += 1
        except CounterfoilError:
            for other in run[done:]:
                yield other, None


def _indexes(listed: list[tuple[int, bytes]]) -> tuple[int, ...]:
    """Indexes of the first and the last entry of a chunk, if it has any."""
    found = (_INDEX.search(data) for kind, data in listed if kind == segments.ENTRY)
    indexes = [int(match[1]) for match in found if match]
    return (indexes[0], indexes[-1]) if indexes else ()


def faults(copy: Copy, segment: int, *, before: int | None) -> tuple[list[Fault], int | None]:
    """Damage of a segment, in order, and the index of the last entry read; ``before`` is that of the segment before."""
    read = {part.start: None if listed is None else _indexes(listed) for part, listed in _contents(copy)}
    found: list[Fault] = []
    waiting: list[tuple[int, int]] = []
    last = before
    hasher, hashed, good = hashlib.sha256(), 0, 0
    whole = True

    def settle(upto: int | None) -> None:
        if waiting:
            first = None if last is None else last + 1
            lost = (first, upto) if first is None or upto is None or first <= upto else (None, None)
            message = "a chunk's checksum does not match, or bytes are no chunk"
            found.append(Fault("CF-LOG-010", waiting[0][0], waiting[-1][1], message, *lost))
            waiting.clear()

    for region in copy.regions:
        indexes = read.get(region.start)
        if isinstance(region, Gap) or indexes is None:
            waiting.append((region.start, region.end))
            whole = whole and not isinstance(region, Gap)
            continue
        if waiting and indexes:
            settle(indexes[0] - 1)
        last = indexes[-1] if indexes else last
        stored = copy.stored(region, segment)
        if stored is not None and whole:
            copy.data.feed(hasher, hashed, region.start)
            hashed = region.start
            if hasher.hexdigest() == stored:
                good = region.start
            else:
                message = "the stored bytes are not the ones that were written"
                found.append(Fault("CF-VERIFY-051", good, region.start, message))
                whole = False
    settle(None)
    return found, last
