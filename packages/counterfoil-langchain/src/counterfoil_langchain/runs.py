"""The run tree as callbacks show it: what each run is, which actor it belongs to, and the state of its graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from counterfoil.digest import Reference
from counterfoil.recorder import Call

__all__ = ["INTERNAL", "Graph", "Node", "Offer"]

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

    ``command`` keeps the framework's object alive, so that meeting it again is recognised by identity; ``step`` is the
    superstep it was made in (it is taken in the next one or never).
    """

    target: str
    kind: str
    sender: Node
    payload: Reference | None
    command: object
    statement: str | None
    step: object
    used: bool = False


@dataclass(slots=True, eq=False)
class Graph:
    """State of one running graph: the superstep, the activations nobody followed yet, and open offers.

    ``frontier`` is ``heads`` as it was at the last superstep barrier: what every node of this superstep could read.
    """

    node: Node
    step: object = None
    heads: list[Node] = field(default_factory=list)
    frontier: list[Node] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Node:
    """One run of the framework.

    ``call`` is set when it is recorded, ``activation`` when it is an activation of ``actor``; ``agent`` marks an
    agent's own graph run, ``adopted`` a node whose agent is the same actor, ``caller`` the activation that called an
    agent.
    """

    id: str
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
    inputs: Any = None
    tokens: int = 0
    children: list[Node] = field(default_factory=list)

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
