"""``counterfoil graph`` and ``counterfoil handoffs``: the drawing, and the JSON behind it."""

from __future__ import annotations

import importlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import counterfoil
from counterfoil import statements
from counterfoil.cli import main, progress
from counterfoil.cli.lanes import ASCII, UNICODE, Glyphs, Row, draw
from counterfoil.cli.source import open_source
from counterfoil.graph import Graph

graph_command = importlib.import_module("counterfoil.cli.graph")

SMALL = [
    Row("planner", number=1, text="1 chat"),
    Row("writer", sources=("planner",), number=2, text="command <- 1"),
    Row("reviewer", sources=("writer",), number=3, text="call <- 2"),
    Row("writer", "touch", ("reviewer",), text="return <- 3"),
    Row("planner", sources=("writer",), number=4, text="edge <- 2"),
]
ASCII_DRAWING = """\
  planner
  |       writer
  |       |       reviewer
1 o       |       |       1 chat
2 +------>o       |       command <- 1
3 |       +------>o       call <- 2
  |       |<------+       return <- 3
4 o<------+               edge <- 2
"""
UNICODE_DRAWING = """\
  planner
  │       writer
  │       │       reviewer
1 ●       │       │       1 chat
2 ├──────▶●       │       command <- 1
3 │       ├──────▶●       call <- 2
  │       │◀──────╯       return <- 3
4 ●◀──────╯               edge <- 2
"""


@pytest.mark.parametrize(("glyphs", "drawing"), [(ASCII, ASCII_DRAWING), (UNICODE, UNICODE_DRAWING)])
def test_a_small_drawing(glyphs: Glyphs, drawing: str) -> None:
    assert "\n".join([*draw(SMALL, glyphs=glyphs), ""]) == drawing


def test_a_join_touches_each_of_its_sources_and_passes_the_others() -> None:
    rows = [Row(name, number=n) for n, name in enumerate("abcde", 1)]
    rows += [Row("c", sources=("a", "e"), number=6), Row("e", sources=("a", "b", "d"), number=7)]
    drawn = draw(rows, glyphs=ASCII)
    assert drawn[-2] == "6 +-------|------>o<------|-------+"
    assert drawn[-1] == "7 +-------+---------------+------>o"


def test_a_handoff_that_nobody_took_ends_in_a_cross() -> None:
    assert (
        draw([Row("a", number=1), Row("b", "lost", ("a",), text="send dropped")])[-1]
        == "  +------>x       send dropped"
    )


@pytest.mark.parametrize("agents", [1, 2, 12, 20, 24])
@pytest.mark.parametrize("width", [80, 100, 200])
def test_thirty_activations_of_many_agents_fit_the_width(agents: int, width: int) -> None:
    names = [f"agent with the number {n}" for n in range(agents)]
    rows = [
        Row(
            names[n % agents],
            sources=(names[(n - 1) % agents],) if n else (),
            number=n + 1,
            text="edge; 2 chat, 1 tool",
        )
        for n in range(30)
    ]
    drawn = draw(rows, width=width)
    assert max(map(len, drawn)) <= width
    assert len(drawn) == agents + 30
    marks = [line.index("o", 3) for line in drawn[agents:]]
    assert len(set(marks)) == agents
    assert marks[:agents] == sorted(marks[:agents])
    assert all("edge; 2 chat" in line for line in drawn[agents:])


def test_more_agents_than_lanes_are_a_list() -> None:
    rows = [Row(f"agent {n}", number=n, text="edge") for n in range(1, 61)]
    drawn = draw(rows, width=80)
    assert drawn[:2] == [" 1 agent 1  edge", " 2 agent 2  edge"]
    assert len(drawn) == 60


def test_nothing_to_draw() -> None:
    assert draw([]) == []


def test_the_graph_of_the_desk(process: Any, desk: Any) -> None:
    done = process("graph", desk.evidence, "--run", "last")
    assert (done.returncode, done.stderr) == (0, "")
    title, *drawing = done.stdout.splitlines()
    assert title.startswith(f"run 2 {desk.calls['desk'].run.id[:8]} desk ok ")
    assert drawing == [
        "  planner",
        "  │       writer",
        "  │       │       reviewer",
        "1 ●       │       │       1 chat, 1 tool",
        "2 ╰──────▶●       │       edge <- 1; 1 chat; via clear",
        "3         ├──────▶●       call <- 2; 1 chat",
        "          │◀──────╯       return <- 3",
    ]


