"""Evidence and the archives of it, read as one place: a log stands in the first of them that has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from counterfoil.findings import Finding
from counterfoil.stores.folder import FolderStore

__all__ = ["JoinedStore"]


class JoinedStore(FolderStore):
    """For readers only; ``archives`` are the places behind the first."""

    def __init__(self, first: FolderStore, archives: Sequence[FolderStore]) -> None:
        self.archives = list(archives)
        self._first = first
        self._all = [first, *archives]
        self._places: dict[str, FolderStore] = {}

    @property
    def root(self) -> Path:  # type: ignore[override]
        """The folder of the first; raises StoreError (CF-STORE-008) where that is none."""
        return self._first.root

    @property
    def place(self) -> str:
        """The first of them."""
        return self._first.place

    @property
    def uri(self) -> str:
        """The name of the first."""
        return self._first.uri

    @property
    def lags(self) -> bool:  # type: ignore[override]
        """Whether one of them does."""
        return any(one.lags for one in self._all)

    def refresh(self) -> None:
        """Look anew, everywhere."""
        for one in self._all:
            one.refresh()

    def holds(self, path: Path) -> bool:
        """Whether a path is inside one of them."""
        return any(one.holds(path) for one in self._all)

    def elsewhere(self, log: str, number: int) -> dict[str, str | int | None] | None:
        """How another process gets at a segment."""
        return self._of(log).elsewhere(log, number)

    def doubts(self, names: Sequence[str] | None, *, retain: timedelta | None) -> Iterator[Finding]:
        """Findings about how the logs are kept, in all of them."""
        for one in self._all:
            yield from one.doubts(names, retain=retain)

    def waiting(self, log: str, segment: int | str) -> str | None:
        """Where a segment stands that has yet to come to the place of its log."""
        return self._of(log).waiting(log, segment)

    @property
    def names(self) -> frozenset[str]:
        """The names of all the places."""
        return frozenset().union(*(one.names for one in self._all))

    def logs(self) -> list[str]:
        """Log ids in all of them, sorted."""
        self._places = {name: one for one in reversed(self._all) for name in one.logs()}
        return sorted(self._places)

    def segments(self, log: str) -> list[int]:
        """Segment numbers of a log, sorted."""
        return self._of(log).segments(log)

    def foreign(self) -> Iterator[tuple[str, str]]:
        """What does not belong, in all of them."""
        for one in self._all:
            yield from one.foreign()

    def is_segment(self, log: str, number: int) -> bool:
        """Whether what has a segment's name is a regular file."""
        return self._of(log).is_segment(log, number)

    def open_segment(self, log: str, number: int) -> BinaryIO:
        """A segment opened for reading."""
        return self._of(log).open_segment(log, number)

    def segment_size(self, log: str, number: int) -> int:
        """Bytes of a segment."""
        return self._of(log).segment_size(log, number)

    def size(self) -> int:
        """Bytes of all of them."""
        return sum(one.size() for one in self._all)

    def _of(self, log: str) -> FolderStore:
        return self._places.get(log, self._first)
