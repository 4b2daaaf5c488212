"""The secret that fingerprints of environment variables are keyed with: one random file per home."""

from __future__ import annotations

import secrets
from typing import Final

from counterfoil import _home, _locks
from counterfoil.errors import KeyringError

__all__ = ["load_or_create_secret", "load_secret"]

_SIZE: Final = 32


def load_secret() -> bytes | None:
    """The 32 bytes, or None when this home has none yet; makes nothing.

    Raises:
        KeyringError: CF-KEYS-001 to 008; CF-KEYS-014: the file does not hold 32 bytes.
    """
    _home.check_home()
    path = _home.home() / "fingerprint.key"
    data = _home.read_file(path, limit=4096, secret=True)
    if data is not None and len(data) != _SIZE:
        raise KeyringError(
            f"the secret of the environment's fingerprints is not {_SIZE} bytes long",
            code="CF-KEYS-014",
            where=str(path),
            hint="remove the file: later fingerprints cannot be compared with earlier ones then",
        )
    return data


def load_or_create_secret() -> bytes:
    """The 32 bytes; the first use makes them. Safe between processes. Raises KeyringError as ``load_secret``."""
    found = load_secret()
    if found is None:
        with _locks.locked():
            found = load_secret()
            if found is None:
                found = secrets.token_bytes(_SIZE)
                _home.create_file(_home.home() / "fingerprint.key", found)
    return found
