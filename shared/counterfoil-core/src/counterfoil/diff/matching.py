"""Which step of one run is which step of another: from the root down, so that a changed step keeps its children."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from counterfoil.views import CallView

__all__ = ["Pair", "matched"]

Pair = tuple[CallView | None, CallView | None]
_DIGEST: Final = re.compile(r"@[0-9a-f]{16}(?=#|\Z)")


def matched(left: list[CallView], right: list[CallView]) -> Iterator[Pair]:
    """Every call of both once: pairs, and calls that have none on the other side."""
    ours, theirs = _children(left), _children(right)
    stack = [(ours.get(None, []), theirs.get(None, []))]
    while stack:
        for one, other in _pairs(*stack.pop()):
            yield one, other
            below = (ours.get(one.id, []) if one else [], theirs.get(other.id, []) if other else [])
            if one and other:
                stack.append(below)
            else:
                stack += [(below[0], []), ([], below[1])]


def _children(calls: list[CallView]) -> dict[str | None, list[CallView]]:
    known = {call.id for call in calls}
    found: dict[str | None, list[CallView]] = {}
    for call in calls:
        found.setdefault(call.parent if call.parent in known else None, []).append(call)
    return found


def _pairs(left: list[CallView], right: list[CallView]) -> Iterator[Pair]:
    """By the whole step, then without a request's digest, then by operation and name, then by operation and actor."""
    levels: list[Callable[[CallView], object]] = [
        _step,
        lambda call: _DIGEST.sub("", _step(call).rpartition("#")[0] or _step(call)),
        lambda call: (call.op, call.name, call.actor),
        lambda call: (call.op, call.actor),
    ]
    for key in levels:
        waiting: dict[object, list[CallView]] = {}
        for call in right:
            waiting.setdefault(key(call), []).append(call)
        rest: list[CallView] = []
        taken: set[str] = set()
        for call in left:
            found = waiting.get(key(call))
            if found:
                other = found.pop(0)
                taken.add(other.id)
                yield call, other
            else:
                rest.append(call)
        left, right = rest, [call for call in right if call.id not in taken]
    yield from ((call, None) for call in left)
    yield from ((None, call) for call in right)


def _step(call: CallView) -> str:
    """The last step of an address."""
    return call.address.rpartition("/")[2]
