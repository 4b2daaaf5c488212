"""``counterfoil verify``: one of four verdicts, four exit codes, and every reason on a line."""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, segments, verification
from counterfoil.cli import progress
from counterfoil.stores import FolderStore


def test_intact(process: Any, desk: Any) -> None:
    done = process("verify", desk.evidence)
    assert (done.returncode, done.stderr) == (0, "")
    line = r"intact: 1 log, \d+ records, 12 statements, 2 runs, 8 handoffs, \d+ blobs\n"
    assert re.fullmatch(line, done.stdout)


def test_json_has_exactly_the_promised_members(cli: Any, desk: Any) -> None:
    found = cli.json("verify", desk.evidence)
    assert found.keys() == {"verdict", "findings", "notes", "counts"}
    names = {"records", "statements", "logs", "runs", "handoffs", "blobs", "losses", "open", "tail"}
    assert found["counts"].keys() == names
    assert (found["verdict"], found["findings"], found["notes"]) == ("intact", [], [])
    with_api = counterfoil.verify(desk.evidence)
    assert found["counts"] == with_api.counts


def test_another_machine_cannot_tell_until_the_key_is_pinned(stranger: Any, cli: Any, desk: Any) -> None:
    done = stranger("verify", desk.evidence)
    assert done.returncode == 5
    first, hint, last = done.stdout.splitlines()
    assert first.startswith("cannot-tell CF-VERIFY-032 ")
    assert hint.startswith("  hint: get the fingerprint from the evidence's owner")
    assert last.startswith("cannot-tell: 1 log, ")
    own = cli.json("keys", "show")["own"]
    assert own not in done.stdout
    assert not stranger.home.exists()
    assert stranger("keys", "pin", own).returncode == 0
    assert stranger("verify", desk.evidence).returncode == 0


def test_another_keyring(stranger: Any, desk: Any) -> None:
    ring = desk.home / "keyring.json"
    assert stranger("verify", desk.evidence, "--keyring", ring).returncode == 0
    done = stranger("verify", desk.evidence, "--keyring", "nowhere.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error CF-KEYS-021 nowhere.json: ")


