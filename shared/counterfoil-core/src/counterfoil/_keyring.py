"""Whom this user trusts: the own identity and the pinned keys of others.

Evidence carries public keys, people exchange fingerprints. A pin is therefore a fingerprint; it is a
key where SPKI bytes with that hash stand beside what is verified (``Keyring.resolve``). Nothing found in evidence
becomes a pin by itself.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from counterfoil import _files, _home, _locks, canonical
from counterfoil._ed25519 import PublicKey, SigningKey, sha256_hex
from counterfoil.errors import CanonicalError, KeyringError

_VERSION: Final = 0
_MAX_KEYRING: Final = 4 * 1024 * 1024
_MAX_NOTE: Final = 200
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Pin:
    """A trusted fingerprint; ``own`` marks the identity of this home, ``spki`` is known or not.

    ``admin`` marks a key that may sign trust policies; the own identity may anyway.
    """

    fingerprint: str
    note: str = ""
    own: bool = False
    spki: bytes | None = None
    admin: bool = False


class Keyring:
    """The pinned keys. A change is on disk when the method returns."""

    __slots__ = ("_known", "_path", "_pins", "_shared")

    def __init__(self) -> None:
        """An empty keyring that is never saved; ``load`` reads the user's."""
        self._pins: dict[str, Pin] = {}
        self._known: dict[str, PublicKey] = {}
        self._path: Path | None = None
        self._shared = False

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> Self:
        """The keyring of this user (empty when there is none yet), or the one at ``path``, which must exist.

        Raises:
            KeyringError: CF-KEYS-001 to 008: the place cannot be trusted or read; CF-KEYS-020: the file is
                malformed; CF-KEYS-021: there is no file at ``path``.
            WeakKeyError: CF-KEYS-031: it holds a key that must not be trusted.
        """
        keyring = cls()
        if path is None:
            keyring._path = _home.home() / "keyring.json"
            keyring._shared = True
            _home.check_home()
        else:
            keyring._path = Path(path)
        keyring._read()
        return keyring

    @classmethod
    def of(cls, keys: Iterable[PublicKey], *, admins: Iterable[PublicKey] = ()) -> Self:
        """A keyring in memory that trusts exactly these keys; ``admins`` are keys that may sign trust policies."""
        keyring = cls()
        chiefs = tuple(admins)
        for key in (*keys, *chiefs):
            keyring._pins[key.keyid] = Pin(key.keyid, spki=key.spki, admin=key in chiefs)
            keyring._known[key.keyid] = key
        return keyring

    @property
    def admins(self) -> frozenset[str]:
        """Fingerprints of the keys that may sign trust policies here."""
        return frozenset(pin.fingerprint for pin in self._pins.values() if pin.admin or pin.own)

    @property
    def own(self) -> str | None:
        """Fingerprint of this home's own identity."""
        return next((pin.fingerprint for pin in self._pins.values() if pin.own), None)

    def trusts(self, keyid: str) -> bool:
        """Whether the fingerprint is pinned, its key known or not."""
        return keyid in self._pins

    def get(self, keyid: str) -> PublicKey | None:
        """The pinned key, or None when it is not pinned or only its fingerprint is."""
        return self._known.get(keyid)

    def resolve(self, keyid: str, spki: bytes) -> PublicKey | None:
        """The pinned key whose SPKI was found in evidence, or None when not pinned or the hash differs.

        Nothing is remembered: what is said of a statement must not depend on what was read before it.

        Raises:
            KeyringError: CF-KEYS-030: the pinned key is not an Ed25519 key.
            WeakKeyError: CF-KEYS-031: the pinned key must not be trusted.
        """
        if keyid not in self._pins:
            return None
        known = self._known.get(keyid)
        if known is not None:
            return known if known.spki == spki else None
        if not _hash_fits(keyid, spki):
            return None
        return PublicKey.from_spki(spki)

    def entries(self) -> list[Pin]:
        """All pins, by fingerprint."""
        return [self._pins[name] for name in sorted(self._pins)]

    def pin(
        self, fingerprint: str, *, note: str = "", spki: bytes | None = None, admin: bool | None = None
    ) -> Pin:
        """Trusts a fingerprint that was obtained from the key's owner. Pinning again updates note, key and admin.

        Raises:
            KeyringError: CF-KEYS-022: not a fingerprint; CF-KEYS-023: ``spki`` has another hash; CF-KEYS-024:
                the note is too long or has control characters; CF-KEYS-030; and those of ``load``.
            WeakKeyError: CF-KEYS-031.
        """
        name = _normal(fingerprint)
        _check_note(note)
        key = None if spki is None else _matching(name, spki)
        with self._changing():
            old = self._pins.get(name)
            pin = Pin(
                name,
                note=note or (old.note if old else ""),
                own=old is not None and old.own,
                spki=key.spki if key else (old.spki if old else None),
                admin=admin if admin is not None else old is not None and old.admin,
            )
            self._put(pin)
        return pin

    def unpin(self, fingerprint: str) -> None:
        """Trusts a fingerprint no longer.

        Raises:
            KeyringError: CF-KEYS-022: not a fingerprint; CF-KEYS-025: not pinned; and those of ``load``.
        """
        name = _normal(fingerprint)
        with self._changing():
            if name not in self._pins:
                _refuse(
                    "025",
                    "this fingerprint is not pinned",
                    where=name,
                    hint="counterfoil keys lists the pins",
                )
            del self._pins[name]
            self._known.pop(name, None)

    def adopt(self, key: SigningKey) -> None:
        """Makes ``key`` the own one; the caller holds the home's lock. An earlier identity stays trusted."""
        for pin in list(self._pins.values()):
            if pin.own:
                self._put(Pin(pin.fingerprint, note=pin.note, spki=pin.spki, admin=pin.admin))
        self._put(Pin(key.keyid, note="own identity", own=True, spki=key.spki))
        self._write()

    def _put(self, pin: Pin) -> None:
        self._pins[pin.fingerprint] = pin
        if pin.spki is not None:
            self._known[pin.fingerprint] = PublicKey.from_spki(pin.spki)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        with _locks.locked() if self._shared else contextlib.nullcontext():
            self._read()
            yield
            self._write()

    def _read(self) -> None:
        path = self._path
        if path is None:
            return
        if self._shared:
            data = _home.read_file(path, limit=_MAX_KEYRING, secret=False)
        else:
            data = _read_given(path)
        pins = {} if data is None else _parse(path, data)
        self._pins, self._known = {}, {}
        for pin in pins.values():
            self._put(pin)

    def _write(self) -> None:
        if self._path is None:
            return
        pins = {pin.fingerprint: _entry(pin) for pin in self._pins.values()}
        _home.write_file(self._path, canonical.dumps_record({"pins": pins, "version": _VERSION}) + b"\n")

    def __repr__(self) -> str:
        return f"Keyring({len(self._pins)} pins)"


