"""Counterfoil for LangChain and LangGraph.

from counterfoil_langchain import Handler
graph.invoke(inputs, {"callbacks": [Handler("evidence")]})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterfoil_langchain.handler import Handler

__all__ = ["Handler"]


def __getattr__(name: str) -> Any:
    # Lazily: the plugin is imported at interpreter start and must not bring LangChain along.
    if name == "Handler":
        from counterfoil_langchain.handler import Handler

        return Handler
    raise AttributeError(f"module 'counterfoil_langchain' has no attribute {name!r}")
