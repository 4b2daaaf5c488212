"""``counterfoil environment``: here and now, or what a recorded run ran on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterfoil.recorder import Recorder


def test_here(cli: Any) -> None:
    done = cli("environment", SECRET_TOKEN="tell-nobody")
    assert done.returncode == 0
    assert "pytest" in done.stdout
    assert "SECRET_TOKEN" in done.stdout
    assert "tell-nobody" not in done.stdout


def test_of_a_recorded_run(cli: Any, desk: Any) -> None:
    found = cli.json("environment", desk.evidence, "--run", "last")
    assert found["distributions"]["items"]["pytest"]["version"] == pytest.__version__
    assert found["distributions"]["items"]["pytest"]["record"]
    assert all(found["variables"]["fingerprints"].values())
    assert cli.json("environment", desk.evidence) == found


def test_cyclonedx(cli: Any, desk: Any) -> None:
    found = cli.json("environment", desk.evidence, "--cyclonedx")
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert cli.json("environment", desk.evidence, "--cyclonedx") == found


def test_what_does_not_go_together(cli: Any, desk: Any) -> None:
    for words in (("--deep", desk.evidence), ("--deep", "--cyclonedx"), ("--deep", "--run", "last")):
        done = cli("environment", *words)
        assert done.returncode == 2
        assert "CF-CLI-080" in done.stderr
    assert "CF-CLI-011" in cli("environment", desk.evidence, "--run", "77").stderr


def test_what_somebody_else_recorded(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Any
) -> None:
    """Anything may stand in the environment of other people's evidence: it is printed, or one error says where."""
    for number, (recorded, where) in enumerate(
        [
            ({"os": [1]}, "os"),
            ({"distributions": {"items": {"a": {"version": 1}}}}, "distributions/items/a"),
            ({"later": {"a": [None]}, "other": 1.5}, None),
        ]
    ):
        monkeypatch.setattr("counterfoil.environment.capture", lambda recorded=recorded, **_: recorded)
        evidence = tmp_path / f"theirs{number}"
        with home(cli.home):
            recorder = Recorder(evidence)
            recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
            recorder.close()
        assert cli.json("environment", evidence) == recorded
        for more in ((), ("--cyclonedx",)):
            done = cli("environment", evidence, *more)
            assert done.returncode == (0 if where is None else 2)
            assert where is None or done.stderr.startswith(f"error CF-CLI-083 {where}: ")
