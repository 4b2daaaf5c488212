"""A handoff between two owners: accepted as it was sealed, whatever the payload, with its parents."""

from __future__ import annotations

from typing import Any

import pytest
from sides import Side

import counterfoil
from counterfoil import context, keys, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffError
from counterfoil.nonces import Nonces

PAYLOADS: list[Any] = [
    "plain text",
    "",
    "x" * 5000,
    b"\x00\xff" * 300,
    b"",
    {"task": "write", "n": 1, "big": ["y" * 400, {"z": 1.5}]},
    ["a", 1, None, True],
    None,
    42,
    2**70,
    float("inf"),
    {"unicode": "é\U0001f600\ud800"},
    ("a", frozenset({1, 2})),
    {1: "a", "1": "b"},
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda one: type(one).__name__)
def test_accepted(sides: tuple[Side, Side], payload: Any) -> None:
    sender, receiver = sides
    envelope = sender.seal(payload)
    for form in (envelope, envelope.to_bytes(), envelope.to_bytes().decode(), envelope.to_dict()):
        assert Envelope.parse(form).digest == envelope.digest if not isinstance(form, Envelope) else True
    accepted = receiver.accept(envelope.to_bytes(), payload)
    assert accepted.digest == envelope.digest
    assert accepted.sender == ("sender",)
    assert accepted.payload == payload
    (receipt,) = receiver.receipts()
    assert (receipt.status, receipt.handoff) == ("accepted", envelope.digest)
    assert receipt.checks == ["signature", "statement", "audience", "time", "head", "payload", "replay"]
    for side in sides:
        result = side.verdict()
        assert (result.verdict, result.findings) == ("intact", [])
        assert result.counts["handoffs"] == 1


def test_the_other_owner_s_evidence_is_judged_by_pins(sides: tuple[Side, Side], lab: Any) -> None:
    sender, receiver = sides
    receiver.accept(sender.seal("x").to_bytes(), "x")
    assert receiver.verdict().verdict == "intact"
    # The sender pinned nobody: of the receiver's evidence it cannot tell, and says how to.
    sender.close()
    with lab.at(sender.home):
        result = counterfoil.verify(receiver.evidence)
    assert (result.verdict, {one.code for one in result.findings}) == ("cannot-tell", {"CF-VERIFY-032"})
    # Somebody who pinned the receiver alone cannot tell of the handoff inside.
    with lab.at(receiver.home):
        own = keys.load_identity()
    assert own is not None
    with lab.at(lab.root / "auditor"):
        result = counterfoil.verify(receiver.evidence, keyring=keys.Keyring.of([own.public]))
        assert (result.verdict, {one.code for one in result.findings}) == ("cannot-tell", {"CF-VERIFY-042"})
        keys.load_or_create_identity()
        ring = keys.Keyring.load()
        ring.pin(own.keyid)
        with sender.inside() as log:
            fingerprint = log.fingerprint
        ring.pin(fingerprint)
        assert counterfoil.verify(receiver.evidence).verdict == "intact"


def test_parents_travel(sides: tuple[Side, Side], lab: Any) -> None:
    sender, receiver = sides
    third = Side(lab, "third")
    third.trust(receiver)
    first = receiver.accept(sender.seal("one").to_bytes(), "one")
    second = receiver.accept(sender.seal("two").to_bytes(), "two")
    default = third.accept(receiver.seal("last", to="third").to_bytes(), "last")
    assert default.parents == (
        ("control", second.digest),
    )  # what is worked on, not what a server ever accepted
    onward = receiver.seal("both", to="third", parents=[first, second])
    accepted = third.accept(onward.to_bytes(), "both")
    assert set(accepted.parents) == {("control", first.digest), ("control", second.digest)}
    only = third.accept(receiver.seal("one", to="third", parents=[first]).to_bytes(), "one")
    assert only.parents == (("control", first.digest),)
    many = [sender.seal(str(number)) for number in range(20)]
    taken = [receiver.accept(envelope.to_bytes(), str(number)) for number, envelope in enumerate(many)]
    listed = receiver.seal("many", to="third", parents=[first, second, *taken])
    statement = statements.parse(listed.payload).predicate
    assert isinstance(statement, statements.Handoff)
    assert statement.parents == []
    assert statement.parentSet is not None
    assert statement.parentSet.count == 22
    third.accept(listed.to_bytes(), "many")
    for side in (sender, receiver, third):
        assert side.verdict().verdict == "intact", side.name
    third.close()


def test_what_runs_here_is_a_parent(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    with sender.inside() as log:
        root = log.recorder.start("invoke_agent", "planner", actor=("team", "planner"))
        context.enter(root)
        try:
            envelope = counterfoil.seal(log, "x", to="receiver")
        finally:
            context.enter(None)
        log.recorder.end(root)
    accepted = receiver.accept(envelope.to_bytes(), "x")
    assert accepted.sender == ("team", "planner")
    assert accepted.parents == (("control", root.start),)


@pytest.mark.parametrize(
    "payload",
    [lambda: 1, ValueError("x"), type, iter([1]), {"inside": [print]}],
    ids=["function", "exception", "class", "iterator", "inside"],
)
def test_a_payload_that_its_digest_does_not_hold_is_not_sealed(
    sides: tuple[Side, Side], payload: object
) -> None:
    sender, _ = sides
    with pytest.raises(HandoffError) as caught:
        sender.seal(payload)
    assert caught.value.code == "CF-HANDOFF-004"


def test_the_accepted_payload_is_the_verified_one(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = sides
    payload = {"to": "alice", "list": [1]}
    envelope = sender.seal(payload).to_bytes()
    take = Nonces.take

    def change(self: Nonces, *arguments: Any, **more: Any) -> bool:
        payload["to"] = "mallory"  # another thread, while the handoff is being verified
        payload["list"].append(2)
        return take(self, *arguments, **more)

    monkeypatch.setattr(Nonces, "take", change)
    assert receiver.accept(envelope, payload).payload == {"to": "alice", "list": [1]}
