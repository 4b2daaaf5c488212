"""What readers ask of every place of evidence beside its logs; a folder answers in the simplest way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from counterfoil.findings import Finding

if TYPE_CHECKING:
    from counterfoil.stores.folder import FolderStore

__all__ = ["Elsewhere", "Place"]


class Elsewhere(Protocol):
    """A segment as another process gets at it: a plain, small object that can be pickled and holds no secret."""

    def open(self) -> FolderStore:
        """A store that has this segment, in the process that reads it."""
        ...


class Place:
    """Answers for a place that is all there and judges nothing by itself."""

    on_read: Callable[[int], None] | None = None
    """Hears, every half megabyte and at the end of each segment, how many more bytes were read."""

    lags = False
    """Whether logs come here one after the other, so that one may be cited here further than it stands here."""

    @property
    def place(self) -> str:
        """The name of this place in errors and findings."""
        raise NotImplementedError

    def holds(self, path: Path) -> bool:
        """Whether a path (without links) is inside this place, where every byte is evidence."""
        return False

    def elsewhere(self, log: str, number: int) -> str | Elsewhere | None:
        """How another process gets at a segment: the path of the evidence, or what opens it; None when it cannot."""
        return None

    def refresh(self) -> None:
        """Look anew at what is there, where that was looked at once."""

    def doubts(self, names: Sequence[str] | None, *, retain: timedelta | None) -> Iterator[Finding]:
        """Findings about how these logs (None: all) are kept here; ``retain`` is how long they must be locked."""
        return iter(())

    def waiting(self, log: str, segment: int | str) -> str | None:
        """Where a segment of a log stands that has yet to come here; None when it is not known to stand anywhere."""
        return None
