"""The two sides of a comparison, and what a difference between them is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from counterfoil import canonical, records, tree
from counterfoil.diff.valuediff import MISSING, Change
from counterfoil.digest import Reference
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.log import Entry
from counterfoil.reader import Reader
from counterfoil.views import CallView, Runs, join

__all__ = ["MOST", "Difference", "Side", "name_of", "values_of"]

MOST = 50
"""Places told of one value; what differs beyond them is not listed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which the two runs differ.

    ``kind``: removed, added (a step of the left or right alone), actor, model, answered, params, tools, messages,
    request, response, error, status, parents, content (of a step on both sides); handoff; point. ``left`` and ``right``
    name the entries (``LOG/INDEX``), ``changes`` the places in the value, ``problem`` what could not be read of it.
    """

    kind: str
    op: str
    actor: str
    address: str
    left: str | None
    right: str | None
    changes: tuple[Change, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class Side:
    """One of the two runs, as far as its evidence holds it."""

    reader: Reader
    run: str
    calls: list[CallView] = field(default_factory=list)
    handoffs: list[tuple[Entry, dict[str, Any]]] = field(default_factory=list)
    points: list[Entry] = field(default_factory=list)
    content: list[bytes] = field(default_factory=list)
    order: dict[str, int] = field(default_factory=dict)
    session: Entry | None = None
    environment: Any = None

    @property
    def content_root(self) -> str:
        """Equal in two equal runs."""
        return tree.root_of([tree.leaf_hash(one) for one in sorted(self.content)]).hex()

    def value(self, ref: Reference | None) -> Any:
        """The value behind a reference; MISSING for none."""
        return MISSING if ref is None else self.reader.value(ref)

    @classmethod
    def of(cls, reader: Reader, run: str) -> Side:
        """Read one run; raises LogError (CF-LOG-045) where the evidence holds nothing of it."""
        side, calls, sessions = cls(reader, run), dict[str, CallView](), dict[str, Entry]()
        told = Runs()
        for entry in reader.entries():
            if entry.op == "session":
                sessions[entry.log] = entry
            found, content = told.of(entry)
            if found != run:
                continue
            side.session = side.session or sessions.get(entry.log)
            side.order[name_of(entry)] = len(side.order)
            if content is not None:
                side.content.append(canonical.dumps(content))
            if records.is_record(entry.body):
                side.environment = entry.body["context"].get("environment", side.environment)
            if not records.is_record(entry.body):
                if type(content) is dict:
                    side.handoffs.append((entry, content))
            elif join(calls, entry) is None:
                side.points.append(entry)
        side.calls = list(calls.values())
        if not side.order:
            raise LogError(
                "there is nothing of this run here",
                code="CF-LOG-045",
                where=run,
                hint="counterfoil log lists the runs",
            )
        return side


def name_of(entry: Entry) -> str:
    """How an entry is named so that ``show`` finds it."""
    return f"{entry.log}/{entry.index}"


def values_of(sides: tuple[Side, Side], refs: Iterable[Reference | None]) -> tuple[tuple[Any, Any], str]:
    """The values behind the references of both sides, or what could not be read."""
    left, right = refs
    try:
        return (sides[0].value(left), sides[1].value(right)), ""
    except CounterfoilError as exc:
        return (MISSING, MISSING), f"{exc.code}: {exc.message}"
