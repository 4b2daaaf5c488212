"""Answers that come in pieces: one digest of what was said in every way, and an end for every stream."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, Scripted, ai, intact, through
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.language_models.llms import LLM
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk
from langgraph.graph import START, MessagesState, StateGraph

import counterfoil
from counterfoil.reader import Reader
from counterfoil.stream_reading import frames_of
from counterfoil_langchain import Handler


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def streams(reader: Reader) -> list[dict[str, Any] | None]:
    """What each model call states of its stream."""
    return [
        call.end.body["context"].get("stream")
        for call in reader.calls()
        if call.op in ("chat", "text_completion") and call.end is not None
    ]


def stated(reader: Reader) -> dict[str, Any]:
    (found,) = streams(reader)
    assert found is not None
    return found


async def protocol(model: Any, config: Any) -> None:
    async for _ in await model.astream_events("x", config, version="v3"):
        pass


def told(work: Callable[[], Any]) -> None:
    """Do it; the framework says that protocol events are new."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*in beta.*")
        work()


STREAMED: dict[str, Callable[[Any, Any], Any]] = {
    "stream": lambda model, config: list(model.stream("x", config)),
    "astream": lambda model, config: asyncio.run(through(model.astream("x", config))),
    "events": lambda model, config: asyncio.run(through(model.astream_events("x", config, version="v2"))),
    "protocol": lambda model, config: told(lambda: list(model.stream_events("x", config, version="v3"))),
    "aprotocol": lambda model, config: told(lambda: asyncio.run(protocol(model, config))),
}


def fake(*answers: AIMessage) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(answers))


