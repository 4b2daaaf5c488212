"""What places a run: its step and path, a tool call's position in its message, LangGraph's identifiers."""

from __future__ import annotations

from typing import Any, Final

from langchain_core.messages import AIMessage

from counterfoil import records
from counterfoil_langchain.runs import Graph, Node

__all__ = ["about", "asked", "map_key", "remember", "step_key", "streamed"]

_POSITIONS: Final = 2_000
"""Positions of tool calls remembered in one graph."""


def streamed(inputs: Any) -> bool:
    """Whether this is the placeholder LangChain gives for the input of a chain that is streamed."""
    return (
        type(inputs) is dict and len(inputs) == 1 and type(inputs.get("input")) is str and not inputs["input"]
    )


def map_key(tags: Any) -> str:
    """Key of a branch of a RunnableParallel, which starts its branches in any order; empty for other runs."""
    for tag in tags or ():
        if isinstance(tag, str) and tag.startswith("map:key:"):
            return "map." + tag.removeprefix("map:key:")
    return ""


def step_key(metadata: dict[str, Any]) -> str:
    """Step and path of a node run: equal in two equal runs, other than its id."""
    path = metadata.get("langgraph_path")
    key = str(metadata.get("langgraph_step", ""))
    if isinstance(path, tuple) and path and path[0] == "__pregel_push":
        key += "." + ".".join(str(one) for one in path[1:] if isinstance(one, (int, str, bool)))
    return key


def remember(graph: Graph, inputs: Any) -> None:
    """Remember where each tool call of the last message stands."""
    state = inputs
    if isinstance(inputs, dict) and isinstance(inputs.get("state"), (dict, list)):
        state = inputs["state"]  # a single tool call sent to a tools node brings the state along
    listed = state.get("messages") if isinstance(state, dict) else state
    if not isinstance(listed, list):
        return
    for message in reversed(listed[-8:]):
        if asked(graph, message):
            return


def asked(graph: Graph, message: Any) -> bool:
    """Whether a message asks for tools; each call's position in it is remembered then."""
    calls = message.tool_calls if issubclass(type(message), AIMessage) else None
    if not calls:
        return False
    if len(graph.positions) > _POSITIONS:
        graph.positions.clear()
    for at, call in enumerate(calls):
        if isinstance(call, dict) and isinstance(call.get("id"), str):
            graph.positions[call["id"]] = at
    return True


_TOLD: Final = ("thread_id", "checkpoint_id", "checkpoint_ns", "assistant_id", "graph_id")


def about(node: Node) -> dict[str, Any]:
    """Framework identifiers that do not repeat, kept beside the record."""
    found = {name: node.metadata[name] for name in _TOLD if isinstance(node.metadata.get(name), str)}
    found = {name: records.label(value) for name, value in found.items() if value}
    namespace = node.metadata.get("langgraph_checkpoint_ns")
    if node.step and isinstance(namespace, str) and namespace:
        found["checkpoint_ns"] = records.label(namespace)
    return {"langchain": found} if found else {}
