"""Puts a damaged log together again from several copies of it, taking only bytes that the log itself vouches for.

A segment is built from checkpoint to checkpoint: the ``stored`` entry in front of each note has the SHA-256 of all
bytes before it. What comes out is a proposal; it counts only after the whole log was verified with it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from counterfoil import segments
from counterfoil.appending import SEGMENT_SIZE
from counterfoil.errors import CounterfoilError
from counterfoil.scrub.damage import Copy, Part
from counterfoil.scrub.filebytes import FileBytes
from counterfoil.stores import FolderStore

__all__ = [
    "MAX_SEGMENT",
    "Patched",
    "Proposal",
    "Whole",
    "assemble",
    "claims",
    "expected",
    "oversized",
    "read_copy",
]

_MISSING_MAX: Final = 1000

MAX_SEGMENT: Final = SEGMENT_SIZE + segments.MAX_CHUNK + segments.CHUNK_HEADER.size
"""Bytes of the largest segment: one more chunk, as large as one may be, than those after which a writer ends it."""

Whole = tuple[int, str]
"""Size and SHA-256 of a whole file, as a ``recovered`` entry gives them."""


class Patched(FolderStore):
    """Evidence as it would be with some segments replaced by files that stand elsewhere."""

    def __init__(self, root: Path, files: dict[tuple[str, int], Path]) -> None:
        super().__init__(root)
        self._files = files

    def logs(self) -> list[str]:
        """Log ids, those of replaced segments included."""
        return sorted({*super().logs(), *(log for log, _ in self._files)})

    def segments(self, log: str) -> list[int]:
        """Segment numbers, those of replaced segments included."""
        return sorted({*super().segments(log), *(number for name, number in self._files if name == log)})

    def is_segment(self, log: str, number: int) -> bool:
        """Whether a segment, or what would replace it, is a regular file."""
        path = self._files.get((log, number))
        return super().is_segment(log, number) if path is None else path.is_file()

    def open_segment(self, log: str, number: int) -> BinaryIO:
        """A segment, or what would replace it, opened for reading."""
        path = self._files.get((log, number))
        return super().open_segment(log, number) if path is None else path.open("rb")

    def segment_size(self, log: str, number: int) -> int:
        """Bytes of a segment, or of what would replace it."""
        path = self._files.get((log, number))
        return super().segment_size(log, number) if path is None else path.stat().st_size


Range = tuple[Copy, int, int]
"""Bytes of a copy, which stand at the same place of what is put together."""


@dataclass(slots=True)
class Proposal:
    """What a segment should be: whose bytes one behind the other, and which copies they are from."""

    ranges: list[Range] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of it."""
        return self.ranges[-1][2] if self.ranges else 0

    def add(self, copy: Copy, end: int) -> None:
        """Go on with the bytes of a copy, up to ``end``."""
        start = self.size
        if self.ranges and self.ranges[-1][0] is copy:
            start = self.ranges.pop()[1]
        if end > start:
            self.ranges.append((copy, start, end))

    def begins(self, copy: Copy) -> bool:
        """Whether a copy begins with it."""
        return self.size <= len(copy.data) and all(
            one is copy or one.data.same(copy.data, start, end) for one, start, end in self.ranges
        )

    def same(self, copy: Copy | None) -> bool:
        """Whether it is what a copy holds; nothing at all is what a missing one does."""
        return not self.size if copy is None else self.size == len(copy.data) and self.begins(copy)

    def sha256(self) -> str:
        """SHA-256 of all of it."""
        hasher = hashlib.sha256()
        for copy, start, end in self.ranges:
            copy.data.feed(hasher, start, end)
        return hasher.hexdigest()

    def write(self, path: Path) -> None:
        """Put it into a new file; raises OSError."""
        with path.open("wb") as file:
            for copy, start, end in self.ranges:
                for piece in copy.data.pieces(start, end):
                    file.write(piece)


def read_copy(store: FolderStore, log: str, number: int, label: str, *, head: bool = False) -> Copy | None:
    """One copy of a segment (``head``: its first chunk only), None when it is not there or cannot be read.

    A file that is larger than any segment is not read at all.
    """
    if number not in store.segments(log):
        return None
    try:
        with store.open_segment(log, number) as file:
            size = store.segment_size(log, number)
            if head:
                data = file.read(segments.CHUNK_HEADER.size)
                if len(data) == segments.CHUNK_HEADER.size:
                    size = min(
                        size, len(data) + min(segments.CHUNK_HEADER.unpack(data)[1], segments.MAX_CHUNK)
                    )
            elif size > MAX_SEGMENT:
                return None
        opened = functools.partial(store.open_segment, log, number)
        return Copy(label, FileBytes(opened, size, where=store.segment_name(log, number)))
    except (CounterfoilError, OSError):
        return None


