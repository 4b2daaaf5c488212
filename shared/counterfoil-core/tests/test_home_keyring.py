"""The keyring of pins: fingerprints as people paste them, weak keys, processes at one time."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from homes import FRIEND, NAME, SPKI, code_of, digest

import counterfoil
from counterfoil import _locks, keys
from counterfoil.errors import WeakKeyError
from counterfoil.keys import Keyring, PublicKey, SigningKey


def test_pin_by_fingerprint_alone(home: Path) -> None:
    keyring = Keyring.load()
    pin = keyring.pin(FRIEND.keyid, note="Ann, by phone")
    assert (pin.fingerprint, pin.note, pin.own, pin.spki) == (FRIEND.keyid, "Ann, by phone", False, None)
    keyring = Keyring.load()
    assert keyring.trusts(FRIEND.keyid)
    assert keyring.get(FRIEND.keyid) is None
    other = SigningKey.generate()
    assert keyring.resolve(FRIEND.keyid, other.spki) is None
    assert keyring.resolve(other.keyid, other.spki) is None
    assert keyring.get(FRIEND.keyid) is None
    assert keyring.resolve(FRIEND.keyid, FRIEND.spki) == FRIEND.public
    assert keyring.get(FRIEND.keyid) is None
    assert keyring.resolve(FRIEND.keyid, other.spki) is None
    assert not keyring.trusts(other.keyid)
    # What was seen in evidence is not written into the keyring.
    assert Keyring.load().get(FRIEND.keyid) is None


def test_pin_with_its_key(home: Path) -> None:
    Keyring.load().pin(FRIEND.keyid, spki=FRIEND.spki)
    assert Keyring.load().get(FRIEND.keyid) == FRIEND.public
    assert code_of(Keyring.load().pin, FRIEND.keyid, spki=SigningKey.generate().spki) == "CF-KEYS-023"


def test_pinning_again_updates_and_keeps(home: Path) -> None:
    own = keys.load_or_create_identity()
    keyring = Keyring.load()
    keyring.pin(FRIEND.keyid, note="first")
    keyring.pin(FRIEND.keyid, spki=FRIEND.spki)
    assert keyring.pin(FRIEND.keyid).note == "first"
    assert Keyring.load().get(FRIEND.keyid) == FRIEND.public
    assert keyring.pin(own.keyid, note="me").own
    assert Keyring.load().own == own.keyid
    assert [pin.fingerprint for pin in keyring.entries()] == sorted([own.keyid, FRIEND.keyid])


@pytest.mark.parametrize("form", ["{}", " {}\n", "sha256:{}", "SHA256:{}"])
def test_fingerprints_as_people_paste_them(form: str, home: Path) -> None:
    text = form.format(FRIEND.keyid)
    colons = ":".join(FRIEND.keyid[at : at + 2] for at in range(0, 64, 2)).upper()
    assert Keyring.load().pin(text).fingerprint == Keyring.load().pin(colons).fingerprint == FRIEND.keyid


@pytest.mark.parametrize("text", ["", "abcd", FRIEND.keyid[:-1], FRIEND.keyid + "0", "g" * 64, "\u0661" * 64])
def test_malformed_fingerprints(text: str, home: Path) -> None:
    assert code_of(Keyring.load().pin, text) == code_of(Keyring.load().unpin, text) == "CF-KEYS-022"


@pytest.mark.parametrize("note", ["a\nb", "\x1b[31mred", "x" * 201, "\u202e", "\x00", "\ud800"])
def test_notes_that_are_not_kept(note: str, home: Path) -> None:
    assert code_of(Keyring.load().pin, FRIEND.keyid, note=note) == "CF-KEYS-024"


def test_unpin(home: Path) -> None:
    keyring = Keyring.load()
    keyring.pin(FRIEND.keyid, spki=FRIEND.spki)
    stale = Keyring.load()
    keyring.unpin(FRIEND.keyid)
    assert not keyring.trusts(FRIEND.keyid)
    assert keyring.get(FRIEND.keyid) is None
    assert code_of(keyring.unpin, FRIEND.keyid) == "CF-KEYS-025"
    # Another process's change is read before anything is written, and forgotten keys are forgotten.
    stale.pin(SigningKey.generate().keyid)
    assert not stale.trusts(FRIEND.keyid)
    assert stale.get(FRIEND.keyid) is None
    assert len(Keyring.load().entries()) == 1


def test_weak_keys_never_enter(home: Path) -> None:
    spki = FRIEND.spki[:12] + (1).to_bytes(32, "little")
    weak = digest(spki)
    keyring = Keyring.load()
    with pytest.raises(WeakKeyError):
        keyring.pin(weak, spki=spki)
    keyring.pin(weak)
    with pytest.raises(WeakKeyError):
        keyring.resolve(weak, spki)
    assert keyring.get(weak) is None
    text = json.dumps({"pins": {weak: {"spki": base64.b64encode(spki).decode()}}, "version": 0})
    (home / "keyring.json").write_text(text)
    with pytest.raises(WeakKeyError):
        Keyring.load()


def test_a_pinned_key_of_another_kind(home: Path) -> None:
    spki = (
        ec.generate_private_key(ec.SECP256R1())
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    keyring = Keyring.load()
    keyring.pin(digest(spki))
    assert code_of(keyring.resolve, digest(spki), spki) == "CF-KEYS-030"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"pins":{},"version":1}',
        '{"pins":{},"version":false}',
        '{"pins":{},"version":0.0}',
        '{"pins":[],"version":0}',
        '{"pins":{},"version":0,"extra":1}',
        '{"pins":{},"pins":{},"version":0}',
        '{"pins":{"abcd":{}},"version":0}',
        f'{{"pins":{{"{NAME.upper()}":{{}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":null}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"trust":1}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"own":1}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"note":1}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"note":"\\u001b[0m"}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"spki":null}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"spki":"{SPKI[:-4]}"}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"spki":" {SPKI}"}}}},"version":0}}',
        f'{{"pins":{{"{"0" * 64}":{{"spki":"{SPKI}"}}}},"version":0}}',
        f'{{"pins":{{"{NAME}":{{"own":true}},"{"0" * 64}":{{"own":true}}}},"version":0}}',
        "[" * 100,
    ],
)
def test_malformed_keyrings(text: str, home: Path, tmp_path: Path) -> None:
    home.mkdir(parents=True, mode=0o700)
    (home / "keyring.json").write_text(text)
    (home / "keyring.json").chmod(0o600)
    assert code_of(Keyring.load) == "CF-KEYS-020"
    assert code_of(keys.load_or_create_identity) == "CF-KEYS-020"
    given = tmp_path / "given.json"
    given.write_text(text)
    assert code_of(Keyring.load, given) == "CF-KEYS-020"
    assert (home / "keyring.json").read_text() == text


def test_a_keyring_that_others_can_write(home: Path) -> None:
    Keyring.load().pin(FRIEND.keyid)
    (home / "keyring.json").chmod(0o622)
    assert code_of(Keyring.load) == "CF-KEYS-006"


def test_a_keyring_given_by_path(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "shared.json"
    assert code_of(Keyring.load, path) == "CF-KEYS-021"
    assert code_of(Keyring.load, tmp_path) == "CF-KEYS-021"  # a folder is that of its keyring.json
    path.write_text(f'{{ "version": 0,\n "pins": {{"{NAME}": {{"spki": "{SPKI}", "note": "Ann"}}}} }}\n')
    path.chmod(0o666)
    keyring = Keyring.load(str(path))
    assert keyring.get(NAME) == FRIEND.public
    keyring.pin("0" * 64)
    assert [pin.fingerprint for pin in Keyring.load(path).entries()] == ["0" * 64, NAME]
    assert not home.exists()
    path.write_bytes(b" " * (5 * 1024 * 1024))
    assert code_of(Keyring.load, path) == "CF-KEYS-005"


def test_a_keyring_in_memory(home: Path) -> None:
    keyring = Keyring.of([FRIEND.public])
    keyring.pin("0" * 64)
    keyring.unpin(NAME)
    assert [pin.fingerprint for pin in keyring.entries()] == ["0" * 64]
    assert not home.exists()
    assert repr(keyring) == "Keyring(1 pins)"


PINNER = """
import sys
sys.path.insert(0, sys.argv[1])
from counterfoil import keys
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 5):
    keys.Keyring.load().pin(f"{number:064x}")
"""


def test_pins_of_processes_at_one_time_are_all_kept(home: Path) -> None:
    source = str(Path(counterfoil.__path__[0]).parent)
    environment = {**os.environ, "COUNTERFOIL_HOME": str(home)}
    running = [
        subprocess.Popen([sys.executable, "-c", PINNER, source, str(first)], env=environment)
        for first in range(0, 20, 5)
    ]
    assert [process.wait() for process in running] == [0] * 4
    assert [pin.fingerprint for pin in Keyring.load().entries()] == [f"{number:064x}" for number in range(20)]


def test_a_lock_held_too_long(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_locks, "_LOCK_SECONDS", 0.0)
    with _locks.locked():
        assert code_of(Keyring.load().pin, NAME) == "CF-KEYS-009"
    Keyring.load().pin(NAME)


def test_public_key_is_what_pins_resolve_to() -> None:
    assert isinstance(Keyring.of([FRIEND.public]).get(NAME), PublicKey)
