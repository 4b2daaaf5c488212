"""Joins starts and ends into calls, gives them addresses and parents, and hands finished records to the writer.

An adapter calls ``start`` and ``end`` from inside its framework's callback, while the objects are still as they
were. In ``observe`` no method raises because of a failure of its own: what could not be recorded is counted and logged
as a loss, and nothing that is recorded cites what is not.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from counterfoil import environment, keys, plugins, records, settings, statements, values
from counterfoil._version import __version__
from counterfoil.actors import ActorKeys
from counterfoil.calls import Call, Parent, Run
from counterfoil.capture import Capture
from counterfoil.digest import Reducer, Reference, is_reference, references_in, sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.hooks import Transfer
from counterfoil.stores import open_store
from counterfoil.writer import Writer

__all__ = ["Call", "Recorder", "Run"]

_log: Final = logging.getLogger("counterfoil")
_REOPEN: Final = 1.0
_REASONS: Final = 100
_HANDOFFS: Final = 256
_all: weakref.WeakSet[Recorder] = weakref.WeakSet()


class Recorder:
    """Records into one evidence; shared by every adapter and thread of a process.

    The writer is opened at the first record. ``error`` tells why nothing is being recorded, if so.
    """

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
        self._roots: dict[str, Call] = {}
        self._issued: tuple[int, set[str]] = (0, set())
        self.capture = Capture(self._blob, self._holds)
        _all.add(self)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    # -- calls --------------------------------------------------------------------------------------------------------

    def start(
        self,
        op: str,
        name: str,
        *,
        actor: tuple[str, ...],
        parent: Call | None = None,
        key: str = "",
        id: str | None = None,
        request: Reference | None = None,
        parents: Sequence[Parent] = (),
        foreign: Sequence[tuple[str, str]] = (),
        handoffs: Sequence[str] = (),
        context: dict[str, Any] | None = None,
        wait: bool = False,
    ) -> Call:
        """Record that something starts; a call without ``parent`` opens a run.

        ``key`` tells equal siblings apart (see ``records.step``), default the request's digest. With ``wait`` and
        durability ``call`` the record is on disk when this returns.
        """
        id = id or secrets.token_hex(16)
        if not key and request is not None and parent is not None:
            key = request.sha256[:16]
        with self._lock:
            run = parent.run if parent is not None else Run(id)
            address = parent.step(op, name, key) if parent is not None else records.step(op, name, "", 1)
            call = Call(id, op, name, actor, address, run, parent, tuple(parents), tuple(foreign), request)
            run.open[id] = call
            if parent is None:
                self._roots[id] = call
        content: dict[str, Any] = self._content(call, "start")
        about = {"at": time.time_ns() // 1000, "call": id, "run": run.id}
        if parent is not None:
            about["parent"] = parent.id
        if parents:
            content["parents"] = _unique([{"address": one.address, "rel": rel} for rel, one in parents])
        cited = [{"digest": one.digest, "rel": rel} for rel, one in parents if one.digest]
        cited += [{"digest": digest, "rel": rel} for rel, digest in foreign]
        if cited:
            about["parents"] = _unique(cited)
        if handoffs and (
            parent is None or parent.log is self._writer
        ):  # in a forked child they are in another log
            about["handoffs"] = list(handoffs)
        if context:
            about.update(context)
        with self._lock:  # totals and records in one order
            call.start = self._record(content, about)
            if call.start:
                call.log = self._writer
                run.started += 1
        if wait and self.durability == "call":
            self._wait()
        return call

    def end(
        self,
        call: Call,
        *,
        response: Reference | None = None,
        status: str = "ok",
        error: Reference | None = None,
        content: dict[str, Any] | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        """Record that a call ended; the end of a run's first call closes the run and asks for a checkpoint."""
        run = call.run
        root = call.parent is None
        body = self._content(call, "end")
        body["status"] = status
        if response is not None:
            body["response"] = response.to_dict()
        if error is not None:
            body["error"] = error.to_dict()
        if content:
            body.update(content)
        about: dict[str, Any] = {
            "at": time.time_ns() // 1000,
            "call": call.id,
            "run": run.id,
            "took": (time.monotonic_ns() - call.began) // 1000,
        }
        if context:
            about.update(context)
        with (
            self._lock
        ):  # totals and records in one order, and of two ends of one call only the first is in time
            late = call.end is not None or run.closed
            if root and not late:
                for other in [one for one in list(run.open.values()) if one is not call]:
                    self.end(other, status="abandoned")
                run.closed = True
                self._roots.pop(call.id, None)
            run.open.pop(call.id, None)
            # A start that is not in this log (lost, or recorded before a fork) counts in no totals of it.
            counted = not late and bool(call.start) and call.log is self._writer
            if not counted:
                about["late"] = True
            elif root:
                body["totals"] = {"ended": run.ended + 1, "started": run.started}
            digest = self._record(body, about)
            run.ended += counted and bool(digest)
            if not late:
                call.end = digest
                call.log = self._writer if digest else call.log
        call.steps.clear()
        if root:
            writer = self._writer
            if writer is not None:
                writer.checkpoint()

    def point(
        self,
        op: str,
        name: str,
        *,
        parent: Call,
        content: dict[str, Any],
        context: dict[str, Any] | None = None,
    ) -> str:
        """Record something without duration under ``parent``; returns the record's digest."""
        with self._lock:
            address = parent.step(op, name, "")
        body = {
            "actor": records.actor_text(parent.actor),
            "address": address,
            "name": records.label(name),
            "op": op,
            "phase": "point",
            **content,
        }
        about = {"at": time.time_ns() // 1000, "parent": parent.id, "run": parent.run.id, **(context or {})}
        with self._lock:
            return self._record(body, about)

    def handoff(
        self,
        *,
        senders: Sequence[tuple[str, ...]],
        to: tuple[str, ...],
        signer: tuple[str, ...],
        kind: str,
        basis: str,
        payload: Reference,
        parents: Sequence[Parent],
        run: Run,
        exact: bool = True,
        reason: str | None = None,
        call: str | None = None,
    ) -> str | None:
        """Sign and log a handoff inside this process (proof ``recorded``); its digest, None when not recording."""
        writer = self._open()
        if writer is None or (self.capture.unsure and self._lacking(payload.to_dict())):
            self.loss("handoff not recorded")
            return None
        there = [(rel, one) for rel, one in parents if one.digest and one.log is writer]
        if len(there) < len(parents):
            self.loss("a parent of a handoff is not in this log", count=len(parents) - len(there))
        parents = there
        cited = [{"digest": one.digest, "rel": rel} for rel, one in parents]
        addressed = _unique([{"address": one.address, "rel": rel} for rel, one in parents])
        content: dict[str, Any] = {
            "basis": basis,
            "from": sorted({records.actor_text(sender) for sender in senders}),
            "kind": kind,
            "payload": payload.sha256,
            "to": records.actor_text(to),
        }
        predicate: dict[str, Any] = {
            "content": content,
            "exact": exact,
            "payload": {"media": payload.media, "size": payload.size},
            "proof": "recorded",
            "run": run.id,
        }
        if reason:
            predicate["reason"] = reason
        if call:
            predicate["call"] = call
        head = writer.last_checkpoint()
        if head is not None:
            predicate["own"] = head
        try:
            with self._lock:
                key = self._actors.key(signer)
                predicate["sender"] = {"actor": records.actor_text(signer), "key": key.keyid}
                subject = {"digest": {"counterfoil-v1": payload.sha256}, "name": "payload"}
                predicate["issued"] = issued = time.time_ns() // 1_000_000
                envelope = self.signed(statements.HANDOFF, subject, predicate, content, cited, addressed, key)
                if issued != self._issued[0]:
                    self._issued = (issued, set())
                if envelope.digest in self._issued[1]:  # equal Sends of one millisecond are two handoffs
                    predicate["nonce"] = secrets.token_hex(16)
                    envelope = self.signed(
                        statements.HANDOFF, subject, predicate, content, cited, addressed, key
                    )
                self._issued[1].add(envelope.digest)
                if not self._entry(envelope.to_bytes()):
                    return None
        except CounterfoilError as exc:
            _log.error("counterfoil: a handoff could not be recorded: %s", exc)
            self.loss(f"handoff not recorded: {exc.code}")
            return None
        self._check(senders, to, kind, payload, cited, envelope.digest, run)
        return envelope.digest

    def signed(
        self,
        kind: str,
        subject: dict[str, Any],
        predicate: dict[str, Any],
        content: dict[str, Any],
        cited: list[dict[str, str]],
        addressed: list[dict[str, str]],
        key: keys.SigningKey,
    ) -> Envelope:
        """Build and sign a handoff; parents that do not fit inline are stored as a list that a parentSet names."""
        if len(addressed) <= statements.PARENTS_INLINE:
            content["parents"] = addressed
        for limit in (statements.PARENTS_INLINE, 0):
            inline, listed = statements.split_parents(cited, limit)
            predicate["parents"] = inline
            if listed is not None:
                sha256 = sha256_hex(listed)
                if not self._blob(sha256, listed):
                    raise LogError(
                        "the list of parents was not taken", code="CF-LOG-035", where=self.evidence
                    )
                predicate["parentSet"] = {
                    "count": listed.count(b'"digest"'),
                    "sha256": sha256,
                    "size": len(listed),
                }
                content.pop("parents", None)
            try:
                payload = statements.build(kind, subject, predicate)
            except CounterfoilError:
                if limit == 0:
                    raise
            else:
                statements.parse(payload)  # nothing is signed that a reader would refuse
                return Envelope.sign(payload, key, carry_key=predicate["proof"] == "countersigned")
        raise AssertionError("unreachable")

    def _check(
        self,
        senders: Sequence[tuple[str, ...]],
        to: tuple[str, ...],
        kind: str,
        payload: Reference,
        cited: list[dict[str, str]],
        digest: str,
        run: Run,
    ) -> None:
        found = plugins.loaded()
        if not senders or not found.has("counterfoil_check_transfer"):
            return
        parents = tuple(parent["digest"] for parent in cited)
        denied = found.check_transfer(Transfer(senders[0], to, kind, payload.sha256, parents, "recorded"))
        if denied is not None:
            # In observe the handoff goes on; the log says that it would have been refused.
            content = {
                "handoff": digest,
                "name": "check_transfer",
                "op": "decision",
                "phase": "point",
                "status": "deny",
            }
            reason = self.capture.reference(denied.reason).to_dict()
            self._record(content, {"at": time.time_ns() // 1000, "reason": reason, "run": run.id})

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
        """Wait until everything recorded so far is on disk."""
        writer = self._writer
        return writer.flush(timeout=timeout) if writer is not None else self.losses == 0

    def close(self) -> None:
        """Write everything, a last checkpoint, and release the log; runs still open end as ``abandoned``."""
        if self._writer is not None:
            for root in list(self._roots.values()):
                self.end(root, status="abandoned")
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
        if writer is not None:
            return writer
        with self._lock:
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
                writer = Writer(open_store(self.evidence), identity, opening=self._session, sealed=tell)
                origin.append(writer.origin)
            except Exception as exc:
                self._failed(exc)
                return None
            if self.capture.unsure:
                self.capture.forget()  # what was captured while no log was open is in no log
            self._actors = ActorKeys(identity, writer.origin, self._entry)
            self._writer = writer
            self.error = None
            self._log_losses(writer)
            self._close_with_child()
            return writer

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
        about = {
            "broken": {one.name: one.reason for one in found.broken},
            "capabilities": self.capabilities,
            "environment": environment.capture(),
            "plugins": {one.name: f"{one.distribution} {one.version}" for one in found.plugins},
        }
        context = {
            "about": reducer.reference(values.encode(about)).to_dict(),
            "durability": self.durability,
            "mode": self.mode,
            "pid": os.getpid(),
            "version": __version__,
        }
        return context, blobs

    def _content(self, call: Call, phase: str) -> dict[str, Any]:
        content: dict[str, Any] = {
            "actor": records.actor_text(call.actor),
            "address": call.address,
            "name": records.label(call.name),
            "op": call.op,
            "phase": phase,
        }
        if call.request is not None:
            content["request"] = call.request.to_dict()
        return content

    def _record(self, content: dict[str, Any], context: dict[str, Any]) -> str:
        """Queue a record; its digest, or nothing when it is lost (and counted)."""
        if self._open() is None:
            self.loss("no log is open")
            return ""
        try:
            lacking = self._lacking(content, context) if self.capture.unsure else None
            if lacking:
                self.loss("a value was not stored", count=len(lacking))
                content, context = _without(content, lacking), _without(context, lacking)
            body = self._built(content, context)
        except Exception as exc:
            self.loss(f"a record could not be written: {getattr(exc, 'code', type(exc).__name__)}")
            return ""
        return sha256_hex(body) if self._entry(body) else ""

    def _built(self, content: dict[str, Any], context: dict[str, Any]) -> bytes:
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
            return records.build(content, context)

    def _lacking(self, *parts: dict[str, Any]) -> set[str]:
        """Digests that an entry may not cite: the log did not take the bytes, or not all that belongs to them."""
        hollow = self.capture.hollow
        cited = {ref.sha256 for part in parts for ref in references_in(part)}
        return {sha256 for sha256 in cited if sha256 in hollow or not self._holds(sha256)}

    def _holds(self, sha256: str) -> bool:
        writer = self._open()
        return writer is not None and writer.has(sha256)

    def _entry(self, body: bytes) -> bool:
        writer = self._open()
        if writer is None:
            self.loss("no log is open")
            return False
        return writer.entry(body)

    def _blob(self, sha256: str, data: bytes) -> bool:
        writer = self._open()
        if writer is not None and writer.blob(sha256, data):
            return True
        self.capture.forget()
        return False

    def _wait(self) -> None:
        writer = self._writer
        if writer is None or not writer.flush():
            self.loss("a start record was not on disk before the call went on")

    def _log_losses(self, writer: Writer) -> None:
        with self._lock:
            pending, self._unlogged = self._unlogged, {}
            for reason, count in sorted(pending.items()):
                name = reason[:200].encode("utf-8", "backslashreplace").decode()
                content = {"name": name, "op": "loss", "phase": "point"}
                if not writer.entry(records.build(content, {"at": time.time_ns() // 1000, "count": count})):
                    self._unlogged[reason] = count

    def _after_fork(self) -> None:
        """In a forked child: the parent owns the log; a new writer opens another one at the next record."""
        self._lock = threading.RLock()
        self._roots = {}
        self._unlogged = {}
        self.losses = 0
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
        self.capture.forget()


def _without(value: Any, lacking: set[str]) -> Any:
    """A copy without the references to bytes that are not stored."""
    if type(value) is dict:
        kept = {
            name: one for name, one in value.items() if not (is_reference(one) and one["sha256"] in lacking)
        }
        return {name: _without(one, lacking) for name, one in kept.items()}
    if type(value) is list:
        kept_list = [one for one in value if not (is_reference(one) and one["sha256"] in lacking)]
        return [_without(one, lacking) for one in kept_list]
    return value


def _unique(listed: list[dict[str, str]]) -> list[dict[str, str]]:
    seen: dict[tuple[str, ...], dict[str, str]] = {tuple(one.values()): one for one in listed}
    return [seen[key] for key in sorted(seen)]


def _forget_in_child() -> None:
    for recorder in list(_all):
        recorder._after_fork()


os.register_at_fork(after_in_child=_forget_in_child)
