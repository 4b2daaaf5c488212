"""A folder of evidence that says how much of it has been read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from counterfoil.stores.folder import FolderStore

__all__ = ["Watched", "watched"]

_OFTEN: Final = 1 << 19
"""Bytes after which it says so."""


class Watched(FolderStore):
    """``told`` hears how many more bytes of segments were read, every half megabyte and at the end of each."""

    by_path = True

    def __init__(self, root: Path, told: Callable[[int], None]) -> None:
        super().__init__(root)
        self._told = told

    def open_segment(self, log: str, number: int) -> BinaryIO:
        """A segment opened for reading, its bytes counted."""
        return cast("BinaryIO", _Counted(super().open_segment(log, number), self._told))

    def open_unwatched(self, log: str, number: int) -> BinaryIO:
        """The same, not counted."""
        return super().open_segment(log, number)


def watched(store: FolderStore, told: Callable[[int], None]) -> FolderStore:
    """The same place, watched where it is a plain folder; of others only what is read as a whole is known."""
    return Watched(store.root, told) if type(store) is FolderStore else store


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
