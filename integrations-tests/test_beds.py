"""The test beds' own tools: what judges a recording has to notice when something is wrong."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import types
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

BEDS = Path(__file__).resolve().parent / "beds"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BEDS / "tradingagents")
    monkeypatch.syspath_prepend(BEDS / "common")


def test_the_expected_graph_is_what_its_builder_builds() -> None:
    import expected

    assert json.loads((BEDS / "tradingagents" / "expected_graph.json").read_text()) == expected.build(1)
    assert [expected.build(rounds)["counts"]["data_edges"] for rounds in (3, 5)] == [138, 293]


BODY: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "What is 2 + 2?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a": 2.0, "b": 2}'},
                }
            ],
        },
        {"role": "tool", "content": "4", "tool_call_id": "call_1"},
    ],
    "tools": [{"type": "function", "function": {"name": "add", "parameters": {"$defs": {"n": {}}}}}],
    "temperature": 0.0,
    "stream": False,
}
RECORDED: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"$msg": {"type": "system", "content": [{"type": "text", "text": "Be short."}]}},
        {"$msg": {"type": "human", "content": [{"type": "text", "text": "What is 2 + 2?"}]}},
        {
            "$msg": {
                "type": "ai",
                "content": [],
                "tool_calls": [{"name": "add", "args": {"a": 2, "b": 2}, "id": "call_1"}],
            }
        },
        {
            "$msg": {
                "type": "tool",
                "content": [{"type": "text", "text": "4"}],
                "name": "add",
                "status": "success",
                "tool_call_id": "call_1",
            }
        },
    ],
    "tools": [
        {"type": "function", "function": {"name": "add", "parameters": {"$map": [["$defs", {"n": {}}]]}}}
    ],
    "params": {"_type": "openai-chat", "model": "m", "model_name": "m", "stop": None, "temperature": 0},
}


def compare(recorded: dict[str, Any]) -> list[str]:
    import openai_body

    return openai_body.unmatched(
        [openai_body.recorded_request(recorded)], [openai_body.wire_request(BODY)], "requests"
    )


def test_a_recorded_request_equals_the_body_it_became() -> None:
    assert compare(RECORDED) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("model",), "n"),
        (("params", "temperature"), 0.1),
        (("params", "seed"), 1),
        (("params", "stream"), True),
        (("tools", 0, "function", "name"), "sub"),
        (("messages", 1, "$msg", "content", 0, "text"), "What is 2 + 3?"),
        (("messages", 0, "$msg", "type"), "human"),
        (("messages", 2, "$msg", "tool_calls", 0, "args", "a"), True),
        (("messages", 3, "$msg", "tool_call_id"), "call_2"),
    ],
)
def test_any_difference_between_record_and_wire_is_told(path: tuple[Any, ...], value: object) -> None:
    changed = copy.deepcopy(RECORDED)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert len(compare(changed)) == 1


def test_missing_and_superfluous_calls_are_told() -> None:
    import openai_body

    assert openai_body.unmatched([1], [1, 1], "calls") == [
        "calls: 1 recorded, 2 expected",
        "calls: not recorded as it was: .: recorded null, on the wire 1",
    ]
    assert openai_body.unmatched([1, 2], [2], "calls") == ["calls: 2 recorded, 1 expected"]


def test_the_frozen_clock_stands_still_in_one_package_only(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    import clock

    modules = {name: types.ModuleType(name) for name in ("app", "app.tools", "apparatus")}
    for name, module in modules.items():
        module.__dict__.update(datetime=datetime, date=date, time=time)
        monkeypatch.setitem(sys.modules, name, module)
    at = datetime(2026, 5, 15, 23, 30, tzinfo=timezone(timedelta(hours=2)))
    replaced = clock.freeze("app", at)
    assert replaced == [
        f"{name}.{what}" for name in ("app", "app.tools") for what in ("datetime", "date", "time")
    ]
    tools: Any = modules["app.tools"]
    assert tools.datetime.now() == datetime(2026, 5, 15, 21, 30)
    assert tools.datetime.now(UTC) == at
    assert tools.date.today() == date(2026, 5, 15)
    assert tools.time.time() == at.timestamp()
    assert tools.time.strftime("%H:%M") == "21:30"
    assert isinstance(tools.datetime(2026, 1, 1), datetime)
    assert isinstance(datetime(2026, 1, 1), tools.datetime)
    assert tools.datetime.fromisoformat("2026-01-01") == datetime(2026, 1, 1)
    assert tools.time.sleep is time.sleep
    assert modules["apparatus"].datetime is datetime


def test_the_network_guard_lets_loopback_pass_and_nothing_else() -> None:
    program = """
import socket, netguard
netguard.install()
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
for host in ("192.0.2.1", "example.org"):
    try:
        socket.create_connection((host, 80), timeout=1)
    except OSError as error:
        print(error)
print(netguard.attempts)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=BEDS / "common", capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "netguard: 192.0.2.1 is not loopback",
        "netguard: example.org is not loopback",
        "['192.0.2.1', 'example.org']",
    ]
