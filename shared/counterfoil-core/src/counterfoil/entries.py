"""What a log is made of when it is read: entries, blobs, checkpoints, and faults of its structure.

An entry is RFC 8785 of ``{"body": B, "i": n, "prev": SHA-256 of entry n-1}``; its leaf is SHA-256(0x00 || entry).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from counterfoil import canonical, records
from counterfoil.errors import CanonicalError

__all__ = [
    "MAX_ENTRY",
    "OPENERS",
    "OWN",
    "ZERO",
    "BlobSeen",
    "CheckpointSeen",
    "Entry",
    "Event",
    "NoteBehind",
    "Problem",
    "entry_bytes",
    "place",
    "read_entry",
    "same",
]

ZERO: Final = "0" * 64
"""``prev`` of a log's first entry."""

MAX_ENTRY: Final = 65_535
"""Bytes of an entry: what an entry bundle of C2SP tlog-tiles can hold; the largest envelope fits."""
OPENERS: Final = frozenset({"session", "segment", "recovered"})
OWN: Final = frozenset({"session", "recovered", "loss", "closed", "archived"})
"""Operations of the log's own that say something about it."""


class Entry(NamedTuple):
    """One entry: its position, digests and parsed body (trusted only once a checkpoint covers it).

    ``op`` is the operation of a record, or ``statement``; ``cited`` the references in it (SHA-256, size, media);
    ``plain`` whether it is without null and float.
    """

    log: str
    index: int  # type: ignore[assignment]
    digest: str
    body: dict[str, Any]
    body_bytes: bytes
    segment: int
    offset: int
    op: str
    cited: list[tuple[str, int, str]]
    plain: bool


class BlobSeen(NamedTuple):
    """A blob passed by: its digest, bytes and where to read it again (segment, stream, chunk, position)."""

    sha256: str
    data: bytes
    place: tuple[int, int, int, int]


class CheckpointSeen(NamedTuple):
    """A C2SP note passed by, with what the reader computed itself: entries so far, root, place, ``stored`` facts."""

    note: bytes
    size: int
    root: bytes
    segment: int
    end: int
    stored_ok: bool


class NoteBehind(NamedTuple):
    """A note behind what counts of a recovered segment, as it stands there; the log goes on at entry ``index``."""

    note: bytes
    index: int  # type: ignore[assignment]
    segment: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A structural fault. ``torn`` marks what an unclean stop leaves: bytes after a log's last whole chunk."""

    code: str
    where: str
    message: str
    torn: bool = False
    unknown: bool = False


Event = Entry | BlobSeen | CheckpointSeen | NoteBehind | Problem


def same(value: object, other: object) -> bool:
    """Whether two JSON values are one: to Python true is 1, and false 0."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(one, other[name]) for name, one in value.items())
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    return value == other


def place(entry: Entry) -> str:
    """Where an entry stands, as findings tell it."""
    return f"{entry.log} entry {entry.index}"


def read_entry(data: bytes) -> tuple[Any, list[tuple[str, int, str]], bool]:
    """Value of an entry's text, the references in it, and whether it is without null and float.

    Raises CanonicalError when it is not canonical. The fast way reads and walks the text once.
    """
    lists = data.count(b"[")
    if canonical.fast_path_enabled() and lists + data.count(b"{") <= canonical.MAX_DEPTH_READ:
        try:
            value = orjson.loads(data)
            if not lists and b"\\" not in data and _NO_TEXT(data) is None:
                # No null and no float behind any key, and what is canonical spells its references in one way.
                if canonical.dumps_record(value) == data:
                    listed = _references(data)
                    if listed is not None:
                        return value, listed, True
            cited, nulls, floats = records.look(value)
            # Of a float orjson writes another form; what it reads without one it writes canonically, but for key order.
            if not floats and canonical.dumps_record(value) == data:
                return value, cited, not nulls
        except (ValueError, CanonicalError):
            pass
    value = canonical.loads_canonical(data, max_bytes=MAX_ENTRY)
    cited, nulls, floats = records.look(value)
    return value, cited, not (nulls or floats)


_NO_TEXT: Final = re.compile(rb'":(?:n|-?[0-9]+[.eE])').search
"""A null or a float that a key names: no string holds a bare quote."""
_REFERENCE: Final = re.compile(
    rb'\{"media":"([^"]*+)","sha256":"([0-9a-f]{64})","size":(0|[1-9][0-9]{0,15})\}'
).findall


def _references(data: bytes) -> list[tuple[str, int, str]] | None:
    """The references in a canonical text without a backslash, each once, in the order of ``records.look``.

    None where something may have the members of a reference and be none.
    """
    named = data.count(b'"media":')
    if not named:
        return []
    found = [(sha256.decode(), int(size), media.decode()) for media, sha256, size in _REFERENCE(data)]
    if len(found) != named:
        return None
    return found if len(found) < 2 else list(dict.fromkeys(reversed(found)))


def entry_bytes(body: bytes, index: int, prev: str) -> bytes:
    """RFC 8785 bytes of an entry around the RFC 8785 bytes of its body."""
    return b'{"body":%b,"i":%d,"prev":"%b"}' % (body, index, prev.encode())
