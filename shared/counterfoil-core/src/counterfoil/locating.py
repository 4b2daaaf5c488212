"""What verification found of a log, told as damaged bytes of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from counterfoil.damage import Copy, faults
from counterfoil.findings import Finding
from counterfoil.mending import claims, read_copy
from counterfoil.stores import FolderStore

__all__ = ["Damage", "State", "locate", "unlocated"]

State = Literal["remains", "repairable", "repaired", "tail"]
"""``tail``: behind the last checkpoint, as an unclean stop leaves it; nothing vouches for these bytes."""


@dataclass(slots=True)
class Damage:
    """Damaged or missing bytes: ``file`` relative to the evidence (None: a whole log or all of it), from ``start``
    up to ``end`` (None: the whole file), and the entries lost with them (``first`` to ``last``; None: not known, or
    to the end)."""

    code: str
    file: str | None
    start: int | None
    end: int | None
    message: str
    first: int | None = None
    last: int | None = None
    state: State = "remains"
    sources: list[str] = field(default_factory=list)
    hint: str = ""
    at: int | None = None
    """With an undamaged copy: where the first wrong byte is, and ``wrong``, how many there are."""
    wrong: int | None = None

    def compare(self, old: bytes, new: bytes) -> None:
        """Take ``at`` and ``wrong`` from the damaged and the undamaged file."""
        start, end = self.start or 0, max(len(old), len(new)) if self.end is None else self.end
        left, right = old[start:end], new[start:end]
        differing = [
            place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other
        ]
        self.wrong = len(differing) + abs(len(left) - len(right))
        if self.wrong:
            self.at = start + (differing[0] if differing else min(len(left), len(right)))


def locate(store: FolderStore, name: str, found: Sequence[Finding], tail: Sequence[Finding]) -> list[Damage]:
    """Damage of a log that has findings: by bytes where the bytes themselves tell, else by the finding."""
    numbers = store.segments(name)
    claimed = claims(
        body
        for number in numbers
        for copy in [read_copy(store, name, number, "")]
        if copy is not None
        for body in copy.openings()
    )
    out: list[Damage] = []
    last: int | None = -1
    for number in range(max(numbers, default=-1) + 1):
        file = store.segment_name(name, number)
        copy = read_copy(store, name, number, "")
        if copy is None:
            missing = number not in numbers
            code, message = ("CF-LOG-012", "the segment is missing") if missing else _UNREADABLE
            out.append(Damage(code, file, None, None, message, None if last is None else last + 1))
            last = None
            continue
        whole = claimed.get(number, set())
        if _is_one_of(copy, whole):
            _, last = faults(copy, number, before=last)
            continue
        listed, last = faults(copy, number, before=last)
        out += [
            Damage(one.code, file, one.start, one.end, one.message, one.first, one.last) for one in listed
        ]
        if whole and not listed:
            message = "the segment changed after it was recovered"
            out.append(Damage("CF-LOG-015", file, None, None, message))
    if not found:
        for one in out:
            one.state = "tail"
    if not out:
        out = [unlocated(one) for one in found]
        if not found:
            out = [_as_tail(one) for one in tail]
    return out


_UNREADABLE = ("CF-STORE-001", "the segment cannot be read, or is no regular file")


def unlocated(finding: Finding) -> Damage:
    """A finding that names no bytes."""
    file = finding.where.partition(" ")[0]
    return Damage(finding.code, file or None, None, None, finding.message, hint=finding.hint)


def _as_tail(finding: Finding) -> Damage:
    damage = unlocated(finding)
    damage.state = "tail"
    return damage


def _is_one_of(copy: Copy, whole: set[tuple[int, str]]) -> bool:
    return bool(whole) and (len(copy.data), hashlib.sha256(copy.data).hexdigest()) in whole
