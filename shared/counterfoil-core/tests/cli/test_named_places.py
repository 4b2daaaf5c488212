"""Places and arguments that people get wrong, each told by its name and with what to do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil.scrub import mending


def refused(done: Any, code: str, *told: str) -> None:
    assert done.returncode == 2, done
    assert done.stderr.startswith(f"error {code} "), done.stderr
    for one in told:
        assert one in done.stderr


@pytest.mark.parametrize("data", [b"", b"x", b"{}", b"\0" * 100, b'{"counterfoil":"bun'])
@pytest.mark.parametrize("command", ["verify", "log", "show", "graph", "handoffs", "diff", "export", "scrub"])
def test_a_file_that_is_no_evidence(cli: Any, command: str, data: bytes) -> None:
    (cli.folder / "file").write_bytes(data)
    more = {"show": ["0"], "export": ["--tlog", "out"]}.get(command, [])
    place = ["-e", "file"] if command == "show" else ["file"]
    refused(cli(command, *more, *place), "CF-STORE-003", "neither a folder nor a bundle")


def test_a_mirror_that_is_none(cli: Any, desk: Any) -> None:
    refused(
        cli("scrub", desk.evidence, "--mirror", "missing"), "CF-STORE-002", "missing", "the mirror", "copy"
    )
    (cli.folder / "empty").mkdir()
    done = cli("scrub", desk.evidence, "--mirror", "empty")
    assert done.returncode == 0
    assert f"note CF-SCRUB-010 {cli.folder / 'empty'}: " in done.stdout
    assert cli.json("scrub", desk.evidence, "--mirror", "empty")["notes"][0]["code"] == "CF-SCRUB-010"


def test_a_mirror_larger_than_any_segment_is_not_read(
    cli: Any, desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = desk.copy(tmp_path / "damaged")
    data = bytearray((damaged / desk.segment).read_bytes())
    data[len(data) // 2] ^= 1
    (damaged / desk.segment).write_bytes(data)
    mirror = desk.copy(tmp_path / "mirror")
    read: list[int] = []
    copy = mending.Copy
    monkeypatch.setattr(mending, "Copy", lambda label, data: read.append(len(data)) or copy(label, data))
    with (mirror / desk.segment).open("r+b") as file:
        file.truncate(mending.MAX_SEGMENT + 1)
    done = cli("scrub", damaged, "--mirror", mirror)
    assert done.returncode == 3
    assert f"note CF-SCRUB-009 {mirror / desk.segment}: " in done.stdout
    assert max(read) < 1 << 30
    shutil.copy(desk.evidence / desk.segment, mirror / desk.segment)
    assert cli("scrub", damaged, "--mirror", mirror).returncode == 1


def test_a_checkpoint_that_is_none_is_named(cli: Any, desk: Any) -> None:
    (cli.folder / "kept").write_text("hello", encoding="utf-8")
    refused(cli("verify", desk.evidence, "--checkpoint", "kept"), "CF-NOTE-003", "kept")
    refused(cli("verify", desk.evidence, "--checkpoint", "nowhere"), "CF-CLI-006", "nowhere")


def test_the_keyring_of_a_folder(cli: Any, desk: Any, stranger: Any) -> None:
    assert cli("verify", desk.evidence, "--keyring", desk.home).returncode == 0
    done = stranger("verify", desk.evidence, "--keyring", desk.home)
    assert (done.returncode, done.stderr) == (0, "")
    refused(cli("verify", desk.evidence, "--keyring", cli.folder), "CF-KEYS-021", "keyring.json")


def test_a_wrong_fingerprint_is_named(newcomer: Any) -> None:
    for command in ("pin", "unpin"):
        refused(newcomer("keys", command, "planner"), "CF-KEYS-022", "planner")


def test_changes_of_keys_as_json(cli: Any, desk: Any, tmp_path: Path) -> None:
    shutil.copytree(desk.home, tmp_path / "copied home")
    cli.home = tmp_path / "copied home"
    pinned = cli.json("keys", "pin", "ab" * 32, "--note", "Ana")
    assert pinned == {"fingerprint": "ab" * 32, "note": "Ana", "own": False, "admin": False, "known": False}
    assert pinned in cli.json("keys", "show")["pins"]
    assert cli.json("keys", "unpin", "ab" * 32) == {"unpinned": "ab" * 32}
    log = desk.segment.partition("/")[0]
    assert cli.json("keys", "forget", log)["forgot"] == log


def test_commands_that_a_bundle_is_not_for(cli: Any, desk: Any) -> None:
    assert cli("bundle", desk.evidence, "-o", "run.bundle").returncode == 0
    whole = cli.json("environment", desk.evidence, "--run", "last")
    assert cli.json("environment", "run.bundle") == whole
    done = cli("doctor", "run.bundle")
    assert done.returncode == 1
    assert "run.bundle is a bundle" in done.stdout


def test_a_bundle_of_evidence_that_holds_handoffs_alone(newcomer: Any, home: Any) -> None:
    with home(newcomer.home), counterfoil.open(newcomer.folder / "e", actor="a") as sending:
        counterfoil.seal(sending, "hello", to="b")
    done = newcomer("bundle", "e", "-o", "x.bundle")
    refused(done, "CF-CLI-010", "--handoff DIGEST; handoffs: ")
    digest = done.stderr.rpartition("handoffs: ")[2].strip()
    assert newcomer("bundle", "e", "--handoff", digest, "-o", "x.bundle").returncode == 0


def test_environment_takes_the_option_too(cli: Any, desk: Any) -> None:
    assert cli.json("environment", "-e", desk.evidence) == cli.json("environment", desk.evidence)
    shown = cli("environment", desk.evidence).stdout
    assert " GiB" in shown
    for python in ("True", "False", "{'", "['"):
        assert python not in "".join(line for line in shown.splitlines() if not line.startswith(" "))


def test_settings_that_differ_are_named(newcomer: Any) -> None:
    assert newcomer("init", "one").returncode == 0
    refused(newcomer("init", "two"), "CF-CLI-082", "evidence")
    refused(newcomer("init", "one", "--durability", "call"), "CF-CLI-082", "durability")


def test_equal_is_not_verified(cli: Any, desk: Any, tmp_path: Path) -> None:
    equal = cli("diff", desk.evidence, desk.evidence)
    assert (equal.returncode, equal.stderr) == (0, "")
    assert equal.stdout.splitlines()[-1] == (
        "equal as recorded, a bit-exact repetition; nothing was verified: counterfoil verify"
    )
    assert cli("bundle", desk.evidence, "-o", "run.bundle").returncode == 0
    lines = (tmp_path / "run.bundle").read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(at for at, line in enumerate(lines) if '"kind":"blob"' in line and "checkout waited" in line)
    lines[place] = lines[place].replace("checkout waited", "checkout hurried")
    (tmp_path / "other.bundle").write_text("".join(lines), encoding="utf-8")
    done = cli("diff", "run.bundle", "other.bundle")
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert told
    assert all(one.startswith(f"note: {tmp_path / 'other.bundle'}: run ") for one in told)
    assert all("not there as recorded" in one for one in told)
    assert cli.json("diff", "run.bundle", "run.bundle")["missing"] == []


def test_where_a_run_is_recorded_is_no_difference(newcomer: Any, home: Any, monkeypatch: Any) -> None:
    for number in range(2):
        monkeypatch.setenv("COUNTERFOIL_LAUNCH", f"launch {number}")
        monkeypatch.setenv("APP_SETTING", f"value {number}")
        with home(newcomer.home):
            recorder = counterfoil.Recorder(newcomer.folder / f"e{number}")
            recorder.end(recorder.start("invoke_workflow", "w", actor=("w",)))
            recorder.close()
    told = newcomer.json("diff", "e0", "e1")
    paths = [one["path"] for one in told["environment"]]
    assert any("APP_SETTING" in one for one in paths)
    assert not any("COUNTERFOIL_LAUNCH" in one for one in paths)


@pytest.mark.parametrize("command", ["verify", "digest"])
def test_permission_denied_is_said(cli: Any, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (cli.folder / "file").write_text("secret", encoding="utf-8")
    real = os.open

    def closed(path: Any, *more: Any, **named: Any) -> int:
        if os.fspath(path).endswith("file"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *more, **named)

    monkeypatch.setattr(os, "open", closed)
    monkeypatch.setattr(os, "access", lambda *_: False)
    done = cli(command, "file")
    assert (done.returncode, "ermission denied" in done.stderr) == (2, True)
