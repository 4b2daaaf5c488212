"""The locks of a log: one in the home, which every writer of this home takes, and a hold on the log's own folder."""

from __future__ import annotations

import fcntl
import os
import time
from typing import Final

from counterfoil import _locks, keys
from counterfoil.errors import CounterfoilError
from counterfoil.stores.folder import FolderStore

__all__ = ["is_live", "lock", "lock_log", "unlock"]

_TRIES: Final = 4
_PAUSE: Final = 0.002


def lock_log(store: FolderStore, name: str, origin: str) -> list[int]:
    """The lock in the home and the hold on the log's folder, or none of them; ``unlock`` each."""
    found = lock(origin)
    if found is None:
        return []
    try:
        held = store.hold(name)
    except CounterfoilError:
        held = None
    if held is None:
        unlock(found)
        return []
    _locks.keep_lock(held)
    return [found, held]


def lock(origin: str) -> int | None:
    """The lock of a log, None when a writer has it; raises OSError where there are no locks."""
    path = keys.prepare_lock(origin)
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    _locks.keep_lock(fd)
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)  # a reader that looks whether a writer lives has it for a moment
        except OSError:
            _locks.close_lock(fd)
            raise
        else:
            return fd
    _locks.close_lock(fd)
    return None


def is_live(origin: str) -> bool:
    """Whether a writer on this machine holds a log's lock right now (never creates the lock)."""
    try:
        fd = os.open(keys.lock_path(origin), os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, CounterfoilError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def unlock(held: int) -> None:
    """Give a log free for other writers."""
    # A child that C code forked may hold a copy of the descriptor: closing ours alone would not free the lock.
    try:
        fcntl.flock(held, fcntl.LOCK_UN)
    finally:
        _locks.close_lock(held)
