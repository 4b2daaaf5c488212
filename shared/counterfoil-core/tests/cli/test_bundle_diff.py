"""``bundle`` and ``diff`` on the command line: what they print and return; the reading commands on a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def handoff(cli: Any, desk: Any) -> str:
    return str(cli.json("handoffs", desk.evidence, "--hops")[0]["digest"])


def test_the_last_run_is_cut_and_verified(cli: Any, desk: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.bundle"
    done = cli("bundle", desk.evidence, "-o", file)
    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert first.startswith("run ")
    assert first.endswith(" bytes")
    assert last.startswith("intact: 1 log, ")
    again = cli("bundle", desk.evidence, "--output", file, "--run", "last")
    assert "stands there already" in again.stdout
    found = cli.json("verify", file)
    assert (found["verdict"], found["findings"], found["notes"]) == ("intact", [], [])
    assert found.keys() == cli.json("verify", desk.evidence).keys()
    assert cli("verify", file, "--run", "last").returncode == 0


def test_a_bundle_reads_as_evidence_does(cli: Any, desk: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.bundle"
    assert cli("bundle", desk.evidence, "-o", file, "--run", "2").returncode == 0
    for command in ("log", "graph", "handoffs"):
        here, there = (cli(command, place, "--run", "last", "--json") for place in (desk.evidence, file))
        assert here.returncode == there.returncode == 0
        assert there.stdout == here.stdout
        assert cli(command, file).returncode == 0
    shown = [
        cli("show", "--last", "--op", "chat", "--json", "-e", place).stdout for place in (desk.evidence, file)
    ]
    assert shown[0] == shown[1]
    blob = json.loads(shown[0])["references"]["response"]["sha256"]
    raw = [cli("show", blob, "-e", place).stdout for place in (desk.evidence, file)]
    assert raw[0] == raw[1]


def test_json_of_a_cut(cli: Any, desk: Any, tmp_path: Path) -> None:
    digest = handoff(cli, desk)
    told = cli.json(
        "bundle", desk.evidence, "--handoff", digest[:10], "-o", tmp_path / "h.bundle", "--keys", "--only"
    )
    assert told.keys() == {
        "asked",
        "counts",
        "damage",
        "fillers",
        "findings",
        "kind",
        "notes",
        "path",
        "size",
        "unchanged",
        "verdict",
    }
    assert (told["kind"], told["asked"], told["verdict"]) == ("handoff", digest, "intact")
    assert told["size"] == (tmp_path / "h.bundle").stat().st_size


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "CF-BUNDLE-030"),
        (["-o", "x.bundle", "--run", "1", "--handoff", "00"], "CF-BUNDLE-030"),
        (["-o", "x.bundle", "--handoff", "nothing"], "CF-BUNDLE-031"),
        (["-o", "x.bundle", "--run", "77"], "CF-CLI-011"),
        (["-o", "no/folder/x.bundle"], "CF-STORE-001"),
    ],
)
def test_what_bundle_refuses(cli: Any, desk: Any, words: list[str], code: str) -> None:
    done = cli("bundle", desk.evidence, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error {code}")
    assert "hint: " in done.stderr


def test_a_file_that_is_no_bundle(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "x.bundle").write_text("{}\n", encoding="utf-8")
    done = cli("verify", tmp_path / "x.bundle")
    assert done.returncode == 2
    assert done.stderr.startswith("error CF-STORE-003")


def test_a_changed_bundle_is_broken_and_its_rest_can_be_looked_at(
    cli: Any, desk: Any, tmp_path: Path
) -> None:
    file = tmp_path / "run.bundle"
    cli("bundle", desk.evidence, "-o", file)
    data = file.read_bytes()
    file.write_bytes(data.replace(b"09:44", b"09:45", 1))
    done = cli("verify", file)
    assert done.returncode == 3
    assert done.stdout.startswith("broken CF-BUNDLE-014 line ")
    assert done.stdout.splitlines()[-1].startswith("broken: ")
    file.write_bytes(data[: len(data) // 2])
    assert cli("verify", file).returncode == 3
    done = cli("log", file)
    assert done.returncode == 1
    assert "damaged CF-BUNDLE-" in done.stderr


def test_a_run_and_the_bundle_of_it_are_equal(cli: Any, desk: Any, tmp_path: Path) -> None:
    done = cli("diff", desk.evidence, "--run", "1", "--run", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("equal as recorded, a bit-exact repetition; ")
    cli("bundle", desk.evidence, "-o", tmp_path / "one.bundle", "--run", "1")
    assert cli("diff", tmp_path / "one.bundle", desk.evidence, "--run", "1").returncode == 0
    told = cli.json("diff", tmp_path / "one.bundle", desk.evidence, "--run", "1", "--run", "1")
    assert told.keys() == {
        "differences",
        "environment",
        "equal",
        "first",
        "left",
        "missing",
        "problem",
        "right",
    }
    assert (told["equal"], told["first"], told["differences"]) == (True, None, [])
    assert told["left"]["content_root"] == told["right"]["content_root"]
    assert told["left"].keys() == {"calls", "content_root", "entries", "evidence", "handoffs", "run"}


def test_two_different_runs(cli: Any, desk: Any, tmp_path: Path) -> None:
    done = cli("diff", desk.evidence)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("first    request: invoke_workflow of desk at ")
    assert {"    -what happened?", "    +and then?"} <= set(lines)
    assert lines[-1].startswith("different: ")
    cli("bundle", desk.evidence, "-o", tmp_path / "one.bundle", "--run", "1")
    told = cli.json("diff", tmp_path / "one.bundle", desk.evidence, code=1)
    assert told["first"] == told["differences"][0]
    assert told["first"].keys() == {"actor", "address", "changes", "kind", "left", "op", "problem", "right"}
    assert told["first"]["changes"] == [
        {
            "path": "/request/question",
            "left": "what happened?",
            "right": "and then?",
            "text": ["-what happened?", "+and then?"],
        }
    ]
    assert told["differences"] == cli.json("diff", desk.evidence, code=1)["differences"]


def test_many_differences_are_listed_in_json_alone(
    cli: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = len(cli.json("diff", desk.evidence, code=1)["differences"])
    monkeypatch.setattr("counterfoil.cli.diff._LISTED", 2)
    lines = cli("diff", desk.evidence).stdout.splitlines()
    assert f"{every - 2} more differences follow; --json lists all" in lines
    assert len(cli.json("diff", desk.evidence, code=1)["differences"]) == every > 2


@pytest.mark.parametrize("runs", [["--run", "1"], ["--run", "1", "--run", "2", "--run", "1"]])
def test_diff_wants_two_runs(cli: Any, desk: Any, runs: list[str]) -> None:
    done = cli("diff", desk.evidence, *runs)
    assert done.returncode == 2
    assert done.stderr.startswith("error CF-CLI-090")


def test_diff_of_a_single_run(cli: Any, desk: Any, tmp_path: Path) -> None:
    cli("bundle", desk.evidence, "-o", tmp_path / "one.bundle")
    done = cli("diff", tmp_path / "one.bundle")
    assert done.returncode == 2
    assert done.stderr.startswith("error CF-CLI-090")
    assert "hint: name a second place" in done.stderr


def test_what_a_bundle_of_one_handoff_does_not_show_is_unknown(cli: Any, desk: Any) -> None:
    """What came of the handoff is not in it: nobody may read that as dropped."""
    rows = cli.json("handoffs", "--hops", desk.evidence)  # which of its actors are agents is not in it either
    one = next(row for row in rows if row["proof"] == "recorded" and row["status"] == "accepted")
    assert cli("bundle", desk.evidence, "--handoff", one["digest"], "-o", "h.bundle").returncode == 0
    found = [row for row in cli.json("handoffs", "h.bundle") if row["digest"] == one["digest"]]
    assert [(row["from"], row["to"], row["status"]) for row in found] == [(one["from"], one["to"], "unknown")]
    for command in (["handoffs"], ["handoffs", "--hops"], ["graph"]):
        done = cli(*command, "h.bundle")
        assert (done.returncode, "dropped" in done.stdout, "unknown" in done.stdout) == (0, False, True)