CALLED = AIMessage(
    "Let me see", additional_kwargs={"function_call": {"name": "f", "arguments": '{"a": 1, "b": 2}'}}
)
ANSWERS: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "a text": (lambda: fake(AIMessage("so it is ☃")), {"0:text": "so it is ☃"}),
    "a call of a function": (
        lambda: fake(CALLED),
        {
            "0:text": "Let me see",
            "0:tool_name:function_call": "f",
            "0:tool_args:function_call": '{"a": 1, "b": 2}',
        },
    ),
    "calls of tools": (
        lambda: Scripted(script=[ai("It is", ("add", {"a": 2}, "c1"), ("add", {"b": [1]}, "c2"))]),
        {
            "0:text": "It is",
            "0:tool_name:c1": "add",
            "0:tool_args:c1": '{"a": 2}',
            "0:tool_name:c2": "add",
            "0:tool_args:c2": '{"b": [1]}',
        },
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("way", STREAMED)
def test_what_was_said_has_one_digest(way: str, answer: str, handler: Handler, evidence: Path) -> None:
    model, said = ANSWERS[answer]
    STREAMED[way](model(), {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    found = stated(reader)
    assert found["content"] == {name: sha256(text) for name, text in said.items()}
    assert found["end"] in ("stop", "tool_calls")
    (call,) = reader.calls()
    pieces = [data for name, data, _ in frames_of(reader, call) if name == "0:text"]
    assert b"".join(pieces).decode() == said["0:text"]
    assert len(pieces) > 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "batch"])
def test_what_is_said_at_once_is_no_stream(way: str, handler: Handler, evidence: Path) -> None:
    """And the handler does not make one of it: models take their streaming path only for those who ask."""
    model, config = fake(AIMessage("so it is")), {"callbacks": [handler]}
    if way == "ainvoke":
        asyncio.run(model.ainvoke("x", config))
    else:
        _ = model.invoke("x", config) if way == "invoke" else model.batch(["x"], config)
    handler.close()
    assert streams(intact(evidence)) == [None]


def test_a_handler_that_is_attached_twice_tells_a_stream_once(handler: Handler, evidence: Path) -> None:
    for way in STREAMED.values():
        way(
            fake(AIMessage("so it is")),
            {"callbacks": [handler, handler, Handler(evidence, recorder=handler.recorder)]},
        )
    handler.close()
    for found in streams(intact(evidence)):
        assert found is not None
        assert (found["frames"]["count"], found["content"]) == (5, {"0:text": sha256("so it is")})


def test_in_a_graph_that_is_listened_to(handler: Handler, evidence: Path) -> None:
    model = Scripted(script=[ai("one two three")])
    app = (
        StateGraph(MessagesState)
        .add_node("n", lambda state: {"messages": [model.invoke("x")]})
        .add_edge(START, "n")
        .compile()
    )
    config = {"callbacks": [handler]}
    app.invoke(ASKED, config)
    list(app.stream(ASKED, config, stream_mode="messages"))
    asyncio.run(through(app.astream_events(ASKED, config, version="v2")))
    handler.close()
    reader = intact(evidence)
    first, *others = streams(reader)
    assert first is None
    for found in others:
        assert found is not None
        assert found["content"] == {"0:text": sha256("one two three")}
    assert len({run.content_root for run in reader.runs() if run.root is not None}) == 1


class Told(GenericFakeChatModel):
    """Gives the chunks it was made with, and fails at the end where it is told to."""

    chunks: list[Any]
    fails: Any = None

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Iterator[Any]:
        for chunk in self.chunks:
            yield chunk if isinstance(chunk, ChatGenerationChunk) else ChatGenerationChunk(message=chunk)
        if self.fails is not None:
            raise self.fails


def chunk(content: Any = "", **more: Any) -> AIMessageChunk:
    return AIMessageChunk(content=content, **more)


def test_every_kind_of_piece_has_its_channel(handler: Handler, evidence: Path) -> None:
    pieces = [
        chunk([{"type": "reasoning", "reasoning": "hm", "index": 0}]),
        chunk([{"type": "thinking", "thinking": ", well", "index": 0}]),
        chunk(additional_kwargs={"reasoning_content": "."}),
        chunk([{"type": "text", "text": "No", "index": 1}, "!"]),
        chunk(additional_kwargs={"refusal": "I will not"}),
        chunk([{"type": "refusal", "refusal": " do it"}]),
        chunk([{"type": "audio", "data": "UklGRg=="}]),
        chunk([{"type": "image", "base64": "iVBO"}]),
        chunk(tool_call_chunks=[{"name": "f", "args": "", "id": None, "index": 3}]),
        chunk(tool_call_chunks=[{"name": None, "args": "{}", "id": None, "index": 3}]),
        chunk([{"type": "tool_call_chunk", "args": "told beside it"}]),
    ]
    list(Told(messages=iter([]), chunks=pieces).stream("x", {"callbacks": [handler]}))
    handler.close()
    assert stated(intact(evidence))["content"] == {
        name: sha256(text)
        for name, text in {
            "0:reasoning": "hm, well.",
            "0:text": "No!",
            "0:refusal": "I will not do it",
            "0:audio": "UklGRg==",
            "0:data": "iVBO",
            "0:tool_name:(3)": "f",
            "0:tool_args:(3)": "{}",
        }.items()
    }


@pytest.mark.parametrize(
    ("finished", "end"),
    [
        ("stop", "stop"),
        ("max_tokens", "length"),
        ("SAFETY", "content_filter"),
        ("tool_use", "tool_calls"),
        ("odd", "stop"),
    ],
)
def test_why_a_provider_ended(finished: str, end: str, handler: Handler, evidence: Path) -> None:
    pieces = [
        chunk("a"),
        ChatGenerationChunk(message=chunk("b"), generation_info={"finish_reason": finished}),
    ]
    list(Told(messages=iter([]), chunks=pieces).stream("x", {"callbacks": [handler]}))
    handler.close()
    assert stated(intact(evidence))["end"] == end


def test_the_probabilities_of_tokens(handler: Handler, evidence: Path) -> None:
    tops = [
        {"token": "It", "logprob": -0.25, "bytes": [73, 116]},
        {"token": "Er", "logprob": -2, "bytes": None},
    ]
    info = {"logprobs": {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}}
    pieces = [ChatGenerationChunk(message=chunk("It"), generation_info=info), chunk(" is")]
    model = Told(messages=iter([]), chunks=pieces)
    list(model.stream("x", {"callbacks": [handler]}))
    told(lambda: list(model.stream_events("x", {"callbacks": [handler]}, version="v3")))
    handler.close()
    first, _ = streams(intact(evidence))
    assert first is not None
    assert first["sampling"]["count"] == 1


def test_a_stream_that_is_closed_dropped_cancelled_or_fails(handler: Handler, evidence: Path) -> None:
    config = {"callbacks": [handler]}
    closed = Scripted(script=[ai("one two three")]).stream("x", config)
    next(closed)
    closed.close()
    dropped = Scripted(script=[ai("one two three")]).stream("x", config)
    next(dropped)
    del dropped
    gc.collect()

    async def leave() -> None:
        left = Scripted(script=[ai("one two three")]).astream("x", config)
        await anext(left)
        await left.aclose()

    asyncio.run(leave())

    async def cancel() -> None:
        here = asyncio.Event()

        async def work() -> None:
            async for _ in Slow(messages=iter([])).astream("x", config):
                here.set()

        task = asyncio.create_task(work())
        await here.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    with pytest.raises(ConnectionError):
        list(
            Told(messages=iter([]), chunks=[chunk("one ")], fails=ConnectionError("lost")).stream("x", config)
        )
    handler.close()
    found = streams(intact(evidence))
    assert [one and one["end"] for one in found] == [
        "abandoned",
        "abandoned",
        "abandoned",
        "cancelled",
        "error",
    ]
    for one in found:
        assert one is not None
        assert (one["content"], one["frames"]["count"]) == ({"0:text": sha256("one ")}, 1)


class Slow(GenericFakeChatModel):
    """Says one piece and then nothing."""

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[Any]:
        yield ChatGenerationChunk(message=chunk("one "))
        await asyncio.sleep(30)


def test_a_cancelled_call_that_nobody_ends(handler: Handler, evidence: Path) -> None:
    """A cancelled ``ainvoke`` has no end event: the end of its run, or of the recording, ends its stream."""

    class Listens(BaseCallbackHandler):
        def __init__(self) -> None:
            self.heard = asyncio.Event()

        def on_llm_new_token(self, token: Any, **more: Any) -> None:
            self.heard.set()

    async def cancel(make: Callable[[Any], Any]) -> None:
        listens = Listens()
        task = asyncio.create_task(make({"callbacks": [handler, listens]}))
        await listens.heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    model = Slow(messages=iter([]))

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke("x")]}

    app = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()
    asyncio.run(cancel(lambda config: through(app.astream(ASKED, config, stream_mode="messages"))))
    asyncio.run(cancel(lambda config: model.ainvoke("x", config, stream=True)))
    handler.close()
    assert [one and one["end"] for one in streams(intact(evidence))] == ["cancelled", "abandoned"]


