"""What a token costs that is recorded as it comes, against a handler that does nothing, in one run.

    python benchmarks/token_streams.py [--rounds 9] [--tokens 20000] [--json FILE]

Rows of one run only are compared: machines are noisy. ``callback`` is the handler's callback alone, told the same
tokens as a handler that does nothing; ``stream`` is a model that LangChain streams, with one or the other attached.
Both are processor time of the calling thread (hashing and checkpoints included, as they happen in it); ``all threads``
is what the process used until all of it was on the disk. Microseconds a token: least of the rounds, and their median.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult

import counterfoil
from counterfoil_langchain import Handler

CHUNKS = [
    (text, ChatGenerationChunk(message=AIMessageChunk(content=text)))
    for text in (f"tok{number} " for number in range(64))
]
DONE = LLMResult(generations=[[ChatGeneration(message=AIMessage("done"))]])


class Fast(GenericFakeChatModel):
    """Says as many tokens as it is told to, and does nothing else."""

    count: int

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Iterator[Any]:
        for number in range(self.count):
            yield ChatGenerationChunk(message=AIMessageChunk(content=CHUNKS[number % 64][0]))


def callback(handler: Any, count: int) -> Callable[[], float]:
    """Tell a handler so many tokens; seconds of this thread for the callbacks alone."""

    def go() -> float:
        run = uuid.uuid4()
        handler.on_chat_model_start(None, [[HumanMessage("go")]], run_id=run)
        told = handler.on_llm_new_token
        gc.collect()
        began = time.thread_time()
        for number in range(count):
            text, chunk = CHUNKS[number & 63]
            told(token=text, chunk=chunk, run_id=run, parent_run_id=None, tags=[])
        took = time.thread_time() - began
        handler.on_llm_end(DONE, run_id=run)
        return took

    return go


def streamed(handler: Any, count: int) -> Callable[[], float]:
    """Let LangChain stream so many tokens; seconds of this thread for all of it."""
    model = Fast(messages=iter([]), count=count)

    def go() -> float:
        gc.collect()
        began = time.thread_time()
        for _ in model.stream("go", {"callbacks": [handler]}):
            pass
        return time.thread_time() - began

    return go


class Nothing(BaseCallbackHandler):
    """Does nothing."""

    run_inline = True

    def on_chat_model_start(self, *given: Any, **more: Any) -> None:
        """Not even that."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a recorded token costs.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COUNTERFOIL_HOME"] = f"{folder}/home"
        found = measure(Path(folder) / "evidence", options.rounds, options.tokens)
    rows = [(name, min(took), statistics.median(took)) for name, took in found.items()]
    for name, least, median in rows:
        sys.stdout.write(f"{name:28} {least:8.3f} {median:8.3f}\n")
    added = min(found["callback, counterfoil"]) - min(found["callback, nothing"])
    sys.stdout.write(f"a token costs {added:.2f} us (at most 1.5)\n")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if added <= 1.5 else 1


def measure(evidence: Path, rounds: int, count: int) -> dict[str, list[float]]:
    """Microseconds a token, by round; bytes a token in the log."""
    handler, nothing = Handler(evidence), Nothing()
    ways = {
        "callback, nothing": callback(nothing, count),
        "callback, counterfoil": callback(handler, count),
        "stream, nothing": streamed(nothing, count),
        "stream, counterfoil": streamed(handler, count),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    found["all threads, counterfoil"] = []
    for go in ways.values():
        go()
    handler.flush()
    for _ in range(rounds):
        for name, go in ways.items():
            handler.flush()
            began = time.process_time()
            found[name].append(go() / count * 1e6)
            if name == "callback, counterfoil":
                handler.flush()
                found["all threads, counterfoil"].append((time.process_time() - began) / count * 1e6)
    handler.close()
    told = 2 * (rounds + 1) * count
    began = time.process_time()
    result = counterfoil.verify(evidence, jobs=1)
    if result.verdict != "intact":
        raise SystemExit(f"the evidence is {result.verdict}")
    found["verify"] = [(time.process_time() - began) / told * 1e6]
    found["bytes in the log"] = [sum(one.stat().st_size for one in evidence.rglob("*.seg")) / told]
    return found


if __name__ == "__main__":
    raise SystemExit(main())
