"""Evidence and the archives of it, read as one place: a log stands in the first of them that has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from counterfoil.stores.folder import FolderStore

__all__ = ["JoinedStore"]


class JoinedStore(FolderStore):
    """For readers only; ``archives`` are the places behind the first."""

    by_path = False

    def __init__(self, first: FolderStore, archives: Sequence[FolderStore]) -> None:
        super().__init__(first.root)
        self.archives = list(archives)
        self._all = [first, *archives]
        self._places: dict[str, FolderStore] = {}

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
        return self._places.get(log, self._all[0])
