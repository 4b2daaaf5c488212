"""The demo's application, unchanged, under ``counterfoil run``: everything its docstring says it does, proven."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import openai_body
import pytest
from graphkit import intact

from counterfoil.reader import Reader
from counterfoil_langchain.demo import script
from counterfoil_langchain.demo.endpoint import Endpoint

CALLS = {"coordinator": 4, "triage": 2, "database": 3, "inspector": 3, "writer": 2, "reviewer": 1}
ACTIVATIONS = {"coordinator": 4, "triage": 1, "database": 1, "inspector": 3, "writer": 1, "reviewer": 1}
TOOLS = {"lookup_service": 1, "transfer_to_database": 1, "query_metrics": 3, "ask_reviewer": 1}
HANDOFFS = [
    ("coordinator", "triage", "command", "sealed"),
    ("triage", "database", "command", "sealed"),
    ("database", "coordinator", "edge", "observed"),
    *[("coordinator", "inspector", "send", "sealed")] * 3,
    ("inspector", "coordinator", "edge", "observed"),
    ("coordinator", "writer", "command", "sealed"),
    ("writer", "reviewer", "call", "sealed"),
    ("reviewer", "writer", "return", "sealed"),
    ("writer", "coordinator", "edge", "observed"),
]
APP = ("-W", "error", "-m", "counterfoil_langchain.demo.app")


def run(command: list[str], served: Endpoint, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **served.environment(), **more}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, cwd=folder, check=False
    )


def checked(evidence: Path, served: Endpoint) -> Reader:
    """The reader, after everything the docstring of the application promises was found in the evidence."""
    reader = intact(evidence)
    calls = reader.calls()
    chats = [call for call in calls if call.op == "chat"]
    assert Counter(call.actor for call in chats) == CALLS
    assert all(call.status == "ok" for call in chats)
    requests = [openai_body.recorded_request(reader.value(call.request)) for call in chats]
    wire = [openai_body.wire_request(body) for body in served.wire]
    assert openai_body.unmatched(requests, wire, "requests") == []
    replies = [openai_body.recorded_reply(reader.value(call.response)) for call in chats]
    assert openai_body.unmatched(replies, list(map(openai_body.wire_reply, served.replies)), "replies") == []
    tools = [call for call in calls if call.op == "execute_tool"]
    assert Counter(call.name for call in tools) == TOOLS
    assert Counter((call.name, call.status) for call in tools if call.status != "ok") == {
        ("query_metrics", "error"): 2
    }
    activations = [call for call in calls if call.op in ("invoke_agent", "step")]
    assert Counter(call.actor for call in activations) == ACTIVATIONS
    found = reader.handoffs()
    rows = [(one["from"], one["to"], one["kind"], one["basis"]) for one in found]
    assert rows == HANDOFFS
    assert all((one["exact"], one["proof"], one["status"]) == (True, "recorded", "accepted") for one in found)
    assert [len(one["parents"]) for one in found if one["from"] == "inspector"] == [3]
    graph = reader.graph().to_json()
    assert sum(edge["kind"] == "control" for edge in graph["edges"]) == 11
    return reader


def test_under_counterfoil_run(tmp_path: Path, evidence: Path) -> None:
    program = Path(sys.executable).with_name("counterfoil")
    assert program.exists() or shutil.which("counterfoil"), "the command line is not installed"
    with Endpoint(script.answer) as served:
        plain = run([sys.executable, *APP], served, tmp_path)
        sent = len(served.wire)
    with Endpoint(script.answer) as served:
        command = [str(program), "run", "-e", str(evidence), "--", sys.executable, *APP]
        done = run(command, served, tmp_path)
        assert (done.returncode, done.stdout) == (0, plain.stdout)
        assert "intact" in done.stderr
        assert len(served.wire) == sent
        reader = checked(evidence, served)
    listed = run([str(program), "handoffs", str(evidence), "--json"], served, tmp_path)
    assert json.loads(listed.stdout) == reader.handoffs()


@pytest.mark.parametrize("durability", ["group", "call"])
def test_by_the_environment_variable_alone(durability: str, tmp_path: Path, evidence: Path) -> None:
    with Endpoint(script.answer) as served:
        more: dict[str, Any] = {"COUNTERFOIL": str(evidence), "COUNTERFOIL_DURABILITY": durability}
        done = run([sys.executable, *APP], served, tmp_path, **more)
        assert (done.returncode, done.stderr) == (0, "")
        reader = checked(evidence, served)
    (first,) = reader.runs()
    with Endpoint(script.answer) as served:
        run([sys.executable, *APP], served, tmp_path, **more)
    _, second = intact(evidence).runs()
    assert first.content_root == second.content_root
