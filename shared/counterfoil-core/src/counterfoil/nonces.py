"""Which handoffs this identity accepted already, so that none is acted on twice: by any process, before or after a
restart.

Receipts in the evidence tell it for good. Until one is on disk, and between processes that run at the same time, a file
in the Counterfoil home does, made in one step; it may go once the handoff has expired.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterfoil import _home, records, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError

if TYPE_CHECKING:
    from counterfoil.recorder import Recorder

__all__ = ["Nonces"]

_GRACE: Final = 600.0
"""Seconds that a file outlives its handoff, for clocks that differ."""


class Nonces:
    """The nonces used under this identity, as far as one evidence and this home tell."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._fresh()

    def _fresh(self) -> None:
        self._known: set[str] | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def take(self, sender: str, nonce: str, *, expires: int) -> bool:
        """Take a sender's nonce; False when it was taken before. ``expires`` in milliseconds since 1970.

        Raises KeyringError when the home, or StoreError when the evidence, cannot tell.
        """
        if self._pid != os.getpid():
            self._fresh()  # a forked child: another thread of the parent may have held the lock
        name = f"{sender}:{nonce}"
        with self._lock:
            if self._known is None:
                self._known = _accepted(self._recorder)
                _sweep()
            if name in self._known or not _mark(name, expires):
                return False
            self._known.add(name)
            return True

    def free(self, sender: str, nonce: str) -> None:
        """Give a nonce back, because the receipt that uses it up could not be written."""
        name = f"{sender}:{nonce}"
        with self._lock:
            if self._known is not None:
                self._known.discard(name)
            with contextlib.suppress(OSError, CounterfoilError):
                _file(name).unlink(missing_ok=True)


def _accepted(recorder: Recorder) -> set[str]:
    """``sender:nonce`` of accepted handoffs in this evidence, by receipts that this identity signed."""
    from counterfoil.reader import read

    identity = recorder.open().identity
    ring = {identity.keyid: identity.public}
    senders: dict[str, str] = {}
    found: set[str] = set()
    recorder.flush()
    for entry in read(recorder.evidence).entries():
        if records.is_record(entry.body):
            continue
        try:
            envelope = Envelope.parse(entry.body)
            statement = statements.parse(envelope.payload)
            if isinstance(statement.predicate, statements.Handoff):
                senders[statement.digest] = (
                    statement.predicate.sender.key
                )  # believed only with a receipt of ours
                continue
            envelope.verify(ring)
        except CounterfoilError:
            continue
        receipt = statement.predicate
        if isinstance(receipt, statements.Receipt) and receipt.status == "accepted" and receipt.nonce:
            found.add(f"{senders.get(receipt.handoff, '')}:{receipt.nonce}")
    return found


def _mark(name: str, expires: int) -> bool:
    path = _file(name)
    _home.make_private_dir(path.parent)
    try:
        # Not synced: after a power failure the receipts tell, and without a receipt nobody acted.
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    try:
        os.utime(fd, (expires / 1000, expires / 1000))
    finally:
        os.close(fd)
    return True


def _sweep() -> None:
    """Remove the files of handoffs that nobody accepts any more, because they expired."""
    before = time.time() - _GRACE
    with contextlib.suppress(OSError):
        for entry in os.scandir(_home.home() / "nonces"):
            if entry.stat(follow_symlinks=False).st_mtime < before:
                os.unlink(entry.path)


def _file(name: str) -> Path:
    return _home.home() / "nonces" / sha256(name.encode()).hexdigest()[:32]
