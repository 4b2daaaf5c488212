"""What ``counterfoil demo`` records: an incident desk of several agents on LangGraph, its model scripted on 127.0.0.1.

The application (``app``) is unmodified and knows nothing of Counterfoil; ``endpoint`` answers as an OpenAI-compatible
server with what ``script`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

__all__ = ["serve"]

_NEEDED = ("langgraph", "langchain", "langchain_openai")


@contextmanager
def serve() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Words for ``counterfoil run`` and the variables that send the application to the scripted model.

    Raises ModuleNotFoundError when a framework is missing; the model is served while the context is open.
    """
    for name in _NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    from counterfoil_langchain.demo import script
    from counterfoil_langchain.demo.endpoint import Endpoint

    with Endpoint(script.answer) as served:
        yield ["-m", "counterfoil_langchain.demo.app"], served.environment()
