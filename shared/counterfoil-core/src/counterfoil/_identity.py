"""The identity key of this user: one Ed25519 key in a private file, made at first use.

The file is PKCS#8 PEM and must be exactly what this module writes. A changed bit in it is a valid key of
somebody nobody knows, so the fingerprint pinned when it was made is compared whenever it is used for writing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil import _home, _locks
from counterfoil._ed25519 import SigningKey
from counterfoil._keyring import Keyring
from counterfoil.errors import KeyringError

_MAX_PEM: Final = 4096


def load_identity() -> SigningKey | None:
    """The identity key, or None when this user has none yet; makes nothing.

    Raises:
        KeyringError: CF-KEYS-001 to 008: the home or the file cannot be trusted; CF-KEYS-010 to 012: damaged,
            encrypted, or another kind of key.
    """
    _home.check_home()
    path = _identity_path()
    data = _home.read_file(path, limit=_MAX_PEM, secret=True)
    return None if data is None else _parse_identity(path, data)


def load_or_create_identity() -> SigningKey:
    """The identity key of this user; the first use makes it and pins it. Safe between processes.

    Raises:
        KeyringError: as ``load_identity``; CF-KEYS-009: another process holds the keyring; CF-KEYS-013: the
            key is not the one this home began with; CF-KEYS-020: the keyring is damaged.
    """
    with _locks.locked():
        path = _identity_path()
        key = load_identity()
        created = key is None
        if key is None:
            key = SigningKey.generate()
            if not _home.create_file(path, _pem(key)):
                key, created = load_identity(), False
        if key is None:
            _refuse("010", "the identity key vanished while it was read", where=path, hint="try again")
        _claim(key, created=created)
        return key


def _identity_path() -> Path:
    return _home.home() / "identity.pem"


def _claim(key: SigningKey, *, created: bool) -> None:
    keyring = Keyring.load()
    own = keyring.own
    if own == key.keyid:
        return
    if own is not None and not created:
        _refuse(
            "013",
            "the identity key is not the one that this home began with",
            where=_identity_path(),
            hint=f"restore the key {own}, or unpin that fingerprint if you replaced the key on purpose",
        )
    keyring.adopt(key)


def _parse_identity(path: Path, data: bytes) -> SigningKey:
    try:
        private = serialization.load_pem_private_key(data, password=None)
    except TypeError:
        _refuse("011", "the identity key is encrypted", where=path, hint="store it without a password")
    except Exception:
        # One changed bit can make it the key of another algorithm, which fails deep inside OpenSSL.
        _refuse("010", "the identity key is damaged", where=path, hint="restore it from a backup")
    if not isinstance(private, Ed25519PrivateKey):
        _refuse("012", "the identity key is not an Ed25519 key", where=path, hint="move the file away")
    key = SigningKey(private)
    if _pem(key) != data:
        _refuse(
            "010",
            "the identity key is not in plain PKCS#8 PEM form",
            where=path,
            hint="openssl pkey -in FILE writes this form",
        )
    return key


def _pem(key: SigningKey) -> bytes:
    return key._private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _refuse(number: str, message: str, *, where: Path, hint: str) -> NoReturn:
    raise KeyringError(message, code=f"CF-KEYS-{number}", where=str(where), hint=hint) from None
