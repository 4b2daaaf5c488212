"""Handoffs between processes: the sender seals a payload, the receiver verifies everything before it acts.

The statement is signed by the identity key with the actor path inside; the receiver must have pinned that key, or go by
a trust policy. What the receiver decides is a signed receipt in its own log: ``accepted`` is on disk before ``accept``
returns. The sender keeps that receipt (``take_receipt``): then each holds the other's word about its log.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable
from typing import Any, Final

from counterfoil import context, plugins, records, statements, trust
from counterfoil.authority import Allow, why_not
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, HandoffError
from counterfoil.hooks import Transfer
from counterfoil.keeping import take_receipt
from counterfoil.keys import SigningKey
from counterfoil.openlog import Accepted, OpenLog, open
from counterfoil.payloads import NOTHING, plain_digest, private
from counterfoil.receiving import Receiving, Sent, not_durable, program, receipt
from counterfoil.trust_checks import judge

__all__ = ["Accepted", "Allow", "OpenLog", "accept", "open", "seal", "take_receipt"]

LIFETIME: Final = 300_000
"""Milliseconds for which a sealed handoff may be accepted, unless the sender says otherwise."""
_HEX64: Final = re.compile(r"[0-9a-f]{64}")


def seal(
    log: OpenLog,
    payload: object,
    *,
    to: str,
    parents: Iterable[str | Accepted] = (),
    lifetime: int = LIFETIME,
    authority: Allow | None = None,
    purpose: str | None = None,
    taint: Iterable[str] = (),
    cosigners: Iterable[SigningKey] = (),
) -> Envelope:
    """Wrap a handoff in a signed envelope; it and the payload are on disk when this returns.

    ``payload`` is bytes, text or any Python value. ``parents`` are accepted handoffs or digests, by default the
    handoff accepted last in this context (thread or task); what runs here comes in by itself. ``lifetime`` is in
    milliseconds. ``authority`` says what the receiver may do, which is never more than this sender was given;
    ``taint`` is added to that of the parents. ``cosigners`` sign too, where a policy asks for more than one key.

    Raises:
        HandoffError: CF-HANDOFF-001 to 005: an argument cannot be used, or something is not on disk; CF-HANDOFF-006:
            the authority is not this sender's to give; CF-HANDOFF-007: its own policy denies it. And those of ``open``.
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
    if not recorder.holds(reference) or not log.anchor():
        raise not_durable(writer.error)
    sender = context.current()
    actor = (
        records.actor_text(sender.actor)
        if sender is not None
        else records.actor_text([log.actor or program()])
    )
    # What was accepted last in this context is being worked on; a server's earlier handoffs are not its parents.
    last = log.accepted.get()
    cited = [_cited(parent) for parent in parents or ([last] if last else [])]
    tainted = {*taint}.union(*(log.standing.taint(one["digest"]) for one in cited))
    if authority is not None and authority.under is not None:
        tainted.update(authority.under.taint)
    addressed: list[dict[str, str]] = []
    if sender is not None:
        cited.append({"digest": sender.digest, "rel": "control"})
        addressed.append({"address": sender.address, "rel": "control"})
    receiver = records.actor_text([to])
    content: dict[str, Any] = {
        "basis": "sealed",
        "from": [actor],
        "kind": "message",
        "payload": reference.sha256,
        "to": receiver,
    }
    now, head = log.moment()
    policy = log.policy
    predicate: dict[str, Any] = {
        "audience": receiver,
        "content": content,
        "exact": True,
        "expires": now + lifetime,
        "issued": now,
        "nonce": secrets.token_hex(16),
        "payload": {"media": reference.media, "size": reference.size},
        "proof": "countersigned",
        "sender": {"actor": actor, "key": writer.identity.keyid},
    }
    optional = {
        "authority": None if authority is None else authority.member(now + lifetime),
        "own": head,
        "policy": log.cited(policy),
        "purpose": purpose,
        "seen": log.peers.heads(receiver),
        "taint": sorted(tainted),
    }
    predicate |= {name: value for name, value in optional.items() if value}
    subject = {"digest": {"counterfoil-v1": reference.sha256, "sha256": plain}, "name": "payload"}
    envelope = recorder.signed(subject, predicate, content, cited, addressed, writer.identity)
    for key in cosigners:
        envelope = envelope.cosigned(key)
    statement = statements.parse(envelope.payload)
    _may(policy, statement, envelope, authority)
    if authority is not None and authority.under is not None:
        if not log.place(writer, reversed(authority.under.chain)):
            raise not_durable(writer.error)
    writer.entry(envelope.to_bytes())
    if not writer.flush():
        raise not_durable(writer.error)
    log.standing.add(statement, writer.origin)
    return envelope


