"""The private folder: one identity however many processes start, a keyring of pins, remembered heads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import counterfoil
from counterfoil import _home, _locks, keys
from counterfoil.errors import KeyringError, WeakKeyError
from counterfoil.keys import Keyring, PublicKey, SigningKey

FRIEND = SigningKey(Ed25519PrivateKey.from_private_bytes(b"\x05" * 32))
ROOT = bytes(range(32)).hex()
HEAD: dict[str, Any] = {"size": 10, "root": ROOT, "evidence": "/data/evidence", "segment": 3, "offset": 4096}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "private" / "home"
    keys.set_home(path)
    yield path
    keys.set_home(None)


def code_of(call: Any, *arguments: Any, **options: Any) -> str | None:
    try:
        call(*arguments, **options)
    except KeyringError as exc:
        return exc.code if exc.hint else "without a hint"
    return None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def foreign_owner(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a file or folder look as if another, ordinary user owned it."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)


def digest(spki: bytes) -> str:
    return hashlib.sha256(spki).hexdigest()


# --- where it is -------------------------------------------------------------------------------------------


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


# --- identity ----------------------------------------------------------------------------------------------


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


# --- keyring -----------------------------------------------------------------------------------------------


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
    assert keyring.get(FRIEND.keyid) == FRIEND.public
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


SPKI = base64.b64encode(FRIEND.spki).decode()
NAME = FRIEND.keyid


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


# --- remembered heads and locks ----------------------------------------------------------------------------


def test_heads_are_remembered_by_origin(home: Path) -> None:
    kept = keys.remember_head("o/1", **HEAD)
    other = keys.remember_head(
        "o/2 \u00e9\U0001f600", **{**HEAD, "segment": "000001.seg", "evidence": Path("/x")}
    )
    assert keys.remembered_heads() == {"o/1": kept, "o/2 \u00e9\U0001f600": other}
    assert keys.remembered_head("o/1") == keys.Head("o/1", **HEAD)
    assert other.evidence == "/x"
    assert mode(home / "heads") == 0o700
    assert {mode(path) for path in (home / "heads").iterdir()} == {0o600}
    assert keys.forget_head("o/1") is True
    assert keys.forget_head("o/1") is False
    assert list(keys.remembered_heads()) == ["o/2 \u00e9\U0001f600"]


def test_a_head_never_goes_back(home: Path) -> None:
    kept = keys.remember_head("o", **HEAD)
    assert keys.remember_head("o", **{**HEAD, "size": 9, "root": "00" * 32}) == kept
    moved = keys.remember_head("o", **{**HEAD, "evidence": "/elsewhere"}, sync=False)
    assert keys.remembered_head("o") == moved
    assert moved.evidence == "/elsewhere"
    larger = keys.remember_head("o", **{**HEAD, "size": 11, "root": bytes(32)})
    assert larger.root == "00" * 32
    assert keys.remembered_head("o") == larger


def test_two_roots_of_one_size_are_two_histories(home: Path) -> None:
    kept = keys.remember_head("o", **HEAD)
    assert code_of(keys.remember_head, "o", **{**HEAD, "root": "00" * 32}) == "CF-KEYS-042"
    assert keys.remembered_head("o") == kept


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"size": 2**53},
        {"size": True},
        {"root": b"short"},
        {"root": ROOT.upper()},
        {"root": ROOT[:-1]},
        {"offset": -1},
        {"segment": -1},
        {"segment": None},
        {"evidence": "x" * 5000},
        {"evidence": "/x\udcff"},
        {"segment": "\ud800"},
    ],
)
def test_heads_that_cannot_be_kept(wrong: dict[str, Any], home: Path) -> None:
    assert code_of(keys.remember_head, "o", **{**HEAD, **wrong}) == "CF-KEYS-041"
    assert code_of(keys.remember_head, "", **HEAD) == "CF-KEYS-041"
    assert code_of(keys.remember_head, "\ud800", **HEAD) == "CF-KEYS-041"
    assert not home.exists()


@pytest.mark.parametrize("left", [b"", bytes(1), bytes(223)], ids=len)
def test_what_a_power_failure_leaves_of_a_head_is_no_head(home: Path, left: bytes) -> None:
    """Heads are replaced without a sync: the name may be on disk before the bytes are."""
    keys.remember_head("o", **HEAD)
    (path,) = (home / "heads").glob("*.json")
    path.write_bytes(left)
    assert (keys.remembered_head("o"), keys.remembered_heads()) == (None, {})
    kept = keys.remember_head("o", **HEAD)
    assert keys.remembered_heads() == {"o": kept}


def test_a_damaged_head_keeps_nobody_from_recording(lab: Any) -> None:
    """Its log is left alone, for what should be there of it cannot be told; other logs and other places go on."""
    lab.record()
    (path,) = (lab.home / "heads").glob("*.json")
    good = path.read_bytes()
    path.write_bytes(good[:100])
    lab.record()
    lab.record(evidence=lab.root / "another")
    assert lab.verify(lab.root / "another").verdict == "cannot-tell"
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("cannot-tell", 2)
    assert {finding.code for finding in result.findings} == {"CF-KEYS-040"}
    path.write_bytes(good)
    assert lab.verify().verdict == "intact"


def test_what_killed_processes_left_of_heads_is_swept(home: Path) -> None:
    keys.remember_head("o", **HEAD)
    old, new = home / "heads" / ".a.json.0123.tmp", home / "heads" / ".b.json.4567.tmp"
    for path in (old, new):
        path.write_bytes(b"{")
    os.utime(old, (1, 1))
    keys.sweep_heads()
    assert (old.exists(), new.exists()) == (False, True)
    assert list(keys.remembered_heads()) == ["o"]


def test_a_damaged_head_is_not_passed_over(home: Path) -> None:
    keys.remember_head("o", **HEAD)
    [path] = (home / "heads").iterdir()
    good = path.read_bytes()
    broken = [
        good[:-1],
        good + b"\n",
        good.replace(b'"size":10', b'"size":"10"'),
        good.replace(b'"size":10', b'"size":10.5'),
        good.replace(b'"version":0', b'"version":1'),
        good.replace(b'"version":0', b'"version":false'),
        good.replace(ROOT.encode(), ROOT.upper().encode()),
        good.replace(ROOT.encode(), b"zz"),
        good.replace(b'"origin":"o"', b'"origin":"p"'),
        good.replace(b'"origin":"o"', b'"origin":1'),
        good.replace(b'"segment":3', b'"segment":null'),
        good.replace(b'"segment":3,', b""),
        b"[]",
    ]
    for data in broken:
        assert data != good
        path.write_bytes(data)
        assert code_of(keys.remembered_heads) == code_of(keys.remembered_head, "o") == "CF-KEYS-040"
        assert code_of(keys.remember_head, "o", **HEAD) == "CF-KEYS-040"
    path.write_bytes(good)
    (path.parent / f".{path.name}.0011.tmp").write_bytes(b"left by a killed process")
    assert list(keys.remembered_heads()) == ["o"]


def test_heads_that_cannot_be_listed_or_forgotten(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.remember_head("o", **HEAD)

    def refused(*arguments: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refused)
    assert code_of(keys.remembered_heads) == "CF-KEYS-008"
    monkeypatch.setattr(Path, "unlink", refused)
    assert code_of(keys.forget_head, "o") == "CF-KEYS-008"


def test_locks_of_logs(home: Path) -> None:
    path = keys.lock_path("o/1")
    assert path.parent == home / "locks"
    assert path != keys.lock_path("o/2")
    assert not home.exists()
    assert keys.prepare_lock("o/1") == path
    assert mode(path.parent) == 0o700
    assert not path.exists()


def test_public_key_is_what_pins_resolve_to() -> None:
    assert isinstance(Keyring.of([FRIEND.public]).get(NAME), PublicKey)
