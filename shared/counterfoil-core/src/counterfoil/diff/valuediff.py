"""How two canonical values differ: JSON pointers, and for texts the lines that changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["MISSING", "Change", "changes", "text_lines"]

MISSING: Final = object()
"""Stands for a member or element that one of the two does not have."""
_MOST_LINES: Final = 4000
"""Lines of a text that are compared one by one; the time of that grows with their square."""
_WINDOW: Final = 60
_LONG: Final = 160


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: where (JSON pointer), and what stands there on both sides."""

    path: str
    left: Any
    right: Any


def changes(left: Any, right: Any, path: str = "") -> Iterator[Change]:
    """The smallest parts in which two values differ, in the order of their pointers; numbers compare as in RFC 8785."""
    stack = [(path, left, right)]
    while stack:
        at, one, other = stack.pop()
        below: list[tuple[str, Any, Any]] = []
        if type(one) is dict and type(other) is dict:
            keys = sorted(one.keys() | other.keys())
            below = [(f"{at}/{_token(key)}", one.get(key, MISSING), other.get(key, MISSING)) for key in keys]
        elif type(one) is list and type(other) is list:
            for place in range(max(len(one), len(other))):
                pair = [side[place] if place < len(side) else MISSING for side in (one, other)]
                below.append((f"{at}/{place}", pair[0], pair[1]))
        elif not _same(one, other):
            yield Change(at, one, other)
        stack += reversed(below)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other) and isinstance(one, str) == isinstance(other, str)


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def text_lines(left: str, right: str, *, most: int = 40) -> list[str]:
    """What differs between two texts, as ``diff -u`` tells it, at most ``most`` lines; long lines around the place."""
    one, other = left.splitlines(), right.splitlines()
    if len(one) <= 1 and len(other) <= 1:
        return _long_line(left, right)
    if max(len(one), len(other)) > _MOST_LINES:
        place = _parting(one, other)
        here = [side[place] if place < len(side) else "" for side in (one, other)]
        return [f"@@ line {place + 1} @@", *_long_line(*here)]
    out = [line for line in difflib.unified_diff(one, other, lineterm="", n=2)][2:]
    if not out:  # they differ in line ends only
        return _long_line(left, right)
    cut = [line if len(line) <= _LONG else line[:_LONG] + "..." for line in out[:most]]
    return [*cut, f"... {len(out) - most} lines more"] if len(out) > most else cut


def _long_line(left: str, right: str) -> list[str]:
    if len(left) <= _LONG and len(right) <= _LONG:
        return [f"-{left}", f"+{right}"]
    place = _parting(left, right)
    return [f"@@ character {place + 1} @@", f"-{_around(left, place)}", f"+{_around(right, place)}"]


def _around(text: str, place: int) -> str:
    start, end = max(0, place - _WINDOW), place + _WINDOW
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"


def _parting(one: Sequence[str], other: Sequence[str]) -> int:
    """Where two texts, or two lists of lines, part."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, pair in pairs if pair[0] != pair[1]), min(len(one), len(other)))
