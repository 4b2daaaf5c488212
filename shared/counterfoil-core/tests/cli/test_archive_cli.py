"""``counterfoil archive`` and ``verify --archive``: what people and scripts see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys, records

JANUARY = 1_767_225_600_000_000
"""2026-01-01, in microseconds."""


def work(home: Any, folder: Path, patch: pytest.MonkeyPatch, at: int) -> str:
    """One run in a log of its own, as if it had been at that time; the log's name."""
    with home, patch.context() as one:
        one.setattr(records, "now", lambda: at)
        recorder = counterfoil.Recorder(folder)
        run = recorder.start("invoke_workflow", "w", actor=("w",), request=recorder.value("x" * 400))
        recorder.end(run, response=recorder.value("y" * 400))
        name = recorder.open().log
        recorder.close()
        keys.close_log(f"{keys.load_or_create_identity().keyid}/{name}")
    return name


@pytest.fixture
def logs(newcomer: Any, home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Logs of January, February and March of 2026."""
    month = 31 * 86_400 * 1_000_000
    folder = tmp_path / "counterfoil-evidence"
    return [work(home(newcomer.home), folder, monkeypatch, JANUARY + month * n) for n in range(3)]


def test_a_report_tells_ages_and_a_dry_run_moves_nothing(
    newcomer: Any, logs: list[str], tmp_path: Path
) -> None:
    said = newcomer("archive", "--report", "--before", "2026-02-15").stdout.splitlines()
    assert len(said) == 4
    told = {line.split()[0]: line for line in said[:3]}
    assert "due" in told[logs[0]]
    assert "2026-01-01 to 2026-01-01" in told[logs[0]]
    assert "young" in told[logs[2]]
    assert said[3].startswith("3 logs here, ")
    assert said[3].endswith("0 logs archived, 0 bytes")
    planned = newcomer("archive", "--before", "2026-02-15", "--dry-run")
    assert planned.returncode == 0
    assert [line.split()[:2] for line in sorted(planned.stdout.splitlines())[-2:]] == [
        ["would", "archive"],
        ["would", "archive"],
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counterfoil-evidence", "home"]
    found = newcomer.json("archive", "--before", "2026-02-15", "--dry-run")
    assert {one["log"] for one in found["due"]} == set(logs[:2])


def test_archiving_then_verifying(newcomer: Any, logs: list[str], tmp_path: Path) -> None:
    done = newcomer("archive", "--before", "2026-02-15T00:00:00+01:00", "--retain", "7y")
    assert done.returncode == 0
    place = tmp_path / "counterfoil-evidence-archive"
    assert done.stdout.startswith("archived: 2 logs, 2 runs, ")
    assert done.stdout.rstrip().endswith(f"bytes in {place}")
    assert {path.name for path in place.iterdir()} == {".gitignore", *logs[:2]}
    verified = newcomer("verify")
    assert verified.returncode == 0
    assert verified.stdout.startswith(f"note CF-VERIFY-072 {place}: 2 logs of this evidence (2 runs, ")
    for words in (["--archive", place], ["--archived"]):
        both = newcomer("verify", *words)
        assert (both.returncode, both.stdout.split(",")[0]) == (0, "intact: 4 logs")
    assert newcomer("verify", place).returncode == 0
    report = newcomer.json("archive", "--report")
    assert {one["log"] for one in report["archived"]} == set(logs[:2])
    for one in report["archived"]:
        assert (one["ended"], one["place"], one["verdict"]) == (False, str(place), "intact")
        assert one["retain"] - one["issued"] == pytest.approx(7 * 365 * 86_400_000, abs=5_000)
    assert {one["state"] for one in report["logs"]} == {"index", "young"}
    lines = newcomer("archive", "--report").stdout
    assert f"{logs[0]} archived 1 run, " in lines
    assert "kept until 203" in lines
    again = newcomer.json("archive", "--before", "2026-02-15")
    assert (again["archived"], again["finished"], again["skipped"]) == ([], [], [])


def test_a_damaged_archive_is_told(newcomer: Any, logs: list[str], tmp_path: Path) -> None:
    newcomer("archive", "--before", "2026-02-15", "--to", "old")
    (segment,) = (tmp_path / "old" / logs[0]).glob("00000000.seg")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    found = newcomer("verify", "--archive", "old")
    assert found.returncode == 3
    assert f"broken CF-VERIFY-073 {logs[0]}/00000000.seg: " in found.stdout
    assert newcomer("verify").returncode == 0


def test_what_is_skipped_has_an_exit_code(newcomer: Any, home: Any, logs: list[str], tmp_path: Path) -> None:
    with home(newcomer.home):
        recorder = counterfoil.Recorder(tmp_path / "counterfoil-evidence")
        recorder.value("x")
        recorder.end(recorder.start("invoke_workflow", "w", actor=("w",), request=recorder.value("x")))
        recorder.flush()
        held = newcomer("archive", "--before", "2026-02-15")
        recorder.close()
    assert held.returncode == 1
    assert "skipped" in held.stdout
    assert "a writer has it" in held.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "CF-ARCHIVE-010"),
        (["--before", "yesterday"], "CF-ARCHIVE-010"),
        (["--before", "2999-01-01"], "CF-ARCHIVE-010"),
        (["--before", "0d"], "CF-ARCHIVE-010"),
        (["--before", "90d", "--retain", "for ever"], "CF-ARCHIVE-010"),
        (["--before", "1d", "--to", "counterfoil-evidence/x"], "CF-ARCHIVE-003"),
        (["--before", "1d", "--to", "s3://x y"], "CF-CONFIG-013"),
    ],
)
def test_what_cannot_be_asked(newcomer: Any, logs: list[str], words: list[str], code: str) -> None:
    done = newcomer("archive", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error {code} ")
    assert newcomer("verify").returncode == 0


def test_a_bundle_is_not_archived(newcomer: Any, logs: list[str], tmp_path: Path) -> None:
    assert newcomer("bundle", "--run", "last", "-o", "one.bundle").returncode == 0
    done = newcomer("archive", "one.bundle", "--before", "1d")
    assert (done.returncode, done.stderr.split()[1]) == (2, "CF-ARCHIVE-009")
