"""The parts of the page about a run: its steps in lanes, its handoffs, its calls."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from counterfoil import records, statements
from counterfoil.digest import Reference
from counterfoil.report.excerpts import Excerpts
from counterfoil.report.gathering import Part, Step
from counterfoil.report.markup import Html, Lane, anchor, code, digest, link, listed, name, table, text
from counterfoil.views import CallView, actor_name

__all__ = ["Room", "moment", "of_part"]

STEPS: Final = 2_000
CALLS: Final = 400
HANDOFFS: Final = 1_000
LANES: Final = 8
"""Lanes beside each other; of more actors each step names its own only."""


UNSIGNED: Final = "no checkpoint covers this yet"


@dataclass(slots=True)
class Room:
    """What still fits on the page, counters for anchors, and what did not fit."""

    excerpts: Excerpts | None
    covered: dict[str, int]
    """Entries of each log that a checkpoint stands behind."""
    steps: int = STEPS
    calls: int = CALLS
    handoffs: int = HANDOFFS
    numbers: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def covers(self, log: str, index: int) -> bool:
        """Whether a checkpoint stands behind an entry: until then nothing signed covers a record."""
        return index < self.covered.get(log, 0)

    def number(self, kind: str) -> int:
        """The next number of a kind of anchor."""
        self.numbers[kind] += 1
        return self.numbers[kind]


@dataclass(slots=True)
class _Places:
    """Where the page has what: numbers of anchors."""

    calls: dict[str, int] = field(default_factory=dict)
    details: dict[str, int] = field(default_factory=dict)
    handoffs: dict[str, int] = field(default_factory=dict)
    signed: dict[str, int] = field(default_factory=dict)


def of_part(part: Part, room: Room) -> Html:
    """Handoffs, lanes and calls of one run, linked with each other."""
    places = _Places()
    steps = part.steps[: room.steps]
    room.steps -= len(steps)
    room.left["steps"] += len(part.steps) - len(steps)
    numbers = []
    for step in steps:
        number = room.number("step")
        numbers.append(number)
        if step.call is not None:
            places.calls[step.call.id] = number
            if room.calls:
                room.calls -= 1
                places.details[step.call.id] = room.number("call")
            else:
                room.left["calls"] += 1
        elif step.statement is not None:
            places.signed.setdefault(step.statement.digest, number)
    rows = part.graph.handoffs(hops=True)
    kept = rows[: room.handoffs]
    room.handoffs -= len(kept)
    room.left["handoffs"] += len(rows) - len(kept)
    for row in kept:
        places.handoffs.setdefault(row["digest"], room.number("handoff"))
    return Html(
        _handoffs(part, kept, places) + _lanes(steps, numbers, places, room) + _calls(steps, places, room)
    )


# -- handoffs ---------------------------------------------------------------------------------------------------------


def _handoffs(part: Part, rows: list[dict[str, object]], places: _Places) -> str:
    if not rows:
        return "<h3>Handoffs</h3><p>None.</p>"
    targets = {edge.digest: edge.target.id for edge in part.graph.edges if edge.target is not None}
    told: list[list[str]] = []
    ids: list[str] = []
    seen: set[str] = set()
    for row in rows:
        one = str(row["digest"])
        number = places.handoffs[one]
        ids.append(
            anchor("handoff", number) if one not in seen else f"{anchor('handoff', number)}-{len(ids)}"
        )
        seen.add(one)
        taken = places.calls.get(targets.get(one, ""))
        sealed = link("step", places.signed.get(one), "signed")
        to = link("step", taken, "taken up") if taken else Html("")
        told.append(
            [
                Html(str(number)),
                name(actor_name(str(row["from"]))),
                name(actor_name(str(row["to"]))),
                text(row["kind"]),
                text(row["basis"]),
                text(row["proof"]),
                text(row["status"]),
                text("yes" if row["exact"] else "no"),
                Html(f"{sealed} {to}".strip()),
                digest(one),
            ]
        )
    heads = ["No.", "From", "To", "Kind", "Basis", "Proof", "Status", "Exact", "Steps", "Digest"]
    return f"<h3>Handoffs</h3>{table('Handoffs: who handed what to whom', heads, told, ids=ids)}"


# -- lanes ------------------------------------------------------------------------------------------------------------


def _lanes(steps: list[Step], numbers: list[int], places: _Places, room: Room) -> str:
    if not steps:
        return ""
    actors = list(dict.fromkeys(step.actor for step in steps))
    lanes = actors if len(actors) <= LANES else []
    rows = []
    for step, number in zip(steps, numbers, strict=True):
        mark, what = _told(step, places)
        if not room.covers(step.log, step.index):
            what = Html(f"{what}, <strong>{UNSIGNED}</strong>")
        row = [Html(str(number)), text(moment(step.at).partition(" ")[2])]
        row += [Lane(f'<b aria-hidden="true">{mark}</b>' if step.actor == one else "") for one in lanes]
        rows.append([*row, name(actor_name(step.actor)), what, code(f"{step.log}/{step.index}")])
    heads: list[str] = [
        "Step",
        "Time (UTC)",
        *(name(actor_name(one)) for one in lanes),
        "Actor",
        "What",
        "Entry",
    ]
    ids = [anchor("step", one) for one in numbers]
    legend = (
        '<p class="small">In the lanes: &#9679; an agent or node begins to act, &#9675; it calls something, &#9654; it '
        "hands over, &#9670; a receipt.</p>"
    )
    drawn = table("Steps in the order of the log", heads, rows, ids=ids, kind="lanes")
    return f"<h3>Steps</h3>{legend if lanes else ''}{drawn}"


def _told(step: Step, places: _Places) -> tuple[str, Html]:
    """The mark in the lane, and the words."""
    if step.call is not None:
        call = step.call
        words = f"{call.op} {call.name}"
        detail = link("call", places.details.get(call.id), words)
        own = "&#9679;" if call.op in records.ACTIVATIONS else "&#9675;"
        return own, Html(f"{detail}{_ended(call)}")
    predicate = step.statement.predicate if step.statement is not None else None
    if isinstance(predicate, statements.Handoff) and step.statement is not None:
        words = f"hands over to {actor_name(predicate.content.to)}"
        number = places.handoffs.get(step.statement.digest)
        return "&#9654;", Html(f"{link('handoff', number, words)} ({text(predicate.content.kind)})")
    if isinstance(predicate, statements.Receipt):
        words = f"receipt: {predicate.status}"
        return "&#9670;", link("handoff", places.handoffs.get(predicate.handoff), words)
    return "&#183;", Html("")


def _ended(call: CallView) -> str:
    return "" if call.status == "ok" else f", <strong>{text(call.status)}</strong>"


# -- calls ------------------------------------------------------------------------------------------------------------


def _calls(steps: list[Step], places: _Places, room: Room) -> str:
    found = []
    for step in steps:
        if step.call is not None and step.call.id in places.details:
            found.append(_call(step.call, places, room))
    return f"<h3>Calls</h3>{''.join(found)}" if found else ""


def _call(call: CallView, places: _Places, room: Room) -> str:
    number = places.details[call.id]
    began, ended = _at(call.start.body), _at(call.end.body) if call.end is not None else None
    took = f"{(ended - began) / 1000:,.0f} ms" if ended is not None and began and ended >= began else None
    values = [("request", call.request), ("response", call.response), ("error", call.error)]
    ends = call.end or call.start
    unsigned = "" if room.covers(ends.log, ends.index) else f", {UNSIGNED}"
    excerpts = room.excerpts
    facts: list[tuple[str, str | None]] = [
        ("actor", name(actor_name(call.actor))),
        ("address", text(call.address)),
        ("status", text(call.status + unsigned)),
        ("began", text(moment(began))),
        ("took", took),
        ("step", link("step", places.calls.get(call.id), f"step {places.calls.get(call.id)}")),
        *((kind, _reference(one)) for kind, one in values if one is not None),
    ]
    shown = "".join(_excerpt(kind, one, excerpts) for kind, one in values if one is not None and excerpts)
    head = f"{text(call.op)} {name(call.name)}"
    return f'<section id="{anchor("call", number)}"><h4>Call {number}: {head}</h4>{listed(facts)}{shown}</section>\n'


def _reference(one: Reference) -> Html:
    return Html(f"{digest(one.sha256)} ({one.size:,} bytes as stored, {text(one.media)})")


def _excerpt(kind: str, reference: Reference, excerpts: Excerpts | None) -> str:
    found = excerpts.of(reference) if excerpts is not None else None
    if found is None:
        return ""
    shown = text(found, most=4 * len(found) + 1, lines=True)
    assert excerpts is not None
    excerpts.charge(len(shown) - len(found))
    return f'<p class="small">{text(kind)}, excerpt</p><pre tabindex="0" dir="ltr">{shown}</pre>'


def moment(at: int | None) -> str:
    """Unix time in microseconds as UTC; nothing where there is none."""
    try:
        found = dt.datetime.fromtimestamp((at or 0) // 1_000_000, dt.UTC).replace(
            microsecond=(at or 0) % 1_000_000
        )
    except (OverflowError, OSError, ValueError):
        return ""
    return found.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "") if at else ""


def _at(body: dict[str, dict[str, object]]) -> int:
    at = body["context"].get("at")
    return at if type(at) is int else 0
