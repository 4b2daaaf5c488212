"""What stands behind the bytes of a segment that count: checkpoints that are whole, and holes of zeros."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from counterfoil import segments
from counterfoil._checksum import crc32

__all__ = ["has_hole", "is_note", "notes_from"]

BLOCK: Final = 512
"""The least that a disk writes at once."""
_WINDOW: Final = 1 << 20
MAX_NOTE: Final = 4096
"""Bytes of a chunk that holds a note: a log's own has a few hundred."""


def is_note(data: bytes, start: int) -> bool:
    """Whether a whole, checksummed chunk of at most 4 KiB that holds one note alone begins at ``start``."""
    if start + segments.CHUNK_HEADER.size > len(data):
        return False
    form, length, raw_length, checksum = segments.CHUNK_HEADER.unpack_from(data, start)
    stop = start + segments.CHUNK_HEADER.size + length
    if form != segments.RAW or data[start + 1 : start + 4] != b"\0\0\0" or length != raw_length:
        return False
    if not segments.ITEM_HEADER.size <= length <= MAX_NOTE or stop > len(data):
        return False
    stored = data[start + segments.CHUNK_HEADER.size : stop]
    kind, text = segments.ITEM_HEADER.unpack_from(stored)
    return bool(
        kind == segments.NOTE
        and segments.ITEM_HEADER.size + int(text) == length
        and crc32(stored, crc32(data[start : start + 12])) == checksum
    )


def has_hole(file: BinaryIO, start: int) -> bool:
    """Whether the chunk that begins at ``start``, and is not whole, lacks a block that never reached the disk.

    A disk writes whole blocks of 512 bytes. One that holds the end of what was synced before is written again: without
    that it has zeros from there to its border. So bytes that are lost go from the chunk's first byte, or from a
    border, to the next border; and they are bytes of this chunk, whose length is known where its header is there.
    """
    file.seek(start)
    found = segments.header(file.read(segments.CHUNK_HEADER.size))
    stop = start + segments.CHUNK_HEADER.size + (0 if found is None else found.length)
    at = start
    file.seek(at)
    while at < stop:
        size = BLOCK - at % BLOCK
        data = file.read(size)
        if len(data) < size:
            return False
        if not data.strip(b"\0"):
            # The header of a raw chunk begins with 4 zeros anyway.
            raw = at == start and size <= 4 and found is not None and found.length == found.raw_length
            if not raw:
                return True
        at += size
    return False


def notes_from(file: BinaryIO, log: str, start: int) -> Iterator[tuple[int, bytes]]:
    """(offset of its chunk, text) of all notes of a log that stand whole, each in its own chunk, behind ``start``.

    Looked for by what they begin with: 64 hex digits, a slash and the log's name; around them may be anything.
    """
    mark = f"/{log}\n".encode()
    lead = segments.NOTE_HEAD + 64
    file.seek(start)
    held, at, begin, more = b"", 0, start, b"more"
    while more:
        more = file.read(_WINDOW)
        held += more
        while (found := held.find(mark, at)) >= 0 and (not more or len(held) - found >= MAX_NOTE):
            note = _note_at(held, found - lead)
            if note:
                yield begin + found - lead, note
            at = found + 1
        # What may go on in the next window is kept.
        at = found if found >= 0 else max(at, len(held) - len(mark) + 1)
        kept = max(0, at - lead)
        held, at, begin = held[kept:], at - kept, begin + kept


def _note_at(data: bytes, start: int) -> bytes:
    if start < 0 or not is_note(data, start):
        return b""
    chunk = data[start + segments.CHUNK_HEADER.size :][: segments.CHUNK_HEADER.unpack_from(data, start)[1]]
    return chunk[segments.ITEM_HEADER.size :]
