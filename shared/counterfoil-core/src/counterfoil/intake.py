"""What stands between a recorder and its writer: opening the log, taking entries and blobs, counting what is lost.

Nothing here raises because of a failure of its own (``open`` excepted): what cannot be taken is a loss, counted and
logged as soon as the log takes entries again, and no entry cites bytes that the log did not take.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from counterfoil import environment, keys, plugins, records, settings, switches, values
from counterfoil._version import __version__
from counterfoil.actors import ActorKeys
from counterfoil.capture import Capture
from counterfoil.digest import Reducer, Reference, is_reference, references_in, sha256_hex
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.named import Made, holds_all
from counterfoil.places import open_for_writing
from counterfoil.writer import Writer

__all__ = ["Intake"]

_log: Final = logging.getLogger("counterfoil")
_REOPEN: Final = 1.0
_REASONS: Final = 100
_HANDOFFS: Final = 256
Part = dict[str, Any]
_all: weakref.WeakSet[Intake] = weakref.WeakSet()
_at_exit: list[int] = []


class Intake:
    """Values, entries and losses of one evidence, opened at the first entry; ``error`` says why nothing is recorded."""

    def __init__(
        self,
        evidence: str | os.PathLike[str],
        *,
        mode: str = "observe",
        durability: settings.Durability = "group",
    ) -> None:
        self.evidence = os.fspath(evidence)
        self.mode = mode
        self.durability = durability
        self.error: CounterfoilError | None = None
        self.capabilities: dict[str, Any] = {}
        self.losses = 0
        self._lock = threading.RLock()
        self._writer: Writer | None = None
        self._closed = False
        self._try_at = 0.0
        self._unlogged: dict[str, int] = {}
        self._ran_on: tuple[object, ...] = ()
        self.capture = Capture(self._blob, self._holds)
        _all.add(self)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    # -- values -------------------------------------------------------------------------------------------------------

    def value(self, obj: object) -> Reference:
        """Store any Python object and return its reference."""
        try:
            return self.capture.reference(obj)
        except Exception as exc:
            self.loss(f"a value could not be captured: {type(exc).__name__}")
            return self.capture.reference({"type": values.type_name(obj), "unreadable": True})

    def holds(self, *refs: Reference) -> bool:
        """Whether the log has all bytes under these references, so that an entry may cite them."""
        return not self._lacking({"refs": [ref.to_dict() for ref in refs]})

    # -- losses and life ----------------------------------------------------------------------------------------------

    def loss(self, reason: str, *, count: int = 1) -> None:
        """Count something that could not be recorded; it is logged as soon as the log takes entries."""
        with self._lock:
            self.losses += count
            if reason not in self._unlogged and len(self._unlogged) >= _REASONS:
                reason = "other reasons"
            self._unlogged[reason] = self._unlogged.get(reason, 0) + count
        writer = self._writer
        if writer is not None:
            self._log_losses(writer)

    def open(self) -> Writer:
        """The writer, opened now; raises the CounterfoilError that prevents it."""
        writer = self._open()
        if writer is None:
            raise self.error or LogError(
                "the recorder is closed",
                code="CF-LOG-031",
                where=self.evidence,
                hint="open the evidence again",
            )
        return writer

    def actor_key(self, actor: tuple[str, ...]) -> keys.SigningKey:
        """The key that signs for ``actor`` in this session."""
        self.open()
        with self._lock:
            return self._actors.key(actor)

    def flush(self, *, timeout: float | None = None) -> bool:
        """Wait until everything recorded so far is on disk; with durability ``remote``, in the bucket."""
        if (writer := self._writer) is None:
            return self.losses == 0
        return writer.flush(timeout=timeout, remote=self.durability == "remote")

    def close(self) -> None:
        """Write everything, a last checkpoint, and release the log; runs still open end as ``abandoned``."""
        if self._writer is not None:
            self._end_open()
        with self._lock:
            writer, self._writer = self._writer, None
            self._closed = True
        if writer is not None:
            self._log_losses(writer)
            writer.close()
            self._report(writer)

    def _report(self, writer: Writer) -> None:
        if writer.lost:
            self.losses += writer.lost
            self.error = writer.error or self.error
            _log.error("counterfoil: %d entries could not be written: %s", writer.lost, writer.error)

    def _open(self) -> Writer | None:
        writer = self._writer
        if writer is not None and not writer.ended:
            return writer
        with self._lock:
            if self._writer is not None and self._writer.ended:
                self._replace(self._writer)
            if self._writer is not None or self._closed or time.monotonic() < self._try_at:
                return self._writer
            try:
                found = plugins.loaded()
                identity = keys.load_or_create_identity()
                sealed = found.sealed if found.has("counterfoil_sealed") else None
                origin: list[str] = []
                tell: Callable[[list[tuple[int, str, bytes]]], None] | None = None
                if sealed is not None:
                    tell = lambda entries: sealed(origin[0], entries)  # noqa: E731
                writer = Writer(open_for_writing(self.evidence), identity, opening=self._session, sealed=tell)
                origin.append(writer.origin)
            except Exception as exc:
                self._failed(exc)
                return None
            if self.capture.unsure:
                self.capture.forget()  # what was captured while no log was open is in no log
            self._actors = ActorKeys(identity, writer.origin, writer.entry)  # never into a later log
            self._writer = writer
            self.error = None
            _close_at_exit()
            self._log_losses(writer)
            self._close_with_child()
            return writer

    def _replace(self, writer: Writer) -> None:
        """Let go of a writer that ended by itself: its log was removed under it, or it failed."""
        self._writer = None
        writer.close()
        self.capture.forget()
        self._try_at = time.monotonic() + (0.0 if writer.gone else _REOPEN)
        self._report(writer)
        if writer.lost:
            self._unlogged["not taken by the writer"] = writer.lost
        if count := writer.stranded:
            self._unlogged[f"not sent: log {writer.log} was taken"] = count

    def _close_with_child(self) -> None:
        """A process that multiprocessing made ends without ``atexit``; it runs finalizers instead."""
        process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
        if process is not None and util is not None and process.parent_process() is not None:
            util.Finalize(None, self.close, exitpriority=0)

    def _failed(self, exc: Exception) -> None:
        if not isinstance(exc, CounterfoilError):
            why = getattr(exc, "strerror", None) or type(exc).__name__
            exc = LogError(
                f"the evidence cannot be opened: {why}",
                code="CF-LOG-032",
                where=self.evidence,
                hint="check the folder and COUNTERFOIL_HOME",
            )
        if self.error is None or self.error.code != exc.code:
            _log.error("counterfoil: not recording: %s%s", exc, f"; {exc.hint}" if exc.hint else "")
        self.error = exc
        self._try_at = time.monotonic() + _REOPEN

    def _session(self) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
        """Context of the session record: versions, plugins, mode, environment by reference."""
        blobs: list[tuple[str, bytes]] = []
        reducer = Reducer(lambda sha256, data: blobs.append((sha256, data)))
        found = plugins.loaded()
        self._ran_on = environment.state()
        about = {
            "broken": {one.name: one.reason for one in found.broken},
            "capabilities": self.capabilities,
            "environment": environment.capture(key=_secret()),
            "plugins": {one.name: f"{one.distribution} {one.version}" for one in found.plugins},
        }
        context = {
            "about": reducer.reference(values.encode(about)).to_dict(),
            "durability": self.durability,
            "mode": self.mode,
            "pid": os.getpid(),
            "version": __version__,
        }
        if (launch := switches.launch()) is not None:
            context["launch"] = launch
        return context, blobs

    def _environment(self) -> Reference:
        """The environment as it is now; later runs are compared with this one."""
        self._ran_on = environment.state()
        return self.value(environment.capture(key=_secret()))

    def _record(self, content: Part, context: Part) -> str:
        """Queue a record; its digest, or nothing when it is lost (and counted)."""
        return self._entry(self._open(), content, context)

    def _entry(self, writer: Writer | None, content: Part, context: Part, *made: Made) -> str:
        """The same for this writer's log alone, where what the record names was looked for.

        ``made`` is what came from a caller: its references may be of another recorder, or of nothing at all.
        """
        if writer is None:
            self.loss("no log is open")
            return ""
        try:
            if self.capture.cuts:
                cut = sum(self.capture.cuts.get(ref.sha256, 0) for ref in references_in([content, context]))
                context = {**context, "cut": cut} if cut else context
            if self.capture.unsure or not holds_all(writer, made):
                content, context = self._there(content, context)
            body = self._built(content, context)
        except Exception as exc:
            self.loss(f"a record could not be written: {getattr(exc, 'code', type(exc).__name__)}")
            return ""
        return sha256_hex(body) if writer.entry(body) else ""

    def _there(self, content: Part, context: Part) -> tuple[Part, Part]:
        """The same without references to bytes that the log did not take."""
        lacking = self._lacking(content, context)
        if not lacking:
            return content, context
        self.loss("a value was not stored", count=len(lacking))
        return records.without(content, lacking), records.without(context, lacking)

    def _built(self, content: Part, context: Part) -> bytes:
        """The record; lists and objects that make it too long stand apart, as values it references."""
        try:
            return records.build(content, context)
        except LogError:
            for part in (context, content):
                for name, value in part.items():
                    if type(value) in (list, dict) and name != "handoffs" and not is_reference(value):
                        part[name] = self.capture.reference(value).to_dict()
            handed = context.get("handoffs", ())
            if len(handed) > _HANDOFFS:
                context["handoffs"] = handed[:_HANDOFFS]
                self.loss("handoffs that a record has no room for", count=len(handed) - _HANDOFFS)
            if self.capture.unsure:
                content, context = self._there(content, context)
            return records.build(content, context)

    def _lacking(self, *parts: dict[str, Any]) -> set[str]:
        """Digests that an entry may not cite: the log did not take the bytes, or not all that belongs to them."""
        hollow = self.capture.hollow
        cited = {ref.sha256 for part in parts for ref in references_in(part)}
        return {sha256 for sha256 in cited if sha256 in hollow or not self._holds(sha256)}

    def _holds(self, sha256: str) -> bool:
        writer = self._open()
        return writer is not None and writer.has(sha256)

    def _blob(self, sha256: str, data: bytes) -> bool:
        writer = self._open()
        if writer is not None and writer.blob(sha256, data):
            return True
        self.capture.forget()
        return False

    def _end_open(self) -> None:
        """End what is still open, before the log is closed."""

    def _wait(self) -> None:
        if not self.flush() or self._writer is None:
            place = "in the bucket" if self.durability == "remote" else "on disk"
            self.loss(f"a start record was not {place} before the call went on")

    def _log_losses(self, writer: Writer) -> None:
        with self._lock:
            pending, self._unlogged = self._unlogged, {}
            for reason, count in sorted(pending.items()):
                name = reason[:200].encode("utf-8", "backslashreplace").decode()
                content = {"name": name, "op": "loss", "phase": "point"}
                if not writer.entry(records.build(content, {"at": records.now(), "count": count})):
                    self._unlogged[reason] = count

    def _after_fork(self) -> None:
        """In a forked child: the parent owns the log; a new writer opens another one at the next record."""
        self._lock = threading.RLock()
        self._unlogged = {}
        self.losses = 0
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
        self.capture.forget()


def _secret() -> bytes | None:
    try:
        return keys.load_or_create_secret()
    except CounterfoilError as exc:
        _log.warning("counterfoil: variables are recorded without fingerprints: %s", exc)
        return None


def _close_at_exit() -> None:
    """Whoever opened a log by hand and does not close it gets a last checkpoint all the same, at a normal end."""
    if not _at_exit:
        _at_exit.append(os.getpid())
        atexit.register(_close_all)


def _close_all() -> None:
    for recorder in list(_all):
        recorder.close()


def _forget_in_child() -> None:
    for recorder in list(_all):
        recorder._after_fork()


os.register_at_fork(after_in_child=_forget_in_child)
