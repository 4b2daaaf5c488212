"""``counterfoil export``, ``counterfoil scrub`` and ``verify --checkpoint``: what people and scripts see."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import counterfoil


@pytest.fixture
def grown(cli: Any, home: Any, tmp_path: Path) -> Path:
    """Evidence of the test's own, in the command's home: one session."""
    cli.home = tmp_path / "own home"
    more(cli, home, tmp_path)
    return tmp_path / "evidence"


def more(cli: Any, home: Any, tmp_path: Path) -> None:
    with home(cli.home):
        recorder = counterfoil.Recorder(tmp_path / "evidence")
        recorder.end(recorder.start("invoke_workflow", "w", actor=("w",), request=recorder.value("x" * 400)))
        recorder.close()


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


# -- export -----------------------------------------------------------------------------------------------------------


def test_export_lines_and_json(cli: Any, desk: Any, tmp_path: Path) -> None:
    done = cli("export", desk.evidence, "--tlog", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    exported, vkey = done.stdout.splitlines()
    assert re.fullmatch(rf"exported {tmp_path}/out/\w{{16}}: \d+ entries, 3 new files, 0 kept", exported)
    found = cli.json("export", desk.evidence, "--tlog", tmp_path / "out")
    assert found.keys() == {"verdict", "logs"}
    (log,) = found["logs"]
    assert log.keys() == {"log", "origin", "size", "root", "vkey", "folder", "written", "kept"}
    assert (found["verdict"], log["written"], log["kept"]) == ("intact", 0, 3)
    assert vkey == f"vkey {log['vkey']}"
    note = counterfoil.notes.Note.parse((tmp_path / "out" / log["log"] / "checkpoint").read_text())
    assert note.verify([log["vkey"]])
    assert cli.json("export", desk.evidence, "--tlog", tmp_path / "o2", "--log", log["log"][:6])["logs"]


def test_export_refuses_broken_evidence(cli: Any, desk: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    flip(copy / desk.segment, 4000)
    done = cli("export", copy, "--tlog", tmp_path / "out")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"error CF-EXPORT-006 {copy}: ")
    assert not (tmp_path / "out").exists()
    log = desk.segment.partition("/")[0]
    assert cli("export", copy, "--tlog", tmp_path / "out", "--log", log).returncode == 3
    # Nothing stands before the fault here: no checkpoint, nothing to export.
    done = cli("export", copy, "--tlog", tmp_path / "out", "--broken")
    assert (done.returncode, done.stderr.split()[1]) == (2, "CF-EXPORT-001")


def test_export_of_what_stands_before_the_fault(cli: Any, home: Any, grown: Path, tmp_path: Path) -> None:
    first = cli.json("export", grown, "--tlog", tmp_path / "before")["logs"][0]
    more(cli, home, tmp_path)
    flip(sorted(grown.glob("*/*.seg"))[1], 30)
    found = cli.json("export", grown, "--tlog", tmp_path / "out", "--broken", code=3)
    assert found["verdict"] == "broken"
    assert found["logs"][0]["root"] == first["root"]


def test_export_by_who_has_not_pinned_the_key(stranger: Any, desk: Any, tmp_path: Path) -> None:
    done = stranger("export", desk.evidence, "--tlog", tmp_path / "out")
    assert (done.returncode, done.stderr) == (5, "cannot-tell: counterfoil verify says why\n")
    assert len(list((tmp_path / "out").glob("*/checkpoint"))) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["export"], "CF-CLI-001"),
        (["export", "--tlog", "{evidence}/x"], "CF-EXPORT-004"),
        (["export", "--tlog", "{evidence}"], "CF-EXPORT-004"),
        (["export", "--tlog", "out", "--log", "zz"], "CF-EXPORT-007"),
        (["export", "--tlog", "out", "--log", ""], "CF-EXPORT-007"),
        (["export", "--tlog", "/dev/null/x"], "CF-EXPORT-005"),
        (["scrub", "--mirror", "{evidence}"], "CF-SCRUB-001"),
        (["scrub", "--mirror", "nowhere"], "CF-STORE-002"),
        (["scrub", "--keep", "{evidence}/x"], "CF-SCRUB-002"),
        (["verify", "--checkpoint", "nowhere"], "CF-CLI-006"),
        (["verify", "--checkpoint", "/dev/null"], "CF-CLI-006"),
    ],
)
def test_usage(cli: Any, desk: Any, words: list[str], code: str) -> None:
    first, *rest = (word.format(evidence=desk.evidence) for word in words)
    done = cli(first, desk.evidence, *rest)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.split()[1].rstrip(":") == code


# -- verify --checkpoint ----------------------------------------------------------------------------------------------


def test_a_kept_checkpoint(cli: Any, home: Any, grown: Path, tmp_path: Path) -> None:
    """An auditor who keeps one note sees a rewritten or cut log where nothing else does."""
    log = cli.json("export", grown, "--tlog", tmp_path / "out")["logs"][0]
    kept = tmp_path / "kept"
    shutil.copy(tmp_path / "out" / log["log"] / "checkpoint", kept)
    earlier = tmp_path / "earlier"
    shutil.copytree(grown, earlier)
    more(cli, home, tmp_path)
    done = cli("verify", grown, "--checkpoint", kept)
    assert done.returncode == 0
    told, last = done.stdout.splitlines()
    assert re.fullmatch(rf"continues {log['log']}: from 5 to 10 entries, proof of \d hash(es)?", told)
    assert last.startswith("intact: ")
    found = cli.json("verify", grown, "--checkpoint", kept)
    (proof,) = found["continues"]
    assert proof.keys() == {"log", "origin", "from", "to", "proof"}
    counterfoil.tree.verify_consistency(
        proof["from"]["size"],
        proof["to"]["size"],
        [bytes.fromhex(step) for step in proof["proof"]],
        bytes.fromhex(proof["from"]["root"]),
        bytes.fromhex(proof["to"]["root"]),
    )
    cli.json("export", grown, "--tlog", tmp_path / "out")
    shutil.copy(tmp_path / "out" / log["log"] / "checkpoint", kept)
    # A machine that remembers nothing calls the shorter copy intact; with the checkpoint in hand it is broken.
    shutil.rmtree(cli.home / "heads")
    assert cli("verify", earlier).returncode == 0
    found = cli.json("verify", earlier, "--checkpoint", kept, code=3)
    assert [one["code"] for one in found["findings"]] == ["CF-VERIFY-008"]
    assert found["continues"] == []


# -- scrub ------------------------------------------------------------------------------------------------------------


def test_scrub(cli: Any, desk: Any, tmp_path: Path) -> None:
    copy, mirror = desk.copy(tmp_path / "copy"), desk.copy(tmp_path / "mirror")
    done = cli("scrub", copy)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"clean: 1 log, 1 segment, \d+ bytes\n", done.stdout)
    flip(copy / desk.segment, 4000)
    done = cli("scrub", copy)
    assert done.returncode == 3
    line, hint, last = done.stdout.splitlines()
    assert re.match(
        rf"damaged CF-LOG-010 {desk.segment} bytes \d+-\d+: .*; entries \d+-\d+ cannot be read$", line
    )
    assert hint == "  hint: another copy can mend it: counterfoil scrub --mirror COPY"
    assert last.startswith("damaged: 1 damage, 1 log, 1 segment, ")
    done = cli("scrub", copy, "--mirror", mirror)
    assert done.returncode == 1
    assert done.stdout.startswith("mendable CF-LOG-010 ")
    assert "byte 4000 is wrong" in done.stdout
    done = cli("scrub", copy, "--mirror", mirror, "--repair", "--keep", tmp_path / "kept")
    assert done.returncode == 1
    line, hint, kept, last = done.stdout.splitlines()
    assert line.startswith("repaired CF-LOG-010 ")
    assert hint == f"  hint: taken from {mirror}"
    assert kept == f"originals kept in {tmp_path}/kept; verify: intact"
    assert last.startswith("repaired: ")
    assert (copy / desk.segment).read_bytes() == (mirror / desk.segment).read_bytes()
    assert cli("scrub", copy).returncode == 0


def test_a_bundle_is_named_where_evidence_is_meant(cli: Any, desk: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.bundle"
    assert cli("bundle", desk.evidence, "--run", "1", "--output", file).returncode == 0
    for words, code in (
        (["scrub", file], "CF-SCRUB-008"),
        (["scrub", desk.evidence, "--mirror", file], "CF-SCRUB-008"),
        (["export", file, "--tlog", tmp_path / "out"], "CF-EXPORT-008"),
    ):
        done = cli(*words)
        assert (done.returncode, done.stderr.split()[1]) == (2, code)


def test_scrub_of_an_empty_folder(newcomer: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = newcomer("scrub", tmp_path / "empty")
    assert (done.returncode, done.stdout, done.stderr.split()[1]) == (2, "", "CF-CLI-007")
    assert newcomer("scrub", tmp_path / "nowhere").stderr.split()[1] == "CF-STORE-002"


def test_scrub_json(cli: Any, desk: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    clean = cli.json("scrub", copy)
    assert clean.keys() == {
        "result",
        "damage",
        "notes",
        "evidence",
        "logs",
        "files",
        "bytes",
        "kept",
        "verdict",
    }
    assert (clean["result"], clean["damage"]) == ("clean", [])
    (copy / desk.segment).unlink()
    found = cli.json("scrub", copy, code=3)
    (one,) = found["damage"]
    names = {"code", "file", "start", "end", "message", "state", "sources", "hint", "at", "wrong", "entries"}
    assert one.keys() == names
    assert one["state"] == "remains"
    mirror = desk.copy(tmp_path / "mirror")
    found = cli.json("scrub", copy, "--mirror", mirror, "--repair", code=1)
    assert (found["result"], found["verdict"]) == ("repaired", "intact")
    assert json.loads(cli("scrub", copy, "--json").stdout)["result"] == "clean"


@pytest.mark.parametrize("inner", ["", "tile", "tile/0", "tile/entries"])
def test_an_export_goes_through_no_link(cli: Any, desk: Any, tmp_path: Path, inner: str) -> None:
    log = desk.segment.partition("/")[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "out" / log / inner
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere, target_is_directory=True)
    done = cli("export", desk.evidence, "--tlog", tmp_path / "out")
    assert (done.returncode, done.stderr.startswith("error CF-EXPORT-009 ")) == (2, True)
    assert list(elsewhere.iterdir()) == []