def test_hops_are_drawn_when_asked_for(cli: Any, desk: Any) -> None:
    drawing = cli("graph", desk.evidence, "--hops", "--run", "1").stdout.splitlines()[1:]
    assert [line.strip("│ ") for line in drawing[:4]] == ["planner", "clear", "writer", "reviewer"]
    assert drawing[5].endswith("command <- 1")
    assert drawing[6].endswith("edge <- 2; 1 chat")


def test_each_run_has_its_drawing_and_choices_narrow_it(cli: Any, desk: Any) -> None:
    assert cli("graph", desk.evidence).stdout.count("desk ok") == 2
    lines = cli("graph", desk.evidence, "--run", "1", "--actor", "planner").stdout.splitlines()
    assert [line[0] for line in lines if line[:1].isdigit()] == ["1", "2"]
    lines = cli("graph", desk.evidence, "--run", "1", "--op", "execute_tool").stdout.splitlines()
    assert [line[0] for line in lines if line[:1].isdigit()] == ["1"]


def test_ascii_where_the_terminal_has_no_lines(process: Any, desk: Any) -> None:
    done = process("graph", desk.evidence, "--run", "1", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.stdout.isascii()
    assert "2 +------>o" in done.stdout


def test_graph_json(process: Any, desk: Any) -> None:
    found = process.json("graph", desk.evidence)
    assert found.keys() == {"nodes", "edges"}
    assert all(node.keys() == {"id", "actor", "op", "address", "run"} for node in found["nodes"])
    assert all(edge.keys() == {"from", "to", "kind", "exact", "derived"} for edge in found["edges"])
    assert found == counterfoil.read(desk.evidence).graph().to_json()
    calls = desk.calls
    edges = {(edge["from"], edge["to"], edge["kind"]) for edge in found["edges"]}
    assert {
        (calls["planner"].id, calls["clear"].id, "control"),
        (calls["clear"].id, calls["writer"].id, "control"),
        (calls["writer"].id, calls["reviewer"].id, "call"),
        (calls["reviewer"].id, calls["writer"].id, "return"),
    } <= edges
    assert {node["op"] for node in found["nodes"]} == {"invoke_workflow", "step", "chat", "execute_tool"}


def test_graph_json_of_a_choice_has_no_loose_ends(cli: Any, desk: Any) -> None:
    found = cli.json("graph", desk.evidence, "--run", "last", "--op", "step", "--actor", "writer")
    assert [node["id"] for node in found["nodes"]] == [desk.calls["writer"].id]
    assert found["edges"] == []


KEYS = {"digest", "from", "to", "kind", "basis", "proof", "status", "exact", "via", "parents", "payload"}


def test_handoffs_between_agents(process: Any, desk: Any) -> None:
    found = process.json("handoffs", desk.evidence, "--run", "last")
    assert all(one.keys() == KEYS for one in found)
    assert [(one["from"], one["to"], one["kind"], one["via"]) for one in found] == [
        ("planner", "writer", "edge", ["clear"]),
        ("writer", "reviewer", "call", []),
        ("reviewer", "writer", "return", []),
    ]
    assert {one["digest"] for one in found} <= set(desk.handoffs.values())
    assert {(one["proof"], one["exact"], one["status"]) for one in found} == {("recorded", True, "accepted")}


def test_all_hops(process: Any, desk: Any) -> None:
    found = process.json("handoffs", desk.evidence, "--hops", "--run", "last")
    assert [one["digest"] for one in found] == list(desk.handoffs.values())
    assert all(one["via"] == [] for one in found)
    assert len(process.json("handoffs", desk.evidence, "--hops")) == 8


def test_handoff_lines(process: Any, desk: Any) -> None:
    lines = process("handoffs", desk.evidence, "--run", "last").stdout.splitlines()
    digest = desk.handoffs["clear writer"][:8]
    assert lines[0] == f"{digest} planner -> writer   edge observed recorded accepted via clear"
    by_actor = process("handoffs", desk.evidence, "--run", "last", "--actor", "planner").stdout
    assert by_actor.split() == lines[0].split()
    by_kind = process("handoffs", desk.evidence, "--run", "last", "--op", "return").stdout
    assert by_kind.split() == lines[2].split()


def test_a_handoff_to_another_process_is_drawn_outside_every_run(cli: Any, home: Any, tmp_path: Path) -> None:
    with home(tmp_path / "home"):
        with counterfoil.open(tmp_path / "evidence", actor="planner") as sender:
            envelope = counterfoil.seal(sender, {"plan": "go"}, to="writer")
            counterfoil.seal(sender, {"plan": "never read"}, to="nobody")
            with counterfoil.open(tmp_path / "evidence", actor="writer") as receiver:
                counterfoil.accept(receiver, envelope, {"plan": "go"})
    lines = cli("graph", tmp_path / "evidence").stdout.splitlines()
    assert lines[0] == "outside every run"
    assert [line.split(";")[0].split()[-2:] for line in lines if "message" in line] == [
        ["message", "accepted"],
        ["message", "sealed"],
    ]
    found = cli.json("handoffs", tmp_path / "evidence")
    assert ("planner", "writer", "countersigned", "accepted") in [
        (one["from"], one["to"], one["proof"], one["status"]) for one in found
    ]


def test_runs_in_which_no_agent_acted_are_told_together(cli: Any, lab: Any) -> None:
    recorder = lab.recorder()
    for number in range(6):
        if number == 4:
            root = recorder.start("invoke_workflow", "team", actor=("team",))
            member = recorder.start("invoke_agent", "writer", actor=("team", "writer"), parent=root)
            recorder.end(member)
        else:
            root = recorder.start("invoke_workflow", f"plain {number}", actor=("plain",))
        recorder.end(root)
    recorder.close()
    lines = cli("graph", lab.evidence).stdout.splitlines()
    titles = [" ".join([*line.split()[:2], *line.split()[3:-3]]) for line in lines if line.startswith("run")]
    assert titles == ["run 1 plain 0", "run 4 plain 3", "run 5 team", "run 6 plain 5"]
    assert [line for line in lines if "run" not in line[:3]] == [
        "  ... 2 more runs",
        "  (no agent acted in any of them)",
        "",
        "  writer",
        "1 ●",
        "",
        "  (no agent acted)",
    ]


def test_every_call_and_statement_is_looked_at_for_its_own_run_alone(desk: Any, home: Any) -> None:
    with home(desk.home):
        source = open_source(str(desk.evidence))
        held = graph_command._Held.of(source, None)
        whole = list(source.statements())
        parts = list(held.parts(source, outside=True))
        assert sum(len(part.calls) for _, part in parts) == len(source.calls())
        assert len(parts) == 2
        for about, part in parts:
            assert about is not None
            alone = Graph(source.calls(), whole, blob=source.blob, run=about.id)
            assert part.handoffs(hops=True) == alone.handoffs(hops=True)
            assert part.to_json() == alone.to_json()


def test_a_receipt_tells_of_its_handoff_in_whatever_run_it_was_made() -> None:
    handoff, receipt = (SimpleNamespace(digest=name) for name in ("one", "two"))
    handoff.predicate = statements.Handoff.model_construct(run="first")
    receipt.predicate = statements.Receipt.model_construct(run="second", handoff="one")
    other = SimpleNamespace(digest="three")
    other.predicate = statements.Receipt.model_construct(run="first", handoff="elsewhere")
    copy = SimpleNamespace(digest="one", predicate=handoff.predicate)  # in another log, where it is of no run
    listed: Any = [(None, one) for one in (receipt, handoff, other, copy)]
    runs = ("second", "first", "first", None)
    found = graph_command._Held([], [], list(zip(runs, listed, strict=True)))._by_run()
    assert found == {"first": [listed[0], listed[1], listed[3]], None: [listed[2]]}


@pytest.mark.parametrize("more", [[], ["--json"], ["--run", "last"]])
def test_progress_is_shown_while_the_evidence_is_read(
    desk: Any, home: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    shown: list[tuple[int, int]] = []
    done = progress.Reading.done

    def watched(store: progress.Reading) -> None:
        shown.append((store._read, store._total))
        assert not capsys.readouterr().out  # nothing is printed into the bar
        done(store)

    monkeypatch.setattr(progress.Reading, "done", watched)
    with home(desk.home):
        assert main(["graph", str(desk.evidence), *more]) == 0
    assert "reading" in stream.getvalue()
    ((read, total),) = shown
    size = sum(path.stat().st_size for path in desk.evidence.rglob("*.seg"))
    assert total == size * {(): 3, ("--json",): 2}.get(tuple(more), 4)
    assert read >= total
