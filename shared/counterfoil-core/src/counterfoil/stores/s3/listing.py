"""What stands under a prefix: one listing of versions, parted into segments, odd keys, and keys that were touched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from counterfoil.stores.s3.told import Version

__all__ = ["Listing", "segment_of"]

_KEY: Final = re.compile(r"([0-9a-f]{16})/([0-9]{8})\.seg\Z")


@dataclass(slots=True)
class Listing:
    """``segments``: of each log the oldest version by number; ``touched``: keys with a second version or a marker."""

    segments: dict[str, dict[int, Version]] = field(default_factory=dict)
    touched: dict[str, list[Version]] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, versions: Iterable[Version], root: str) -> Listing:
        """Part a listing, whose keys all begin with ``root``; names in it are without that."""
        found = cls()
        for key, group in groupby(versions, key=lambda one: one.key):
            name, rows = key.removeprefix(root), list(group)
            match = _KEY.match(name)
            if not match:
                found.foreign.append(name)
                continue
            oldest = next((one for one in rows if not one.marker), None)
            if oldest is not None:
                found.segments.setdefault(match[1], {})[int(match[2])] = oldest
            if len(rows) > 1 or oldest is None:
                found.touched[name] = rows
        return found

    def objects(self) -> Iterator[tuple[str, int, Version]]:
        """(log, number, version) of every segment, in the order in which they are read."""
        for log, numbers in sorted(self.segments.items()):
            for number, version in sorted(numbers.items()):
                yield log, number, version


def segment_of(name: str) -> tuple[str, int] | None:
    """Log and number behind a segment's relative name; None for any other name."""
    match = _KEY.match(name)
    return (match[1], int(match[2])) if match else None
