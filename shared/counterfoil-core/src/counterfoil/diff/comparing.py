"""Compares two runs by address: which step is another, and in what; equal content roots are a bit-exact repetition.

Steps are matched from the root down: equal addresses first, then what is left by operation and name in order (an
address may hold the start of a request's digest, so a changed prompt changes it). Compared is the repeatable half of
records and handoffs, by digest; values are read only where digests differ, and what cannot be read is told and still a
difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from counterfoil import canonical, statements
from counterfoil.diff.matching import Pair, matched
from counterfoil.diff.sides import MOST, Difference, Side, name_of, values_of
from counterfoil.diff.stepdiff import step_differences
from counterfoil.diff.valuediff import MISSING, Change, changes
from counterfoil.digest import Reference, is_reference
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.log import Entry
from counterfoil.reader import Reader

__all__ = ["Comparison", "Difference", "Side", "compare"]


_OWN: Final = frozenset({"COUNTERFOIL", "COUNTERFOIL_HOME", "COUNTERFOIL_LAUNCH"})
"""Variables that say where a run is recorded, and by which launch: they are others in every run."""
_TOLD: Final = 8


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared: ``differences`` in the order in which they came, what they ran on in ``environment``."""

    left: Side
    right: Side
    differences: tuple[Difference, ...]
    environment: tuple[Change, ...]
    problem: str = ""
    missing: tuple[str, ...] = ()
    """What one of two equal runs cites, and what is not there as it was recorded."""

    @property
    def equal(self) -> bool:
        """Whether one is a bit-exact repetition of the other; what they ran on may differ."""
        return self.left.content_root == self.right.content_root

    @property
    def first(self) -> Difference | None:
        """Where they part, in the order of the log."""
        return self.differences[0] if self.differences else None


def compare(left: Reader, left_run: str, right: Reader, right_run: str) -> Comparison:
    """Compare two runs, of one evidence or of two; nothing is verified here.

    Raises:
        LogError: CF-LOG-045: one of the places holds nothing of its run. Those of the reader.
    """
    one, other = Side.of(left, left_run), Side.of(right, right_run)
    found: list[tuple[float, Difference]] = []
    if one.content_root != other.content_root:
        pairs = list(matched(one.calls, other.calls))
        places = _places(one, other, pairs)
        for each in _differences(one, other, pairs):
            at = float(one.order[each.left]) if each.left is not None else places[each.right or ""]
            found.append((at, each))
        found.sort(key=lambda pair: pair[0])
    environment, problem = _environments(one, other)
    missing = _missing(one, other) if one.content_root == other.content_root else ()
    return Comparison(one, other, tuple(each for _, each in found), environment, problem, missing)


def _missing(*sides: Side) -> tuple[str, ...]:
    """Equal digests say nothing of bytes that are gone or were changed: what equal runs cite is read."""
    told: dict[str, None] = {}
    for side in sides:
        known: set[str] = set()
        for ref in _cited(side):
            if ref.sha256 in known or len(told) >= _TOLD:
                continue
            known.add(ref.sha256)
            try:
                side.reader.value(ref)
            except CounterfoilError as exc:
                where = f"{side.reader.store.place}: run {side.run[:8]} cites {ref.sha256[:16]}"
                told[f"{where}, which is not there as recorded ({exc.code})"] = None
    return tuple(told)


def _cited(side: Side) -> Iterator[Reference]:
    waiting: list[Any] = [canonical.loads(one) for one in side.content]
    while waiting:
        value = waiting.pop()
        if is_reference(value):
            yield Reference(value["sha256"], value["size"], value["media"])
        elif type(value) is dict:
            waiting += value.values()
        elif type(value) is list:
            waiting += value
    for entry, _ in side.handoffs:
        yield _payload(entry)


def _places(one: Side, other: Side, pairs: list[Pair]) -> dict[str, float]:
    """Where an entry of the right run stands in the order of the left one: behind the match of what comes before it."""
    match: dict[str, str] = {}
    for left, right in pairs:
        for ours, theirs in (
            [(left.start, right.start), (left.end, right.end)]
            if left is not None and right is not None
            else []
        ):
            if ours is not None and theirs is not None:
                match[name_of(theirs)] = name_of(ours)
    place, found = -1.0, dict[str, float]()
    for name in other.order:
        place = float(one.order[match[name]]) if name in match else place + 1e-6
        found[name] = place
    return found


