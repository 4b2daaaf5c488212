"""``counterfoil graph``: who acted after whom, on what ground."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from counterfoil import statements
from counterfoil.bundles.store import is_cut
from counterfoil.cli import flow, output
from counterfoil.cli.lanes import ASCII, UNICODE, draw
from counterfoil.cli.options import Actor, Debug, E, Evidence, Json, Op, Run, evidence_path
from counterfoil.cli.progress import watched
from counterfoil.cli.rows import moment, statement_of
from counterfoil.cli.source import Choice, RunInfo, Source, open_source, short
from counterfoil.digest import sha256_hex
from counterfoil.errors import ConfigError
from counterfoil.graph import Graph
from counterfoil.log import Entry
from counterfoil.report import diagrams
from counterfoil.report.picture import Group, picture
from counterfoil.views import CallView, Runs

__all__ = ["graph"]


def graph(
    e: E = None,
    hops: Annotated[bool, typer.Option("--hops", help="Draw nodes between agents too.")] = False,
    run: Run = None,
    actor: Actor = None,
    op: Op = None,
    json: Json = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print a digraph for Graphviz.")] = False,
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
      counterfoil graph --run last --mermaid > run.mmd
      counterfoil graph --run last --dot | dot -Tsvg > run.svg

    A lane for each agent, time downwards, handoffs as arrows. Numbers count the activations drawn;
    `command <- 1` says that a statement of that kind joins this one to activation 1. With --json all nodes
    and edges, those inside agents too. --mermaid and --dot print what is drawn as text for other programs, at most
    one page of it.
    """
    _one_form(json=json, mermaid=mermaid, dot=dot)
    source = open_source(evidence_path(e, evidence))
    choice = Choice(actor, op)
    # Calls, statements, runs, and all once more where one run is asked for.
    with watched(source.store, passes=(2 if json else 3) + (run is not None)):
        chosen = source.run_id(run)
        found = source.graph(run=chosen).to_json() if json else {}
        held = None if json else _Held.of(source, chosen)
    if held is None:
        nodes = [node for node in found["nodes"] if choice(node["actor"], node["op"])]
        known = {node["id"] for node in nodes}
        edges = [edge for edge in found["edges"] if edge["from"] in known and edge["to"] in known]
        choice.check()
        output.out(output.json_text({"nodes": nodes, "edges": edges}, indent=2))
        return source.close()
    if mermaid or dot:
        _diagram(source, held, chosen, choice, hops=hops, draw=diagrams.mermaid if mermaid else diagrams.dot)
    else:
        _draw(source, held, chosen, choice, hops=hops)
    choice.check()
    return source.close()


def _one_form(**asked: bool) -> None:
    named = [f"--{name}" for name, value in asked.items() if value]
    if len(named) > 1:
        raise ConfigError(
            "a graph is printed in one form",
            code="CF-CLI-110",
            where=" ".join(named),
            hint="name one of them",
        )


def _diagram(
    source: Source,
    held: _Held,
    chosen: str | None,
    choice: Choice,
    *,
    hops: bool,
    draw: Callable[[list[Group]], diagrams.Diagram],
) -> None:
    groups = []
    for about, part in held.parts(source, outside=chosen is None):
        # A run's own identifier may be any text; its digest never is, and stays when other runs come.
        name = "run_" + sha256_hex(about.id.encode())[:16] if about is not None else "outside"
        groups.append(picture(part, Group(name, _title(about, part)), hops=hops, wanted=choice))
    drawn = draw(groups)
    output.out(drawn.text.rstrip("\n"))
    if drawn.nodes or drawn.links:
        output.note(
            f"note: a page is full: {drawn.nodes} nodes and {drawn.links} links are not drawn; "
            "--run and --actor choose, --json has all"
        )


def _draw(source: Source, held: _Held, chosen: str | None, choice: Choice, *, hops: bool) -> None:
    glyphs = UNICODE if output.unicode_lines() else ASCII
    width = max(shutil.get_terminal_size((80, 24)).columns, 40)
    first = True
    idle: list[str] = []
    for about, part in held.parts(source, outside=chosen is None):
        rows = flow.rows(part, hops=hops, wanted=choice, safe=output.clean)
        if not rows and (choice.actor or choice.op):
            continue
        if not rows and about is not None:
            idle.append(_title(about, part))
            continue
        first = _idle(idle, first=first)
        if not first:
            output.out()
        first = False
        output.out(output.paint(_title(about, part), "bold"))
        for line in draw(rows, width=width, glyphs=glyphs):
            output.out(line)
    _idle(idle, first=first)


Signed: TypeAlias = tuple[Entry, statements.Statement]


@dataclass(frozen=True, slots=True)
class _Held:
    """What is drawn, as read from the evidence."""

    runs: list[RunInfo]
    calls: list[CallView]
    signed: list[tuple[str | None, Signed]]
    """With the run that each belongs to."""

    @classmethod
    def of(cls, source: Source, chosen: str | None) -> _Held:
        calls, told = source.calls(), Runs()
        signed: list[tuple[str | None, Signed]] = []
        for entry in source.entries():
            run, statement = told.of(entry)[0], statement_of(entry)
            if statement is not None:
                signed.append((run, (entry, statement)))
        return cls([one for one in source.run_list() if chosen in (None, one.id)], calls, signed)

    def parts(self, source: Source, *, outside: bool) -> Iterator[tuple[RunInfo | None, Graph]]:
        """What is drawn apart: each run, and last (None) what stands outside every run."""
        calls: dict[str | None, list[CallView]] = {}
        for call in self.calls:
            calls.setdefault(call.run, []).append(call)
        signed = self._by_run()
        for about in self.runs:
            own = signed.get(about.id, [])
            yield (
                about,
                Graph(calls.get(about.id, []), own, blob=source.blob, run=about.id, cut=is_cut(source.store)),
            )
        runless = [one for one in signed.get(None, []) if outside]
        if runless:
            part = Graph(self.calls, runless, blob=source.blob, cut=is_cut(source.store))
            part.calls = []
            yield None, part

    def _by_run(self) -> dict[str | None, list[Signed]]:
        """Handoffs by their run, receipts by the run of what they are about (whatever run they were made in).

        A copy of a handoff in another log belongs to no run there: it is left to the run in which it was signed.
        """
        runs: dict[str, str | None] = {}
        for run, (_, statement) in self.signed:
            if isinstance(statement.predicate, statements.Handoff):
                runs[statement.digest] = run if run is not None else runs.get(statement.digest)
        found: dict[str | None, list[Signed]] = {}
        for _, one in self.signed:
            predicate = one[1].predicate
            if isinstance(predicate, statements.Handoff | statements.Receipt):
                about = one[1].digest if isinstance(predicate, statements.Handoff) else predicate.handoff
                found.setdefault(runs.get(about), []).append(one)
        return found


def _idle(titles: list[str], *, first: bool) -> bool:
    """Tell runs in which no agent acted, several in a row by the first and the last; whether nothing was told yet."""
    if not titles:
        return first
    if not first:
        output.out()
    output.out(output.paint(titles[0], "bold"))
    if len(titles) > 2:
        output.out(f"  ... {len(titles) - 2} more runs")
    if len(titles) > 1:
        output.out(output.paint(titles[-1], "bold"))
    output.out("  (no agent acted)" if len(titles) == 1 else "  (no agent acted in any of them)")
    titles.clear()
    return False


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
