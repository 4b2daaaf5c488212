"""The callbacks of an answer that comes in pieces; what a piece is, ``tokens`` knows."""

from __future__ import annotations

import contextlib
from typing import Any
from uuid import UUID

from counterfoil.recorder import Recorder
from counterfoil_langchain.guard import guarded
from counterfoil_langchain.runs import Node
from counterfoil_langchain.tokens import Pieces
from counterfoil_langchain.tracker import Tracker

__all__ = ["Listening"]


class Listening:
    """A part of the handler. It is none of LangChain's streaming handlers: those make models stream."""

    enabled: bool
    recorder: Recorder
    _tracker: Tracker

    def on_llm_new_token(
        self,
        token: Any,
        *,
        chunk: Any = None,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """A piece of a streamed answer came: the busiest callback, so it is guarded by itself."""
        if not self.enabled:
            return
        try:
            node = self._tracker.node(run_id)
            if node is None:
                return
            node.tokens += 1
            if node.deliveries > 1 and node.tokens % node.deliveries != 1:
                return
            pieces = node.pieces or self._pieces(node)
            if pieces is not None:
                pieces.token(token, chunk, kwargs)
        except Exception as exc:
            with contextlib.suppress(Exception):
                self.recorder.loss(f"on_llm_new_token: {type(exc).__name__}")

    @guarded
    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A protocol event of a streamed answer came."""
        node = self._tracker.node(run_id)
        if node is None:
            return
        node.events += 1
        if node.deliveries > 1 and node.events % node.deliveries != 1:
            return
        pieces = node.pieces or self._pieces(node)
        if pieces is not None:
            pieces.event(event)

    def _pieces(self, node: Node) -> Pieces | None:
        if node.call is not None:
            node.pieces = Pieces(self.recorder.stream(node.call))
        return node.pieces
