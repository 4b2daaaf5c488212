"""Statements that a pinned sender or recipient may sign, and which of them are no handoff or receipt."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from sides import Side, predicate

import counterfoil
from counterfoil import canonical, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffRefusedError


def test_a_statement_made_by_hand_is_accepted(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    receiver.accept(sender.sign(*predicate(sender, "x")), "x")


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"proof": "recorded"}, "CF-HANDOFF-012"),
    ({"nonce": None}, "CF-HANDOFF-012"),
    ({"nonce": "x"}, "CF-HANDOFF-012"),
    ({"expires": None}, "CF-HANDOFF-015"),
    ({"expires": 0}, "CF-HANDOFF-015"),
    ({"expires": 1.5}, "CF-HANDOFF-012"),
    ({"audience": None}, "CF-HANDOFF-012"),
    ({"audience": ""}, "CF-HANDOFF-012"),
    ({"audience": "other"}, "CF-HANDOFF-012"),
    ({"extra": 1}, "CF-HANDOFF-012"),
    ({"exact": 1}, "CF-HANDOFF-012"),
    ({"sender": {"actor": "ceo", "key": "self"}}, "CF-HANDOFF-012"),
    ({"sender": {"actor": "sender", "key": "0" * 64}}, "CF-HANDOFF-013"),
    ({"payload": {"media": "text/html", "size": 1}}, "CF-HANDOFF-016"),
    ({"payload": {"media": "text/plain;charset=utf-8", "size": 2}}, "CF-HANDOFF-016"),
    ({"parents": [{"digest": "x", "rel": "data"}]}, "CF-HANDOFF-012"),
    ({"parents": [{"digest": "0" * 64, "rel": "data"}] * 17}, "CF-HANDOFF-012"),
]


@pytest.mark.parametrize(("changes", "code"), CHANGES, ids=str)
def test_statements_that_do_not_fit(sides: tuple[Side, Side], changes: dict[str, Any], code: str) -> None:
    sender, receiver = sides
    if changes.get("sender", {}).get("key") == "self":
        with sender.inside() as log:
            changes = {"sender": {"actor": "ceo", "key": log.fingerprint}}
    assert receiver.refused(sender.sign(*predicate(sender, "x", **changes)), "x") == code
    assert receiver.verdict().verdict == "intact"


def test_other_statements_than_handoffs(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    with sender.inside() as log:
        own = log.fingerprint
    receipt = {
        "checks": [],
        "handoff": "0" * 64,
        "issued": 1,
        "sender": {"actor": "a", "key": own},
        "status": "accepted",
    }
    subject = {"digest": {"sha256": "0" * 64}, "name": "handoff"}
    assert receiver.refused(sender.sign(receipt, subject, kind=statements.RECEIPT), "x") == "CF-HANDOFF-012"
    unknown = sender.sign(*predicate(sender, "x"), kind="urn:counterfoil:handoff:v9")
    assert receiver.refused(unknown, "x") == "CF-HANDOFF-012"
    two = canonical.loads(sender.sign(*predicate(sender, "x")).payload)
    two["subject"] *= 2
    with sender.inside() as log:
        signed = Envelope.sign(canonical.dumps(two), log.recorder.open().identity, carry_key=True)
    assert receiver.refused(signed, "x") == "CF-HANDOFF-012"
    with sender.inside() as log:
        loose = json.dumps(canonical.loads(sender.sign(*predicate(sender, "x")).payload)).encode()
        signed = Envelope.sign(loose, log.recorder.open().identity, carry_key=True)
    assert receiver.refused(signed, "x") == "CF-HANDOFF-012"


def test_an_envelope_as_big_as_allowed_breaks_no_log(sides: tuple[Side, Side]) -> None:
    """Anybody on the way may add signatures that nobody checks; the receiver's log must hold it all the same."""
    sender, receiver = sides
    body = sender.seal("x").to_dict()
    room = 65_000 - len(Envelope.parse(body).to_bytes()) - 60
    junk = base64.b64encode(bytes(room * 3 // 4 // 3 * 3 - 30)).decode()
    big = Envelope.parse(body | {"signatures": [*body["signatures"], {"keyid": "junk", "sig": junk}]})
    assert len(big.to_bytes()) > 64_900
    receiver.accept(big, "x")
    result = receiver.verdict()
    assert (result.verdict, result.findings) == ("intact", [])


def test_a_pinned_sender_that_claims_a_head_of_the_receiver_s_log(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    with receiver.inside() as log:
        own = {"origin": log.origin, "root": "0" * 64, "size": 1}
    assert receiver.refused(sender.sign(*predicate(sender, "x", own=own)), "x") == "CF-HANDOFF-024"
    assert receiver.refused(sender.sign(*predicate(sender, "x", seen=[own])), "x") == "CF-HANDOFF-024"
    assert receiver.verdict().verdict == "intact"


def test_a_receipt_by_another_key_locks_out_none(sides: tuple[Side, Side], lab: Any) -> None:
    sender, receiver = sides
    other = Side(lab, "other")
    sender.trust(receiver)
    sender.trust(other)

    def forged(digest: str) -> Envelope:
        with other.inside() as log:
            key = log.fingerprint
        predicate = {
            "checks": [],
            "handoff": digest,
            "issued": time.time_ns() // 1_000_000,
            "sender": {"actor": "receiver", "key": key},
            "status": "accepted",
        }
        subject = {"digest": {"sha256": digest}, "name": "handoff"}
        return other.sign(predicate, subject, kind=statements.RECEIPT)

    def take(receipt: Envelope) -> str:
        with sender.inside() as log:
            try:
                counterfoil.take_receipt(log, receipt)
            except HandoffRefusedError as exc:
                return exc.code
        return ""

    # At first contact the home cannot tell whose key it is; the true receipt is kept all the same.
    first = sender.seal("first")
    assert take(forged(first.digest)) == ""
    receiver.seal("before", to="x")
    receiver.close()
    assert take(receiver.accept(first, "first").answer) == ""
    second = sender.seal("second")
    assert take(forged(second.digest)) == "CF-HANDOFF-025"
    assert take(receiver.accept(second, "second").answer) == ""
    other.close()
    assert sender.verdict().verdict == "intact"
