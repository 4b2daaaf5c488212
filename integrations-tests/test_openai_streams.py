"""The real OpenAI client on a real event stream: what was said has one digest in every way, to the last piece."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from graphkit import intact
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

import counterfoil
from counterfoil.frames import sample
from counterfoil.stream_reading import frames_of
from counterfoil_langchain.demo import endpoint
from counterfoil_langchain.demo.endpoint import Endpoint, Json, Reply

TEXT = "The bridge at Köln was opened in 1911, and it is 409 metres long. ☃" * 3
TALK = [HumanMessage("How long?")]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(Endpoint(answers))
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


def answers(request: Json) -> Reply:
    if request.get("tools"):
        return Reply("Let me see.", (("add", {"a": 1, "text": "ü" * 40}), ("add", {"a": 2, "text": ""})))
    return Reply(TEXT)


async def through(source: Any) -> None:
    async for _ in source:
        pass


async def protocol(model: Any) -> None:
    async for _ in await model.astream_events(TALK, version="v3"):
        pass


WAYS: dict[str, Callable[[Any], Any]] = {
    "stream": lambda model: list(model.stream(TALK)),
    "protocol": lambda model: list(model.stream_events(TALK, version="v3")),
    "astream": lambda model: through(model.astream(TALK)),
    "events": lambda model: through(model.astream_events(TALK, version="v2")),
    "aprotocol": protocol,
}
_NUMBERS = itertools.count(100)


def made(served: Endpoint, **more: Any) -> ChatOpenAI:
    """A model with a client of its own: LangChain shares one among models of one address and timeout."""
    return ChatOpenAI(model="gpt-4.1-mini", base_url=served.base_url, timeout=next(_NUMBERS), **more)


async def later(model: ChatOpenAI, work: list[Any]) -> None:
    """Coroutines in one loop that closes the client's sockets at its end."""
    for one in work:
        await one
    await model.root_async_client.close()


def recorded(evidence: Path) -> list[tuple[Any, dict[str, Any]]]:
    counterfoil.uninstall()
    reader = intact(evidence)
    out = []
    for call in reader.calls():
        if call.op == "chat":
            assert call.end is not None
            pieces = list(frames_of(reader, call))
            out.append((pieces, call.end.body["context"]["stream"]))
    return out


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("tools", [False, True])
def test_what_was_said_has_one_digest_in_every_way(tools: bool, served: Endpoint, recording: Path) -> None:
    about = {
        "type": "function",
        "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*in beta.*")
        model = made(served, temperature=0, model_kwargs={"tools": [about]} if tools else {})
        work = [one for way in WAYS.values() if asyncio.iscoroutine(one := way(model))]
        asyncio.run(later(model, work))
    wire = served.replies[0]["choices"][0]["message"]
    said = {"0:text": sha256(wire["content"])}
    for call in wire.get("tool_calls", ()):
        said[f"0:tool_name:{call['id']}"] = sha256("add")
        said[f"0:tool_args:{call['id']}"] = sha256(call["function"]["arguments"])
    found = recorded(recording)
    assert len(found) == len(WAYS)
    for pieces, stated in found:
        assert stated["content"] == said
        assert stated["end"] == ("tool_calls" if tools else "stop")
        texts = [data.decode() for name, data, _ in pieces if name == "0:text"]
        size = endpoint.CHUNK_CHARACTERS
        assert texts == [wire["content"][at : at + size] for at in range(0, len(wire["content"]), size)]
        assert sum(after for _, _, after in pieces) > 0
    assert len({stated["frames"]["sha256"] for _, stated in found}) == 1


def test_the_probabilities_of_tokens(
    served: Endpoint, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = endpoint._chunks

    def chunks(body: Json, *, usage: bool) -> Iterator[Json]:
        for number, one in enumerate(plain(body, usage=usage)):
            for choice in one["choices"]:
                text = choice["delta"].get("content")
                if text:
                    top = {"token": text, "bytes": list(text.encode()), "logprob": -0.125 * number}
                    other = {"token": "?", "bytes": None, "logprob": -9.5}
                    choice["logprobs"] = {"content": [{**top, "top_logprobs": [top, other]}], "refusal": None}
            yield one

    monkeypatch.setattr(endpoint, "_chunks", chunks)
    model = made(served, logprobs=True, top_logprobs=2)
    list(model.stream(TALK))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*in beta.*")
        list(model.stream_events(TALK, version="v3"))
    size = endpoint.CHUNK_CHARACTERS
    rows = []
    for number, at in enumerate(range(0, len(TEXT), size), 1):
        token = (None, -0.125 * number, TEXT[at : at + size].encode())
        rows.append(sample(0, [token, token, (None, -9.5, b"?")]))
    sampling = {"count": len(rows), "sha256": hashlib.sha256(b"".join(rows)).hexdigest()}
    found = recorded(recording)
    assert [stated["sampling"] for _, stated in found] == [sampling] * 2
    assert [stated["content"] for _, stated in found] == [{"0:text": sha256(TEXT)}] * 2


def test_a_stream_that_nobody_reads_on(served: Endpoint, recording: Path) -> None:
    stream = made(served).stream(TALK)
    said = ""
    while not said:
        said = str(next(stream).content)
    stream.close()
    ((pieces, stated),) = recorded(recording)
    assert (stated["end"], stated["content"]) == ("abandoned", {"0:text": sha256(said)})
    assert [data.decode() for _, data, _ in pieces] == [said]
