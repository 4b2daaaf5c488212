"""The bytes of a file as though they were in memory: a segment is looked through many times, and none is held whole."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, overload

from counterfoil._checksum import crc32
from counterfoil.errors import StoreError
from counterfoil.stores.folder import store_error

__all__ = ["FileBytes"]

WINDOW: Final = 1 << 18
"""Bytes that are held, and read at once."""
_NOT_ZERO: Final = re.compile(rb"[^\0]")


class FileBytes:
    """The first ``size`` bytes of what ``opened`` opens, read where they are asked for.

    Raises StoreError: CF-STORE-001 and others: they cannot be read; CF-SCRUB-007: they are no longer there.
    """

    __slots__ = ("_at", "_held", "_opened", "_size", "_where")

    def __init__(self, opened: Callable[[], BinaryIO], size: int, *, where: str = "") -> None:
        self._opened = opened
        self._size = size
        self._where = where
        self._at, self._held = 0, b""

    @classmethod
    def of(cls, data: bytes) -> FileBytes:
        """Bytes that are in memory already."""
        return cls(lambda: io.BytesIO(data), len(data))

    @classmethod
    def at(cls, path: Path) -> FileBytes:
        """All bytes of a file; raises OSError."""
        return cls(lambda: path.open("rb"), os.stat(path).st_size, where=str(path))

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> bytes: ...
    def __getitem__(self, key: int | slice) -> int | bytes:
        if isinstance(key, int):
            return self[key : key + 1][0]
        start, end, _ = key.indices(self._size)
        if end - start > WINDOW:
            return b"".join(self.pieces(start, end))
        if not self._holds(start, end):
            self._fill(start)
        return self._held[start - self._at : max(end, start) - self._at]

    def _holds(self, start: int, end: int) -> bool:
        return self._at <= start and end <= self._at + len(self._held)

    def _fill(self, start: int) -> None:
        self._held, self._at = next(self.pieces(start, start + WINDOW), b""), start

    def opened(self) -> BinaryIO:
        """The file, to be read in order and closed."""
        return self._opened()

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from ``start`` up to ``end``, or to the last, in pieces."""
        end = min(end, self._size)
        if start >= end:
            return
        with self._opened() as file:
            try:
                file.seek(start)
                while start < end:
                    piece = file.read(min(WINDOW, end - start))
                    if not piece:
                        raise StoreError(
                            "the file changed while it was looked at",
                            code="CF-SCRUB-007",
                            where=self._where,
                            hint="somebody writes here: try again when nobody does",
                        )
                    yield piece
                    start += len(piece)
            except OSError as exc:
                raise store_error(exc, "cannot read the evidence", self._where) from exc

    def feed(self, hasher: Any, start: int = 0, end: int | None = None) -> None:
        """Give these bytes to a hash."""
        for piece in self.pieces(start, self._size if end is None else end):
            hasher.update(piece)

    def sha256(self) -> str:
        """SHA-256 of all of them."""
        hasher = hashlib.sha256()
        self.feed(hasher)
        return hasher.hexdigest()

    def same(self, other: FileBytes, start: int, end: int) -> bool:
        """Whether both have the same bytes from ``start`` up to ``end``."""
        if end > min(len(self), len(other)):
            return False
        pairs = zip(self.pieces(start, end), other.pieces(start, end), strict=True)
        return all(one == two for one, two in pairs)

    def crc32(self, start: int, end: int, value: int) -> int:
        """CRC-32 of these bytes, behind others whose own is ``value``; what is held stays so."""
        if self._holds(start, end := max(start, end)):
            with memoryview(self._held) as view:
                return crc32(view[start - self._at : end - self._at], value)
        for piece in self.pieces(start, end):
            value = crc32(piece, value)
        return value

    def find(self, wanted: bytes, start: int) -> int:
        """Where ``wanted`` (a few bytes) stands next, or -1."""
        while start < self._size:
            if not self._holds(start, min(start + len(wanted), self._size)):
                self._fill(start)
            found = self._held.find(wanted, start - self._at)
            if found >= 0:
                return self._at + found
            stop = self._at + len(self._held)
            start = stop if stop >= self._size else stop - len(wanted) + 1
        return -1

    def solid(self, start: int) -> int:
        """Where the next byte stands that is not zero, or -1."""
        while start < self._size:
            if not self._holds(start, start + 1):
                self._fill(start)
            if found := _NOT_ZERO.search(self._held, start - self._at):
                return self._at + found.start()
            start = self._at + len(self._held)
        return -1
