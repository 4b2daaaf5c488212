"""A file that says how much of it has been read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast

__all__ = ["counted"]

_OFTEN: Final = 1 << 19
"""Bytes after which it says so."""


def counted(file: BinaryIO, told: Callable[[int], None] | None) -> BinaryIO:
    """The file, its bytes told every half megabyte and at its end where somebody listens."""
    return file if told is None else cast("BinaryIO", _Counted(file, told))


class _Counted:
    """A file that tells what is read from it."""

    __slots__ = ("_file", "_read", "_told")

    def __init__(self, file: BinaryIO, told: Callable[[int], None]) -> None:
        self._file = file
        self._told = told
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._read += len(data)
        if self._read >= _OFTEN:
            self._tell()
        return data

    def _tell(self) -> None:
        read, self._read = self._read, 0
        self._told(read)

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()
        self._tell()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