def _may(
    policy: trust.Policy | None,
    statement: statements.Statement,
    envelope: Envelope,
    authority: Allow | None,
) -> None:
    """Nothing is sealed that a receiver would refuse: more than was given, or what the own policy denies."""
    handoff = statement.predicate
    assert isinstance(handoff, statements.Handoff)
    if authority is not None and authority.under is not None:
        if policy is None:
            raise HandoffError(
                "a grant is handed on only under a trust policy: without one nobody can tell whose it is",
                code="CF-HANDOFF-006",
                hint="open the log with policy=...: counterfoil policy init",
            )
        why = why_not(handoff, authority.under.grant)
        if why is not None:
            raise HandoffError(
                f"the authority is not this sender's to give: {why}",
                code="CF-HANDOFF-006",
                hint="give no more than the accepted handoff allows, and not further, longer or with less taint",
            )
    if policy is not None:
        signers = [one.keyid for one in envelope.signatures]
        for code, message, _, hint in judge(policy, handoff, signers, ""):
            raise HandoffError(f"{message} ({code})", code="CF-HANDOFF-007", hint=hint)


def accept(
    log: OpenLog,
    envelope: Sent,
    payload: object,
    *,
    grants: Iterable[Sent] = (),
    policy: str | os.PathLike[str] | bytes | trust.Policy | None = None,
) -> Accepted:
    """Verify a handoff before acting on it; raises HandoffRefusedError (CF-HANDOFF-010 and up), told in the log too.

    Checked, in this order: form, signature by a pinned key, statement, policy, audience, time, heads, authority,
    taint, payload, plugins, replay. ``grants`` are the envelopes that came along, from which the handoff's authority
    comes (the sender's ``Accepted.chain``). ``policy`` instead of the log's own; TrustError when it is not believed.
    The receipt ``accepted`` is on disk when this returns.
    """
    recorder = log.recorder
    writer = recorder.open()
    chosen = log.policy if policy is None else trust.load(policy)
    coming = Receiving(log, envelope, chosen)
    refuse = coming.refuse
    statement, signers = coming.statement()
    handoff = statement.predicate
    if not isinstance(handoff, statements.Handoff) or handoff.proof != "countersigned":
        refuse(
            "CF-HANDOFF-012", "the statement is no handoff to another process", "ask the sender to seal it"
        )
    if handoff.sender.key not in signers:
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
    now = time.time_ns() // 1_000_000
    coming.speaks(handoff, signers, now)
    if log.actor is not None:
        if handoff.audience != records.actor_text([log.actor]):
            refuse("CF-HANDOFF-014", "this handoff is addressed to somebody else", "send it to its receiver")
        coming.checks.append("audience")
    coming.time(handoff, now)
    coming.heads(handoff)
    coming.authority(handoff, grants, now)
    coming.taint(handoff)
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
    coming.checks.append("payload")
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
    if not recorder.holds(reference) or not log.anchor():
        raise not_durable(writer.error)
    before = log.pending.pop(statement.digest, None)  # decided before, but its receipt was not on disk then
    answer = None if before is None else before[1]
    if before is not None and before[0] is not writer:
        # That log was given up: the same receipt, as a copy, so that it is no second acceptance if both come to stand.
        placed = log.place(writer, reversed(coming.chain)) and writer.entry(coming.envelope.to_bytes())
        if not placed or not writer.entry(before[1].to_bytes()):
            log.pending[statement.digest] = before
            raise not_durable(writer.error)
    if answer is None:
        try:
            fresh = log.nonces.take(handoff.sender.key, handoff.nonce, expires=handoff.expires or 0)
        except (CounterfoilError, OSError):
            coming.unknowable()
        if not fresh:
            refuse("CF-HANDOFF-018", "this handoff was used before", "ask the sender to seal it again")
        coming.checks.append("replay")
        if log.place(writer, reversed(coming.chain)) and writer.entry(coming.envelope.to_bytes()):
            answer = receipt(
                log,
                statement.digest,
                "accepted",
                checks=coming.checks,
                nonce=handoff.nonce,
                seen=handoff.own,
                writer=writer,
                policy=chosen,
            )
        if answer is None:
            log.nonces.free(handoff.sender.key, handoff.nonce)
            raise not_durable(writer.error)
    if not writer.flush():
        log.pending[statement.digest] = (writer, answer)
        raise not_durable(writer.error)
    coming.alone(statement.digest, handoff.nonce)
    log.standing.add(statement, writer.origin)
    log.standing.add(statements.parse(answer.payload), writer.origin)
    log.accepted.set(statement.digest)
    return Accepted(statement, payload, answer, (coming.envelope, *coming.chain))


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