def _differences(one: Side, other: Side, pairs: list[Pair]) -> Iterator[Difference]:
    for left, right in pairs:
        if left is None or right is None:
            only = left or right
            assert only is not None
            kind, place = ("removed" if left is not None else "added"), name_of(only.start)
            sides = (place, None) if left is not None else (None, place)
            yield Difference(kind, only.op, only.actor, only.address, *sides)
        else:
            yield from step_differences(one, other, left, right)
    yield from _handoffs(one, other)
    yield from _points(one, other)


# -- handoffs, points, environments -----------------------------------------------------------------------------------


def _handoffs(one: Side, other: Side) -> Iterator[Difference]:
    left, right = one.handoffs, other.handoffs
    groups: dict[tuple[Any, ...], list[list[tuple[Entry, dict[str, Any]]]]] = {}
    for number, listed in enumerate((left, right)):
        for each in listed:
            key = (tuple(each[1]["from"]), each[1]["to"], each[1]["kind"])
            groups.setdefault(key, [[], []])[number].append(each)
    for (senders, to, kind), (ours, theirs) in groups.items():
        for place in range(max(len(ours), len(theirs))):
            pair = [side[place] if place < len(side) else None for side in (ours, theirs)]
            bodies = [MISSING if each is None else each[1] for each in pair]
            names = [None if each is None else name_of(each[0]) for each in pair]
            found, problem = tuple(changes(bodies[0], bodies[1])), ""
            if not found:
                continue
            refs = [None if each is None else _payload(each[0]) for each in pair]
            if None not in refs and refs[0] != refs[1]:
                values, problem = values_of((one, other), refs)
                found = tuple(each for each in found if each.path != "/payload")
                found = (*changes(*values, "/payload"), *found)[:MOST]
            yield Difference("handoff", kind, " + ".join(senders), to, names[0], names[1], found, problem)


def _payload(entry: Entry) -> Reference:
    predicate = statements.parse(Envelope.parse(entry.body).payload).predicate
    assert isinstance(predicate, statements.Handoff)
    return Reference(predicate.content.payload, predicate.payload.size, predicate.payload.media)


def _points(one: Side, other: Side) -> Iterator[Difference]:
    groups: dict[tuple[Any, ...], list[list[Entry]]] = {}
    for number, side in enumerate((one, other)):
        for entry in side.points:
            content = entry.body["content"]
            key = (entry.op, str(content.get("name")), str(content.get("actor")))
            groups.setdefault(key, [[], []])[number].append(entry)
    for (op, _, actor), (ours, theirs) in groups.items():
        for place in range(max(len(ours), len(theirs))):
            pair = [side[place] if place < len(side) else None for side in (ours, theirs)]
            bodies = [MISSING if entry is None else entry.body["content"] for entry in pair]
            found = tuple(changes(bodies[0], bodies[1]))[:MOST]
            names = [None if entry is None else name_of(entry) for entry in pair]
            if found:
                known = next(entry for entry in pair if entry is not None)
                address = str(known.body["content"].get("address", ""))
                yield Difference("point", op, actor, address, names[0], names[1], found)


def _environments(one: Side, other: Side) -> tuple[tuple[Change, ...], str]:
    """What the two ran on; it is no part of what has to repeat."""
    if _about(one) == _about(other) and one.environment == other.environment:
        return (), ""
    try:
        values = [_ran_on(side) for side in (one, other)]
    except CounterfoilError as exc:
        return (), f"{exc.code}: {exc.message}"
    return tuple(changes(_sets(values[0]), _sets(values[1])))[:200], ""


def _about(side: Side) -> Any:
    return None if side.session is None else side.session.body["context"].get("about")


def _ran_on(side: Side) -> Any:
    """What the session says it ran on, with what changed during the run; the clock's state is another every time."""
    value = side.reader.value(_about(side))
    if type(value) is not dict:
        return value
    found = side.reader.value(side.environment) if side.environment is not None else value.get("environment")
    if type(found) is dict:
        found = {name: one for name, one in found.items() if name != "clock"}
        listed = found.get("variables")
        if type(listed) is dict:
            found["variables"] = {key: _foreign(one) for key, one in listed.items()}
    return value | {"environment": found}


def _foreign(value: Any) -> Any:
    if type(value) is not dict:
        return value
    return {name: one for name, one in value.items() if name not in _OWN}


def _sets(value: Any) -> Any:
    """Lists of names compare by name."""
    if type(value) is dict:
        return {key: _sets(one) for key, one in value.items()}
    if type(value) is list and value and all(type(one) is str for one in value):
        return dict.fromkeys(value, True)
    return value
