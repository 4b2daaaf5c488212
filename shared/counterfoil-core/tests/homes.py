"""What the tests of a home share: keys, the code of a refusal, modes and owners of files."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil.errors import KeyringError
from counterfoil.keys import SigningKey

FRIEND = SigningKey(Ed25519PrivateKey.from_private_bytes(b"\x05" * 32))
ROOT = bytes(range(32)).hex()
HEAD: dict[str, Any] = {"size": 10, "root": ROOT, "evidence": "/data/evidence", "segment": 3, "offset": 4096}


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


SPKI = base64.b64encode(FRIEND.spki).decode()
NAME = FRIEND.keyid
