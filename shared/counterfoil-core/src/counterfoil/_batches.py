"""Lists written batch by batch, so that a list of a million numbers costs what its text costs.

A text made by orjson stands in a block of a kilobyte or more, however short it is: one kept for every element of a
long list would take hundreds of times the room of the list's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil import canonical
from counterfoil._jcs_fast import fast

__all__ = ["BATCH", "FEW", "batches"]

FEW: Final = 16
"""Elements below which a list is written one by one: there is nothing to gain."""
BATCH: Final = 1024
"""Elements whose texts are joined at once."""

_NUMBERS: Final = frozenset((int, float, bool, type(None)))
_PLAIN: Final = _NUMBERS | {str}
_EXACT: Final = 2.0**53
"""Floats from here on have a form of their own in canonical values, or are left to the writer of one."""


def batches(elements: list[Any], inline: int) -> Iterator[tuple[list[Any], bytes | None]]:
    """Slices of a list, each with its RFC 8785 text without brackets if it is known at once, else None.

    Known at once are plain numbers, literals and well-formed texts of less than ``inline`` UTF-8 bytes, which are
    their own canonical and reduced forms.
    """
    for start in range(0, len(elements), BATCH):
        part = elements[start : start + BATCH]
        yield part, _text(part, inline)


def _text(part: list[Any], inline: int) -> bytes | None:
    kinds = set(map(type, part))
    if not kinds <= _PLAIN or not canonical.fast_path_enabled():
        return None
    if str in kinds:
        texts = part if len(kinds) == 1 else [one for one in part if type(one) is str]
        longest = max(map(len, texts))
        if longest * 4 >= inline and (longest >= inline or not all(map(str.isascii, texts))):
            return None
    data = fast(part, below=_EXACT)
    return None if data is None else data[1:-1]
