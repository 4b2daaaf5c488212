"""The real OpenAI client on a real socket: what is recorded is what went over the wire, and no key is in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai_body
import pytest
from graphkit import intact
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import counterfoil
from counterfoil.reader import Reader
from counterfoil_langchain.demo.endpoint import Endpoint, Json, Reply

KEY = "sk-planted-4711"


def answers(request: Json) -> Reply:
    """Tools once, then a text that depends on the request."""
    last = request["messages"][-1]
    if request.get("tools") and last["role"] == "user":
        names = [one["function"]["name"] for one in request["tools"]]
        if names == ["Weather"]:
            return Reply(tool_calls=(("Weather", {"place": "Köln", "degrees": 21.5}),))
        return Reply("Let me see.", (("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})))
    return Reply(f"That is all I know about {str(last['content'])[:40]}, and it is enough to answer: 7. ☃")


_ADDRESSES: set[str] = set()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    # LangChain shares a client among models of one address, also one that an earlier test closed.
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(Endpoint(answers))
        while running.base_url in _ADDRESSES:
            running = stack.enter_context(Endpoint(answers))
        _ADDRESSES.add(running.base_url)
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


def recorded(evidence: Path, served: Endpoint, *, streamed: bool = False) -> Reader:
    """The reader, after every chat record was compared with the bodies that went over the wire.

    Whether ``stream`` was called is no part of a request: LangChain does not tell it before the call, and the
    answer's number of chunks tells it afterwards.
    """
    counterfoil.uninstall()
    reader = intact(evidence)
    chats = [call for call in reader.calls() if call.op == "chat"]
    requests = [openai_body.recorded_request(reader.value(call.request)) for call in chats]
    wire = [openai_body.wire_request(body) for body in served.wire]
    for one in wire if streamed else ():
        assert one.pop("stream") is True
    for one in requests if streamed else ():
        del one["stream"]
    assert openai_body.unmatched(requests, wire, "requests") == []
    replies = [openai_body.recorded_reply(reader.value(call.response)) for call in chats]
    assert openai_body.unmatched(replies, list(map(openai_body.wire_reply, served.replies)), "replies") == []
    for entry in reader.entries():
        assert KEY.encode() not in entry.body_bytes
    for sha256, _ in reader.blobs():
        assert KEY.encode() not in reader.blob(sha256)
    return reader


async def through(source: Any) -> None:
    async for _ in source:
        pass


TALK = [
    SystemMessage("Be brief."),
    HumanMessage("What is 3 + 4?"),
    AIMessage("", tool_calls=[{"name": "add", "args": {"a": 3, "b": 4}, "id": "c1"}]),
    ToolMessage("7", tool_call_id="c1", name="add"),
    HumanMessage([{"type": "text", "text": "Is it?"}, {"type": "text", "text": "Sure?"}]),
]
WAYS: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda model: model.invoke(TALK),
    "stream": lambda model: list(model.stream(TALK)),
    "batch": lambda model: model.batch([TALK, TALK]),
    "ainvoke": lambda model: model.ainvoke(TALK),
    "astream": lambda model: through(model.astream(TALK)),
    "events": lambda model: through(model.astream_events(TALK, version="v2")),
}


def call(model: ChatOpenAI, *ways: str) -> None:
    """Call the model in these ways; the coroutines in one loop that closes the client's sockets at its end."""
    later = [way for way in ways if asyncio.iscoroutine(made := WAYS[way](model)) and [made.close()]]

    async def all_of_them() -> None:
        for way in later:
            await WAYS[way](model)
        await model.root_async_client.close()

    if later:
        asyncio.run(all_of_them())


@pytest.mark.parametrize("way", WAYS)
def test_messages_and_parameters_are_those_of_the_wire(way: str, served: Endpoint, recording: Path) -> None:
    model = ChatOpenAI(
        model="gpt-4.1-mini",
        base_url=served.base_url,  # LangChain shares a client among models of one address, and it is closed here
        temperature=0.25,
        top_p=0.5,
        seed=7,
        max_completion_tokens=99,
        stop_sequences=["END"],
        frequency_penalty=0.5,
        stream_usage=True,
        default_headers={"Authorization": f"Bearer {KEY}", "X-Api-Key": KEY},
    )
    call(model, way)
    streamed = way in ("stream", "astream", "events")
    reader = recorded(recording, served, streamed=streamed)
    chat = next(one for one in reader.calls() if one.op == "chat")
    assert chat.end is not None
    about = chat.end.body["context"]
    assert ("chunks" in about) == streamed
    assert about["provider"]["model"] == "gpt-4.1-mini-scripted"
    assert about["provider"]["fingerprint"] == "fp_scripted"
    assert about["provider"]["finish_reason"] == "stop"
    assert about["usage"]["input_tokens"] > 0


