"""A bar on stderr while evidence is read, when that takes longer than a second and a person looks."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from counterfoil.bundles.store import BundleStore
from counterfoil.stores import FolderStore

__all__ = ["Bar", "watched"]

PATIENCE: Final = 1.0


@contextlib.contextmanager
def watched(store: FolderStore, *, passes: int = 1) -> Iterator[None]:
    """Show how far evidence is read that is read ``passes`` times inside; print nothing before that is done."""
    if isinstance(store, BundleStore):
        yield
        return
    bar = Bar(store, passes=passes)
    try:
        yield
    finally:
        bar.done()


class Bar:
    """Shows how much of a place has been read; ``done`` takes the bar away again.

    ``count`` is called by threads that hear of other processes too, so what is counted stands under a lock.
    """

    def __init__(self, store: FolderStore, *, passes: int = 1) -> None:
        self._store = store
        self._passes = passes
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._task: Any = None
        self._read = self._total = 0
        self._lock = threading.Lock()
        self._shown = sys.stderr is not None and sys.stderr.isatty()
        store.on_read = self.count if self._shown else None

    def count(self, size: int) -> None:
        """``size`` more bytes were read."""
        with self._lock:
            self._read += size
            if self._shown and (self._progress is not None or time.monotonic() >= self._began + PATIENCE):
                self._show()

    def _show(self) -> None:
        if self._progress is None:
            store = self._store
            sizes = (
                store.segment_size(log, number) for log in store.logs() for number in store.segments(log)
            )
            self._total = sum(sizes) * self._passes
            columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self._task = self._progress.add_task("reading", total=self._total)
            self._progress.start()
        # What was read ahead in vain, or is looked at twice, must not make it more than there is.
        self._progress.update(self._task, completed=min(self._read, self._total))

    def done(self) -> None:
        """Take the bar away."""
        self._store.on_read = None
        with self._lock:
            self._shown = False
            if self._progress is not None:
                self._progress.stop()
