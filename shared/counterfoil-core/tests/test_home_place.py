"""The private folder: where it is, what makes it, and what is in the way."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from homes import HEAD, code_of, foreign_owner, mode

from counterfoil import _home, keys
from counterfoil.keys import Keyring


def test_home_is_fixed_when_the_interpreter_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = keys.home()
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("COUNTERFOIL_HOME", str(tmp_path / "other"))
    assert keys.home() == before


@pytest.mark.parametrize(
    ("value", "expected"),
    [("{tmp}/a/../b", "{tmp}/b"), ("~/x", "{tmp}/x"), ("", "{tmp}/share/counterfoil")],
)
def test_home_of_the_environment(
    value: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("COUNTERFOIL_HOME", value.format(tmp=tmp_path))
    found = _home._resolve()
    if value or sys.platform == "linux":
        assert found == Path(expected.format(tmp=tmp_path))
    else:
        assert found is not None
        assert found.is_absolute()


def test_no_home_directory_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_home, "_home", None)
    for call in (
        keys.home,
        keys.load_identity,
        keys.load_or_create_identity,
        Keyring.load,
        keys.remembered_heads,
    ):
        assert code_of(call) == "CF-KEYS-001"
    monkeypatch.setenv("COUNTERFOIL_HOME", "~no-such-user-anywhere/x")
    assert _home._resolve() is None


def test_readers_make_nothing(home: Path) -> None:
    assert keys.load_identity() is None
    assert Keyring.load().entries() == []
    assert keys.remembered_heads() == {}
    assert keys.remembered_head("o") is None
    assert keys.forget_head("o") is False
    assert keys.lock_path("o").parent == home / "locks"
    assert not home.parent.exists()


def test_a_file_in_the_way(home: Path) -> None:
    home.parent.mkdir()
    home.write_text("x")
    calls: list[Any] = [keys.load_identity, keys.load_or_create_identity, Keyring.load, keys.remembered_heads]
    for call in calls:
        assert code_of(call) == "CF-KEYS-003"
    home.unlink()
    home.parent.rmdir()
    home.parent.write_text("x")
    for call in calls:
        assert code_of(call) == "CF-KEYS-003"


@pytest.mark.parametrize("name", ["identity.pem", "keyring.json", "locks", "heads"])
def test_the_wrong_kind_of_thing_in_the_home(name: str, home: Path) -> None:
    home.mkdir(parents=True, mode=0o700)
    if "." in name:
        (home / name).mkdir()
        assert code_of(keys.load_or_create_identity) == "CF-KEYS-005"
        (home / name).rmdir()
        os.mkfifo(home / name, 0o600)
        assert code_of(keys.load_or_create_identity) == "CF-KEYS-005"
    else:
        (home / name).write_text("x")
        assert code_of(keys.remember_head, "o", **HEAD) == "CF-KEYS-003"


def test_an_unreadable_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.load_or_create_identity()
    real = os.open

    def refused(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).startswith(str(home)):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
    for call in (keys.load_identity, keys.load_or_create_identity, Keyring.load):
        assert code_of(call) == "CF-KEYS-008"
    monkeypatch.setattr(Path, "stat", lambda self: refused(self))
    assert code_of(keys.load_identity) == "CF-KEYS-002"


def test_a_home_that_cannot_be_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, *arguments: Any, **options: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refused)
    assert code_of(keys.load_or_create_identity) == "CF-KEYS-002"


@pytest.mark.parametrize("bits", [0o720, 0o702, 0o777])
def test_a_home_that_others_can_change(bits: int, home: Path) -> None:
    keys.load_or_create_identity()
    home.chmod(bits)
    for call in (keys.load_identity, keys.load_or_create_identity, Keyring.load, keys.remembered_heads):
        assert code_of(call) == "CF-KEYS-004"
    home.chmod(0o755)
    assert keys.load_identity() is not None


def test_a_home_of_another_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.load_or_create_identity()
    foreign_owner(home, monkeypatch)
    assert code_of(keys.load_identity) == "CF-KEYS-004"


def test_locks_of_logs(home: Path) -> None:
    path = keys.lock_path("o/1")
    assert path.parent == home / "locks"
    assert path != keys.lock_path("o/2")
    assert not home.exists()
    assert keys.prepare_lock("o/1") == path
    assert mode(path.parent) == 0o700
    assert not path.exists()
