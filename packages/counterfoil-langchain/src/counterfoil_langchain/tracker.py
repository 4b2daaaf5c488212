"""Keeps the run tree of one recorder and decides what each callback records; shared by every handler of an evidence."""

from __future__ import annotations

import os
import random
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from counterfoil import context, plugins
from counterfoil.digest import Reference
from counterfoil.recorder import Recorder
from counterfoil_langchain.encode import control
from counterfoil_langchain.places import about, asked, map_key, remember, step_key, streamed
from counterfoil_langchain.redact import Redactor
from counterfoil_langchain.rules import Rules
from counterfoil_langchain.runs import Graph, Node

__all__ = ["Tracker", "tracker_of"]

_HELD: Final = 50_000
"""Open runs remembered at most: some frameworks never end a cancelled call."""
_LATE: Final = 2_000
"""Runs remembered after their root's end, since an abandoned stream ends late."""

_trackers: weakref.WeakKeyDictionary[Recorder, Tracker] = weakref.WeakKeyDictionary()
_trackers_lock = threading.Lock()


_masks: Final = random.Random(os.urandom(32))
"""Makes call ids unique, not unguessable: one system call a run would cost more than the record."""


def tracker_of(recorder: Recorder) -> Tracker:
    """The one tracker of a recorder, so that two handlers never record a run twice."""
    with _trackers_lock:
        found = _trackers.get(recorder)
        if found is None:
            found = _trackers[recorder] = Tracker(recorder)
        return found


