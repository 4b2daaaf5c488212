"""Turns the run tree into handoffs: rules R0 to R6, the same for every pattern of LangGraph.

R0 actor, R1 call and return, R2 Command, R3 Send, R4 accept an offer, R5 joins and static edges, R6 threads. An
offer is signed by its sender when it leaves it (``sealed``); a static edge or join is signed for the enclosing
graph's actor when the receiver starts (``observed``), with every activation the receiver could read as a parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil import records
from counterfoil.digest import Reference
from counterfoil.recorder import Recorder
from counterfoil_langchain.encode import control
from counterfoil_langchain.runs import INTERNAL, Graph, Node, Offer
from counterfoil_langchain.threads import THREAD, Threads

__all__ = ["Rules"]

_END: Final = "__end__"
_SENDERS: Final = 64
_NAMES: Final = 2048
"""Senders, and characters of their names, that one statement lists."""


class Rules:
    """Handoffs of one recorder; every method is called with the tracker's lock held."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.threads = Threads()

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
        """Sign what leaves a node, or what a tool or function below it returned: every goto of a Command, every Send.

        A Command for the parent graph never returns from its node: it is raised, and met here all the same.
        """
        kinds = control()
        graph_run, sender = node.graph_run(), node.enclosing()
        if kinds is None or graph_run is None or sender is None:
            return
        command_type, send_type, _ = kinds
        for one in output if issubclass(type(output), (list, tuple)) else (output,):
            if issubclass(type(one), send_type):  # never isinstance: it asks the object
                self._offer(one.node, "send", one.arg, sender, graph_run, early=not node.step)
            elif issubclass(type(one), command_type) and one.goto:
                scope = graph_run if one.graph is None else None
                if one.graph == command_type.PARENT:
                    scope = graph_run.graph_run()
                if scope is None:
                    continue  # for a graph further up, named by its task: met where it arrives
                for target in one.goto if isinstance(one.goto, (list, tuple)) else (one.goto,):
                    if isinstance(target, send_type):
                        self._offer(target.node, "send", target.arg, sender, scope, early=not node.step)
                    else:
                        self._offer(str(target), "command", one.update, sender, scope, early=not node.step)

    def _offer(
        self, target: str, kind: str, payload: Any, sender: Node, graph_run: Node, *, early: bool
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
        reference = self._recorder.value(payload)
        if not early and graph.offers.confirm(sender, target, kind, reference):
            return
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
        graph.offers.add(Offer(target, kind, sender, reference, statement, graph.step, early))

    # -- R4, R5: acceptance -------------------------------------------------------------------------------------------

    def accept(self, node: Node, graph: Graph, request: Reference) -> tuple[list[Node], list[str]]:
        """Activations a starting node follows from, and the handoffs it receives."""
        task = node.metadata.get("langgraph_checkpoint_ns")
        earlier = graph.tasks.get(task) if isinstance(task, str) else None
        if isinstance(task, str) and task:
            graph.tasks[task] = node
        if earlier is not None:
            return self._signed([earlier], "continue", node, graph, request, reason="the same task again")
        offers = self._matching(node, graph, request)
        if offers:
            parents = list(dict.fromkeys(offer.sender for offer in offers))
            self._follow(graph, parents)
            return parents, [offer.statement for offer in offers if offer.statement is not None]
        return self._observe(node, graph, request)

    def _matching(self, node: Node, graph: Graph, request: Reference) -> list[Offer]:
        """A Send starts one task; Commands to one target start one node."""
        path = node.metadata.get("langgraph_path")
        if isinstance(path, tuple) and path and path[0] == "__pregel_push":
            sent = graph.offers.take_send(node.name, request)
            if sent is not None:
                return [sent]
        return graph.offers.take_commands(node.name)

    def _observe(self, node: Node, graph: Graph, request: Reference) -> tuple[list[Node], list[str]]:
        joined = set(_joined(node.metadata.get("langgraph_triggers")))
        parents = [one for one in graph.frontier if not joined or one.name in joined]
        kind, exact, reason = "edge", True, None
        if joined:
            kind = "join"
        elif parents and all(one.kind == THREAD for one in parents):
            kind, exact, reason = "continue", False, "the thread's earlier run ended with these"
        elif len({one.name for one in parents}) > 1:
            exact, reason = False, "the node could read all of these; the graph's edges are not known here"
        outer = graph.node.enclosing()
        if not parents and outer is not None:
            parents, kind = [outer], "enter"
        if kind == "edge" and len(parents) == 1 and parents[0].actor == node.actor:
            kind = "continue"
        return self._signed(parents, kind, node, graph, request, exact=exact, reason=reason)

    def _signed(
        self,
        parents: list[Node],
        kind: str,
        node: Node,
        graph: Graph,
        request: Reference,
        *,
        exact: bool = True,
        reason: str | None = None,
    ) -> tuple[list[Node], list[str]]:
        """Sign an observed handoff for the enclosing graph's actor, in parts when its senders' names are too many."""
        outer, run = graph.node.enclosing(), graph.node.root().call
        statements: list[str] = []
        for part in _parts(parents):
            calls = [("control", one.call) for one in part if one.call is not None]
            if not calls:
                continue
            statement = self._recorder.handoff(
                senders=[one.actor for one in part],
                to=node.actor,
                signer=outer.actor if outer is not None else graph.node.root().actor,
                kind=kind,
                basis="observed",
                payload=request,
                parents=calls,
                run=run.run if run is not None else calls[0][1].run,
                exact=exact,
                reason=reason,
            )
            if statement is not None:
                statements.append(statement)
        if kind != "enter":
            self._follow(graph, parents)
        return parents, statements

    def _follow(self, graph: Graph, parents: list[Node]) -> None:
        for one in parents:
            graph.heads.pop(one, None)

    def barrier(self, graph: Graph, step: object) -> None:
        """A new superstep: what is a head now is what its nodes can read, and older offers were not taken."""
        if graph.step != step:
            first = graph.step is None
            graph.offers.keep(graph.step)
            graph.step = step
            graph.tasks.clear()
            if first:
                self.threads.enter(graph, step)
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


def _parts(parents: list[Node]) -> Iterator[list[Node]]:
    """Parents in groups whose actors' names fit one statement."""
    part: list[Node] = []
    actors: dict[tuple[str, ...], int] = {}
    for one in parents:
        if one.actor not in actors and (len(actors) >= _SENDERS or sum(actors.values()) > _NAMES):
            yield part
            part, actors = [], {}
        actors.setdefault(one.actor, len(records.actor_text(one.actor)))
        part.append(one)
    if part:
        yield part


def _joined(triggers: Any) -> Iterator[str]:
    """Names in a list-join's trigger ``join:a+b:c``; the only trigger that names the nodes before."""
    for trigger in triggers if isinstance(triggers, (list, tuple)) else ():
        if isinstance(trigger, str) and trigger.startswith("join:"):
            yield from trigger[len("join:") :].rpartition(":")[0].split("+")