def _read_given(path: Path) -> bytes:
    # A file the user names is theirs to judge: it may be shared and belong to somebody else.
    try:
        if path.is_dir():
            path = path / "keyring.json"
        data = _files.read_given(path, limit=_MAX_KEYRING)
    except FileNotFoundError:
        _refuse("021", "there is no keyring file", where=path, hint="check the path")
    except OSError as exc:
        if exc.errno in (errno.EFBIG, errno.EINVAL):
            _refuse("005", "not a regular file of the expected size", where=path, hint="check the path")
        _refuse("008", f"cannot read the file: {exc.strerror}", where=path, hint="check who may read it")
    if len(data) > _MAX_KEYRING:
        _refuse("005", "not a regular file of the expected size", where=path, hint="check the path")
    return data


def _parse(path: Path, data: bytes) -> dict[str, Pin]:
    try:
        content = canonical.loads(data, max_depth=4, max_bytes=_MAX_KEYRING)
    except CanonicalError as exc:
        _refuse_file(path, exc.message)
    if not isinstance(content, dict) or set(content) != {"pins", "version"}:
        _refuse_file(path, "members must be pins and version")
    if type(content["version"]) is not int or content["version"] != _VERSION:
        _refuse_file(path, "unknown version")
    if not isinstance(content["pins"], dict):
        _refuse_file(path, "pins must be an object")
    pins = {name: _pin_of(path, name, entry) for name, entry in content["pins"].items()}
    if sum(pin.own for pin in pins.values()) > 1:
        _refuse_file(path, "more than one own identity")
    return pins


def _pin_of(path: Path, name: str, entry: Any) -> Pin:
    if not _FINGERPRINT.fullmatch(name) or not isinstance(entry, dict):
        _refuse_file(path, "a pin is not a fingerprint with an object")
    note, own, admin = entry.get("note", ""), entry.get("own", False), entry.get("admin", False)
    known = set(entry) <= {"admin", "note", "own", "spki"}
    if not known or not isinstance(note, str) or not isinstance(own, bool) or not isinstance(admin, bool):
        _refuse_file(path, "a pin has unknown members")
    if not _note_fits(note):
        _refuse_file(path, "the note of a pin is too long or has control characters")
    spki = _spki_of(path, name, entry["spki"]) if "spki" in entry else None
    return Pin(name, note=note, own=own, spki=spki, admin=admin)


def _spki_of(path: Path, name: str, text: Any) -> bytes:
    try:
        spki = base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        _refuse_file(path, "the key of a pin is not base64")
    if base64.b64encode(spki).decode() != text or not _hash_fits(name, spki):
        _refuse_file(path, "the key of a pin does not have the pinned fingerprint")
    return PublicKey.from_spki(spki).spki


def _entry(pin: Pin) -> dict[str, Any]:
    entry: dict[str, Any] = {"note": pin.note, "own": pin.own}
    if pin.admin:
        entry["admin"] = True
    if pin.spki is not None:
        entry["spki"] = base64.b64encode(pin.spki).decode()
    return entry


def _normal(fingerprint: str) -> str:
    name = fingerprint.strip().lower().removeprefix("sha256:").replace(":", "")
    if not _FINGERPRINT.fullmatch(name):
        _refuse("022", "not a fingerprint", where=fingerprint[:100], hint="give all 64 hexadecimal digits")
    return name


def _check_note(note: str) -> None:
    if not _note_fits(note):
        _refuse(
            "024", "the note cannot be kept", where=None, hint=f"at most {_MAX_NOTE} printable characters"
        )


def _note_fits(note: str) -> bool:
    return len(note) <= _MAX_NOTE and note.isprintable()


def _matching(name: str, spki: bytes) -> PublicKey:
    if not _hash_fits(name, spki):
        _refuse("023", "the key does not have this fingerprint", where=name, hint="ask its owner again")
    return PublicKey.from_spki(spki)


def _hash_fits(name: str, spki: bytes) -> bool:
    return sha256_hex(spki) == name


def _refuse_file(path: Path, why: str) -> NoReturn:
    _refuse("020", f"the keyring is malformed: {why}", where=path, hint="restore it, or pin the keys again")


def _refuse(number: str, message: str, *, where: Path | str | None, hint: str) -> NoReturn:
    raise KeyringError(
        message, code=f"CF-KEYS-{number}", where=None if where is None else str(where), hint=hint
    ) from None
