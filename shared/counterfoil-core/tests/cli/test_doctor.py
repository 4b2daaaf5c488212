"""``counterfoil doctor`` and ``init``: what will not work is told before somebody needs the record."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from counterfoil import health, keys, locking, settings


def statuses(found: list[dict[str, Any]]) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for one in found:
        out.setdefault(one["name"], set()).add(one["status"])
    return out


def test_a_healthy_place(cli: Any, desk: Any) -> None:
    found = cli.json("doctor", desk.evidence)
    assert {one["status"] for one in found} <= {"ok", "warn"}
    names = statuses(found)
    assert {"machine", "packages", "home", "identity", "keyring", "plugin", "settings", "evidence"} <= set(
        names
    )
    assert names["evidence"] == {"ok"}
    plain = cli("doctor", desk.evidence)
    assert plain.returncode == 0
    assert f"ok   identity       {keys.load_identity().keyid}" in plain.stdout.splitlines()


def test_before_anything_was_recorded_nothing_is_made(cli: Any) -> None:
    done = cli("doctor", COUNTERFOIL_HOME=str(cli.folder / "new"))
    assert done.returncode == 0
    assert not (cli.folder / "new").exists()
    assert not (cli.folder / "counterfoil-evidence").exists()


def test_a_home_that_others_can_write(cli: Any, desk: Any) -> None:
    cli.home.chmod(0o777)
    try:
        found = cli.json("doctor", desk.evidence, code=1)
    finally:
        cli.home.chmod(0o700)
    failed = [one for one in found if one["status"] == "fail"]
    assert {one["message"].split()[0] for one in failed} == {"CF-KEYS-004"}
    assert all(one["hint"] for one in failed)
    # What has nothing to do with it is still looked at.
    assert statuses(found)["plugin"] == {"ok"}


def test_what_stands_in_the_settings_is_checked(cli: Any) -> None:
    (cli.folder / "counterfoil.toml").write_text('mode = "hold"\n')
    found = cli.json("doctor", code=1)
    (one,) = [one for one in found if one["status"] == "fail"]
    assert (one["name"], one["hint"]) == ("settings", "no installed adapter can hold: use observe")
    (cli.folder / "counterfoil.toml").write_text('mode = "guess"\n')
    failed = [one["message"] for one in cli.json("doctor", code=1) if one["status"] == "fail"]
    assert failed
    assert all("CF-CONFIG-001" in message for message in failed)


def test_evidence_that_others_can_read_is_a_warning(cli: Any, desk: Any) -> None:
    folder = Path(desk.evidence)
    before = folder.stat().st_mode
    folder.chmod(0o755)
    try:
        assert statuses(cli.json("doctor", desk.evidence))["evidence"] == {"warn"}
    finally:
        folder.chmod(before)


def test_a_plugin_that_is_named_and_not_installed(process: Any) -> None:
    done = process("doctor", "--json", COUNTERFOIL_PLUGINS="nobody")
    assert done.returncode == 1
    assert "nobody: is not installed" in done.stdout


@pytest.mark.parametrize(
    ("free", "kind", "worst"), [(1 << 20, "ext4", "fail"), (1 << 40, "nfs4", "warn"), (1 << 40, "ext4", "ok")]
)
def test_the_disk(free: int, kind: str, worst: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = health.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda path: usage._replace(free=free))
    monkeypatch.setattr(health, "_file_system", lambda path: kind)
    found = [one.status for one in health.examine(str(tmp_path / "evidence")) if one.name == "evidence disk"]
    assert found[-1] == worst


def test_the_file_system_of_a_folder() -> None:
    if Path("/proc/self/mounts").exists():
        assert health._file_system(Path("/proc/self")) == "proc"
    assert not locking.is_live("nobody/0000000000000000")


def test_init_makes_an_identity_and_settings_once(cli: Any) -> None:
    home = cli.folder / "fresh"
    done = cli("init", "records", "--durability", "call", COUNTERFOIL_HOME=str(home))
    assert (done.returncode, done.stderr) == (0, "")
    written = tomllib.loads((cli.folder / "counterfoil.toml").read_text())
    assert written == {"durability": "call", "evidence": "records", "mode": "observe"}
    assert set(written) <= set(settings.Settings.model_fields)
    identity = (home / "identity.pem").read_bytes()
    again = cli("init", COUNTERFOIL_HOME=str(home))
    assert again.returncode == 0
    assert (home / "identity.pem").read_bytes() == identity
    assert done.stdout.splitlines()[0] == again.stdout.splitlines()[0]


def test_init_does_not_change_settings_that_are_there(cli: Any) -> None:
    path = cli.folder / "counterfoil.toml"
    path.write_text('evidence = "here"\n')
    done = cli("init", "elsewhere")
    assert done.returncode == 2
    assert "CF-CLI-082" in done.stderr
    assert path.read_text() == 'evidence = "here"\n'
    found = cli.json("init")
    assert (found["evidence"], found["made"]) == ("here", False)
    assert not os.path.lexists(cli.folder / "elsewhere")
