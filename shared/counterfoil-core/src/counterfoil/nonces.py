"""Which handoffs this identity accepted already, so that none is acted on twice: by any process, before or after a
restart; and what all logs tell of heads, which is read on the way.

Receipts in the evidence tell it for good; what other processes append is read each time. Until one is on disk a file in
the Counterfoil home does, made in one step; it goes once nobody, by whatever policy, accepts the handoff any more.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from counterfoil import _folders, _home, segments, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.keys import PublicKey
from counterfoil.places import open_written
from counterfoil.policy_form import MAX_SKEW
from counterfoil.stores import FolderStore
from counterfoil.told import Told

if TYPE_CHECKING:
    from counterfoil.recorder import Recorder

__all__ = ["Nonces"]

_GRACE: Final = MAX_SKEW / 1000 + 600.0
"""Seconds that a file outlives its handoff: the most by which a policy lets clocks differ, and some more."""


class Nonces:
    """The nonces used under this identity, as far as one evidence and this home tell."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._fresh()

    def _fresh(self) -> None:
        self._receipts: _Receipts | None = None
        self._told = Told(self._recorder)
        self._taken: set[str] = set()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def take(self, sender: str, nonce: str, *, expires: int) -> bool:
        """Take a sender's nonce; False when it was taken before. ``expires`` in milliseconds since 1970.

        Raises KeyringError when the home, or StoreError when the evidence, cannot tell.
        """
        self._forked()
        name = f"{sender}:{nonce}"
        with self._lock:
            receipts = self._read()
            if name in self._taken or name in receipts.nonces or not _mark(name, expires):
                return False
            self._taken.add(name)
            return True

    @property
    def told(self) -> Told:
        """The heads that the logs of this evidence tell, as far as they were read."""
        self._forked()
        return self._told

    def catch_up(self) -> None:
        """Read what came since anything was read last; raises StoreError when the evidence cannot be read."""
        self._forked()
        with self._lock:
            self._read()

    def _forked(self) -> None:
        if self._pid != os.getpid():
            self._fresh()  # a forked child: another thread of the parent may have held the lock

    def _read(self) -> _Receipts:
        if self._receipts is None:
            self._receipts = _Receipts(self._recorder, self._told)
            _folders.remove_older(_home.home() / "nonces", _GRACE)
        self._receipts.read()
        return self._receipts

    def twice(self, handoff: str) -> bool:
        """Whether another log of this evidence, whoever wrote it meanwhile, has a receipt for this handoff as well.

        Raises StoreError when the evidence cannot tell.
        """
        with self._lock:
            if self._receipts is None:
                return False
            self._receipts.read()
            return handoff in self._receipts.elsewhere

    def free(self, sender: str, nonce: str) -> None:
        """Give a nonce back, because the receipt that uses it up could not be written."""
        name = f"{sender}:{nonce}"
        with self._lock:
            self._taken.discard(name)
            with contextlib.suppress(OSError, CounterfoilError):
                _file(name).unlink(missing_ok=True)


class _Receipts:
    """What this identity accepted by the receipts in one evidence; reads only what came since it read last."""

    def __init__(self, recorder: Recorder, told: Told) -> None:
        self.nonces: set[str] = set()
        """``sender:nonce`` of accepted handoffs."""
        self.elsewhere: set[str] = set()
        """Handoffs accepted in logs that another process writes, or wrote."""
        self._recorder = recorder
        self._told = told
        self._places: dict[str, _Place] = {}
        self._senders: dict[str, str] = {}
        self._waiting: dict[str, set[str]] = {}

    def read(self) -> None:
        """Read what is new; raises StoreError when that cannot be done."""
        writer = self._recorder.open()
        store = open_written(self._recorder.evidence)
        ring = {writer.identity.keyid: writer.identity.public}
        own = writer.origin.rpartition("/")[2]
        first = not self._places
        for name in store.logs():
            if name != own:
                self._log(store, name, ring, elsewhere=True)
            elif first:
                self._recorder.flush()
                self._log(store, name, ring, elsewhere=False)

    def _log(self, store: FolderStore, name: str, ring: dict[str, PublicKey], *, elsewhere: bool) -> None:
        place = self._places.setdefault(name, _Place())
        take: Callable[[Any], None] = lambda body: self._entry(body, ring, elsewhere)  # noqa: E731
        note: Callable[[bytes], None] = lambda text: self._told.checkpoint(name, text)  # noqa: E731
        while place.read_on(store, name, take, note):
            pass

    def _entry(self, body: Any, ring: dict[str, PublicKey], elsewhere: bool) -> None:
        try:
            envelope = Envelope.parse(body)
            statement = statements.parse(envelope.payload)
            said = statement.predicate
            self._told.statement(statement, envelope)
            if isinstance(said, statements.Handoff):
                # Believed only with a receipt of ours.
                if said.proof == "countersigned":
                    self._senders[statement.digest] = said.sender.key
                    for nonce in self._waiting.pop(statement.digest, ()):
                        self.nonces.add(f"{said.sender.key}:{nonce}")
                return
            envelope.verify(ring)
        except CounterfoilError:
            return
        if isinstance(said, statements.Receipt) and said.status == "accepted" and said.nonce:
            sender = self._senders.get(said.handoff)
            if sender is None:
                self._waiting.setdefault(said.handoff, set()).add(said.nonce)
            else:
                self.nonces.add(f"{sender}:{said.nonce}")
            if elsewhere:
                self.elsewhere.add(said.handoff)


class _Place:
    """How far one log was read: segment, bytes of it, and where the stream begins in which the reading goes on."""

    __slots__ = ("done", "segment", "stream")

    def __init__(self) -> None:
        self.segment = self.done = self.stream = 0

    def read_on(
        self, store: FolderStore, log: str, take: Callable[[Any], None], note: Callable[[bytes], None]
    ) -> bool:
        """Read what a segment gained; True when another one follows, which is the next to be read."""
        follows = store.is_segment(
            log, self.segment + 1
        )  # asked first: nothing is added to a segment before it
        if store.is_segment(log, self.segment):
            size = store.segment_size(log, self.segment)
            if size < self.done:
                self.done = self.stream = 0
            if size != self.done:
                self._segment(store, log, take, note)
        if follows:
            self.segment += 1
            self.done = self.stream = 0
        return follows

    def _segment(
        self, store: FolderStore, log: str, take: Callable[[Any], None], note: Callable[[bytes], None]
    ) -> None:
        where = store.segment_name(log, self.segment)
        done = self.done
        with store.open_segment(log, self.segment) as file, contextlib.suppress(segments.TornChunk):
            for chunk in segments.read_chunks(file, where=where, start=self.stream):
                if chunk.form == segments.ZSTD_FIRST:  # raw chunks stand between those of one stream
                    self.stream = chunk.start
                if chunk.start < done:
                    continue
                with contextlib.suppress(CounterfoilError):
                    for item in segments.items(chunk, where=where):
                        if item.kind == segments.NOTE:
                            note(item.data)
                        elif item.kind == segments.ENTRY and item.data.startswith(_ENVELOPE):
                            body = _body(item.data)
                            if body is not None:
                                take(body)
                self.done = chunk.end


_ENVELOPE: Final = b'{"body":{"payload":"'
"""How the text of an entry begins that is an envelope."""


def _body(entry: bytes) -> Any:
    try:
        return orjson.loads(entry)["body"]
    except (ValueError, KeyError):
        return None


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


def _file(name: str) -> Path:
    return _home.home() / "nonces" / sha256(name.encode()).hexdigest()[:32]
