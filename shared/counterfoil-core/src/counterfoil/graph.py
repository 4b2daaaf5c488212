"""The handoff graph a reader rebuilds from statements: who handed what to whom, hops collapsed, nothing guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from counterfoil import canonical, records, statements
from counterfoil.errors import CounterfoilError
from counterfoil.log import Entry
from counterfoil.views import CallView

__all__ = ["Edge", "Graph"]

_MODEL: Final = frozenset({"chat", "text_completion", "embeddings"})


@dataclass(slots=True)
class Edge:
    """One statement: sending activations, receiving activation (None when nobody accepted), and the statement."""

    digest: str
    handoff: statements.Handoff
    sources: list[CallView] = field(default_factory=list)
    target: CallView | None = None
    receipt: str | None = None
    parents: list[dict[str, str]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Kind of a graph edge: control, call or return."""
        kind = self.handoff.content.kind
        return kind if kind in ("call", "return") else "control"


class Graph:
    """Activations and calls as nodes, handoffs as edges, in log order."""

    def __init__(
        self,
        calls: Iterable[CallView],
        signed: Iterable[tuple[Entry, statements.Statement]],
        *,
        blob: Callable[[str], bytes],
        run: str | None = None,
        cut: bool = False,
    ) -> None:
        """``cut``: only what some handoff follows from is here, not what came of it, nor who called a model."""
        self._cut = cut
        self.calls = [call for call in calls if run is None or call.run == run]
        self._by_id = {call.id: call for call in self.calls}
        by_digest: dict[str, CallView] = {}
        received: dict[str, CallView] = {}
        for call in self.calls:
            by_digest[call.start_digest] = call
            if call.end_digest is not None:
                by_digest[call.end_digest] = call
            for digest in call.handoffs:
                received.setdefault(digest, call)
        self.edges: list[Edge] = []
        receipts: dict[str, dict[str, str]] = {}  # by handoff: the word of each log
        known: set[str] = set()  # sender and receiver may log the same statement into one evidence
        for entry, statement in signed:
            predicate = statement.predicate
            if isinstance(predicate, statements.Receipt):
                said = receipts.setdefault(predicate.handoff, {})
                # A replay that was refused does not undo that the handoff was accepted; what is taken back does.
                if predicate.status != "refused" or predicate.nonce is not None or entry.log not in said:
                    said[entry.log] = predicate.status
            elif isinstance(predicate, statements.Handoff) and (run is None or predicate.run == run):
                if statement.digest in known:
                    continue
                known.add(statement.digest)
                target = received.get(statement.digest)
                if target is None and predicate.call is not None:
                    target = self._by_id.get(predicate.call)
                cited = _parents(predicate, blob)
                sources = [by_digest[one["digest"]] for one in cited if one["digest"] in by_digest]
                if predicate.content.kind == "return":
                    sources = [one for one in sources if one is not target]
                self.edges.append(Edge(statement.digest, predicate, sources, target, None, cited))
        for edge in self.edges:
            words = list(receipts.get(edge.digest, {}).values())
            edge.receipt = next(
                (one for one in reversed(words) if one != "refused"), words[-1] if words else None
            )
        self._into: dict[str, list[Edge]] = {}
        for edge in self.edges:
            if edge.target is not None and edge.kind != "return":
                self._into.setdefault(edge.target.id, []).append(edge)
        acting = {call.actor for call in self.calls if call.op in _MODEL or call.op == "invoke_agent"}
        # A team acts through its members.
        self._agents = {"/".join(path[:n]) for path in map(_split, acting) for n in range(1, len(path) + 1)}

    # -- JSON ---------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """``{"nodes": [...], "edges": [...]}`` as ``counterfoil graph --json`` prints it."""
        nodes = [
            {"actor": call.actor, "address": call.address, "id": call.id, "op": call.op, "run": call.run}
            for call in self.calls
        ]
        edges = [
            {
                "derived": False,
                "exact": edge.handoff.exact,
                "from": source.id,
                "kind": edge.kind,
                "to": edge.target.id,
            }
            for edge in self.edges
            if edge.target is not None
            for source in edge.sources
            if source.op in records.ACTIVATIONS and edge.target.op in records.ACTIVATIONS
        ]
        return {"edges": edges, "nodes": nodes}

    def handoffs(self, *, hops: bool = False) -> list[dict[str, Any]]:
        """Rows of ``counterfoil handoffs --json``: between agents, or with ``hops`` between all activations."""
        return [row for edge in self.edges for row in (self._hops(edge) if hops else self._collapsed(edge))]

    def agents(self) -> set[str]:
        """Actors that called a model or bear an agent name."""
        return set(self._agents)

    def without_receipt(self, edge: Edge) -> str:
        """What became of a handoff that has no receipt here: sealed, accepted, dropped, or unknown in a cut."""
        if edge.handoff.proof == "countersigned":
            return "sealed"
        if edge.target is not None:
            return "accepted"
        return "unknown" if self._cut else "dropped"

    def _hops(self, edge: Edge) -> Iterator[dict[str, Any]]:
        to = edge.target.actor if edge.target is not None else edge.handoff.content.to
        # Senders of another run (a thread goes on) are no sources here, but the statement names them.
        senders = [*(source.actor for source in edge.sources), *edge.handoff.content.senders]
        for sender in dict.fromkeys(senders):
            yield self._row(edge, sender, to, [])

    def _collapsed(self, edge: Edge) -> Iterator[dict[str, Any]]:
        to = edge.target.actor if edge.target is not None else edge.handoff.content.to
        if edge.handoff.proof == "countersigned" or self._cut:
            yield from (self._row(edge, sender, to, []) for sender in edge.handoff.content.senders)
            return
        if to not in self._agents and edge.target is not None:
            return  # a target that never started cannot show whether it is an agent: it is told, as dropped
        here = {source.actor for source in edge.sources}
        told: set[str] = set()
        for sender in edge.handoff.content.senders:
            if sender not in here and sender in self._agents and sender != to:
                told.add(sender)
                yield self._row(edge, sender, to, [])
        for source in edge.sources:
            for sender, via in self._origins(source):
                if sender != to and sender not in told:
                    told.add(sender)
                    yield self._row(edge, sender, to, via)

    def _origins(self, call: CallView) -> Iterator[tuple[str, list[str]]]:
        """Agents nearest upstream of an activation, with the nodes passed on the way (sender's side first)."""
        level: list[tuple[CallView, list[str]]] = [(call, [])]
        seen = {call.id}
        while level:
            following: list[tuple[CallView, list[str]]] = []
            for one, via in level:
                if one.actor in self._agents:
                    yield one.actor, via
                    continue
                for edge in self._into.get(one.id, []):
                    for source in edge.sources:
                        if source.id not in seen:
                            seen.add(source.id)
                            following.append((source, [one.actor, *via]))
            level = following

    def _row(self, edge: Edge, sender: str, to: str, via: list[str]) -> dict[str, Any]:
        handoff = edge.handoff
        status = edge.receipt or self.without_receipt(edge)
        return {
            "basis": handoff.content.basis,
            "digest": edge.digest,
            "exact": handoff.exact,
            "from": sender,
            "kind": handoff.content.kind,
            "parents": edge.parents,
            "payload": {
                "media": handoff.payload.media,
                "sha256": handoff.content.payload,
                "size": handoff.payload.size,
            },
            "proof": handoff.proof,
            "status": status,
            "to": to,
            "via": via,
        }


def _split(actor: str) -> list[str]:
    return actor.split("/")


def _parents(handoff: statements.Handoff, blob: Callable[[str], bytes]) -> list[dict[str, str]]:
    """All parents, those of a parentSet included (its list is stored apart)."""
    listed = [{"digest": parent.digest, "rel": parent.rel} for parent in handoff.parents]
    if handoff.parentSet is not None:
        try:
            stored = canonical.loads(blob(handoff.parentSet.sha256))
            listed += [{"digest": str(one["digest"]), "rel": str(one["rel"])} for one in stored]
        except (CounterfoilError, KeyError, TypeError):
            pass
    return listed
