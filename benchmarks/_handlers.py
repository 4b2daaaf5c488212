"""The handlers compared: name -> set-up returning (callbacks, flush)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

Setup = Callable[[], tuple[list[Any], Callable[[], None]]]


def none() -> tuple[list[Any], Callable[[], None]]:
    """Nothing attached: must read about 0."""
    return [], lambda: None


def noop() -> tuple[list[Any], Callable[[], None]]:
    """A handler that does nothing: LangChain's own cost, no handler can be below it."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Noop(BaseCallbackHandler):
        # Without this method LangChain builds a prompt text and calls on_llm_start.
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            return None

    return [Noop()], lambda: None


def openinference() -> tuple[list[Any], Callable[[], None]]:
    """OpenInference, spans encoded for OTLP and dropped."""
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Encode(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            encode_spans(spans).SerializeToString()
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Encode(), max_queue_size=200_000))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    return [], lambda: provider.force_flush(60_000) and None


def _counterfoil(durability: str) -> tuple[list[Any], Callable[[], None]]:
    os.environ["COUNTERFOIL_DURABILITY"] = durability
    from counterfoil import keys
    from counterfoil_langchain import Handler

    place = tempfile.mkdtemp()
    keys.set_home(os.path.join(place, "home"))
    handler = Handler(os.path.join(place, "evidence"))

    def flush() -> None:
        if not handler.flush():
            raise SystemExit("counterfoil could not write its evidence")

    return [handler], flush


def counterfoil() -> tuple[list[Any], Callable[[], None]]:
    """Counterfoil, group commit: everything on disk when the block ends."""
    return _counterfoil("group")


def counterfoil_call() -> tuple[list[Any], Callable[[], None]]:
    """Counterfoil, each start record on disk before the model is called."""
    return _counterfoil("call")


HANDLERS: dict[str, Setup] = {
    made.__name__: made for made in (none, noop, openinference, counterfoil, counterfoil_call)
}
