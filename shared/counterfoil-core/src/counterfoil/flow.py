"""What a drawing of one run shows: activations, and the nearest activations shown upstream of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from counterfoil import records
from counterfoil.graph import Edge, Graph
from counterfoil.views import CallView, actor_name

__all__ = ["WORDS", "Flow", "Upstream", "labels_of", "ops"]

WORDS: Final = {
    "chat": "chat",
    "text_completion": "completion",
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "embeddings": "embeddings",
}
"""Operations that an activation is told to have done, and the word for each."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """An activation that led to another: over which actors, by which kind of edge, and whether that is all of it."""

    call: CallView
    via: list[str]
    kind: str
    exact: bool


class Flow:
    """One run's graph as drawn: agents' activations, with ``hops`` those of all nodes."""

    def __init__(self, graph: Graph, *, hops: bool) -> None:
        agents = graph.agents()
        self.by_id = {call.id: call for call in graph.calls}
        self.shown = {
            call.id: call
            for call in graph.calls
            if call.op in records.ACTIVATIONS and (hops or call.actor in agents)
        }
        self.into: dict[str, list[Edge]] = {}
        for edge in graph.edges:
            if edge.target is not None and edge.kind != "return":
                self.into.setdefault(edge.target.id, []).append(edge)

    def enclosing(self, call: CallView | None) -> CallView | None:
        """The nearest activation shown that a call is or runs in."""
        for _ in range(len(self.by_id) + 1):
            if call is None or call.id in self.shown:
                return call
            call = self.by_id.get(call.parent or "")
        return None

    def upstream(self, call: CallView) -> Iterator[Upstream]:
        """Activations shown that led to one, nearest only, with the actors passed on the way."""
        level: list[Upstream] = [Upstream(call, [], "", True)]
        seen = {call.id}
        while level:
            following: list[Upstream] = []
            for one in level:
                for edge in self.into.get(one.call.id, []):
                    kind, exact = one.kind or edge.kind, one.exact and edge.handoff.exact
                    for source in edge.sources:
                        found = self.enclosing(source)
                        if found is not None and found is not call and source.op not in records.ACTIVATIONS:
                            source = found
                        if source.id in seen:
                            continue
                        seen.add(source.id)
                        if source.id in self.shown:
                            yield Upstream(source, one.via, kind, exact)
                        else:
                            following.append(Upstream(source, [source.actor, *one.via], kind, exact))
            level = following

    def work(self, graph: Graph) -> dict[str, Counter[str]]:
        """What each activation shown did itself: how many calls of which kind."""
        found: dict[str, Counter[str]] = {}
        for call in graph.calls:
            if call.op in WORDS:
                inside = self.enclosing(call)
                if inside is not None:
                    found.setdefault(inside.id, Counter())[WORDS[call.op]] += 1
        return found


def ops(did: Counter[str]) -> list[str]:
    """The operations behind the words."""
    return [op for op, word in WORDS.items() if word in did]


def labels_of(actors: list[str]) -> dict[str, str]:
    """The last name of each actor; its whole path where two share it."""
    names = {actor: actor_name(actor) for actor in actors}
    last = Counter(name.rpartition("/")[2] for name in names.values())
    return {
        actor: name if last[name.rpartition("/")[2]] > 1 else name.rpartition("/")[2]
        for actor, name in names.items()
    }
