"""What ``graph`` draws of one run: activations as rows, the nearest activations shown upstream as their sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from counterfoil.cli.lanes import Row
from counterfoil.flow import Flow, labels_of, ops
from counterfoil.graph import Graph
from counterfoil.views import CallView, actor_name

__all__ = ["rows"]


@dataclass(slots=True)
class _Line:
    """A row before it has a number: when, whose, where from (as activations), and what to say."""

    at: int
    actor: str
    mark: str
    kinds: list[str] = field(default_factory=list)
    sources: list[CallView] = field(default_factory=list)
    senders: list[str] = field(default_factory=list)
    via: list[str] = field(default_factory=list)
    call: CallView | None = None


class _Flow(Flow):
    def lines(self, graph: Graph) -> Iterator[_Line]:
        """Activations, answers that came back, and handoffs that nobody here took up."""
        for call in self.shown.values():
            line = _Line(_at(call), call.actor, "node", call=call)
            line.kinds = list(dict.fromkeys(edge.handoff.content.kind for edge in self.into.get(call.id, [])))
            for one in self.upstream(call):
                line.sources.append(one.call)
                line.via += [name for name in one.via if name not in line.via]
            yield line
        for edge in graph.edges:
            content = edge.handoff.content
            sources = [one for one in map(self.enclosing, edge.sources) if one is not None]
            if edge.target is None or edge.target.id not in self.by_id:
                status = edge.receipt or (
                    "accepted" if edge.target is not None else graph.without_receipt(edge)
                )
                mark = "touch" if status == "accepted" else "lost"
                line = _Line(edge.handoff.issued * 1000, content.to, mark, [content.kind, status], sources)
                if not sources:
                    line.senders = list(content.senders)
                yield line
            elif edge.kind == "return":
                target = self.enclosing(edge.target)
                if target is not None and sources:
                    yield _Line(max(map(_ended, sources)), target.actor, "touch", ["return"], sources)


def rows(
    graph: Graph, *, hops: bool, wanted: Callable[[str, str], bool], safe: Callable[[object], str]
) -> list[Row]:
    """Rows to draw, in time order; ``wanted`` is asked about (actor, operation), ``safe`` cleans names."""
    flow = _Flow(graph, hops=hops)
    found = sorted(flow.lines(graph), key=lambda line: line.at)
    numbers: dict[str, int] = {}
    for line in found:
        if line.call is not None:
            numbers[line.call.id] = len(numbers) + 1
    work = flow.work(graph)
    actors = dict.fromkeys(
        name for line in found for name in (line.actor, *line.senders, *(one.actor for one in line.sources))
    )
    labels = {actor: safe(label) for actor, label in labels_of(list(actors)).items()}
    drawn = []
    for line in found:
        op = line.call.op if line.call is not None else line.kinds[0]
        did = work.get(line.call.id, Counter()) if line.call is not None else Counter()
        names = [line.actor, *(one.actor for one in line.sources)]
        if not any([wanted(name, one) for name in names for one in (op, *ops(did))]):
            continue
        sources = [labels[one.actor] for one in line.sources] or [labels[name] for name in line.senders]
        number = numbers[line.call.id] if line.call is not None else None
        text = safe(_text(line, sorted(numbers[one.id] for one in line.sources), did))
        drawn.append(Row(labels[line.actor], line.mark, tuple(dict.fromkeys(sources)), number, text))
    return drawn


def _text(line: _Line, numbers: list[int], did: Counter[str]) -> str:
    words = " ".join(line.kinds)
    if numbers:
        words = f"{words} <- {','.join(map(str, numbers))}".strip()
    told = [words] if words else []
    told += [", ".join(f"{count} {word}" for word, count in sorted(did.items()))] if did else []
    if line.call is not None and line.call.status not in ("ok",):
        told.append(line.call.status)
    if line.via:
        told.append("via " + ", ".join(actor_name(name).rpartition("/")[2] for name in line.via))
    return "; ".join(told)


def _at(call: CallView) -> int:
    at = call.start.body["context"].get("at")
    return at if type(at) is int else 0


def _ended(call: CallView) -> int:
    at = call.end.body["context"].get("at") if call.end is not None else None
    return at if type(at) is int else _at(call)
