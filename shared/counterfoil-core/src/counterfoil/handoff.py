"""Handoffs between processes: the sender seals a payload, the receiver verifies everything before it acts.

The statement is signed by the identity key with the actor path inside; the receiver must have pinned that key. What the
receiver decides is a signed receipt in its own log: ``accepted`` is on disk before ``accept`` returns.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

from counterfoil import context, keys, plugins, records, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, HandoffError, HandoffRefusedError
from counterfoil.hooks import Transfer
from counterfoil.openlog import Accepted, OpenLog, open
from counterfoil.payloads import NOTHING, plain_digest, private

__all__ = ["Accepted", "OpenLog", "accept", "open", "seal"]

LIFETIME: Final = 300_000
"""Milliseconds for which a sealed handoff may be accepted, unless the sender says otherwise."""
SKEW: Final = 60_000
"""Milliseconds by which two clocks may differ."""
_HEX64: Final = re.compile(r"[0-9a-f]{64}")


def seal(
    log: OpenLog,
    payload: object,
    *,
    to: str,
    parents: Iterable[str | Accepted] = (),
    lifetime: int = LIFETIME,
) -> Envelope:
    """Wrap a handoff in a signed envelope; it and the payload are on disk when this returns.

    ``payload`` is bytes, text or any Python value. ``parents`` are accepted handoffs or digests, by default the
    handoff accepted last in this context (thread or task); what runs here comes in by itself. ``lifetime`` is in
    milliseconds. Raises HandoffError.
    """
    if _is_no(str, to) or not to:
        raise HandoffError("a handoff names its receiver", code="CF-HANDOFF-001", hint="pass to=...")
    if _is_no(int, lifetime) or lifetime <= 0:
        raise HandoffError(
            "a lifetime is a number of milliseconds", code="CF-HANDOFF-005", hint="pass an int above 0"
        )
    recorder = log.recorder
    writer = recorder.open()
    plain = plain_digest(payload)
    if plain is None:
        raise HandoffError(
            "the payload holds something that no digest covers",
            code="CF-HANDOFF-004",
            hint="hand over bytes, text, or plain data that is not nested too deeply",
        )
    reference = recorder.value(payload)
    if not recorder.holds(reference):
        raise _not_durable(writer.error)
    now = time.time_ns() // 1_000_000
    sender = context.current()
    actor = (
        records.actor_text(sender.actor)
        if sender is not None
        else records.actor_text([log.actor or _program()])
    )
    # What was accepted last in this context is being worked on; a server's earlier handoffs are not its parents.
    last = log.accepted.get()
    cited = [_cited(parent) for parent in parents or ([last] if last else [])]
    addressed: list[dict[str, str]] = []
    if sender is not None:
        cited.append({"digest": sender.digest, "rel": "control"})
        addressed.append({"address": sender.address, "rel": "control"})
    content: dict[str, Any] = {
        "basis": "sealed",
        "from": [actor],
        "kind": "message",
        "payload": reference.sha256,
        "to": records.actor_text([to]),
    }
    predicate: dict[str, Any] = {
        "audience": records.actor_text([to]),
        "content": content,
        "exact": True,
        "expires": now + lifetime,
        "issued": now,
        "nonce": secrets.token_hex(16),
        "payload": {"media": reference.media, "size": reference.size},
        "proof": "countersigned",
        "sender": {"actor": actor, "key": writer.identity.keyid},
    }
    head = writer.last_checkpoint()
    if head is not None:
        predicate["own"] = head
    subject = {
        "digest": {"counterfoil-v1": reference.sha256, "sha256": plain},
        "name": "payload",
    }
    envelope = recorder.signed(subject, predicate, content, cited, addressed, writer.identity)
    writer.entry(envelope.to_bytes())
    if not writer.flush():
        raise _not_durable(writer.error)
    return envelope


def accept(log: OpenLog, envelope: Envelope | bytes | str | dict[str, Any], payload: object) -> Accepted:
    """Verify a handoff before acting on it; raises HandoffRefusedError, and the refusal is in the log.

    Checked, in this order: form, signature by a pinned key, statement, audience, time, payload, plugins, replay. The
    receipt ``accepted`` is on disk when this returns.
    """
    recorder = log.recorder
    writer = recorder.open()
    try:
        parsed = envelope if isinstance(envelope, Envelope) else Envelope.parse(envelope)
    except CounterfoilError as exc:
        raise HandoffRefusedError(
            f"refused: {exc.message}",
            code="CF-HANDOFF-010",
            where=exc.where,
            hint="ask the sender for its envelope",
        ) from None
    refuse = _refuser(log, parsed)
    try:
        verified = parsed.verify(keys.Keyring.load())
    except CounterfoilError:
        refuse(
            "CF-HANDOFF-011",
            "no pinned key signed this handoff",
            "pin the sender's fingerprint: counterfoil keys pin",
        )
    try:
        statement = statements.parse(parsed.payload)
    except CounterfoilError as exc:
        refuse("CF-HANDOFF-012", exc.message, "the sender runs another version, or this is no handoff")
    handoff = statement.predicate
    if not isinstance(handoff, statements.Handoff) or handoff.proof != "countersigned":
        refuse(
            "CF-HANDOFF-012", "the statement is no handoff to another process", "ask the sender to seal it"
        )
    if handoff.sender.key not in verified:
        refuse(
            "CF-HANDOFF-013",
            "the sender names another key than the one that signed",
            "do not trust this message",
        )
    if handoff.audience != handoff.content.to or handoff.sender.actor not in handoff.content.senders:
        refuse(
            "CF-HANDOFF-012",
            "the statement says two things of who hands to whom",
            "do not trust this message",
        )
    checks = ["signature", "statement"]
    if log.actor is not None:
        if handoff.audience != records.actor_text([log.actor]):
            refuse(
                "CF-HANDOFF-014",
                f"addressed to {handoff.audience}, not to {log.actor}",
                "send it to its receiver",
            )
        checks.append("audience")
    now = time.time_ns() // 1_000_000
    if handoff.issued > now + SKEW:
        refuse("CF-HANDOFF-015", "issued in the future", "check both clocks")
    if handoff.expires is None or now > handoff.expires + SKEW:
        refuse("CF-HANDOFF-015", "expired", "ask the sender to seal it again")
    checks.append("time")
    payload = private(payload)
    if payload is NOTHING:
        refuse("CF-HANDOFF-016", "the payload is not the one that was signed", "do not act on it")
    reference = recorder.value(payload)
    subject = statement.subject
    assert isinstance(subject, statements.PayloadSubject)
    same = subject.digest.counterfoil_v1 == reference.sha256 and handoff.content.payload == reference.sha256
    if not same or handoff.payload.size != reference.size or handoff.payload.media != reference.media:
        refuse("CF-HANDOFF-016", "the payload is not the one that was signed", "do not act on it")
    plain = plain_digest(payload)
    if plain is None or (subject.digest.sha256 is not None and subject.digest.sha256 != plain):
        refuse("CF-HANDOFF-016", "the payload is not the one that was signed", "do not act on it")
    checks.append("payload")
    denied = plugins.loaded().check_transfer(
        Transfer(
            records.actor_path(handoff.sender.actor),
            records.actor_path(handoff.content.to),
            handoff.content.kind,
            reference.sha256,
            tuple(parent.digest for parent in handoff.parents),
            handoff.proof,
        )
    )
    if denied is not None:
        refuse("CF-HANDOFF-017", denied.reason, "see the plugin that denied it")
    if handoff.nonce is None:
        refuse("CF-HANDOFF-012", "the statement has no nonce", "ask the sender to seal it")
    if not recorder.holds(reference):
        raise _not_durable(writer.error)
    receipt = log.pending.pop(statement.digest, "")  # decided before, but its receipt was not on disk then
    if not receipt:
        try:
            fresh = log.nonces.take(handoff.sender.key, handoff.nonce, expires=handoff.expires)
        except (CounterfoilError, OSError):
            refuse(
                "CF-HANDOFF-019",
                "nobody can tell whether it was used before",
                "check COUNTERFOIL_HOME and the evidence",
            )
        if not fresh:
            refuse("CF-HANDOFF-018", "this handoff was used before", "ask the sender to seal it again")
        checks.append("replay")
        if writer.entry(parsed.to_bytes()):
            receipt = _receipt(log, statement.digest, "accepted", checks=checks, nonce=handoff.nonce)
        if not receipt:
            log.nonces.free(handoff.sender.key, handoff.nonce)
            raise _not_durable(writer.error)
    if not writer.flush():
        log.pending[statement.digest] = receipt
        raise _not_durable(writer.error)
    log.accepted.set(statement.digest)
    return Accepted(statement, payload, receipt)


def _refuser(log: OpenLog, envelope: Envelope) -> Callable[[str, str, str], NoReturn]:
    def refuse(code: str, reason: str, hint: str) -> NoReturn:
        _receipt(log, envelope.digest, "refused", checks=[], reason=f"{code} {reason}")
        log.flush()
        raise HandoffRefusedError(
            f"refused: {reason}", code=code, where=f"handoff {envelope.digest[:12]}", hint=hint
        ) from None

    return refuse


def _receipt(
    log: OpenLog,
    handoff: str,
    status: str,
    *,
    checks: list[str],
    nonce: str | None = None,
    reason: str | None = None,
) -> str:
    writer = log.recorder.open()
    predicate: dict[str, Any] = {
        "checks": checks,
        "handoff": handoff,
        "issued": time.time_ns() // 1_000_000,
        "sender": {"actor": records.actor_text([log.actor or _program()]), "key": writer.identity.keyid},
        "status": status,
    }
    if nonce is not None:
        predicate["nonce"] = nonce
    if reason is not None:
        predicate["reason"] = reason.encode("utf-8", "backslashreplace").decode()[:1024]
    head = writer.last_checkpoint()
    if head is not None:
        predicate["own"] = head
    subject = {"digest": {"sha256": handoff}, "name": "handoff"}
    envelope = Envelope.sign(statements.build(statements.RECEIPT, subject, predicate), writer.identity)
    return envelope.digest if writer.entry(envelope.to_bytes()) else ""


def _is_no(kind: type, value: object) -> bool:
    """Callers without a type checker pass anything."""
    return type(value) is not kind


def _cited(parent: str | Accepted) -> dict[str, str]:
    digest = parent.digest if isinstance(parent, Accepted) else parent
    if _is_no(str, digest) or not _HEX64.fullmatch(digest):
        raise HandoffError(
            "a parent is a SHA-256 in hex", code="CF-HANDOFF-002", hint="pass what accept returned"
        )
    return {"digest": digest, "rel": "control"}


def _not_durable(error: CounterfoilError | None) -> HandoffError:
    return HandoffError(
        f"the handoff is not on disk: {error or 'the writer stopped'}",
        code="CF-HANDOFF-003",
        hint="see the cause",
    )


def _program() -> str:
    from counterfoil.environment import program

    return program()
