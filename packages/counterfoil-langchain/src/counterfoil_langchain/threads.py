"""Rule R6: what a thread's next run goes on from, so that ancestry does not end where a turn or an interrupt did.

Remembered in this process only, and believed only when LangGraph's step numbers go on too: without a checkpointer
they begin anew, and then nothing of the earlier run reached the new one.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from counterfoil_langchain.runs import Graph, Node

__all__ = ["THREAD", "Threads"]

THREAD: Final = "thread"
"""Kind of a node that stands for an activation of an earlier run."""
_HELD: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Stand:
    step: int
    heads: tuple[Node, ...]


class Threads:
    """Heads of each thread's last run, by thread and name of the graph."""

    def __init__(self) -> None:
        self._stands: OrderedDict[tuple[str, str], _Stand] = OrderedDict()

    def leave(self, root: Node) -> None:
        """A root graph's run is over: keep its last activations, without what led to them."""
        graph, key = root.graph, _key(root)
        if graph is None or key is None or type(graph.step) is not int:
            return
        heads = tuple(head for one in graph.heads if (head := _stand_in(one)) is not None)
        self._stands[key] = _Stand(graph.step, heads)
        self._stands.move_to_end(key)
        while len(self._stands) > _HELD:
            self._stands.popitem(last=False)

    def enter(self, graph: Graph, step: object) -> None:
        """A root graph's first superstep: begin with the thread's heads when this goes on from them."""
        key = _key(graph.node)
        found = self._stands.get(key) if key is not None else None
        if found is None or type(step) is not int:
            return
        again = {_task(one): one for one in found.heads if one.status == "interrupted"}
        if step > found.step or (step == found.step and again):
            graph.heads = dict.fromkeys(found.heads)
            graph.tasks = again


def _stand_in(node: Node) -> Node | None:
    if node.call is None:
        return None
    call = dataclasses.replace(node.call, parent=None, parents=())
    about = {"langgraph_checkpoint_ns": _task(node)}
    return Node(
        node.id, None, node.name, THREAD, about, call, node.actor, activation=True, status=node.status
    )


def _task(node: Node) -> str:
    return str(node.metadata.get("langgraph_checkpoint_ns"))


def _key(root: Node) -> tuple[str, str] | None:
    thread = root.metadata.get("thread_id")
    return (thread, root.name) if root.parent is None and type(thread) is str and thread else None
