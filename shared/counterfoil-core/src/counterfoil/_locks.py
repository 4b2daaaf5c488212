"""The home's own lock, and what a forked child must not keep of any lock.

``flock`` belongs to the open file, which a fork shares: a child that lives on would hold its parent's locks.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from counterfoil import _home
from counterfoil.errors import KeyringError

if sys.platform != "win32":
    import fcntl

_LOCK_SECONDS: Final = 10.0
_held: set[int] = set()


@contextlib.contextmanager
def locked(*, seconds: float | None = None) -> Iterator[None]:
    """Holds the home's own lock, so that read, change and write of one process stay together.

    Raises:
        KeyringError: CF-KEYS-002 to 004, 008; CF-KEYS-009 when another process holds it for ten seconds, or
            ``seconds``.
    """
    folder = _home.home() / "locks"
    _home.make_private_dir(folder)
    path = folder / "home.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as exc:
        _home.refuse_io("cannot open the lock", path, exc)
    keep_lock(fd)
    try:
        if sys.platform != "win32":
            _take(fd, path, _LOCK_SECONDS if seconds is None else seconds)
        yield
    finally:
        if fd in _held:  # not in a child forked meanwhile
            if sys.platform != "win32":
                # A child that C code forked may hold a copy: closing ours alone would not free the lock.
                fcntl.flock(fd, fcntl.LOCK_UN)
            close_lock(fd)


def keep_lock(fd: int) -> None:
    """Note a lock's descriptor, so that forked children give up their copies."""
    _held.add(fd)


def close_lock(fd: int) -> None:
    """Close a lock's descriptor noted by ``keep_lock``; nothing where a fork has closed it."""
    if fd in _held:
        _held.discard(fd)
        os.close(fd)


def _close_in_child() -> None:
    while _held:
        with contextlib.suppress(OSError):
            os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


if sys.platform != "win32":

    def _take(fd: int, path: Path, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise KeyringError(
                        "another process holds the keyring",
                        code="CF-KEYS-009",
                        where=str(path),
                        hint="wait for it, or end it if it hangs",
                    ) from None
                time.sleep(0.01)
            except OSError as exc:
                _home.refuse_io("cannot lock", path, exc)
            else:
                return