def test_a_changed_byte_is_broken(cli: Any, desk: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    path = copy / desk.segment
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = cli.json("verify", copy, code=3)
    assert found["verdict"] == "broken"
    assert all(one.keys() == {"code", "where", "message", "hint"} for one in found["findings"])
    done = cli("verify", copy)
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("broken: 1 log, ")
    assert [line.partition(": ")[0].split()[:2] for line in lines if line.startswith("broken CF")] == [
        ["broken", one["code"]] for one in found["findings"]
    ]


def test_a_cut_end_is_broken_where_it_is_remembered_and_incomplete_elsewhere(
    cli: Any, desk: Any, tmp_path: Path
) -> None:
    copy = desk.copy(tmp_path / "copy")
    path = copy / desk.segment
    path.write_bytes(path.read_bytes()[:-10])
    assert cli.json("verify", copy, code=3)["verdict"] == "broken"
    shutil.copytree(desk.home, tmp_path / "forgetful")
    shutil.rmtree(tmp_path / "forgetful" / "heads")
    done = cli("verify", copy, COUNTERFOIL_HOME=str(tmp_path / "forgetful"))
    assert done.returncode == 4
    assert done.stdout.splitlines()[0].startswith("incomplete CF-VERIFY-024 ")
    assert done.stdout.splitlines()[-1].startswith("incomplete: 1 log, ")
    assert "entries after the last checkpoint" in done.stdout.splitlines()[-1]


def test_a_record_of_a_later_version_is_not_judged(cli: Any, home: Any, tmp_path: Path) -> None:
    with home(tmp_path / "home"):
        recorder = counterfoil.Recorder(tmp_path / "evidence")
        recorder.end(recorder.start("invoke_workflow", "w", actor=("w",)))
        body = {"content": {"op": "custom"}, "context": {}, "v": 2}
        recorder.open().entry(canonical.dumps(body))
        recorder.close()
    found = cli.json("verify", tmp_path / "evidence", code=5)
    codes = [one["code"] for one in found["findings"]]
    assert "CF-LOG-022" in codes
    done = cli("log", tmp_path / "evidence")
    assert done.returncode == 1
    assert done.stdout.count("\n") == 5  # the entries around it are shown
    assert done.stderr.startswith("unknown CF-LOG-022 ")


def test_a_foreign_file_is_broken(cli: Any, desk: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    (copy / "notes.txt").write_text("mine", encoding="utf-8")
    done = cli("verify", copy)
    assert done.returncode == 3
    assert done.stdout.startswith("broken CF-VERIFY-002 notes.txt: ")


@pytest.mark.parametrize("run", ["last", "1", "2"])
def test_one_run(cli: Any, desk: Any, run: str) -> None:
    assert cli.json("verify", desk.evidence, "--run", run)["verdict"] == "intact"


def test_the_evidence_is_found_by_variable_then_by_name(cli: Any, desk: Any, tmp_path: Path) -> None:
    assert cli("verify", COUNTERFOIL=str(desk.evidence)).returncode == 0
    desk.copy(tmp_path / "counterfoil-evidence")
    assert cli("verify").returncode == 0
    assert cli("verify", "-e", desk.evidence).returncode == 0
    assert cli("verify", desk.evidence, "-e", desk.evidence).returncode == 0
    done = cli("verify", desk.evidence, "-e", "elsewhere")
    assert (done.returncode, done.stderr.split()[1]) == (2, "CF-CLI-002")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("patience", [0.0, 3600.0])
def test_progress_is_shown_to_a_person_who_waits(
    desk: Any, home: Any, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    stream = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setenv("TERM", "xterm")
    store = FolderStore(desk.evidence)
    with home(desk.home), progress.watched(store):
        assert verification.verify(store).verdict == "intact"
    assert ("reading" in stream.getvalue()) == (patience == 0)


def test_progress_goes_on_while_other_processes_read(
    desk: Any, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    told: list[tuple[int, int]] = []
    store = FolderStore(desk.evidence)
    bar = progress.Reading(store)
    store.on_read = lambda size: (told.append((size, bar._read)), bar.count(size))
    with home(desk.home):
        assert verification.verify(store, jobs=2).verdict == "intact"
    bar.done()
    whole = sum(path.stat().st_size for path in desk.evidence.rglob("*.seg"))
    assert sum(size for size, _ in told) >= whole
    assert [before for _, before in told] == sorted(before for _, before in told)
    assert "reading" in stream.getvalue()
    assert bar._total == whole
    assert bar._progress is not None
    assert bar._progress.tasks[0].completed == whole


def test_no_colour_reaches_a_pipe(cli: Any, desk: Any) -> None:
    assert "\x1b" not in cli("verify", desk.evidence, TERM="xterm-256color").stdout


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_is_for_terminals_without_no_color(cli: Any, desk: Any, no_color: str) -> None:
    leader, follower = pty.openpty()
    words = [sys.executable, "-P", "-m", "counterfoil", "verify", str(desk.evidence)]
    env = {**cli.variables(TERM="xterm"), **({"NO_COLOR": no_color} if no_color else {})}
    done = subprocess.run(
        words, env=env, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, check=False
    )
    os.close(follower)
    text = os.read(leader, 65536).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "intact" in text
    assert ("\x1b[" in text) == (not no_color)


def test_chunks_written_again_are_noticed_by_signatures_alone(cli: Any, desk: Any, tmp_path: Path) -> None:
    """What the demo does: compression and checksums are right, one character of stored bytes is another."""
    copy = desk.copy(tmp_path / "copy")
    path = copy / desk.segment
    compressor, out, changed = segments.Compressor(), b"", 0
    with path.open("rb") as file:
        for chunk in segments.read_chunks(file, where=""):
            data = chunk.data.replace(b"09:44", b"09:45", 1 - changed)
            changed |= data != chunk.data
            out += segments.raw_chunk(data) if chunk.form == segments.RAW else compressor.chunk(data)
    path.write_bytes(out)
    assert changed
    codes = {one["code"] for one in cli.json("verify", copy, code=3)["findings"]}
    assert {"CF-VERIFY-010", "CF-VERIFY-051"} <= codes
    assert not any(code.startswith("CF-LOG") for code in codes)


def test_notes_are_told_and_change_no_verdict(recording: Any) -> None:
    """A folder that was removed and made anew: the old log is told of, where it was and what is remembered."""
    assert recording("run", "-m", "fakeapp").returncode == 0
    shutil.rmtree(recording.folder / "counterfoil-evidence")
    assert recording("run", "-m", "fakeapp").stderr.endswith("intact -> counterfoil-evidence\n")
    done = recording("verify")
    note, hint, last = done.stdout.splitlines()
    assert (done.returncode, last.partition(":")[0]) == (0, "intact")
    assert re.match(r"note CF-VERIFY-060 \w{16} entry 0: log \w{16} \(\d+ entries\) stood here before", note)
    assert hint == "  hint: restore it if nobody removed it on purpose"
    (one,) = recording.json("verify")["notes"]
    assert (one.keys(), one["code"]) == ({"code", "where", "message", "hint"}, "CF-VERIFY-060")
    remembered = [line for line in recording("keys").stdout.splitlines() if line.startswith("log ")]
    assert len(remembered) == 2
    assert sum(line.endswith(" entries (its folder was removed)") for line in remembered) == 1


def test_a_hint_that_several_findings_share_stands_once(cli: Any, desk: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    for name in ("a.txt", "b.txt"):
        (copy / name).write_text("mine", encoding="utf-8")
    first, second, hint, last = cli("verify", copy).stdout.splitlines()
    assert first.startswith("broken CF-VERIFY-002 a.txt: ")
    assert second.startswith("broken CF-VERIFY-002 b.txt: ")
    assert hint.startswith("  hint: every byte inside evidence is evidence")
    assert last.startswith("broken: 1 log, ")
    assert all(one["hint"] for one in cli.json("verify", copy, code=3)["findings"])


@pytest.mark.parametrize(("calls", "told"), [(1, "1 call was never ended"), (2, "2 calls were never ended")])
def test_open_calls_are_counted_in_words(recording: Any, calls: int, told: str) -> None:
    code = (
        "import os, signal, fakeframe, fakeplug\n"
        "import counterfoil.autostart as a\n"
        "recorder = a.recorder()\n"
        f"for _ in range({calls}): recorder.start('invoke_workflow', 'w', actor=('w',))\n"
        "recorder.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert recording("run", sys.executable, "-c", code).returncode == 137
    found = recording.json("verify", code=4)["findings"]
    (one,) = [one for one in found if one["code"] == "CF-VERIFY-025"]
    assert one["message"] == told
    assert one["hint"]
