"""A set of SHA-256 digests with a number each, at about 60 bytes an item: a verifier remembers millions of them.

Digests are kept whole: a shortened one could be made to collide. What was added last stands in a dict; older items
move to an open hash table in one byte string. Where an item stands depends on a secret, so that nobody can choose
digests that all want one place.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

__all__ = ["ROW", "Digests", "Passed"]

ROW: Final = struct.Struct("<32sQ")
"""One item as it is packed: digest, number."""
_NUMBER: Final = struct.Struct("<Q")
_USED: Final = 1 << 63
_RECENT: Final = 1 << 15
_FIRST: Final = 1 << 17
_NEAR: Final = 1 << 14
_DIGESTS: Final = struct.Struct("32s")


class Digests:
    """Digests (32 bytes) with numbers below 2^63; items are never removed."""

    __slots__ = ("_end", "_filled", "_mask", "_recent", "_salt", "_size", "_table")

    def __init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        self._size = 0
        self._salt = os.urandom(16)
        self._table = bytearray()
        self._mask = self._end = self._filled = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._recent or (self._end > 0 and self._at(digest) >= 0)

    def get(self, digest: bytes) -> int | None:
        """The number of a digest, None when it is not in the set."""
        found = self._recent.get(digest)
        if found is not None or not self._end:
            return found
        at = self._at(digest)
        return None if at < 0 else int(_NUMBER.unpack_from(self._table, at + 32)[0]) ^ _USED

    def add(self, digest: bytes, number: int = 0) -> None:
        """Add a digest that is not in the set (or is, where nobody asks for the length)."""
        self._size += 1
        self._recent[digest] = number
        if len(self._recent) > _RECENT:
            self._move()

    def extend(self, digests: Iterable[bytes]) -> None:
        """Add digests of whose number nobody asks, in the set already or not."""
        recent = self._recent
        rest = iter(digests)
        while some := list(islice(rest, _RECENT)):
            recent.update(dict.fromkeys(some, 0))
            self._size += len(some)
            if len(recent) > _RECENT:
                self._move()

    def change(self, digest: bytes, number: int) -> None:
        """Give a digest of the set another number."""
        self._recent[digest] = number

    def rows(self) -> Iterator[tuple[bytes, int]]:
        """All items, in no order; nothing may be added meanwhile."""
        yield from self._recent.items()
        for digest, number in self._packed():
            if digest not in self._recent:
                yield digest, number ^ _USED

    # -- the table ----------------------------------------------------------------------------------------------------

    def _packed(self) -> Iterator[tuple[bytes, int]]:
        return (row for row in ROW.iter_unpack(self._table) if row[1])

    def _at(self, digest: bytes) -> int:
        """Offset of a digest in the table, or ``-1 - offset`` of the free place where it would stand."""
        table, end = self._table, self._end
        at = (hash(self._salt + digest) & self._mask) * ROW.size
        while table[at + 39]:
            if table.startswith(digest, at):
                return at
            at += ROW.size
            if at == end:
                at = 0
        return -1 - at

    def _move(self) -> None:
        if (self._filled + len(self._recent)) * 3 > (self._mask + 1) * 2 * (self._end > 0):
            old = self._packed()
            self._mask = max(_FIRST, (self._mask + 1) * 2) - 1
            self._end = (self._mask + 1) * ROW.size
            self._table = bytearray(self._end)
            self._filled = 0
            self._insert(old)
        self._insert((digest, number | _USED) for digest, number in self._recent.items())
        self._recent.clear()

    def _insert(self, rows: Iterator[tuple[bytes, int]]) -> None:
        table, end, mask, salt, pack = self._table, self._end, self._mask, self._salt, ROW.pack_into
        filled = self._filled
        for digest, number in rows:
            at = (hash(salt + digest) & mask) * 40
            while table[at + 39]:
                if table.startswith(digest, at):
                    break
                at += 40
                if at == end:
                    at = 0
            else:
                filled += 1
            pack(table, at, digest, number)
        self._filled = filled


class Passed:
    """A set of digests (32 bytes) of which seldom any but the last some thousands is asked for.

    Older ones are kept end to end, and get a table when one is asked for that is none of the last.
    """

    __slots__ = ("_last", "_older", "_rows", "_table")

    def __init__(self) -> None:
        self._last: set[bytes] = set()
        self._older: set[bytes] = set()
        self._rows: list[bytes] = []
        self._table: Digests | None = None

    def add(self, digest: bytes) -> None:
        """Add a digest, in the set already or not."""
        self._last.add(digest)
        if len(self._last) > _NEAR:
            self._move()

    def extend(self, rows: bytes | memoryview) -> None:
        """Add digests that stand end to end."""
        step = _NEAR * 32
        for at in range(0, len(rows), step):
            self._last.update(one for (one,) in _DIGESTS.iter_unpack(rows[at : at + step]))
            if len(self._last) > _NEAR:
                self._move()

    def near(self, digest: bytes) -> bool:
        """Whether a digest is among the last; if not, it may be among the older ones."""
        return digest in self._last or digest in self._older

    def __contains__(self, digest: bytes) -> bool:
        if self.near(digest):
            return True
        if self._table is None:
            if not self._rows:
                return False
            self._table = Digests()
            while self._rows:
                self._table.extend(one for (one,) in _DIGESTS.iter_unpack(self._rows.pop()))
        return digest in self._table

    def _move(self) -> None:
        if self._table is not None:
            self._table.extend(self._older)
        elif self._older:
            self._rows.append(b"".join(self._older))
        self._older, self._last = self._last, set()