def oversized(store: FolderStore, log: str) -> Iterator[str]:
    """Names of segments that are too large to be any."""
    for number in store.segments(log):
        try:
            if store.segment_size(log, number) > MAX_SEGMENT:
                yield store.segment_name(log, number)
        except CounterfoilError:
            continue


def expected(numbers: Sequence[int]) -> list[int]:
    """Segment numbers of a log and those missing between them, of which no more than a thousand are told."""
    there = set(numbers)
    missing = (number for number in range(max(numbers, default=0)) if number not in there)
    return sorted(there.union(itertools.islice(missing, _MISSING_MAX)))


def claims(openings: Iterator[dict[str, Any]]) -> dict[int, set[Whole]]:
    """By segment: size and SHA-256 of the whole file, from ``recovered`` entries."""
    found: dict[int, set[Whole]] = {}
    for body in openings:
        listed = body["content"].get("segments")
        for one in listed if type(listed) is list else []:
            if isinstance(one, dict) and type(one.get("segment")) is int and type(one.get("size")) is int:
                found.setdefault(one["segment"], set()).add((one["size"], str(one.get("sha256"))))
    return found


def assemble(
    segment: int,
    local: Copy | None,
    mirrors: Sequence[Copy],
    whole: set[Whole],
    *,
    signed: Callable[[bytes], bool],
    longer: bool,
    ends: Callable[[int], bool],
) -> Proposal:
    """The segment from its copies; ``local`` comes first wherever it is right.

    ``signed`` says of a note whether the log's identity signed it. Goes on to where the local copy ends, if that is
    behind a checkpoint, and otherwise (or ``longer``) as far as the copies hold vouched bytes. Behind that the local
    copy's bytes stay as they are, unless ``ends`` knows of that offset that the file ended there.
    """
    copies = [*([] if local is None else [local]), *mirrors]
    size = -1 if local is None else len(local.data)
    hasher = hashlib.sha256()
    out = Proposal()
    while True:
        step = _step(copies, segment, out.size, hasher, signed)
        if step is None:
            break
        for copy, part in step:
            if copy is not local and copy.label not in out.sources:
                out.sources.append(copy.label)
            copy.data.feed(hasher, part.start, part.end)
            out.add(copy, part.end)
        if out.size == size and not longer:
            break
    vouched, head = out.size, list(out.ranges)
    if local is not None and not ends(vouched) and (vouched in local.parts or out.begins(local)):
        out.add(local, size)
    if whole and not _is_whole(out, whole):
        for other in _wholes(Proposal(head, out.sources), copies, local):
            if _is_whole(other, whole):
                return other
    return out


def _step(
    copies: Sequence[Copy], segment: int, offset: int, hasher: Any, signed: Callable[[bytes], bool]
) -> list[tuple[Copy, Part]] | None:
    """The chunks from ``offset`` to behind the next note, from the first choice of copies that its digest confirms."""
    orders = [[copy] for copy in copies]
    if len(copies) > 1:
        orders += [[*copies[at:], *copies[:at]] for at in range(len(copies))]
    for order in orders:
        running = hasher.copy()
        listed: list[tuple[Copy, Part]] = []
        at = offset
        while True:
            found = next(((copy, copy.parts[at]) for copy in order if at in copy.parts), None)
            if found is None:
                break
            copy, part = found
            listed.append(found)
            digest = copy.stored(part, segment)
            if digest is not None:
                notes = ((one, one.note(part.end)) for one in order)
                signer = next((one for one, note in notes if note is not None and signed(note)), None)
                if running.hexdigest() != digest or signer is None:
                    break
                return [*listed, (signer, signer.parts[part.end])]
            copy.data.feed(running, part.start, part.end)
            at = part.end
    return None


def _wholes(head: Proposal, copies: Sequence[Copy], local: Copy | None) -> Iterator[Proposal]:
    for copy in copies:
        own = [] if copy is local else [copy.label]
        yield Proposal([(copy, 0, len(copy.data))], own)
        further = Proposal(list(head.ranges), list(dict.fromkeys([*head.sources, *own])))
        further.add(copy, max(head.size, len(copy.data)))
        yield further


def _is_whole(proposal: Proposal, whole: set[Whole]) -> bool:
    return proposal.size in {size for size, _ in whole} and (proposal.size, proposal.sha256()) in whole
