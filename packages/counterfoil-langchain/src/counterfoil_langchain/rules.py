"""Turns the run tree into handoffs: rules R0 to R5, the same for every pattern of LangGraph.

R0 actor, R1 call and return, R2 Command, R3 Send, R4 accept an offer, R5 joins and static edges. An offer is signed
by its sender when it leaves it (``sealed``); a static edge or join is signed for the enclosing graph's actor when
the receiver starts (``observed``), with every activation the receiver could read as a parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil.digest import Reference
from counterfoil.recorder import Recorder
from counterfoil_langchain.encode import control
from counterfoil_langchain.runs import INTERNAL, Graph, Node, Offer

__all__ = ["Rules"]

_END: Final = "__end__"


class Rules:
    """Handoffs of one recorder; every method is called with the tracker's lock held."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    # -- R0: what is a run --------------------------------------------------------------------------------------------

    def is_internal(self, node: Node, graph_run: Node) -> bool:
        """Whether a node run is a step inside one agent's own graph, and so no activation."""
        if graph_run.agent is not None or node.name == "__start__":
            return True
        return node.name in INTERNAL and graph_run.enclosing() is not None

    def actor_of_step(self, name: str, graph_run: Node) -> tuple[str, ...]:
        """Actor of a node: its name under the actor its graph is nested in."""
        outer = graph_run.enclosing()
        return (*outer.actor, name) if outer is not None else (name,)

    def starts_agent(self, node: Node) -> str | None:
        """The agent's name when this run is an agent's own graph run."""
        name = node.agent_name
        if name is None or node.step:
            return None
        outer = node.parent.agent_name if node.parent is not None else None
        return name if name != outer or node.name == name else None

    def adopts(self, node: Node, name: str) -> Node | None:
        """The node activation that directly wraps this agent and is the same actor."""
        enclosing = node.parent.enclosing() if node.parent is not None else None
        if enclosing is None or not enclosing.step or enclosing.adopted or node.parent is None:
            return None
        for one in node.parent.up():
            if one is enclosing:
                break
            if one.kind == "tool":
                return None
        return enclosing if node.parent is enclosing or enclosing.name == name else None

    # -- R2, R3: offers -----------------------------------------------------------------------------------------------

    def offers(self, output: Any, node: Node) -> None:
        """Sign what leaves a node or tool: every goto of a Command, every Send."""
        kinds = control()
        if kinds is None:
            return
        command_type, send_type, _ = kinds
        graph_run = node.graph_run()
        sender = node.enclosing()
        if graph_run is None or sender is None:
            return
        for one in output if isinstance(output, (list, tuple)) else (output,):
            if isinstance(one, send_type):
                self._offer(one.node, "send", one.arg, sender, graph_run, one)
            elif isinstance(one, command_type) and one.goto:
                scope: Node | None = graph_run
                if one.graph == command_type.PARENT:
                    scope = graph_run.graph_run()
                if scope is None:
                    continue
                for target in one.goto if isinstance(one.goto, (list, tuple)) else (one.goto,):
                    if isinstance(target, send_type):
                        self._offer(target.node, "send", target.arg, sender, scope, target)
                    else:
                        self._offer(str(target), "command", one.update, sender, scope, one)

    def _offer(
        self, target: str, kind: str, payload: Any, sender: Node, graph_run: Node, command: object
    ) -> None:
        if (
            target == _END
            or graph_run.agent is not None
            or (target in INTERNAL and graph_run.enclosing() is not None)
        ):
            return
        if graph_run.graph is None:
            graph_run.graph = Graph(graph_run)
        graph = graph_run.graph
        if any(offer.command is command and offer.target == target for offer in graph.offers):
            return
        reference = self._recorder.value(payload)
        call = sender.call
        statement = None
        if call is not None:
            statement = self._recorder.handoff(
                senders=[sender.actor],
                to=self.actor_of_step(target, graph_run),
                signer=sender.actor,
                kind=kind,
                basis="sealed",
                payload=reference,
                parents=[("control", call)],
                run=call.run,
            )
        graph.offers.append(Offer(target, kind, sender, reference, command, statement, graph.step))

    # -- R4, R5: acceptance -------------------------------------------------------------------------------------------

    def accept(self, node: Node, graph: Graph, request: Reference) -> tuple[list[Node], list[str]]:
        """Activations a starting node follows from, and the handoffs it receives."""
        path = node.metadata.get("langgraph_path")
        pushed = isinstance(path, tuple) and bool(path) and path[0] == "__pregel_push"
        offers = self._matching(node, graph, request, pushed=pushed)
        if offers:
            for offer in offers:
                offer.used = True
            parents = list(dict.fromkeys(offer.sender for offer in offers))
            self._follow(graph, parents)
            return parents, [offer.statement for offer in offers if offer.statement is not None]
        return self._observe(node, graph, request)

    def _matching(self, node: Node, graph: Graph, request: Reference, *, pushed: bool) -> list[Offer]:
        """A Send starts one task (equal payload first, then sending order); Commands to one target start one node."""
        waiting = [one for one in graph.offers if not one.used and one.target == node.name]
        sends = [one for one in waiting if one.kind == "send"]
        if pushed and sends:
            return [next((one for one in sends if one.payload == request), sends[0])]
        return [one for one in waiting if one.kind == "command"]

    def _observe(self, node: Node, graph: Graph, request: Reference) -> tuple[list[Node], list[str]]:
        joined = set(_joined(node.metadata.get("langgraph_triggers")))
        parents = [one for one in graph.frontier if not joined or one.name in joined]
        kind, exact, reason = "edge", True, None
        if joined:
            kind = "join"
        elif len({one.name for one in parents}) > 1:
            exact, reason = False, "the node could read all of these; the graph's edges are not known here"
        outer = graph.node.enclosing()
        if not parents and outer is not None:
            parents, kind = [outer], "enter"
        if not parents:
            return [], []
        calls = [("control", one.call) for one in parents if one.call is not None]
        if kind == "edge" and len(parents) == 1 and parents[0].actor == node.actor:
            kind = "continue"
        statement = self._recorder.handoff(
            senders=[one.actor for one in parents],
            to=node.actor,
            signer=outer.actor if outer is not None else graph.node.root().actor,
            kind=kind,
            basis="observed",
            payload=request,
            parents=calls,
            run=calls[0][1].run,
            exact=exact,
            reason=reason,
        )
        if kind != "enter":
            self._follow(graph, parents)
        return parents, [statement] if statement is not None else []

    def _follow(self, graph: Graph, parents: list[Node]) -> None:
        graph.heads = [head for head in graph.heads if head not in parents]

    def barrier(self, graph: Graph, step: object) -> None:
        """A new superstep: what is a head now is what its nodes can read, and older offers were not taken."""
        if graph.step != step:
            graph.offers = [one for one in graph.offers if one.step == graph.step]
            graph.step = step
            graph.frontier = list(graph.heads)

    # -- R1: call and return ------------------------------------------------------------------------------------------

    def call(self, node: Node, caller: Node, request: Reference) -> list[str]:
        """An agent starts while another actor's run is open."""
        if caller.call is None:
            return []
        statement = self._recorder.handoff(
            senders=[caller.actor],
            to=node.actor,
            signer=caller.actor,
            kind="call",
            basis="sealed",
            payload=request,
            parents=[("call", caller.call)],
            run=caller.call.run,
        )
        return [statement] if statement is not None else []

    def give_back(self, node: Node, response: Reference) -> None:
        """The called agent's answer goes back to its caller."""
        caller = node.caller
        if caller is None or caller.call is None or node.call is None:
            return
        self._recorder.handoff(
            senders=[node.actor],
            to=caller.actor,
            signer=node.actor,
            kind="return",
            basis="sealed",
            payload=response,
            parents=[("return", node.call), ("call", caller.call)],
            run=caller.call.run,
            call=caller.call.id,
        )


def _joined(triggers: Any) -> Iterator[str]:
    """Names in a list-join's trigger ``join:a+b:c``; the only trigger that names the nodes before."""
    for trigger in triggers if isinstance(triggers, (list, tuple)) else ():
        if isinstance(trigger, str) and trigger.startswith("join:"):
            yield from trigger[len("join:") :].rpartition(":")[0].split("+")
