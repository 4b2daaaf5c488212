"""Which statements stand in the log that is written, so that a record names no handoff that its readers would miss."""

from __future__ import annotations

import binascii
import threading
from hashlib import sha256
from typing import Final

from counterfoil.entries import Entry
from counterfoil.errors import CounterfoilError
from counterfoil.log import LogScan
from counterfoil.packed import Digests
from counterfoil.stores import FolderStore

__all__ = ["Stated"]

_BEGIN: Final = b'{"payload":"'
LOOK_MAX: Final = 16 << 20
"""Bytes of a log that are read for what earlier sessions stated: the application waits meanwhile."""


class Stated:
    """Statements of one log: those its writer took, and, once somebody asks for another, those that stood before.

    Of a log that is long by then nobody knows what stood before: it counts as not there.
    """

    def __init__(self, store: FolderStore, log: str) -> None:
        self._store = store
        self._log = log
        self._lock = threading.Lock()
        self._known = Digests()
        self._read = False

    def take(self, body: bytes) -> None:
        """Note the statement in an entry's body that the writer took, if it is one."""
        if body.startswith(_BEGIN):
            self._add(body)

    def has(self, digest: str) -> bool:
        """Whether a statement of this digest stands in the log, or waits to be written to it."""
        try:
            raw = bytes.fromhex(digest)
        except (TypeError, ValueError):
            return False
        with self._lock:
            if raw not in self._known and not self._read:
                self._read = True
                self._look()
            return raw in self._known and raw.hex() == digest

    def _look(self) -> None:
        """What earlier sessions of the log hold; what cannot be read holds nothing."""
        try:
            store = self._store.written()
            sizes = (store.segment_size(self._log, one) for one in store.segments(self._log))
            if sum(sizes) > LOOK_MAX:
                return
            for event in LogScan(store, self._log).events():
                if isinstance(event, Entry) and event.op == "statement":
                    self._note(event.body_bytes)
        except (CounterfoilError, OSError):
            return

    def _add(self, body: bytes) -> None:
        with self._lock:
            self._note(body)

    def _note(self, body: bytes) -> None:
        start = len(_BEGIN)
        try:
            payload = binascii.a2b_base64(body[start : body.index(b'"', start)])
        except ValueError:
            return
        digest = sha256(payload).digest()
        if digest not in self._known:
            self._known.add(digest)
