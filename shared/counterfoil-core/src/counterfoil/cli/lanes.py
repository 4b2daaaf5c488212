"""Draws who acted after whom: a lane for each actor, time downwards, handoffs as arrows. Knows no evidence.

::

      planner
      |   writer
      |   |   reviewer
    1 o   |   |   1 chat
    2 +-->o   |   command <- 1
    3 |   +-->o   call <- 2
      |   o<--+   return <- 3
    4 o<--+       edge <- 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["ASCII", "UNICODE", "Glyphs", "Row", "draw"]

TEXT: Final = 26
"""Columns that the words beside the lanes get at least."""
WORDS: Final = 42
"""Columns that they get if they need them, as long as lanes stay three apart."""
STEP: Final = (2, 8)
"""Narrowest and widest distance of two lanes."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of the drawing."""

    lane: str
    line: str
    node: str
    touch: str
    lost: str
    left: str
    right: str
    from_left: tuple[str, str]
    between: tuple[str, str]
    from_right: tuple[str, str]


ASCII: Final = Glyphs("|", "-", "o", "|", "x", "<", ">", ("+", "+"), ("+", "+"), ("+", "+"))
UNICODE: Final = Glyphs("│", "─", "●", "│", "x", "◀", "▶", ("├", "╰"), ("┼", "┴"), ("┤", "╯"))
"""The second of each pair stands where a lane ends."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what is marked in ``lane``, the lanes its arrows come from, and the words beside it.

    ``mark`` is ``node`` (somebody acts), ``touch`` (an answer comes back to somebody who acts already) or
    ``lost`` (nobody took it).
    """

    lane: str
    mark: str = "node"
    sources: tuple[str, ...] = ()
    number: int | None = None
    text: str = ""


def draw(rows: Sequence[Row], *, width: int = 80, glyphs: Glyphs = ASCII) -> list[str]:
    """The drawing, no line longer than ``width``; a plain list when there are too many lanes for it."""
    order = list(dict.fromkeys(name for row in rows for name in (*row.sources, row.lane)))
    digits = len(str(max((row.number or 0 for row in rows), default=0)))
    margin = digits + 1
    lanes = max(len(order), 1)
    wanted = min(max((len(row.text) for row in rows), default=0), WORDS)
    step = min(max((width - margin - wanted) // lanes, min((width - margin - TEXT) // lanes, 3)), STEP[1])
    if step < STEP[0]:
        return [_clip(f"{_number(row, digits)} {row.lane}  {row.text}".rstrip(), width) for row in rows]
    at = {name: place * step for place, name in enumerate(order)}
    ends = {name: number for number, row in enumerate(rows) for name in (*row.sources, row.lane)}
    lines = []
    for name in order:
        above = "".join(glyphs.lane.ljust(step) for _ in range(at[name] // step))
        lines.append(_clip(" " * margin + above + name, width))
    for number, row in enumerate(rows):
        cells = _cells(row, number, at, ends, len(order) * step, glyphs)
        lines.append(_clip(f"{_number(row, digits)} {''.join(cells)}{row.text}".rstrip(), width))
    return lines


def _cells(
    row: Row, number: int, at: dict[str, int], ends: dict[str, int], size: int, glyphs: Glyphs
) -> list[str]:
    cells = [" "] * size
    for name, place in at.items():
        if ends[name] >= number:
            cells[place] = glyphs.lane
    here = at[row.lane]
    froms = {at[name]: int(ends[name] == number) for name in row.sources if name != row.lane}
    low, high = min([*froms, here]), max([*froms, here])
    for place in range(low, high + 1):
        if cells[place] == " ":
            cells[place] = glyphs.line
    for place, ended in froms.items():
        pair = glyphs.from_left if place == low else glyphs.from_right if place == high else glyphs.between
        cells[place] = pair[ended]
    if low < here:
        cells[here - 1] = glyphs.right
    if high > here:
        cells[here + 1] = glyphs.left
    cells[here] = {"node": glyphs.node, "touch": glyphs.touch, "lost": glyphs.lost}[row.mark]
    return cells


def _number(row: Row, digits: int) -> str:
    return f"{'' if row.number is None else row.number:>{digits}}"


def _clip(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 2] + ".."
