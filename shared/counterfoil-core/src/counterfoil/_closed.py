"""Logs that no writer of this home goes on with: one empty file each, ``closed/NAME``."""

from __future__ import annotations

from pathlib import Path

from counterfoil import _home
from counterfoil._folders import sync_folder


def close_log(origin: str) -> None:
    """Let no writer of this home begin another session in a log; on disk when this returns.

    Raises:
        KeyringError: CF-KEYS-008, and those of the home.
    """
    path = _path(origin)
    _home.make_private_dir(path.parent)
    try:
        path.touch(mode=0o600)
        sync_folder(path.parent)
    except OSError as exc:
        _home.refuse_io("cannot close the log", path, exc)


def is_closed(origin: str) -> bool:
    """Whether a log was closed to the writers of this home."""
    return _path(origin).exists()


def _path(origin: str) -> Path:
    return _home.home() / "closed" / _home.name_of(origin)
