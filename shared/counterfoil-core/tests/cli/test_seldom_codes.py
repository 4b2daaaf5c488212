"""Refusals of the command line that take unusual evidence, files or installations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys
from counterfoil.cli import demo, digest, pretty
from counterfoil.digest import MEDIA_JSON, Reference


def refused(done: Any, code: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error {code}"), done.stderr


def test_a_run_of_evidence_without_any(newcomer: Any, tmp_path: Path) -> None:
    before = keys.home()
    keys.set_home(newcomer.home)
    recorder = counterfoil.Recorder(tmp_path / "evidence")
    recorder.open()
    recorder.loss("nothing was recorded")
    recorder.close()
    keys.set_home(before)
    for words in (["log", "--run", "last"], ["graph", "--run", "1"], ["handoffs", "--run", "last"]):
        refused(newcomer(words[0], tmp_path / "evidence", *words[1:]), "CF-CLI-010")


@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, RecursionError])
def test_a_value_that_no_code_was_made_for(error: type[Exception]) -> None:
    """What the reader should have refused by itself is told as a problem of that value, and the rest is shown."""

    class Reader:
        def value(self, ref: Reference) -> Any:
            if ref.size == 1:
                raise error
            return "there"

    resolver = pretty.Resolver(Reader())  # type: ignore[arg-type]
    found = [Reference("0" * 64, size, MEDIA_JSON).to_dict() for size in (1, 2)]
    assert resolver.resolve(found) == [found[0], "there"]
    assert [one.code for one in resolver.problems] == ["CF-CLI-023"]


def test_a_file_that_is_too_large_to_digest(newcomer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "_LIMIT", 9)
    (newcomer.folder / "nine").write_bytes(b"x" * 9)
    (newcomer.folder / "ten").write_bytes(b"x" * 10)
    assert newcomer("digest", "nine").returncode == 0
    refused(newcomer("digest", "ten"), "CF-CLI-031")


@pytest.mark.parametrize("late", [False, True])
def test_a_demo_whose_package_is_missing(newcomer: Any, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """At once, or when it is set up."""

    class Point:
        name = "fake"

        def load(self) -> Any:
            if not late:
                raise ModuleNotFoundError("No module named 'graphs'", name="graphs")
            return Late

    class Late:
        def __enter__(self) -> Any:
            raise ModuleNotFoundError("No module named 'graphs'", name="graphs")

        def __exit__(self, *_: object) -> None:
            """Nothing was begun."""

    monkeypatch.setattr(demo, "entry_points", lambda *, group: [Point()])
    done = newcomer("demo")
    refused(done, "CF-CLI-051")
    assert "graphs" in done.stderr


def test_logs_that_begin_alike(newcomer: Any) -> None:
    before = keys.home()
    keys.set_home(newcomer.home)
    try:
        for end in "12":
            origin = f"{'0' * 64}/{'a' * 15}{end}"
            keys.remember_head(origin, size=1, root="0" * 64, evidence="/nowhere", segment=0, offset=0)
    finally:
        keys.set_home(before)
    refused(newcomer("keys", "forget", "aaaa"), "CF-CLI-061")
    assert newcomer("keys", "forget", f"{'a' * 15}1").returncode == 0
    assert newcomer("keys", "forget", "aaaa").returncode == 0


@pytest.mark.parametrize("text", ["[]", "7", '"policy"', "null"])
def test_a_draft_that_is_no_object(newcomer: Any, text: str) -> None:
    (newcomer.folder / "draft.json").write_text(text, encoding="utf-8")
    refused(newcomer("policy", "sign", "draft.json"), "CF-CLI-071")


def test_a_run_whose_environment_nobody_recorded(
    newcomer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence of another writer need not say what it ran on."""
    monkeypatch.setattr("counterfoil.environment.capture", lambda **_: None)
    before = keys.home()
    keys.set_home(newcomer.home)
    recorder = counterfoil.Recorder(tmp_path / "evidence")
    recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    recorder.close()
    keys.set_home(before)
    refused(newcomer("environment", tmp_path / "evidence", "--run", "last"), "CF-CLI-081")
