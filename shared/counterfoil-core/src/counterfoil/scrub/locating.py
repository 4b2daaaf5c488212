"""What verification found of a log, told as damaged bytes of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from counterfoil.findings import Finding
from counterfoil.scrub.damage import Copy, faults
from counterfoil.scrub.filebytes import FileBytes
from counterfoil.scrub.mending import claims, expected, read_copy
from counterfoil.stores import FolderStore

__all__ = ["Damage", "State", "locate", "unlocated"]

_BLOCK: Final = 1 << 20

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

    def compare(self, old: FileBytes, new: FileBytes) -> None:
        """Take ``at`` and ``wrong`` from the damaged and the undamaged file."""
        start, end = self.start or 0, max(len(old), len(new)) if self.end is None else self.end
        self.at, self.wrong = None, 0
        for place in range(start, end, _BLOCK):
            left = old[place : min(end, place + _BLOCK)]
            right = new[place : min(end, place + _BLOCK)]
            size = max(len(left), len(right))
            if left == right:
                continue
            # Bytes that only one of the two has are wrong as well.
            longer, shorter = (left, right) if len(left) == size else (right, left)
            padded = shorter + bytes(byte ^ 1 for byte in longer[len(shorter) :])
            both = int.from_bytes(longer, "big") ^ int.from_bytes(padded, "big")
            differing = both.to_bytes(size, "big")
            self.wrong += size - differing.count(0)
            if self.at is None:
                self.at = place + size - len(differing.lstrip(b"\0"))


def locate(store: FolderStore, name: str, found: Sequence[Finding], tail: Sequence[Finding]) -> list[Damage]:
    """Damage of a log that has findings: by bytes where the bytes themselves tell, else by the finding."""
    numbers = store.segments(name)
    claimed = claims(
        body
        for number in numbers
        for copy in [read_copy(store, name, number, "", head=True)]
        if copy is not None
        for body in copy.openings()
    )
    out: list[Damage] = []
    last: int | None = -1
    for number in expected(numbers):
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
    sizes = {size for size, _ in whole}
    return len(copy.data) in sizes and (len(copy.data), copy.data.sha256()) in whole
