"""The demo: its scripted endpoint refuses what it must, and its application does what its docstring says."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from counterfoil_langchain.demo import endpoint, script
from counterfoil_langchain.demo.endpoint import Endpoint, Reply

CHAT = "/v1/chat/completions"
ROLES = {"coordinator": 4, "triage": 2, "database": 3, "inspector": 3, "writer": 2, "reviewer": 1}


def weather(request: dict[str, Any]) -> Reply:
    return Reply("It rains. " * 5, (("umbrella", {"open": True}),))


@pytest.fixture
def served() -> Iterator[Endpoint]:
    with Endpoint(weather) as running:
        yield running


def call(
    served: Endpoint, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection(served.base_url.split("/")[2], timeout=120)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()


def asking(**more: object) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "Weather?"}], **more}).encode()


def test_equal_requests_get_equal_answers_and_are_kept(served: Endpoint) -> None:
    first = call(served, "POST", CHAT, asking(seed=1))
    second = call(served, "POST", CHAT, asking(seed=1))
    other = call(served, "POST", CHAT, asking(seed=2))
    assert first[0] == 200
    assert first[2] == second[2] != other[2]
    assert served.wire == [json.loads(asking(seed=n)) for n in (1, 1, 2)]
    assert [json.loads(body) for _, _, body in (first, second, other)] == served.replies


def test_a_streamed_answer_adds_up_to_the_plain_one(served: Endpoint) -> None:
    options = {"include_usage": True}
    _, headers, body = call(served, "POST", CHAT, asking(stream=True, stream_options=options))
    assert headers["Content-Type"] == "text/event-stream"
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    reply = served.replies[0]
    message = reply["choices"][0]["message"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == message["content"]
    calls = [part for delta in deltas for part in delta.get("tool_calls", ())]
    assert calls[0]["id"] == message["tool_calls"][0]["id"]
    arguments = message["tool_calls"][0]["function"]["arguments"]
    assert "".join(part["function"]["arguments"] for part in calls) == arguments
    assert chunks[-1]["usage"] == reply["usage"]
    assert {chunk["id"] for chunk in chunks} == {reply["id"]}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b"[]", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"model": "m", "messages": []}', {}, 400),
        (b'{"model": "m", "messages": ["hello"]}', {}, 400),
        (b'{"messages": [{"role": "user"}]}', {}, 400),
        (b'{"model": "m", "messages": [{}], "temperature": NaN}', {}, 400),
        (b"{}", {"Content-Length": str(endpoint.MAX_BODY_BYTES + 1)}, 413),
        (b"{}", {"Content-Length": "9" * 5000}, 413),
        (b"{}", {"Content-Length": "-1"}, 411),
        (b"{}", {"Transfer-Encoding": "chunked"}, 411),
        (asking(), {"Host": "example.org:80"}, 404),
    ],
)
def test_a_bad_request_is_refused_and_not_kept(
    served: Endpoint, body: bytes, headers: dict[str, str], status: int
) -> None:
    got, _, answer = call(served, "POST", CHAT, body, **headers)
    assert got == status
    assert set(json.loads(answer)) == {"error"}
    assert served.wire == []


def test_other_routes_do_not_exist(served: Endpoint) -> None:
    assert call(served, "GET", "/v1/models")[0] == 200
    assert call(served, "GET", "/")[0] == 404
    assert call(served, "POST", "/v1/embeddings", asking())[0] == 404


def test_it_stops_answering_at_its_limit(served: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_CALLS", 1)
    assert call(served, "POST", CHAT, asking())[0] == 200
    assert call(served, "POST", CHAT, asking())[0] == 429


def test_a_gap_in_the_script_is_an_error() -> None:
    with Endpoint(script.answer) as served:
        status, _, answer = call(served, "POST", CHAT, asking())
    assert (status, json.loads(answer)["error"]["message"]) == (400, "script: no role for this system prompt")


def desk() -> tuple[str, list[dict[str, Any]]]:
    """Run the application as a user would; what it printed, and what it sent."""
    with Endpoint(script.answer) as served:
        command = [sys.executable, "-W", "error", "-m", "counterfoil_langchain.demo.app"]
        environment = {**os.environ, **served.environment()}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout, served.wire


def test_the_desk_makes_the_calls_its_docstring_lists_and_makes_them_again() -> None:
    printed, wire = desk()
    assert printed.startswith("# Incident report: slow checkout\n")
    systems = [str(request["messages"][0]["content"]) for request in wire]
    assert (
        Counter(next(role for role in ROLES if f"the {role}" in system[:30]) for system in systems) == ROLES
    )
    writers = [request for request in wire if "the writer" in request["messages"][0]["content"][:30]]
    assert all(request["stream"] for request in writers)
    assert all({"temperature", "seed", "max_completion_tokens"} <= request.keys() for request in wire)
    asked = [call["function"]["name"] for m in wire[-1]["messages"] for call in m.get("tool_calls", ())]
    assert Counter(asked) == {
        "lookup_service": 1,
        "transfer_to_database": 1,
        "query_metrics": 3,
        "ask_reviewer": 1,
    }
    _, again = desk()
    # The three inspectors work at once: only their order is open.
    assert Counter(map(json.dumps, wire)) == Counter(map(json.dumps, again))


def test_the_desk_says_what_it_needs() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    command = [sys.executable, "-m", "counterfoil_langchain.demo.app"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "set OPENAI_BASE_URL and OPENAI_API_KEY\n"
