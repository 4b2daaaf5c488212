"""What a diagram shows: a group for each run, a node for each activation, a link for each way that leads on.

Nothing here is safe to print yet: names are as evidence has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from counterfoil.flow import Flow, labels_of, ops
from counterfoil.graph import Edge, Graph
from counterfoil.views import CallView, actor_name

__all__ = ["Group", "Link", "Node", "picture"]

_ID = 16


@dataclass(slots=True)
class Node:
    """An activation, or a handoff that nobody here took up (``lost``)."""

    id: str
    title: str
    words: list[str] = field(default_factory=list)
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A way from one node to another: control, data, call or return; not ``exact`` where it only may be one."""

    source: str
    target: str
    kind: str
    exact: bool = True
    words: str = ""
    lost: bool = False


@dataclass(slots=True)
class Group:
    """One run, or what stands outside every run."""

    id: str
    title: str
    nodes: list[Node] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def picture(
    graph: Graph, group: Group, *, hops: bool, wanted: Callable[[str, str], bool] = lambda actor, op: True
) -> Group:
    """Fill ``group`` with what is drawn of a graph.

    Identifiers begin with ``n`` and go on with the digest of the record (or handoff) that the node stands for, so they
    are equal in every drawing of the same evidence, and ``counterfoil show`` takes them without the letter.
    """
    flow = _Drawn(graph, hops=hops)
    nodes, links = flow.nodes(graph), list(dict.fromkeys(flow.links(graph)))
    asked = {
        node.id for node in nodes if any([wanted(who, op) for who, op in flow.about.get(node.id, [("", "")])])
    }
    links = [one for one in links if one.source in asked or one.target in asked]
    ends = {end for one in links for end in (one.source, one.target)}
    group.nodes = [node for node in nodes if node.id in asked | ends]
    group.links = links
    return group


class _Drawn(Flow):
    """The flow of a run as nodes and links."""

    def __init__(self, graph: Graph, *, hops: bool) -> None:
        super().__init__(graph, hops=hops)
        self._lost = [edge for edge in graph.edges if edge.target is None or edge.target.id not in self.by_id]
        digests = [call.start_digest for call in self.shown.values()] + [edge.digest for edge in self._lost]
        # Whoever writes evidence can make the starts of two digests equal: then the whole ones tell them apart.
        clash = len({one[:_ID] for one in digests}) < len(set(digests))
        self._size = 64 if clash else _ID
        self.about: dict[str, list[tuple[str, str]]] = {}

    def _name(self, digest: str) -> str:
        return f"n{digest[: self._size]}"

    def nodes(self, graph: Graph) -> list[Node]:
        """Activations in the order they started, then handoffs that nobody took up."""
        work = self.work(graph)
        labels = labels_of(
            list(
                dict.fromkeys(
                    [call.actor for call in self.shown.values()] + [e.handoff.content.to for e in self._lost]
                )
            )
        )
        found = []
        for call in self.shown.values():
            did = work.get(call.id, Counter())
            node = Node(self._name(call.start_digest), labels[call.actor])
            if did:
                node.words.append(", ".join(f"{count} {word}" for word, count in sorted(did.items())))
            if call.status != "ok":
                node.words.append(call.status)
            found.append(node)
            self.about[node.id] = [(call.actor, op) for op in (call.op, *ops(did))]
        for edge in self._lost:
            content = edge.handoff.content
            status = edge.receipt or ("accepted" if edge.target is not None else graph.without_receipt(edge))
            node = Node(self._name(edge.digest), labels[content.to], [f"{content.kind} {status}"], lost=True)
            if not any(self.enclosing(one) for one in edge.sources):
                node.words.append("from " + ", ".join(map(actor_name, content.senders)))
            found.append(node)
            self.about[node.id] = [(who, content.kind) for who in (content.to, *content.senders)]
        return found

    def links(self, graph: Graph) -> Iterator[Link]:
        """Handoffs, answers that came back, and data that a call was given."""
        for call in self.shown.values():
            for one in self.upstream(call):
                names = ", ".join(actor_name(name).rpartition("/")[2] for name in one.via)
                yield self._link(one.call, call, one.kind, one.exact, f"via {names}" if names else "")
        for edge in graph.edges:
            yield from self._answer(edge)
        yield from self._data(graph)

    def _answer(self, edge: Edge) -> Iterator[Link]:
        sources = [one for one in map(self.enclosing, edge.sources) if one is not None]
        if edge.target is None or edge.target.id not in self.by_id:
            for one in sources:
                to = self._name(edge.digest)
                yield Link(self._name(one.start_digest), to, edge.kind, edge.handoff.exact, lost=True)
        elif edge.kind == "return":
            target = self.enclosing(edge.target)
            for one in sources if target is not None else []:
                yield self._link(one, target or one, "return", edge.handoff.exact, "")

    def _data(self, graph: Graph) -> Iterator[Link]:
        """What a model or tool call received of another activation, as its record says."""
        made = {digest: call for call in graph.calls for digest in (call.start_digest, call.end_digest)}
        for call in graph.calls:
            cited = call.start.body["context"].get("parents")
            for one in cited if type(cited) is list else []:
                if type(one) is dict and one.get("rel") == "data" and type(one.get("digest")) is str:
                    source, target = self.enclosing(made.get(one["digest"])), self.enclosing(call)
                    if source is not None and target is not None and source is not target:
                        yield self._link(source, target, "data", True, "")

    def _link(self, source: CallView, target: CallView, kind: str, exact: bool, words: str) -> Link:
        return Link(self._name(source.start_digest), self._name(target.start_digest), kind, exact, words)
