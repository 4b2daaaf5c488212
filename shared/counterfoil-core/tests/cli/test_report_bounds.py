"""What does not fit on the page is told, what a policy says counts, and evidence of no run is told as well."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil.findings import Finding
from counterfoil.report import gathering, picture
from counterfoil.report.picture import Group
from counterfoil.report.tables import LANES, Room, moment

page = importlib.import_module("counterfoil.report.page")


def report(cli: Any, *words: object, code: int = 0, **more: str) -> str:
    done = cli("report", *words, "-o", "case.html", "--force", **more)
    assert done.returncode == code, done.stderr
    return str((cli.folder / "case.html").read_text(encoding="utf-8"))


def test_only_the_last_runs_are_shown(cli: Any, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "RUNS", 1)
    text = report(cli, desk.evidence)
    assert "1 earlier runs are listed, not shown: counterfoil report" in text
    assert "Run 2: <bdi>desk</bdi>" in text
    assert "Run 1: <bdi>desk</bdi>" not in text
    assert text.count("<td>invoke_workflow</td>") == 2
    whole = report(cli, desk.evidence, "--run", "1")
    assert "Run 1: <bdi>desk</bdi>" in whole
    assert "earlier runs" not in whole


def test_what_does_not_fit_is_counted(cli: Any, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "Room", functools.partial(Room, steps=15, calls=4, handoffs=5))
    text = report(cli, desk.evidence)
    assert text.count('<tr id="step-') == 15
    assert text.count('<section id="call-') == 4
    assert text.count('<tr id="handoff-') == 5
    assert "11 steps did not fit: counterfoil log " in text
    assert "3 handoffs did not fit: counterfoil handoffs --hops " in text
    assert "calls did not fit: counterfoil log " in text
    assert text.index("did not fit") < text.index('id="runs"')


def test_findings_are_listed_up_to_a_number(
    cli: Any, desk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    evidence = desk.copy(tmp_path / "evidence")
    for number in range(5):
        (evidence / f"foreign{number}").write_text("x", encoding="utf-8")
    monkeypatch.setattr(page, "FINDINGS", 2)
    text = report(cli, evidence, code=3)
    assert [one.count("CF-VERIFY") for one in text.split("<h3>")].count(2) == 1
    assert "3 more findings are not listed: counterfoil verify lists them" in text


def test_the_gravest_findings_come_first() -> None:
    found = [
        Finding(f"CF-X-{n}", "", "", "", v) for n, v in enumerate(("incomplete", "cannot-tell", "broken"))
    ]
    told = page._findings("Findings", found)
    assert told.index("CF-X-2") < told.index("CF-X-1") < told.index("CF-X-0")


def test_many_actors_have_no_lanes_but_names(cli: Any, home: Any, tmp_path: Path) -> None:
    with home(cli.home):
        recorder = counterfoil.Recorder(tmp_path / "evidence")
        root = recorder.start("invoke_workflow", "w", actor=("w",), request=recorder.value(1))
        for number in range(LANES):
            name = f"agent{number}"
            recorder.end(recorder.start("invoke_agent", name, actor=(name,), parent=root, key=name))
        recorder.end(root)
        recorder.close()
    text = report(cli, tmp_path / "evidence")
    assert 'class="lane"' not in text
    assert f"<td><bdi>agent{LANES - 1}</bdi></td>" in text


def test_evidence_without_a_run(cli: Any, home: Any, tmp_path: Path) -> None:
    with home(cli.home):
        with counterfoil.open(tmp_path / "evidence", actor="a") as log:
            counterfoil.seal(log, {"x": 1}, to="b")
    text = report(cli, tmp_path / "evidence")
    assert "No run is recorded here." in text
    assert "Outside every run" in text
    assert "<td><bdi>a</bdi></td><td><bdi>b</bdi></td><td>" in text


def test_a_policy_that_is_gone_by_is_named(cli: Any, desk: Any, newcomer: Any, tmp_path: Path) -> None:
    newcomer.home = tmp_path / "their home"
    assert newcomer("policy", "init").returncode == 0
    assert newcomer("policy", "sign", "policy.draft.json").returncode == 0
    policy = str(newcomer.folder / "policy.json")
    text = report(newcomer, desk.evidence, code=5, COUNTERFOIL_POLICY=policy)
    assert f"by the trust policy {policy}" in text
    assert "not pinned: anybody may have made it" in text


def test_two_digests_that_begin_alike_are_two_nodes(
    cli: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "_ID", 0)
    graph = counterfoil.read(desk.evidence).graph()
    drawn = picture.picture(graph, Group("g", "g"), hops=True)
    names = [node.id for node in drawn.nodes]
    assert len(names) == len(set(names)) == 8
    assert {len(one) for one in names} == {65}
    assert {end for one in drawn.links for end in (one.source, one.target)} <= set(names)


@pytest.mark.parametrize("at", [0, None, 1 << 53, 10**30])
def test_a_time_that_is_none(at: int | None) -> None:
    assert moment(at) == "" or moment(at).startswith("2255-")
