"""What a log is made of when it is read: entries, blobs, checkpoints, and faults of its structure.

An entry is RFC 8785 of ``{"body": B, "i": n, "prev": SHA-256 of entry n-1}``; its leaf is SHA-256(0x00 || entry).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from counterfoil import records

__all__ = [
    "MAX_ENTRY",
    "OPENERS",
    "ZERO",
    "BlobSeen",
    "CheckpointSeen",
    "Entry",
    "Event",
    "Problem",
    "entry_bytes",
]

ZERO: Final = "0" * 64
"""``prev`` of a log's first entry."""

MAX_ENTRY: Final = 65_535
"""Bytes of an entry: what an entry bundle of C2SP tlog-tiles can hold; the largest envelope fits."""
OPENERS: Final = frozenset({"session", "segment", "recovered"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its position, digests and parsed body (trusted only once a checkpoint covers it)."""

    log: str
    index: int
    digest: str
    body: dict[str, Any]
    body_bytes: bytes
    segment: int
    offset: int

    @property
    def op(self) -> str:
        """Operation of a record, or ``statement``."""
        return str(self.body["content"]["op"]) if records.is_record(self.body) else "statement"


@dataclass(frozen=True, slots=True)
class BlobSeen:
    """A blob passed by: its digest, size, bytes and where to read it again (segment, stream, chunk, position)."""

    sha256: str
    data: bytes
    place: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """A C2SP note passed by, with what the reader computed itself: entries so far, root, place, ``stored`` facts."""

    note: bytes
    size: int
    root: bytes
    segment: int
    end: int
    stored_ok: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """A structural fault. ``torn`` marks what an unclean stop leaves: bytes after a log's last whole chunk."""

    code: str
    where: str
    message: str
    torn: bool = False
    unknown: bool = False


Event = Entry | BlobSeen | CheckpointSeen | Problem


def entry_bytes(body: bytes, index: int, prev: str) -> bytes:
    """RFC 8785 bytes of an entry around the RFC 8785 bytes of its body."""
    return b'{"body":%b,"i":%d,"prev":"%b"}' % (body, index, prev.encode())
