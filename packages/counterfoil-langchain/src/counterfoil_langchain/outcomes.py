"""Small readings of what a callback was told: how a run ended, what it is called."""

from __future__ import annotations

import asyncio
from typing import Any

from counterfoil_langchain.runs import Node

__all__ = ["chunks", "is_control", "name_of", "outcome"]


def outcome(error: BaseException) -> tuple[str, object]:
    """(status, what to store) of an exception."""
    if is_control(error, "ParentCommand"):
        return "ok", error.args[0] if error.args else error
    if is_control(error, "GraphBubbleUp"):  # interrupts, and a graph that is drained
        return "interrupted", list(error.args)
    if isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)):
        return "cancelled", error
    return "error", error


def is_control(error: BaseException, name: str) -> bool:
    """Whether this is one of LangGraph's own exceptions, without importing LangGraph."""
    return any(
        kind.__name__ == name and kind.__module__ == "langgraph.errors" for kind in type(error).__mro__
    )


def chunks(node: Node) -> dict[str, int]:
    """How many pieces a streamed answer came in."""
    count = node.tokens // node.deliveries
    return {"chunks": count} if count else {}


def name_of(kwargs: dict[str, Any], serialized: dict[str, Any] | None, default: str) -> str:
    """The run's name as LangChain tells it."""
    name = kwargs.get("name") or (serialized or {}).get("name")
    if not name and serialized and isinstance(serialized.get("id"), list) and serialized["id"]:
        name = serialized["id"][-1]
    return name if isinstance(name, str) and name else default
