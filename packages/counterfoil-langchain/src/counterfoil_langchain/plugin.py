"""The entry point: tells Counterfoil how to put the handler into every LangChain run of a process.

Imported at interpreter start when recording is on, so it imports neither LangChain nor the handler.
"""

from __future__ import annotations

from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from counterfoil.hooks import Instrumentation, hookimpl

if TYPE_CHECKING:
    from counterfoil.recorder import Recorder
    from counterfoil_langchain.handler import Handler

__all__ = ["counterfoil_instrumentations"]

_installed: list[Handler] = []


@hookimpl
def counterfoil_instrumentations() -> list[Instrumentation]:
    """The LangChain adapter (observe)."""
    return [
        Instrumentation(
            "langchain", "langchain_core.callbacks.manager", _install, _uninstall, capabilities=_can
        )
    ]


def _install(recorder: Recorder) -> None:
    """Register a configure hook whose ContextVar defaults to the handler: present in every thread and context."""
    from langchain_core.tracers.context import register_configure_hook

    from counterfoil_langchain.handler import Handler

    handler = Handler(recorder=recorder)
    variable: ContextVar[Any] = ContextVar(f"counterfoil_{len(_installed)}", default=handler)
    # Without a class: LangChain then compares by identity, and a user's own handler does not displace this one.
    register_configure_hook(variable, True)
    _installed.append(handler)


def _uninstall() -> None:
    from langchain_core.tracers import context

    for handler in _installed:
        handler.enabled = False
    hooks = getattr(context, "_configure_hooks", None)
    if isinstance(hooks, list):
        hooks[:] = [hook for hook in hooks if hook[0].get() not in _installed]
    _installed.clear()


def _can() -> dict[str, Any]:
    return {
        "langchain-core": _version("langchain-core"),
        "langgraph": _version("langgraph"),
        "modes": ["observe"],
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
