"""``counterfoil demo``: record, verify, draw, change one character, verify; with an adapter made for the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterfoil.cli import tamper


def test_the_demo_shows_intact_and_then_broken(recording: Any) -> None:
    recording.environment.pop("COUNTERFOIL_PLUGINS")
    done = recording("demo", "--adapter", "fake", "--keep", "kept", COUNTERFOIL="elsewhere")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "$ counterfoil run -e evidence -- -m fakeapp" in lines
    assert any(line.startswith("intact: ") for line in lines)
    assert any("asker -> teller" in line for line in lines)
    assert any(line.startswith("broken CF-VERIFY-010 ") for line in lines)
    assert any(line.startswith("broken: ") for line in lines)
    assert any(line.startswith("demo: as expected, intact before and broken after") for line in lines)
    assert "in use since" in done.stdout
    kept = recording.folder / "kept"
    assert {path.name for path in kept.iterdir()} == {"home", "evidence", "tampered"}
    assert not (recording.folder / "elsewhere").exists()
    assert not recording.home.exists()


def test_it_leaves_nothing_behind(recording: Any) -> None:
    recording.environment.pop("COUNTERFOIL_PLUGINS")
    done = recording("demo", "--adapter", "fake", TMPDIR=str(recording.folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(recording.folder.iterdir()) == []


def test_exactly_one_character_changes(desk: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    change = tamper.change_one_character(copy)
    assert sum(a != b for a, b in zip(change.before, change.after, strict=True)) == 1
    assert change.op == "chat"
    same = [path for path in copy.rglob("*") if path.is_file()]
    assert len(same) == len([path for path in desk.evidence.rglob("*") if path.is_file()])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--adapter", "nobody"], "CF-CLI-050"),
        (["--adapter", "fake", "--keep", "full"], "CF-CLI-054"),
        (["--adapter", "fake", "--keep", "full/file"], "CF-CLI-054"),
        (["more"], "CF-CLI-001"),
    ],
)
def test_what_it_refuses(recording: Any, words: list[str], code: str) -> None:
    (recording.folder / "full").mkdir()
    (recording.folder / "full" / "file").write_text("")
    done = recording("demo", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error {code}")


def test_an_application_that_is_not_recorded_is_told(recording: Any) -> None:
    done = recording(
        "demo", "--adapter", "fake", COUNTERFOIL_HOME="unused", PYTHONNOUSERSITE="1", FAKE_SILENT="1"
    )
    assert done.returncode == 1
    assert "nothing was recorded" in done.stdout
    assert "demo: not as expected (CF-CLI-052): exit code 2 of verify, expected 0" in done.stdout


def test_an_application_that_fails_is_told(recording: Any, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "fakeapp.py").write_text("raise SystemExit('no model')\n")
    path = f"{tmp_path / 'first'}:{recording.environment['PYTHONPATH']}"
    done = recording("demo", "--adapter", "fake", PYTHONPATH=path)
    assert done.returncode == 1
    assert "no model" in done.stdout
    assert "demo: the application failed with exit code 1" in done.stdout


def test_evidence_without_an_answer_cannot_be_shown_changed(
    recording: Any, home: Any, tmp_path: Path
) -> None:
    import counterfoil

    with home(tmp_path / "home"):
        recorder = counterfoil.Recorder(tmp_path / "evidence")
        recorder.end(recorder.start("invoke_workflow", "w", actor=("w",)))
        recorder.close()
    with pytest.raises(counterfoil.CounterfoilError, match="CF-CLI-053"):
        tamper.change_one_character(tmp_path / "evidence")
