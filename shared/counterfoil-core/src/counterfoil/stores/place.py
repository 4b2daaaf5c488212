"""What readers ask of every place of evidence beside its logs; a folder answers in the simplest way."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from counterfoil.findings import Finding

__all__ = ["Place"]


class Place(abc.ABC):
    """Answers for a place that is all there and judges nothing by itself."""

    on_read: Callable[[int], None] | None = None
    """Hears, every half megabyte and at the end of each segment, how many more bytes were read."""

    lags = False
    """Whether logs come here one after the other, so that one may be cited here further than it stands here."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """The name of this place in errors and findings."""

    def holds(self, path: Path) -> bool:
        """Whether a path (without links) is inside this place, where every byte is evidence."""
        return False

    def elsewhere(self, log: str, number: int) -> dict[str, str | int | None] | None:
        """How another process, here or on another machine, gets at a segment: plain data without a secret.

        ``counterfoil.stores.open_elsewhere`` opens it there. None when only this object can read it.
        """
        return None

    def refresh(self) -> None:  # noqa: B027 - most places look anew every time
        """Look anew at what is there, where that was looked at once."""

    def doubts(self, names: Sequence[str] | None, *, retain: timedelta | None) -> Iterator[Finding]:
        """Findings about how these logs (None: all) are kept here; ``retain`` is how long they must be locked."""
        return iter(())

    def waiting(self, log: str, segment: int | str) -> str | None:
        """Where a segment of a log stands that has yet to come here; None when it is not known to stand anywhere."""
        return None
