"""One identity however many processes start, and none that is damaged or another's."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from homes import FRIEND, code_of, mode

import counterfoil
from counterfoil import _home, keys
from counterfoil.errors import KeyringError
from counterfoil.keys import Keyring


def test_first_use_makes_and_pins_the_identity(home: Path) -> None:
    old = os.umask(0)
    try:
        key = keys.load_or_create_identity()
    finally:
        os.umask(old)
    assert mode(home) == 0o700
    assert mode(home / "identity.pem") == mode(home / "keyring.json") == 0o600
    assert {path.name for path in home.iterdir()} == {"identity.pem", "keyring.json", "locks"}
    loaded = keys.load_identity()
    assert loaded is not None
    assert loaded.keyid == keys.load_or_create_identity().keyid == key.keyid
    keyring = Keyring.load()
    assert keyring.own == key.keyid
    assert keyring.get(key.keyid) == key.public
    assert keyring.trusts(key.keyid)


def test_the_identity_file_is_what_openssl_writes(home: Path) -> None:
    keys.load_or_create_identity()
    text = (home / "identity.pem").read_text()
    assert re.fullmatch(r"-----BEGIN PRIVATE KEY-----\n[A-Za-z0-9+/]{64}\n-----END PRIVATE KEY-----\n", text)


PROCESS = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from counterfoil import keys
print("ready", flush=True)
sys.stdin.readline()
print(keys.load_or_create_identity().keyid)
"""


def test_processes_that_start_together_get_one_identity(tmp_path: Path) -> None:
    source = str(Path(counterfoil.__path__[0]).parent)
    environment = {**os.environ, "COUNTERFOIL_HOME": str(tmp_path / "home")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(6)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 6
    assert len(set(told)) == 1
    assert len(told[0].strip()) == 64
    assert list((tmp_path / "home").glob(".*")) == []


def test_a_key_made_by_another_process_meanwhile_is_taken(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _home.create_file

    def late(path: Path, data: bytes) -> bool:
        pem = FRIEND._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        assert real(path, pem)
        return real(path, data)

    monkeypatch.setattr(_home, "create_file", late)
    assert keys.load_or_create_identity().keyid == FRIEND.keyid
    assert Keyring.load().own == FRIEND.keyid


def test_a_file_system_without_hard_links(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*arguments: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", unsupported)
    key = keys.load_or_create_identity()
    assert keys.load_or_create_identity().keyid == key.keyid
    assert _home.create_file(home / "identity.pem", b"x") is False
    assert list(home.glob(".*")) == []


def test_a_full_disk_leaves_nothing_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert code_of(keys.load_or_create_identity) == "CF-KEYS-008"
    assert {path.name for path in home.iterdir()} == {"locks"}


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660, 0o777, 0o700 | 0o001])
def test_an_identity_file_that_others_may_use(bits: int, home: Path) -> None:
    keys.load_or_create_identity()
    (home / "identity.pem").chmod(bits)
    assert code_of(keys.load_identity) == code_of(keys.load_or_create_identity) == "CF-KEYS-006"


def test_an_identity_file_of_another_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.load_or_create_identity()
    (home / "identity.pem").chmod(0o600)
    if os.geteuid() == 0:
        os.chown(home / "identity.pem", 12345, -1)
        assert code_of(keys.load_identity) == "CF-KEYS-007"
    else:
        # The folder would be refused first.
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert code_of(_home.read_file, home / "identity.pem", limit=4096, secret=True) == "CF-KEYS-007"


def pem(private: Any, password: bytes | None = None) -> bytes:
    encryption: Any = (
        serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    )
    data: bytes = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return data


OWN = Ed25519PrivateKey.from_private_bytes(b"\x09" * 32)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "CF-KEYS-010"),
        (b"hunter2", "CF-KEYS-010"),
        (pem(OWN)[:-40], "CF-KEYS-010"),
        (pem(OWN).replace(b"\n", b"\r\n"), "CF-KEYS-010"),
        (pem(OWN) + pem(OWN), "CF-KEYS-010"),
        (b"hunter2\n" + pem(OWN), "CF-KEYS-010"),
        (pem(OWN, b"secret"), "CF-KEYS-011"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "CF-KEYS-012"),
        pytest.param(pem(OWN) + b"\n" * 5000, "CF-KEYS-005", id="too large"),
    ],
)
def test_a_damaged_or_strange_identity_file(data: bytes, code: str, home: Path) -> None:
    keys.load_or_create_identity()
    (home / "identity.pem").write_bytes(data)
    for call in (keys.load_identity, keys.load_or_create_identity):
        with pytest.raises(KeyringError) as caught:
            call()
        assert caught.value.code == code
        assert caught.value.where == str(home / "identity.pem")
        assert "hunter2" not in f"{caught.value!r}{caught.value}"
    assert (home / "identity.pem").read_bytes() == data


def test_every_changed_bit_of_the_identity_file_is_noticed(home: Path) -> None:
    keys.load_or_create_identity()
    path = home / "identity.pem"
    good = path.read_bytes()
    codes = set()
    for at in range(len(good) * 8):
        changed = bytearray(good)
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(changed)
        codes.add(code_of(keys.load_or_create_identity))
    assert codes <= {"CF-KEYS-010", "CF-KEYS-012", "CF-KEYS-013"}
    path.write_bytes(good)
    assert keys.load_or_create_identity().keyid == Keyring.load().own


def test_a_replaced_identity_is_refused_until_the_old_pin_goes(home: Path) -> None:
    old = keys.load_or_create_identity()
    (home / "identity.pem").write_bytes(pem(OWN))
    assert code_of(keys.load_or_create_identity) == "CF-KEYS-013"
    Keyring.load().unpin(old.keyid)
    new = keys.load_or_create_identity()
    assert Keyring.load().own == new.keyid != old.keyid


def test_a_lost_identity_gets_a_successor_and_stays_trusted(home: Path) -> None:
    old = keys.load_or_create_identity()
    (home / "identity.pem").unlink()
    new = keys.load_or_create_identity()
    keyring = Keyring.load()
    assert keyring.own == new.keyid != old.keyid
    assert keyring.get(old.keyid) == old.public
    assert [pin.own for pin in keyring.entries()].count(True) == 1


def test_a_crash_between_key_and_pin_is_mended(home: Path) -> None:
    key = keys.load_or_create_identity()
    (home / "keyring.json").unlink()
    assert keys.load_or_create_identity().keyid == key.keyid
    assert Keyring.load().own == key.keyid
