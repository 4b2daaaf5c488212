"""What a part of a log takes for granted about all that stands before it, so that parts can be checked side by side.

A segment's first entry tells the tree it continues, so the segment can be read alone; what its entries cite may stand
in an earlier one. Whoever checks it alone believes that, and writes down what was believed: if all of it is true of
what really stands before, the outcome is exactly that of reading the log in order. If not, the segment is read again,
in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from counterfoil.shapes import Part

__all__ = ["Before", "NotAlone"]

_MOST: Final = 1 << 18
"""Parts that are believed; who cites more of earlier segments is read in order."""


class NotAlone(Exception):
    """This segment cannot be judged without those before it."""


@dataclass(slots=True)
class Before:
    """Everything believed about what stands before a segment.

    ``parts``: stored bytes that are there; ``open``: calls that began and did not end; ``totals``: calls (started,
    ended) of a run since its last totals.
    """

    parts: set[Part] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)

    def part(self, part: Part) -> None:
        """Believe that stored bytes are there."""
        self.parts.add(part)
        if len(self.parts) > _MOST:
            raise NotAlone
