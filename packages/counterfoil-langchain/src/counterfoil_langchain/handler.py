"""The callback handler: sees what LangChain tells, records it before it returns, and never disturbs the application."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage

from counterfoil import autostart
from counterfoil.digest import Reference
from counterfoil.errors import ConfigError
from counterfoil.recorder import Recorder
from counterfoil_langchain import encode, models
from counterfoil_langchain.guard import guarded
from counterfoil_langchain.listening import Listening
from counterfoil_langchain.outcomes import chunks, is_control, name_of, outcome
from counterfoil_langchain.runs import Node
from counterfoil_langchain.tokens import reason_of, why
from counterfoil_langchain.tracker import Tracker, tracker_of

__all__ = ["Handler"]


class Handler(Listening, BaseCallbackHandler):
    """Records LangChain and LangGraph runs into ``evidence``; pass it in ``callbacks``, or let ``counterfoil``
    install it.

    Several handlers of one evidence share one log and one run tree, so that nothing is recorded twice. Raises
    ConfigError for a mode other than ``observe``.
    """

    run_inline = True
    raise_error = False

    def __init__(
        self,
        evidence: str | os.PathLike[str] | None = None,
        *,
        mode: str = "observe",
        recorder: Recorder | None = None,
    ) -> None:
        if mode != "observe":
            raise ConfigError(
                f"counterfoil-langchain cannot keep its word in mode {mode}",
                code="CF-CONFIG-005",
                where="counterfoil-langchain",
                hint="use mode observe",
            )
        encode.register()
        self.enabled = True
        self.recorder = recorder if recorder is not None else autostart.recorder(evidence)
        self._tracker: Tracker = tracker_of(self.recorder)

    def __copy__(self) -> Handler:
        """Itself: an application may copy a config, and the log must not be split."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Handler:
        return self

    def __reduce__(self) -> tuple[Callable[..., Handler], tuple[str]]:
        """In another process it is a handler of the same evidence, with a log of its own."""
        place = self.recorder.evidence
        return Handler, (place if "://" in place else os.path.abspath(place),)

    def flush(self) -> bool:
        """Wait until everything given so far is durable; False when it is not."""
        return self.recorder.flush()

    def close(self) -> None:
        """Write what is left and a last checkpoint, and release the log."""
        self.enabled = False
        self.recorder.close()

    # -- chains -------------------------------------------------------------------------------------------------------

    @guarded
    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A runnable starts."""
        self._tracker.chain(
            run_id, parent_run_id, name_of(kwargs, serialized, "chain"), inputs, tags, metadata
        )

    @guarded
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A runnable returned."""
        node = self._tracker.leave(run_id, outputs)
        if node is None or node.call is None:
            return
        content: dict[str, Any] = {}
        if node.call.request is None:  # a streamed chain: what went in is known now
            content["request"] = self.recorder.value(kwargs.get("inputs", {"input": ""})).to_dict()
        response = self.recorder.value(outputs)
        self.recorder.end(node.call, response=response, content=content, context=self._raw(outputs))
        self._after(node, response)

    @guarded
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A runnable raised; a Command for the parent graph and an interrupt arrive here too and are no errors."""
        raised = error.args[0] if is_control(error, "ParentCommand") and error.args else None
        node = self._tracker.leave(run_id, raised)
        if node is None or node.call is None:
            return
        content: dict[str, Any] = {}
        if node.call.request is None and "inputs" in kwargs:
            content["request"] = self.recorder.value(kwargs["inputs"]).to_dict()
        self._fail(node, error, content=content)
        if node.parent is None:
            self._tracker.forget(node)

    def _raw(self, output: Any) -> dict[str, Any]:
        """What the normal form of an output leaves out, kept beside the record."""
        ids = encode.removed(output)
        return {"raw": self.recorder.value({"removed": ids}).to_dict()} if ids else {}

    def _after(self, node: Node, response: Any) -> None:
        if node.caller is not None:
            with self._tracker.lock:
                self._tracker.rules.give_back(node, response)
        if node.parent is None:
            self._tracker.forget(node)

    # -- models -------------------------------------------------------------------------------------------------------

    @guarded
    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[Any]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """A chat model is about to be called."""
        self._asked("chat", models.chat_request, messages, serialized, run_id, kwargs)

    @guarded
    def on_llm_start(
        self, serialized: dict[str, Any] | None, prompts: list[str], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """A text model is about to be called."""
        self._asked("text_completion", models.text_request, prompts, serialized, run_id, kwargs)

    def _asked(
        self,
        op: str,
        request: Callable[..., Reference],
        asked: Any,
        serialized: dict[str, Any] | None,
        run_id: UUID,
        kwargs: dict[str, Any],
    ) -> None:
        about = kwargs.get("metadata") or {}
        params = kwargs.get("invocation_params") or {}
        self._tracker.leaf(
            op,
            run_id,
            kwargs.get("parent_run_id"),
            models.model_name(params, about) or name_of(kwargs, serialized, "model"),
            lambda: request(self.recorder, asked, params, about, self._tracker.redactor),
            about,
            tags=kwargs.get("tags"),
        )

    @guarded
    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A model answered."""
        node = self._tracker.end(run_id)
        if node is None or node.call is None:
            return
        self._tracker.answered(node, response)
        reference, about = models.chat_response(self.recorder, response, self._tracker.redactor)
        about.update(chunks(node))
        if node.pieces is not None:
            finished = about.get("provider", {}).get("finish_reason")
            node.pieces.stream.reason = reason_of(finished, tools=models.calls_tools(response))
        self.recorder.end(node.call, response=reference, context=about)

    @guarded
    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A model call failed, or its stream was closed early."""
        self._failed(run_id, error)

    # -- tools and retrievers -----------------------------------------------------------------------------------------

    @guarded
    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A tool is about to run."""
        name = name_of(kwargs, serialized, "tool")
        request: dict[str, Any] = {"arguments": inputs if inputs is not None else input_str, "name": name}
        call_id = kwargs.get("tool_call_id")
        if isinstance(call_id, str):
            request["id"] = call_id
        self._tracker.leaf(
            "execute_tool",
            run_id,
            parent_run_id,
            name,
            lambda: self.recorder.value(request),
            metadata,
            tags=kwargs.get("tags"),
            key=self._tracker.position(parent_run_id, call_id if isinstance(call_id, str) else None),
        )

    @guarded
    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool returned: a message, a Command or any value."""
        node = self._tracker.leave(run_id, output)
        if node is None or node.call is None:
            return
        # By type alone: a tool may return an object that answers no question about itself.
        status = "error" if issubclass(type(output), ToolMessage) and output.status == "error" else "ok"
        response = self.recorder.value(output)
        self.recorder.end(node.call, response=response, status=status, context=self._raw(output))

    @guarded
    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool raised."""
        self._failed(run_id, error)

    @guarded
    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A retriever is about to search."""
        name = name_of(kwargs, serialized, "retriever")
        self._tracker.leaf(
            "retrieval",
            run_id,
            parent_run_id,
            name,
            lambda: self.recorder.value({"query": query}),
            metadata,
            tags=kwargs.get("tags"),
        )

    @guarded
    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A retriever found documents."""
        node = self._tracker.end(run_id)
        if node is not None and node.call is not None:
            listed = list(documents) if isinstance(documents, (list, tuple)) else documents
            self.recorder.end(node.call, response=self.recorder.value({"documents": listed}))

    @guarded
    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A retriever raised."""
        self._failed(run_id, error)

    @guarded
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """The application tells something of its own."""
        node = self._tracker.node(run_id)
        if node is None:
            return
        if node.deliveries > 1:  # a handler attached twice is told everything twice
            with self._tracker.lock:
                count = node.told[name, id(data)] = node.told.get((name, id(data)), 0) + 1
            if count % node.deliveries != 1:
                return
        above = node.recorded()
        if above is not None and above.call is not None:
            self.recorder.point(
                "custom", name, parent=above.call, content={"request": self.recorder.value(data).to_dict()}
            )

    def on_interrupt(self, event: Any) -> None:
        """LangGraph pauses or (``on_resume``) goes on: the interrupted node itself tells it."""

    on_resume = on_interrupt

    def _failed(self, run_id: UUID, error: BaseException) -> None:
        node = self._tracker.end(run_id)
        if node is not None:
            if node.pieces is not None:
                node.pieces.stream.reason = why(error)
            self._fail(node, error, context=chunks(node))

    def _fail(
        self,
        node: Node,
        error: BaseException,
        *,
        content: dict[str, Any] | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        """End a call by its exception, which may be control flow, a cancellation or an error."""
        if node.call is None:
            return
        status, value = outcome(error)
        node.status = status
        reference = self.recorder.value(value)
        if status in ("ok", "interrupted"):
            self.recorder.end(node.call, response=reference, status=status, content=content, context=context)
        else:
            self.recorder.end(node.call, error=reference, status=status, content=content, context=context)
