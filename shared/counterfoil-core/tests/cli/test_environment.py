"""``counterfoil environment``: here and now, or what a recorded run ran on."""

from __future__ import annotations

from typing import Any

import pytest


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
