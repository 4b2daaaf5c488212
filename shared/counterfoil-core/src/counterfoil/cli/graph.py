"""``counterfoil graph``: who acted after whom, on what ground."""

from __future__ import annotations

import shutil
from typing import Annotated, Any

import typer

from counterfoil import statements
from counterfoil.cli import flow, output
from counterfoil.cli.lanes import ASCII, UNICODE, draw
from counterfoil.cli.options import Actor, Debug, E, Evidence, Json, Op, Run, evidence_path
from counterfoil.cli.rows import moment, statement_of
from counterfoil.cli.source import Choice, RunInfo, Source, open_source, short
from counterfoil.graph import Graph
from counterfoil.log import Entry
from counterfoil.views import CallView, Runs

__all__ = ["graph"]


def graph(
    e: E = None,
    hops: Annotated[bool, typer.Option("--hops", help="Draw nodes between agents too.")] = False,
    run: Run = None,
    actor: Actor = None,
    op: Op = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Draw who acted after whom, in each run.

    \b
    Examples:
      counterfoil graph
      counterfoil graph --run last --hops
      counterfoil graph --actor writer
      counterfoil graph evidence/ --json

    A lane for each agent, time downwards, handoffs as arrows. Numbers count the activations drawn;
    `command <- 1` says that a statement of that kind joins this one to activation 1. With --json all nodes
    and edges, those inside agents too.
    """
    source = open_source(evidence_path(e, evidence))
    chosen = source.run_id(run)
    choice = Choice(actor, op)
    if json:
        found = source.graph(run=chosen).to_json()
        nodes = [node for node in found["nodes"] if choice(node["actor"], node["op"])]
        known = {node["id"] for node in nodes}
        edges = [edge for edge in found["edges"] if edge["from"] in known and edge["to"] in known]
        choice.check()
        output.out(output.json_text({"nodes": nodes, "edges": edges}, indent=2))
        return source.close()
    _draw(source, chosen, choice, hops=hops)
    choice.check()
    return source.close()


def _draw(source: Source, chosen: str | None, choice: Choice, *, hops: bool) -> None:
    calls = source.calls()
    signed: list[tuple[str | None, tuple[Entry, statements.Statement]]] = []
    told = Runs()
    for entry in source.entries():
        found, statement = told.of(entry)[0], statement_of(entry)
        if statement is not None:
            signed.append((found, (entry, statement)))
    receipts = [pair for _, pair in signed if isinstance(pair[1].predicate, statements.Receipt)]
    runs = [one for one in source.run_list() if chosen in (None, one.id)]
    glyphs = UNICODE if output.unicode_lines() else ASCII
    width = max(shutil.get_terminal_size((80, 24)).columns, 40)
    parts: list[tuple[RunInfo | None, Graph]] = []
    for one in runs:
        mine = receipts + [pair for found, pair in signed if found == one.id]
        of_one = [call for call in calls if call.run == one.id]
        parts.append((one, Graph(of_one, mine, blob=source.blob, run=one.id)))
    # A copy in another log belongs to no run there.
    shown = {pair[1].digest for found, pair in signed if found is not None}
    outside = [
        pair
        for found, pair in (signed if chosen is None else ())
        if found is None and pair[1].digest not in shown and _is_no_binding(pair[1])
    ]
    if outside:
        parts.append((None, Graph(list(calls), outside, blob=source.blob)))
    first = True
    for about, part in parts:
        if about is None:
            part.calls = []
        rows = flow.rows(part, hops=hops, wanted=choice, safe=output.clean)
        if not rows and (choice.actor or choice.op):
            continue
        if not first:
            output.out()
        first = False
        output.out(output.paint(_title(about, part), "bold"))
        for line in draw(rows, width=width, glyphs=glyphs):
            output.out(line)
        if not rows:
            output.out("  (no agent acted)")


def _is_no_binding(statement: statements.Statement) -> bool:
    return not isinstance(statement.predicate, statements.Binding)


def _title(about: RunInfo | None, part: Graph) -> str:
    if about is None:
        return "outside every run"
    root = next((call for call in part.calls if call.id == about.id), None)
    at = moment(about.at)
    words: list[Any] = ["run", about.number, short(about.id), output.clean(about.name)]
    words += [_status(root), at.strftime("%Y-%m-%d %H:%M:%S") if at else ""]
    return " ".join(str(word) for word in words if word != "")


def _status(root: CallView | None) -> str:
    return "" if root is None else root.status
