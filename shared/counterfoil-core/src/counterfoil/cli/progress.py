"""A bar on stderr while much is read, when that takes longer than a second and a person looks."""

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

__all__ = ["Bar", "Reading", "watched"]

PATIENCE: Final = 1.0


@contextlib.contextmanager
def watched(store: FolderStore, *, passes: int = 1) -> Iterator[None]:
    """Show how far evidence is read that is read ``passes`` times inside; print nothing before that is done."""
    if isinstance(store, BundleStore):
        yield
        return
    bar = Reading(store, passes=passes)
    try:
        yield
    finally:
        bar.done()


class Bar:
    """A bar for work that tells, from any thread, how many more bytes are done, of how many."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._done = 0
        self._progress: Progress | None = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *failed: object) -> None:
        with self._lock:
            self._shown = False
            if self._progress is not None:
                self._progress.stop()

    def told(self, size: int, total: int) -> None:
        """``size`` more bytes are done, of ``total``."""
        if not self._shown:
            return
        with self._lock:
            self._done += size
            if not self._shown or (self._progress is None and time.monotonic() < self._began + PATIENCE):
                return
            if self._progress is None:
                self._progress = _progress(self._what)
                self._task = self._progress.add_task(self._what, total=total)
                self._progress.start()
            self._progress.update(self._task, completed=min(self._done, total))


def _progress(what: str) -> Progress:
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(file=sys.stderr), transient=True)


class Reading:
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
            self._progress = _progress("reading")
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
