"""A bar on stderr while evidence is read, when that takes longer than a second and a person looks."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from counterfoil.stores import FolderStore

__all__ = ["WatchedStore"]

PATIENCE: Final = 1.0


class WatchedStore(FolderStore):
    """A folder of evidence that shows how much of it has been read; ``done`` takes the bar away again."""

    by_path = True

    def __init__(self, root: Path, *, passes: int = 1) -> None:
        super().__init__(root)
        self._passes = passes
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: Any = None
        self._read = 0
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def open_segment(self, log: str, number: int) -> BinaryIO:
        """A segment opened for reading, its bytes counted."""
        file = super().open_segment(log, number)
        return cast("BinaryIO", _Counted(file, self)) if self._shown else file

    def read_elsewhere(self, size: int) -> None:
        """``size`` bytes were read by another process."""
        if self._shown:
            self.count(size)

    def count(self, size: int) -> None:
        """``size`` more bytes were read."""
        self._read += size
        if self._progress is None:
            if time.monotonic() < self._began + PATIENCE:
                return
            total = sum(
                self.segment_size(log, number) for log in self.logs() for number in self.segments(log)
            )
            total *= self._passes
            columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self._task = self._progress.add_task("reading", total=total)
            self._progress.start()
        self._progress.update(self._task, completed=self._read)

    def done(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
        self._shown = False


class _Counted:
    """A file that tells what is read from it."""

    def __init__(self, file: BinaryIO, store: WatchedStore) -> None:
        self._file = file
        self._store = store

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._store.count(len(data))
        return data

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