class Tracker:
    """Run tree, graph states and rules behind the callbacks."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.redactor = Redactor((one.key, one.rule) for one in plugins.loaded().redactions())
        self.lock = threading.RLock()
        self.rules = Rules(recorder)
        self._nodes: dict[UUID, Node] = {}
        self._late: deque[UUID] = deque()

    def node(self, run_id: UUID) -> Node | None:
        """The run behind an id, while it is open."""
        return self._nodes.get(run_id)

    # -- starts -------------------------------------------------------------------------------------------------------

    def chain(
        self,
        run_id: UUID,
        parent_id: UUID | None,
        name: str,
        inputs: Any,
        tags: list[str] | None,
        metadata: dict[str, Any] | None,
    ) -> None:
        """A runnable starts: the root, a node, an agent's own graph, or something in between that is not recorded."""
        control()
        with self.lock:
            node = self._enter(run_id, parent_id, name, "chain", metadata)
            if node is None:
                return
            node.step = (
                node.parent is not None
                and "langgraph_step" in node.metadata
                and any(str(tag).startswith("graph:step:") for tag in tags or ())
            )
            if node.step and node.parent is not None:
                self._step(node, node.parent, inputs)
                return
            node.agent = self.rules.starts_agent(node)
            if node.parent is None:
                self._root(node, inputs)
            elif node.agent is not None and self._agent(node, node.agent, inputs):
                return
            else:
                self._between(node, inputs, key=map_key(tags))

    def _root(self, node: Node, inputs: Any) -> None:
        node.actor = (node.agent or node.name,)
        node.activation = node.agent is not None
        op = "invoke_agent" if node.activation else "invoke_workflow"
        told = about(node)
        told.setdefault("langchain", {})["run"] = node.id.hex
        node.call = self.recorder.start(
            op,
            node.agent or node.name,
            actor=node.actor,
            id=node.call_id,
            request=self._request(inputs),
            context=told,
        )
        context.enter(node.call)

    def _request(self, inputs: Any) -> Reference | None:
        """What goes in; nothing while a streamed chain has not seen its input, which its end tells."""
        return None if streamed(inputs) else self.recorder.value(inputs)

    def _step(self, node: Node, graph_run: Node, inputs: Any) -> None:
        if graph_run.graph is None:
            graph_run.graph = Graph(graph_run)
        graph = graph_run.graph
        self.rules.barrier(graph, node.metadata.get("langgraph_step"))
        remember(graph, inputs)
        if self.rules.is_internal(node, graph_run):
            self._between(node, inputs, key=step_key(node.metadata))
            return
        node.activation = True
        node.actor = self.rules.actor_of_step(node.name, graph_run)
        request = self.recorder.value(inputs)
        parents, handoffs = self.rules.accept(node, graph, request)
        parent = graph_run.recorded()
        node.call = self.recorder.start(
            "step",
            node.name,
            actor=node.actor,
            id=node.call_id,
            parent=parent.call if parent is not None else None,
            key=step_key(node.metadata),
            request=request,
            parents=[("control", one.call) for one in parents if one.call is not None],
            handoffs=handoffs,
            context=about(node),
        )
        graph.heads[node] = None
        context.enter(node.call)

    def _between(self, node: Node, inputs: Any, *, key: str = "") -> None:
        """A prompt, parser, router or step inside an agent: recorded, but no actor and no activation."""
        node.actor = node.owner
        parent = node.parent.recorded() if node.parent is not None else None
        node.call = self.recorder.start(
            "chain",
            node.name,
            actor=node.actor,
            id=node.call_id,
            parent=parent.call if parent is not None else None,
            key=key,
            request=self._request(inputs),
        )

    def _agent(self, node: Node, name: str, inputs: Any) -> bool:
        """Record an agent's own graph run; False when the node around it is the same actor."""
        assert node.parent is not None
        wrapper = self.rules.adopts(node, name)
        if wrapper is not None:
            wrapper.adopted = True
            return False
        caller = node.parent.enclosing()
        node.activation = True
        node.caller = caller
        node.actor = (*caller.actor[:-1], name) if caller is not None else (name,)
        request = self.recorder.value(inputs)
        handoffs = self.rules.call(node, caller, request) if caller is not None else []
        parent = node.parent.recorded()
        node.call = self.recorder.start(
            "invoke_agent",
            name,
            actor=node.actor,
            id=node.call_id,
            parent=parent.call if parent is not None else None,
            request=request,
            parents=[("call", caller.call)] if caller is not None and caller.call is not None else (),
            handoffs=handoffs,
            context=about(node),
        )
        context.enter(node.call)
        return True

    def leaf(
        self,
        op: str,
        run_id: UUID,
        parent_id: UUID | None,
        name: str,
        request: Callable[[], Reference],
        metadata: dict[str, Any] | None,
        *,
        tags: list[str] | None = None,
        key: str = "",
    ) -> None:
        """A model, tool or retriever starts: recorded before it does anything (on disk with durability ``call``)."""
        with self.lock:
            node = self._enter(run_id, parent_id, name, "tool" if op == "execute_tool" else "leaf", metadata)
            if node is None:
                return
            above = node.parent.recorded() if node.parent is not None else None
            node.actor = node.owner if node.parent is not None else (name,)
        call = self.recorder.start(
            op,
            name,
            actor=node.actor,
            id=node.call_id,
            parent=above.call if above is not None else None,
            key=key or map_key(tags),
            request=request(),
            context=about(node),
            wait=True,
        )
        node.call = call
        context.enter(call)

    def position(self, parent_id: UUID | None, tool_call_id: str | None) -> str:
        """Where a tool call stood in the message that asked for it, for its address; empty when unknown."""
        parent = self._nodes.get(parent_id) if parent_id is not None else None
        if parent is None or tool_call_id is None:
            return ""
        for node in parent.up():
            at = node.graph.positions.get(tool_call_id) if node.graph is not None else None
            if at is not None:
                return str(at)
        return ""

    def answered(self, node: Node, result: Any) -> None:
        """A model answered: its tool calls have their places from here on, however they reach the tools."""
        run = node.graph_run()
        if run is None or run.graph is None:
            return
        with self.lock:
            for group in result.generations:
                for generation in group:
                    asked(run.graph, getattr(generation, "message", None))

    # -- ends ---------------------------------------------------------------------------------------------------------

    def leave(self, run_id: UUID, output: Any) -> Node | None:
        """Take a run out of the tree, the handoffs signed that its output makes; None as ``end``."""
        with self.lock:
            node = self._nodes.get(run_id)
            if node is not None and (
                node.kind == "tool" or node.step or (node.parent is not None and node.parent.step)
            ):
                try:
                    self.rules.offers(output, node)
                except Exception as exc:  # the run's end is told all the same
                    self.recorder.loss(f"offers: {type(exc).__name__}")
            return self.end(run_id)

    def end(self, run_id: UUID) -> Node | None:
        """Take a run out of the tree; None when it is unknown or its end came before."""
        with self.lock:
            node = self._nodes.pop(run_id, None)
            if node is not None and node.parent is not None:
                node.parent.children.pop(run_id, None)
            return node

    def forget(self, node: Node) -> None:
        """Drop what a root left behind (runs whose end never came), after a while for those that may end late."""
        with self.lock:
            self.rules.threads.leave(node)
            stack = list(node.children.values())
            while stack:
                one = stack.pop()
                stack.extend(one.children.values())
                if one.call is None:
                    self._nodes.pop(one.id, None)
                else:
                    self._late.append(one.id)
            while len(self._late) > _LATE:
                self._nodes.pop(self._late.popleft(), None)

    def _enter(
        self, run_id: UUID, parent_id: UUID | None, name: str, kind: str, metadata: dict[str, Any] | None
    ) -> Node | None:
        """Put a run into the tree; None when it is there already (a handler attached twice)."""
        known = self._nodes.get(run_id)
        if known is not None:
            known.deliveries += 1
            return None
        parent = self._nodes.get(parent_id) if parent_id is not None else None
        if parent is None:
            parent = self._around(run_id)
        node = Node(run_id, parent, name, kind, metadata if isinstance(metadata, dict) else {})
        node.mask = parent.mask if parent is not None else _masks.getrandbits(128)
        self._nodes[run_id] = node
        if parent is not None:
            parent.children[run_id] = node
        if len(self._nodes) > _HELD:
            self._evict()
        return node

    def _around(self, run_id: UUID) -> Node | None:
        """The run this code stands in by LangChain's own account, when the event names none that is known.

        LangSmith's tracing puts runs of its own in between, and an application may call with ``callbacks=[]``.
        """
        module = sys.modules.get("langchain_core.runnables.config")
        variable = getattr(module, "var_child_runnable_config", None)
        config = variable.get() if variable is not None else None
        callbacks = config.get("callbacks") if isinstance(config, dict) else None
        around = getattr(callbacks, "parent_run_id", None)
        return self._nodes.get(around) if isinstance(around, UUID) and around != run_id else None

    def _evict(self) -> None:
        """Give up the oldest run that has nothing open below it."""
        for node in self._nodes.values():
            if not node.children:
                self.end(node.id)
                if node.call is not None and node.call.end is None:
                    self.recorder.end(node.call, status="abandoned")
                return

    def after_fork(self) -> None:
        """In a forked child: what was open is the parent's, and another thread may have held the lock."""
        self.lock = threading.RLock()
        self._nodes = {}
        self._late = deque()
        self.rules = Rules(self.recorder)


def _forget_in_child() -> None:
    _masks.seed(os.urandom(32))
    global _trackers_lock
    _trackers_lock = threading.Lock()
    for tracker in list(_trackers.values()):
        tracker.after_fork()


os.register_at_fork(after_in_child=_forget_in_child)
