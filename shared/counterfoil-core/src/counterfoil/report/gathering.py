"""What a page tells of evidence, read in two passes: which runs there are, then what happened in those it shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from counterfoil import records, statements
from counterfoil.bundles.store import is_cut
from counterfoil.digest import Reference, is_reference
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.graph import Graph
from counterfoil.log import Entry, covered
from counterfoil.reader import Reader
from counterfoil.report.excerpts import bounded
from counterfoil.views import CallView, Runs, join

__all__ = ["Case", "LogFacts", "Part", "RunFacts", "Step", "environment", "gather", "limits"]

RUNS: Final = 20
"""Runs that a page shows step by step: the last ones."""
_TOLD: Final = (statements.Handoff, statements.Receipt)


@dataclass(slots=True)
class LogFacts:
    """A log: whose it says it is, and how much of it can be read."""

    name: str
    origin: str = ""
    entries: int = 0

    @property
    def signer(self) -> str:
        """Fingerprint of the identity."""
        return self.origin.partition("/")[0]


@dataclass(slots=True)
class RunFacts:
    """A run: its number from 1 (the oldest), what began it and when, and where its environment is told."""

    id: str
    log: str
    at: int = 0
    number: int = 0
    op: str = ""
    name: str = ""
    entries: int = 0
    session: Any = None
    own: Any = None


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened, as it stands in a log: a call that began, a handoff or a receipt."""

    log: str
    index: int
    at: int
    actor: str
    call: CallView | None = None
    statement: statements.Statement | None = None


@dataclass(slots=True)
class Part:
    """One run, or what stands outside every run (no facts): its steps in the order of the log, and its graph."""

    facts: RunFacts | None
    graph: Graph
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Case:
    """All of it. ``runs`` are all that there are (of those asked for), ``parts`` those that are shown."""

    logs: list[LogFacts]
    runs: list[RunFacts]
    parts: list[Part]
    covered: dict[str, int]


def limits(reader: Reader) -> dict[str, int]:
    """How many entries of each log a checkpoint stands behind: asked before evidence is judged, for it may grow."""
    return {log: covered(reader.store, log) for log in reader.logs()}


def gather(reader: Reader, *, run: str | None = None, known: dict[str, int] | None = None) -> Case:
    """Read evidence for a page: all of it (the last ``RUNS`` runs in full), or one run. It judges nothing.

    ``known`` are the ``limits`` that were judged, without it those of now.
    """
    known = limits(reader) if known is None else known
    logs, every = _survey(reader)
    runs = [one for one in every if run in (None, one.id)]
    shown = {one.id: one for one in runs[-RUNS:]}
    calls: dict[str, CallView] = {}
    steps: dict[str | None, list[Step]] = {}
    signed: list[tuple[str | None, Entry, statements.Statement]] = []
    told = Runs()
    for entry in reader.entries():
        found = told.of(entry)[0]
        if entry.op != "statement":
            if found in shown:
                _take_record(entry, found, calls, steps)
            continue
        statement = _statement(entry)
        if statement is not None and isinstance(statement.predicate, _TOLD):
            signed.append((found, entry, statement))
    parts = list(_parts(reader, run, shown, list(calls.values()), steps, signed))
    return Case(list(logs.values()), runs, parts, known)


def environment(reader: Reader, facts: RunFacts) -> dict[str, Any] | None:
    """What a run says it ran on; None where it says nothing that can be read."""
    found: Any = None
    if is_reference(facts.own):
        found = bounded(reader, Reference.from_dict(facts.own))
    elif is_reference(facts.session):
        about = bounded(reader, Reference.from_dict(facts.session))
        found = about.get("environment") if type(about) is dict else None
    return found if type(found) is dict else None


def _survey(reader: Reader) -> tuple[dict[str, LogFacts], list[RunFacts]]:
    logs = {name: LogFacts(name) for name in reader.logs()}
    runs: dict[str, RunFacts] = {}
    sessions: dict[str, Any] = {}
    told = Runs()
    for entry in reader.entries():
        log = logs.setdefault(entry.log, LogFacts(entry.log))
        log.entries += 1
        run = told.of(entry)[0]
        statement = entry.op == "statement"
        content, context = ({}, {}) if statement else (entry.body["content"], entry.body["context"])
        if entry.op == "session":
            log.origin = log.origin or str(context.get("origin", ""))
            sessions[entry.log] = context.get("about")
        if run is None:
            continue
        facts = runs.get(run)
        if facts is None:
            facts = runs[run] = RunFacts(run, entry.log, _at(entry), session=sessions.get(entry.log))
        facts.entries += 1
        facts.own = facts.own or context.get("environment")
        if context.get("call") == run and content.get("phase") == "start":
            facts.at, facts.op, facts.name = _at(entry), entry.op, str(content.get("name", ""))
    ordered = sorted(runs.values(), key=lambda one: one.at)
    for number, facts in enumerate(ordered, 1):
        facts.number = number
    return logs, ordered


def _take_record(
    entry: Entry, run: str | None, calls: dict[str, CallView], steps: dict[str | None, list[Step]]
) -> None:
    known = len(calls)
    call = join(calls, entry)
    if call is not None and len(calls) > known:
        step = Step(entry.log, entry.index, _at(entry), call.actor, call=call)
        steps.setdefault(run, []).append(step)


def _parts(
    reader: Reader,
    run: str | None,
    shown: dict[str, RunFacts],
    calls: list[CallView],
    steps: dict[str | None, list[Step]],
    signed: list[tuple[str | None, Entry, statements.Statement]],
) -> Iterator[Part]:
    """Handoffs belong to their run, receipts to the run of what they are about, wherever they were made."""
    of_handoff: dict[str, str | None] = {}
    for found, _, statement in signed:
        if isinstance(statement.predicate, statements.Handoff):
            of_handoff[statement.digest] = found if found is not None else of_handoff.get(statement.digest)
    own: dict[str | None, list[tuple[Entry, statements.Statement]]] = {}
    for _, entry, statement in signed:
        predicate = statement.predicate
        about = predicate.handoff if isinstance(predicate, statements.Receipt) else statement.digest
        own.setdefault(of_handoff.get(about), []).append((entry, statement))
    cut = is_cut(reader.store)
    for id, facts in shown.items():
        mine = own.get(id, [])
        graph = Graph(calls, mine, blob=reader.blob, run=id, cut=cut)
        yield Part(facts, graph, _ordered([*steps.get(id, []), *map(_signed_step, mine)]))
    outside = own.get(None, []) if run is None else []
    if outside:
        graph = Graph([], outside, blob=reader.blob, cut=cut)
        yield Part(None, graph, _ordered(list(map(_signed_step, outside))))


def _signed_step(one: tuple[Entry, statements.Statement]) -> Step:
    entry, statement = one
    predicate = statement.predicate
    actor = predicate.sender.actor if isinstance(predicate, _TOLD) else ""
    return Step(entry.log, entry.index, predicate.issued * 1000, actor, statement=statement)


def _ordered(steps: list[Step]) -> list[Step]:
    """Log order; logs by the time of their first step."""
    began: dict[str, int] = {}
    for step in steps:
        began[step.log] = min(began.get(step.log, step.at), step.at)
    return sorted(steps, key=lambda step: (began[step.log], step.log, step.index))


def _statement(entry: Entry) -> statements.Statement | None:
    try:
        return statements.parse(Envelope.parse(entry.body).payload)
    except CounterfoilError:
        return None


def _at(entry: Entry) -> int:
    at = entry.body["context"].get("at") if records.is_record(entry.body) else None
    return at if type(at) is int else 0