class Text(LLM):
    """A model of texts that says one letter after the other."""

    @property
    def _llm_type(self) -> str:
        return "text"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **more: Any) -> str:
        return "abc"

    def _stream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Iterator[GenerationChunk]:
        for letter in "abc":
            found = GenerationChunk(text=letter)
            if run_manager is not None:
                run_manager.on_llm_new_token(letter, chunk=found)
            yield found


def test_text_models(handler: Handler, evidence: Path) -> None:
    model = Text()
    assert "".join(model.stream("x", {"callbacks": [handler]})) == "abc"
    asyncio.run(through(model.astream("x", {"callbacks": [handler]})))
    handler.close()
    found = streams(intact(evidence))
    assert [one and one["content"] for one in found] == [{"0:text": sha256("abc")}] * 2


def test_events_and_chunks_nobody_can_read(handler: Handler, evidence: Path) -> None:
    """Nothing is raised, and what can be read is told."""
    model = Scripted(script=[ai("x")])
    seen: list[Any] = []

    class Sends(BaseCallbackHandler):
        run_inline = True

        def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **more: Any) -> None:
            seen.append(run_id)
            odd: list[Any] = [
                None,
                "x",
                {},
                {"event": "content-block-delta"},
                {"event": "content-block-start"},
            ]
            odd += [{"event": "content-block-delta", "delta": {"type": "text-delta", "text": 5}, "index": []}]
            odd += [
                {
                    "event": "content-block-delta",
                    "delta": {"type": "tool-call-delta", "args": "{"},
                    "index": [],
                }
            ]
            odd += [{"event": "message-finish", "additional_kwargs": [1]}]
            for one in odd:
                handler.on_stream_event(one, run_id=run_id)
            for token in (None, 5, ["x", 7, {"type": "text"}, {"type": []}], b"x"):
                handler.on_llm_new_token(token, run_id=run_id, logprobs={"content": [1], "tokens": "x"})

    model.invoke("x", {"callbacks": [handler, Sends()]})
    handler.close()
    (found,) = streams(counterfoil.read(evidence))
    assert found is not None
    assert seen
    assert counterfoil.verify(evidence).verdict == "intact"