def test_a_reply_has_one_digest_in_every_way(served: Endpoint, recording: Path) -> None:
    call(ChatOpenAI(model="gpt-4.1-mini", base_url=served.base_url, temperature=0), *WAYS)
    counterfoil.uninstall()
    chats = [call for call in intact(recording).calls() if call.op == "chat"]
    assert len(chats) == len(WAYS) + 1
    assert len({call.response for call in chats}) == 1
    reader = counterfoil.read(recording)
    histories = [reader.value(call.request)["messages"] for call in chats]
    assert all(history == histories[0] for history in histories)


class Weather(BaseModel):
    """The weather somewhere."""

    place: str
    degrees: float


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_with_tools_and_structured_output(
    streaming: bool, served: Endpoint, recording: Path
) -> None:
    model = ChatOpenAI(model="gpt-4.1-mini", streaming=streaming)
    agent = create_agent(model, [add], system_prompt="Add.", name="adder")
    agent.invoke({"messages": [HumanMessage("1 + 2 and 3 + 4?")]})
    form = model.with_structured_output(Weather, method="function_calling")
    assert form.invoke("Köln?") == Weather(place="Köln", degrees=21.5)
    reader = recorded(recording, served)
    results = [reader.value(call.response)["$msg"] for call in reader.calls() if call.op == "execute_tool"]
    assert sorted(one["content"][0]["text"] for one in results) == ["3", "7"]


def test_a_request_that_the_provider_refuses(served: Endpoint, recording: Path) -> None:
    import openai

    served.close()
    with pytest.raises(openai.APIConnectionError):
        ChatOpenAI(model="gpt-4.1-mini", max_retries=0).invoke(TALK)
    counterfoil.uninstall()
    reader = intact(recording)
    (failed,) = reader.calls()
    assert failed.status == "error"
    assert reader.value(failed.error)["$exception"].endswith("ConnectionError")
    assert all(KEY.encode() not in reader.blob(sha256) for sha256, _ in reader.blobs())


APP = """
import sys
from concurrent.futures import ThreadPoolExecutor
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
model = ChatOpenAI(model="gpt-4.1-mini", temperature=0, max_retries=0)
def ask(n):
    model.invoke([HumanMessage(f"question {n} of {sys.argv[1]}: " + "x" * (n * 37 % 900))])
with ThreadPoolExecutor(4) as pool:
    print("ready", flush=True)
    for _ in pool.map(ask, range(100_000)):
        pass
"""


def killed(evidence: Path, tmp_path: Path, times: int) -> None:
    """Kill the application at odd moments; afterwards each request the provider got stands in the log."""
    (tmp_path / "app.py").write_text(APP)
    with Endpoint(answers) as served:
        environment = {
            **os.environ,
            **served.environment(),
            "COUNTERFOIL": str(evidence),
            "COUNTERFOIL_DURABILITY": "call",
        }
        for turn in range(times):
            process = subprocess.Popen(
                [sys.executable, str(tmp_path / "app.py"), str(turn)],
                env=environment,
                stdout=subprocess.PIPE,
                cwd=tmp_path,
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            before = len(served.wire)
            while len(served.wire) == before and process.poll() is None:
                time.sleep(0.001)
            time.sleep((turn * 7919 % 211) / 1000)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            process.stdout.close()
        time.sleep(0.2)
        wire = [openai_body.wire_request(body) for body in served.wire]
    assert len(wire) >= times
    found = counterfoil.verify(evidence)
    assert found.verdict in ("intact", "incomplete"), found.findings
    assert {finding.code for finding in found.findings} <= {
        "CF-VERIFY-020",
        "CF-VERIFY-024",
        "CF-VERIFY-025",
        "CF-VERIFY-027",
    }
    reader = counterfoil.read(evidence)
    starts = {
        openai_body.form(openai_body.recorded_request(reader.value(call.request)))
        for call in reader.calls()
        if call.op == "chat"
    }
    lost = [body["messages"] for body in wire if openai_body.form(body) not in starts]
    assert lost == []


def test_no_request_is_lost_when_the_application_is_killed(evidence: Path, tmp_path: Path) -> None:
    killed(evidence, tmp_path, 5)


@pytest.mark.slow
def test_no_request_is_lost_in_fifty_kills(evidence: Path, tmp_path: Path) -> None:
    killed(evidence, tmp_path, 50)
