"""A plain, deliberately naive LangChain callback recorder: every callback with its full payload, every time.

It shows what an application's callbacks carry and what a first-draft recorder would write; ``sizes`` measures
that.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.load import dumpd
from langchain_core.messages import BaseMessage
from langchain_core.tracers.context import register_configure_hook
from pydantic import BaseModel

MAX_DEPTH = 40


def plain(value: Any, depth: int = 0) -> Any:
    """A best-effort JSON view of a callback's payload."""
    if depth > MAX_DEPTH:
        return repr(value)[:200]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, BaseMessage):
        return {"__message__": type(value).__name__, **plain(value.model_dump(), depth + 1)}
    if isinstance(value, dict):
        return {str(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v, depth + 1) for v in value]
    if isinstance(value, BaseModel):
        # Field by field: model_dump() would cut a message inside a result down to its base class.
        fields = {k: plain(getattr(value, k), depth + 1) for k in type(value).model_fields}
        return {"__model__": type(value).__name__, **fields}
    try:
        dumped = dumpd(value)
    except Exception:
        # An object that cannot be dumped is worth its repr, not a lost event.
        return {"__repr__": repr(value)[:2000]}
    if isinstance(dumped, dict) and dumped.get("type") == "not_implemented":
        return {"__repr__": repr(value)[:2000]}
    return plain(dumped, depth + 1)


class Recorder(BaseCallbackHandler):
    """Keeps every callback in ``events``, in arrival order."""

    run_inline = True

    def __init__(self) -> None:
        self.events: list[dict] = []
        self.duplicates = 0
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._seen: set[tuple[str, str]] = set()

    def _add(self, kind: str, context: dict, **payload: Any) -> None:
        start = time.perf_counter()
        event = {
            "event": kind,
            "run_id": str(context.get("run_id")),
            "parent_run_id": str(context.get("parent_run_id") or ""),
            "tags": context.get("tags") or [],
            "metadata": plain(context.get("metadata") or {}),
            "name": context.get("name"),
            "payload": plain(payload),
        }
        with self._lock:
            key = (kind, event["run_id"])
            if key in self._seen and kind not in ("llm_token", "custom"):
                self.duplicates += 1
            self._seen.add(key)
            self.events.append(event)
            self.seconds += time.perf_counter() - start

    def on_chain_start(self, serialized, inputs, **kw):
        self._add("chain_start", kw, inputs=inputs)

    def on_chain_end(self, outputs, **kw):
        self._add("chain_end", kw, outputs=outputs)

    def on_chain_error(self, error, **kw):
        self._add("chain_error", kw, error=repr(error))

    def on_chat_model_start(self, serialized, messages, **kw):
        params = kw.get("invocation_params")
        self._add("llm_start", kw, messages=messages, invocation_params=params, serialized=serialized)

    def on_llm_start(self, serialized, prompts, **kw):
        self._add("llm_start", kw, prompts=prompts, invocation_params=kw.get("invocation_params"))

    def on_llm_new_token(self, token, **kw):
        self._add("llm_token", kw, token=token)

    def on_llm_end(self, response, **kw):
        self._add("llm_end", kw, response=response)

    def on_llm_error(self, error, **kw):
        self._add("llm_error", kw, error=repr(error))

    def on_tool_start(self, serialized, input_str, **kw):
        inputs, call = kw.get("inputs"), kw.get("tool_call_id")
        self._add(
            "tool_start", kw, serialized=serialized, input_str=input_str, inputs=inputs, tool_call_id=call
        )

    def on_tool_end(self, output, **kw):
        self._add("tool_end", kw, output=output)

    def on_tool_error(self, error, **kw):
        self._add("tool_error", kw, error=repr(error))

    def on_retriever_start(self, serialized, query, **kw):
        self._add("retriever_start", kw, query=query)

    def on_retriever_end(self, documents, **kw):
        self._add("retriever_end", kw, documents=documents)

    def on_custom_event(self, name, data, **kw):
        self._add("custom", kw, name=name, data=data)

    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(e["event"] for e in self.events).items()))

    def node_order(self) -> list[str]:
        """LangGraph node activations in start order."""
        starts = (e for e in self.events if e["event"] == "chain_start")
        nodes = (e for e in starts if e["name"] == e["metadata"].get("langgraph_node"))
        return [e["name"] for e in nodes if any(t.startswith("graph:step") for t in e["tags"])]


def attach_hook(handler: BaseCallbackHandler, name: str = "testbed_recorder") -> None:
    """Attach to every callback manager of this process, with no change to the application."""
    # The handler is the variable's default: a value set here would not be seen in plain threads.
    variable: ContextVar[BaseCallbackHandler | None] = ContextVar(name, default=handler)
    register_configure_hook(variable, inheritable=True)
