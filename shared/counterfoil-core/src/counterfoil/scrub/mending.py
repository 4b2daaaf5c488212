"""Puts a damaged log together again from several copies of it, taking only bytes that the log itself vouches for.

A segment is built from checkpoint to checkpoint: the ``stored`` entry in front of each note has the SHA-256 of all
bytes before it. What comes out is a proposal; it counts only after the whole log was verified with it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from counterfoil import segments
from counterfoil.appending import SEGMENT_SIZE
from counterfoil.errors import CounterfoilError
from counterfoil.scrub.damage import Copy, Part
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


class Proposal:
    """What a segment should be: its bytes, how many of them are vouched for, and which copies they are from."""

    __slots__ = ("data", "sources", "vouched")

    def __init__(self, data: bytes, vouched: int, sources: Sequence[str]) -> None:
        self.data = data
        self.vouched = vouched
        self.sources = list(sources)


def read_copy(store: FolderStore, log: str, number: int, label: str, *, head: bool = False) -> Copy | None:
    """One copy of a segment (``head``: its first chunk only), None when it is not there or cannot be read.

    A file that is larger than any segment is not read at all: a copy is held in memory as a whole.
    """
    if number not in store.segments(log):
        return None
    try:
        with store.open_segment(log, number) as file:
            if not head:
                if store.segment_size(log, number) > MAX_SEGMENT:
                    return None
                return Copy(label, file.read(MAX_SEGMENT))
            data = file.read(segments.CHUNK_HEADER.size)
            if len(data) == segments.CHUNK_HEADER.size:
                data += file.read(min(segments.CHUNK_HEADER.unpack(data)[1], segments.MAX_CHUNK))
            return Copy(label, data)
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
    out = bytearray()
    used: list[Copy] = []
    while True:
        step = _step(copies, segment, len(out), hasher, signed)
        if step is None:
            break
        for copy, part in step:
            piece = copy.data[part.start : part.end]
            if copy is not local and copy not in used:
                used.append(copy)
            hasher.update(piece)
            out += piece
        if len(out) == size and not longer:
            break
    vouched = len(out)
    if local is not None and not ends(vouched) and (vouched in local.parts or local.data.startswith(out)):
        out += local.data[vouched:]
    proposal = Proposal(bytes(out), vouched, [copy.label for copy in used])
    if whole and not _is_whole(proposal.data, whole):
        for data, sources in _wholes(proposal, vouched, copies, local):
            if _is_whole(data, whole):
                return Proposal(data, len(data), sources)
    return proposal


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
            running.update(copy.data[part.start : part.end])
            at = part.end
    return None


def _wholes(
    proposal: Proposal, vouched: int, copies: Sequence[Copy], local: Copy | None
) -> Iterator[tuple[bytes, list[str]]]:
    head = proposal.data[:vouched]
    for copy in copies:
        own = [] if copy is local else [copy.label]
        yield copy.data, own
        yield head + copy.data[vouched:], list(dict.fromkeys([*proposal.sources, *own]))


def _is_whole(data: bytes, whole: set[Whole]) -> bool:
    return (len(data), hashlib.sha256(data).hexdigest()) in whole
