"""The run tree as callbacks show it: what each run is, which actor it belongs to, and the state of its graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from counterfoil.digest import Reference
from counterfoil.recorder import Call
from counterfoil_langchain.tokens import Pieces

__all__ = ["INTERNAL", "Graph", "Node", "Offer", "Offers"]

INTERNAL: Final = frozenset(
    {
        "__start__",
        "agent",
        "generate_structured_response",
        "model",
        "post_model_hook",
        "pre_model_hook",
        "tools",
    }
)
"""Node names of prebuilt agents' own graphs: steps of one actor, no actors themselves."""


@dataclass(slots=True, eq=False)
class Offer:
    """A handoff that left its sender and waits for the receiver to start.

    ``early`` marks one seen below its node (a tool or function returned it): when the node returns it too, it is not
    another. ``step`` is the superstep it was made in (it is taken in the next one or never).
    """

    target: str
    kind: str
    sender: Node
    payload: Reference
    statement: str | None
    step: object
    early: bool = False


class Offers:
    """Open offers of one graph, found by target without a search through the others."""

    __slots__ = ("_by_target",)

    def __init__(self) -> None:
        self._by_target: dict[str, list[Offer]] = {}

    def add(self, offer: Offer) -> None:
        """Let it wait."""
        self._by_target.setdefault(offer.target, []).append(offer)

    def confirm(self, sender: Node, target: str, kind: str, payload: Reference) -> bool:
        """Whether this is an offer met before, below its node: equal payload, or the Command a tool gave.

        A tools node copies Commands and completes their messages, so their payload may have changed since.
        """
        early = [
            one
            for one in self._by_target.get(target, ())
            if one.early and one.sender is sender and one.kind == kind
        ]
        found = next((one for one in early if one.payload == payload), None)
        if found is None and kind == "command":
            found = next(iter(early), None)
        if found is None:
            return False
        found.early = False
        return True

    def take_send(self, target: str, payload: Reference) -> Offer | None:
        """The Send a task was started by: equal payload first, then sending order."""
        waiting = self._by_target.get(target, [])
        found: int | None = None
        for at, one in enumerate(waiting):
            if one.kind == "send":
                if one.payload == payload:
                    return waiting.pop(at)
                found = at if found is None else found
        return None if found is None else waiting.pop(found)

    def take_commands(self, target: str) -> list[Offer]:
        """Every Command that names the target: together they start it once."""
        waiting = self._by_target.get(target, [])
        taken = [one for one in waiting if one.kind == "command"]
        if taken:
            self._by_target[target] = [one for one in waiting if one.kind != "command"]
        return taken

    def keep(self, step: object) -> None:
        """Drop what was made before ``step``: it was not taken."""
        kept = {
            target: [one for one in waiting if one.step == step]
            for target, waiting in self._by_target.items()
        }
        self._by_target = {target: waiting for target, waiting in kept.items() if waiting}


@dataclass(slots=True, eq=False)
class Graph:
    """State of one running graph: the superstep, the activations nobody followed yet, and open offers.

    ``frontier`` is ``heads`` as it was at the last superstep barrier: what every node of this superstep could read.
    ``tasks`` holds the last attempt of each task of this superstep, by the task's namespace.
    """

    node: Node
    step: object = None
    heads: dict[Node, None] = field(default_factory=dict)
    frontier: list[Node] = field(default_factory=list)
    offers: Offers = field(default_factory=Offers)
    tasks: dict[str, Node] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Node:
    """One run of the framework.

    ``call`` is set when it is recorded, ``activation`` when it is an activation of ``actor``; ``agent`` marks an
    agent's own graph run, ``adopted`` a node whose agent is the same actor, ``caller`` the activation that called an
    agent. ``mask`` makes call ids of its run unique although an application may give a run id twice;
    ``deliveries`` counts how often its start was told, which a handler attached twice is twice.
    """

    id: UUID
    parent: Node | None
    name: str
    kind: str
    metadata: dict[str, Any]
    call: Call | None = None
    actor: tuple[str, ...] = ()
    activation: bool = False
    step: bool = False
    agent: str | None = None
    adopted: bool = False
    caller: Node | None = None
    graph: Graph | None = None
    status: str = ""
    mask: int = 0
    deliveries: int = 1
    tokens: int = 0
    events: int = 0
    pieces: Pieces | None = None
    told: dict[tuple[str, int], int] = field(default_factory=dict)
    children: dict[UUID, Node] = field(default_factory=dict)

    @property
    def call_id(self) -> str:
        """Identifier of its call."""
        return f"{self.id.int ^ self.mask:032x}"

    def up(self) -> Iterator[Node]:
        """This run and its ancestors, innermost first."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def enclosing(self) -> Node | None:
        """The innermost activation this run belongs to, itself included."""
        return next((node for node in self.up() if node.activation), None)

    def recorded(self) -> Node | None:
        """The innermost recorded run, itself included."""
        return next((node for node in self.up() if node.call is not None), None)

    def graph_run(self) -> Node | None:
        """The run of the graph this run stands in: the parent of the innermost node run."""
        return next((node.parent for node in self.up() if node.step), None)

    def root(self) -> Node:
        """The run without a parent."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def owner(self) -> tuple[str, ...]:
        """Actor of this run: that of the innermost activation, else the root's."""
        found = self.enclosing()
        return found.actor if found is not None else self.root().actor

    @property
    def agent_name(self) -> str | None:
        """Name LangChain carries for the agent this run is part of."""
        name = self.metadata.get("lc_agent_name")
        return name if isinstance(name, str) and name else None
