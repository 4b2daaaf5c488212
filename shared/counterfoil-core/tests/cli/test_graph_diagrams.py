"""``counterfoil graph --mermaid`` and ``--dot``: the same activations and ways as the drawing and the JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import counterfoil


def names(text: str) -> dict[str, str]:
    """Identifier and agent of every node."""
    return dict(re.findall(r'^  "?(n[0-9a-f]{16})"?(?: \[label=|\(?\[)"([A-Za-z0-9]+)', text, re.MULTILINE))


def ways(text: str) -> list[tuple[str, str]]:
    """Who leads to whom, by identifier."""
    return re.findall(r'^"?(n[0-9a-f]{16})"? .*? "?(n[0-9a-f]{16})"?(?: \[.*)?;?$', text, re.MULTILINE)


@pytest.mark.parametrize("form", ["--mermaid", "--dot"])
def test_one_run(cli: Any, desk: Any, form: str) -> None:
    done = cli("graph", desk.evidence, "--run", "last", form)
    assert (done.returncode, done.stderr) == (0, "")
    agents = names(done.stdout)
    assert list(agents.values()) == ["planner", "writer", "reviewer"]
    led = [(agents[a], agents[b]) for a, b in ways(done.stdout)]
    assert led == [("planner", "writer"), ("writer", "reviewer"), ("reviewer", "writer")]
    assert done.stdout.count("subgraph") == 1
    assert "via clear" in done.stdout


@pytest.mark.parametrize("form", ["--mermaid", "--dot"])
def test_hops_are_drawn_when_asked_for(cli: Any, desk: Any, form: str) -> None:
    done = cli("graph", desk.evidence, "--run", "last", form, "--hops")
    assert list(names(done.stdout).values()) == ["planner", "clear", "writer", "reviewer"]
    assert len(ways(done.stdout)) == 4


def test_runs_are_groups_and_both_forms_name_the_same_nodes(cli: Any, desk: Any) -> None:
    left, right = (cli("graph", desk.evidence, form).stdout for form in ("--mermaid", "--dot"))
    assert left.count("subgraph") == right.count("subgraph") == 2
    assert list(names(left)) == list(names(right))
    assert len(set(names(left))) == 6


def test_an_identifier_is_what_show_takes_and_stays(cli: Any, desk: Any) -> None:
    alone = names(cli("graph", desk.evidence, "--mermaid", "--run", "1").stdout)
    assert set(alone) < set(names(cli("graph", desk.evidence, "--mermaid").stdout))
    for name, agent in alone.items():
        assert cli.json("show", name[1:], "-e", desk.evidence)["content"]["actor"] == agent


def test_one_agent_with_those_it_dealt_with(cli: Any, desk: Any) -> None:
    done = cli("graph", desk.evidence, "--run", "last", "--mermaid", "--actor", "reviewer")
    assert list(names(done.stdout).values()) == ["writer", "reviewer"]
    assert cli("graph", desk.evidence, "--dot", "--actor", "nobody").returncode == 2


@pytest.mark.parametrize("words", [("--json", "--dot"), ("--mermaid", "--dot"), ("--mermaid", "--json")])
def test_one_form_at_a_time(cli: Any, desk: Any, words: tuple[str, str]) -> None:
    done = cli("graph", desk.evidence, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error CF-CLI-110 ")
    assert all(word in done.stderr for word in words)


def test_data_that_a_call_was_given_is_a_way(cli: Any, tmp_path: Path, home: Any) -> None:
    name = 'b"] --> x\n%%{init}'
    with home(tmp_path / "home"):
        recorder = counterfoil.Recorder(tmp_path / "evidence")
        root = recorder.start("invoke_workflow", "w", actor=("w",), request=recorder.value(1))
        first = recorder.start("invoke_agent", "a", actor=("a",), parent=root, key="1")
        recorder.end(first, response=recorder.value("found"))
        second = recorder.start("invoke_agent", name, actor=(name,), parent=root, key="2")
        chat = recorder.start("chat", "m", actor=(name,), parent=second, parents=[("data", first)])
        recorder.end(chat)
        recorder.end(second)
        lost = recorder.handoff(
            senders=[("a",)], to=("nobody",), signer=("a",), kind="command", basis="sealed",
            payload=recorder.value({"x": 1}), parents=[("control", first)], run=root.run,
        )  # fmt: skip
        assert lost is not None
        recorder.end(root)
        recorder.close()
    mermaid = cli("graph", tmp_path / "evidence", "--mermaid").stdout
    assert re.search(r'^n\w+ --o\|"data"\| n\w+$', mermaid, re.MULTILINE)
    assert re.search(r'^n\w+ --x\|"control"\| n\w+$', mermaid, re.MULTILINE)
    assert f"n{lost[:16]}" in mermaid
    assert "init" not in re.sub(r'"[^"]*"', "", mermaid)
    drawn = cli("graph", tmp_path / "evidence", "--dot").stdout
    assert "style=dotted" in drawn
    assert "arrowhead=tee" in drawn
    assert json.loads(cli("graph", tmp_path / "evidence", "--json").stdout)["nodes"]
