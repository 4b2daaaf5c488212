"""Joins starts and ends into calls, gives them addresses and parents, and hands finished records to the writer.

An adapter calls ``start`` and ``end`` from inside its framework's callback, while the objects are still as they
were. In ``observe`` no method raises because of a failure of its own.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Sequence
from typing import Any, Final

from counterfoil import canonical, environment, keys, plugins, records, settings, statements
from counterfoil.calls import Call, Parent, Run
from counterfoil.digest import Reference, sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.hooks import Transfer
from counterfoil.intake import Intake
from counterfoil.named import given, handoffs_here, parents_here, sorted_once
from counterfoil.places import check_durability
from counterfoil.streams import Stream, Streams
from counterfoil.weights.binding import Citing

__all__ = ["Call", "Recorder", "Run"]

_log: Final = logging.getLogger("counterfoil")


class Recorder(Intake):
    """Records into one evidence; shared by every adapter and thread of a process."""

    def __init__(
        self,
        evidence: str | os.PathLike[str],
        *,
        mode: str = "observe",
        durability: settings.Durability = "group",
    ) -> None:
        check_durability(evidence, durability)
        super().__init__(evidence, mode=mode, durability=durability)
        self._roots: dict[str, Call] = {}
        self._streams = Streams(self)
        self._issued: tuple[int, set[str]] = (0, set())
        self._weights = Citing(self.evidence)

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

        ``key`` tells equal siblings apart (see ``records.step``), default the request's digest. ``handoffs`` and
        ``foreign`` are digests of statements that this recorder's log took; others are left out, a loss each. With
        ``wait`` and durability ``call`` the record is on disk when this returns, with ``remote`` in the bucket.
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
        content = call.content("start")
        about = {"at": records.now(), "call": id, "run": run.id}
        if parent is not None:
            about["parent"] = parent.id
        if parents:
            content["parents"] = sorted_once([{"address": one.address, "rel": rel} for rel, one in parents])
        # Totals and records in one order; and what is named stands in the log that takes this.
        with self._lock:
            writer = self._open()
            if writer is not None:
                if (parents or foreign) and (cited := parents_here(writer, parents, foreign, self._count)):
                    about["parents"] = cited
                if handoffs and (received := handoffs_here(writer, handoffs, self._count)):
                    about["handoffs"] = received
            about.update(given(writer, context, self._count))
            about.update(self._weights.of(writer, op, name, self._count))
            call.start = self._entry(writer, content, about, request, context)
            if call.start:
                call.log = writer
                run.started += 1
        if wait and self.durability != "group":
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
        body = call.content("end")
        body["status"] = status
        if response is not None:
            body["response"] = response.to_dict()
        if error is not None:
            body["error"] = error.to_dict()
        if content:
            body.update(content)
        about: dict[str, Any] = {
            "at": records.now(),
            "call": call.id,
            "run": run.id,
            "took": (time.monotonic_ns() - call.began) // 1000,
        }
        if root and environment.state() != self._ran_on:
            about["environment"] = self._environment().to_dict()
        with self._lock:  # totals and records in one order; of two ends of one call the first is in time
            late = call.end is not None or run.closed
            if root and not late:
                for other in [one for one in list(run.open.values()) if one is not call]:
                    if other.stream is not None and status == "cancelled":
                        other.stream.reason = other.stream.reason or status  # with all that it is part of
                    self.end(other, status="abandoned")
                run.closed = True
                self._roots.pop(call.id, None)
            run.open.pop(call.id, None)
            writer = self._open()
            # A start that is not in this log (lost, or recorded before a fork) counts in no totals of it.
            counted = not late and bool(call.start) and call.log is writer
            about.update(given(writer, context, self._count))
            if call.stream is not None:
                about["stream"], call.stream = call.stream.close(writer, status), None
            if not counted:
                about["late"] = True
            elif root:
                body["totals"] = {"ended": run.ended + 1, "started": run.started}
            digest = self._entry(writer, body, about, call.request, response, error, content, context)
            run.ended += counted and bool(digest)
            if not late:
                call.end = digest
                call.log = writer if digest else call.log
        call.steps.clear()
        if root:
            writer = self._writer
            if writer is not None:
                writer.checkpoint()

    def stream(self, call: Call) -> Stream:
        """Where the answer of an open call goes piece by piece; its end states what came, and takes no more."""
        return self._streams.open(call)

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
        about = {"at": records.now(), "parent": parent.id, "run": parent.run.id}
        with self._lock:
            writer = self._open()
            return self._entry(writer, body, about | given(writer, context, self._count), content, context)

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
        if writer is None or self._lacking(payload.to_dict()):
            self.loss("handoff not recorded")
            return None
        there = [(rel, one) for rel, one in parents if one.digest and one.log is writer]
        if len(there) < len(parents):
            self.loss("a parent of a handoff is not in this log", count=len(parents) - len(there))
        parents = there
        cited = [{"digest": one.digest, "rel": rel} for rel, one in parents]
        addressed = sorted_once([{"address": one.address, "rel": rel} for rel, one in parents])
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
                if self._writer is not writer:  # the log was given up meanwhile, and all this with it
                    self.loss("handoff not recorded")
                    return None
                key = self._actors.key(signer)
                predicate["sender"] = {"actor": records.actor_text(signer), "key": key.keyid}
                subject = {"digest": {"counterfoil-v1": payload.sha256}, "name": "payload"}
                predicate["issued"] = issued = time.time_ns() // 1_000_000
                envelope = self.signed(subject, predicate, content, cited, addressed, key)
                if issued != self._issued[0]:
                    self._issued = (issued, set())
                if envelope.digest in self._issued[1]:  # equal Sends of one millisecond are two handoffs
                    predicate["nonce"] = secrets.token_hex(16)
                    envelope = self.signed(subject, predicate, content, cited, addressed, key)
                self._issued[1].add(envelope.digest)
                if not writer.entry(envelope.to_bytes()):
                    return None
        except CounterfoilError as exc:
            _log.error("counterfoil: a handoff could not be recorded: %s", exc)
            self.loss(f"handoff not recorded: {exc.code}")
            return None
        self._check(senders, to, kind, payload, cited, envelope.digest, run)
        return envelope.digest

    def signed(
        self,
        subject: dict[str, Any],
        predicate: dict[str, Any],
        content: dict[str, Any],
        cited: list[dict[str, str]],
        addressed: list[dict[str, str]],
        key: keys.SigningKey,
    ) -> Envelope:
        """Build and sign a handoff; parents that do not fit inline are stored as a list that a parentSet names."""
        for limit in (statements.PARENTS_INLINE, 0):
            content.pop("parents", None)
            content.pop("parentSet", None)
            if len(addressed) <= limit:
                content["parents"] = addressed
            elif addressed:
                whole = canonical.dumps(addressed)
                content["parentSet"] = {"count": len(addressed), "sha256": sha256_hex(whole)}
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
            try:
                payload = statements.build(statements.HANDOFF, subject, predicate)
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
            self._record(content, {"at": records.now(), "reason": reason, "run": run.id})

    def _count(self, reason: str, count: int) -> None:
        self.loss(reason, count=count)

    def _end_open(self) -> None:
        for root in list(self._roots.values()):
            self.end(root, status="abandoned")
        self._streams.stop()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._roots = {}
        self._streams = Streams(self)
