"""What a receiver refuses, and that the refusal is told; arguments that cannot be used."""

from __future__ import annotations

import base64
import threading
import time
from typing import Any

import pytest
from sides import Side

import counterfoil
from counterfoil import keys, records
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, HandoffError, HandoffRefusedError

ALTERED: list[tuple[Any, Any]] = [
    ("pay 10", "pay 100"),
    ("text", b"text"),
    (b"text", "text"),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"a": 1, "b": None}),
    ({"a": True}, {"a": 1}),
    (["a"], ("a",)),
    ("1", 1),
    ("", None),
    ("x" * 5000, "x" * 4999 + "y"),
    ({"$ref": {}}, {}),
    ([1, 2], [2, 1]),
]


@pytest.mark.parametrize(("sealed", "got"), ALTERED, ids=str)
def test_an_altered_payload(sides: tuple[Side, Side], sealed: Any, got: Any) -> None:
    sender, receiver = sides
    envelope = sender.seal(sealed).to_bytes()
    assert receiver.refused(envelope, got) == "CF-HANDOFF-016"
    receiver.accept(envelope, sealed)  # a refusal for the payload does not use the handoff up
    assert receiver.verdict().verdict == "intact"


def test_a_payload_that_no_digest_covers(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    for payload in (object(), {"a": object()}, deep, [print, threading.Lock()]):
        with pytest.raises(HandoffError) as caught:
            sender.seal(payload)
        assert caught.value.code == "CF-HANDOFF-004"
    sealed = sender.seal([{"$opaque": "object"}])
    assert receiver.refused(sealed, [object()]) == "CF-HANDOFF-016"


def test_an_altered_envelope(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    envelope = sender.seal("x" * 400)
    body = envelope.to_dict()
    payload = base64.b64decode(body["payload"])

    def with_payload(changed: bytes) -> dict[str, Any]:
        return body | {"payload": base64.b64encode(changed).decode()}

    for changed in (
        payload.replace(b'"to":"receiver"', b'"to":"attacker"'),
        payload.replace(b'"audience":"receiver"', b'"audience":"attacker"'),
        payload.replace(b"expires", b"Expires"),
        payload + b" ",
        payload[:-1],
    ):
        assert changed != payload
        assert receiver.refused(with_payload(changed), "x" * 400) == "CF-HANDOFF-011"
    signature = body["signatures"][0]
    sig = bytearray(base64.b64decode(signature["sig"]))
    for at in (0, 31, 32, 63):
        sig[at] ^= 1
        forged = body | {"signatures": [signature | {"sig": base64.b64encode(sig).decode()}]}
        assert receiver.refused(forged, "x" * 400) == "CF-HANDOFF-011"
        sig[at] ^= 1
    assert (
        receiver.refused(body | {"signatures": [signature | {"keyid": "0" * 64}]}, "x" * 400)
        == "CF-HANDOFF-011"
    )
    other = keys.SigningKey.generate()
    again = Envelope.sign(payload, other, carry_key=True)
    assert receiver.refused(again, "x" * 400) == "CF-HANDOFF-011"
    swapped = body | {"signatures": [signature | {"spki": base64.b64encode(other.spki).decode()}]}
    assert receiver.refused(swapped, "x" * 400) == "CF-HANDOFF-011"
    receiver.accept(envelope, "x" * 400)
    assert receiver.verdict().verdict == "intact"


@pytest.mark.parametrize(
    "form",
    [
        b"",
        b"not json",
        "text",
        b"[]",
        {},
        {"payload": "", "payloadType": "application/vnd.in-toto+json", "signatures": []},
        b'{"payload":"AA==","payloadType":"text/plain","signatures":[{"keyid":"a","sig":"AA=="}]}',
        b"x" * 100_000,
        b'{"payload":"AA==","payload":"AA==","payloadType":"application/vnd.in-toto+json","signatures":[]}',
        b"[" * 10_000,
    ],
    ids=lambda one: str(one)[:20],
)
def test_what_is_no_envelope(sides: tuple[Side, Side], form: Any) -> None:
    _, receiver = sides
    with pytest.raises(HandoffRefusedError) as caught:
        receiver.accept(form, "x")
    assert caught.value.code == "CF-HANDOFF-010"
    assert caught.value.hint


def test_a_sender_that_nobody_pinned(sides: tuple[Side, Side], lab: Any) -> None:
    _, receiver = sides
    stranger = Side(lab, "stranger")
    envelope = stranger.seal("x")
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-011"
    receiver.trust(stranger)
    receiver.accept(envelope, "x")
    with stranger.inside() as log, lab.at(receiver.home):
        keys.Keyring.load().unpin(log.fingerprint)
    assert receiver.refused(stranger.seal("y"), "y") == "CF-HANDOFF-011"
    stranger.close()


def test_another_audience(sides: tuple[Side, Side], lab: Any) -> None:
    sender, receiver = sides
    other = Side(lab, "other")
    other.trust(sender)
    envelope = sender.seal("x", to="other")
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-014"
    other.accept(envelope, "x")
    assert receiver.refused(sender.seal("x", to="Receiver"), "x") == "CF-HANDOFF-014"
    assert receiver.refused(sender.seal("x", to="receiver/"), "x") == "CF-HANDOFF-014"
    other.close()


def test_expired_and_from_the_future(sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = sides
    short = sender.seal("x", lifetime=1)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 50_000 * 1_000_000)
    receiver.accept(short, "x")  # within the clocks' difference
    again = sender.seal("x", lifetime=1)
    monkeypatch.setattr(time, "time_ns", lambda: real() + 200_000 * 1_000_000)
    assert receiver.refused(again, "x") == "CF-HANDOFF-015"
    future = sender.seal("x")
    monkeypatch.setattr(time, "time_ns", real)
    assert receiver.refused(future, "x") == "CF-HANDOFF-015"
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10**9 * 600)
    with pytest.raises(HandoffError) as caught:
        sender.seal("x", lifetime=0)
    assert caught.value.code == "CF-HANDOFF-005"


def test_arguments_that_cannot_be_used(sides: tuple[Side, Side], lab: Any) -> None:
    sender, _ = sides
    bad: list[tuple[dict[str, Any], str]] = [
        ({"to": ""}, "CF-HANDOFF-001"),
        ({"to": None}, "CF-HANDOFF-001"),
        ({"lifetime": 0}, "CF-HANDOFF-005"),
        ({"lifetime": -1}, "CF-HANDOFF-005"),
        ({"lifetime": 1.5}, "CF-HANDOFF-005"),
        ({"lifetime": True}, "CF-HANDOFF-005"),
        ({"parents": ["x"]}, "CF-HANDOFF-002"),
        ({"parents": ["Z" * 64]}, "CF-HANDOFF-002"),
        ({"parents": [None]}, "CF-HANDOFF-002"),
        ({"parents": "a" * 64}, "CF-HANDOFF-002"),
    ]
    for arguments, code in bad:
        with pytest.raises(CounterfoilError) as caught:
            sender.seal("x", **arguments)
        assert caught.value.code.startswith(code), arguments
    with lab.at(sender.home), pytest.raises(CounterfoilError) as caught:
        counterfoil.open(sender.evidence, actor="")
    assert caught.value.code == "CF-CONFIG-004"
    assert sender.verdict().verdict == "intact"


def test_odd_names(lab: Any, no_plugins: Any) -> None:
    for name in ("a/b", "é\U0001f600", "a b", "%2F", "\ud800", "x" * 300):
        sender, receiver = Side(lab, "sender"), Side(lab, name)
        receiver.home, receiver.evidence = lab.root / "odd home", lab.root / "odd evidence"
        receiver.trust(sender)
        accepted = receiver.accept(sender.seal("x", to=name), "x")
        assert accepted.sender == ("sender",)
        assert records.actor_path(records.actor_text([name])) == (name,)
        sender.close()
        receiver.close()


def test_nobody_without_a_key_fills_the_disk(sides: tuple[Side, Side], lab: Any, monkeypatch: Any) -> None:
    sender, receiver = sides
    stranger = Side(lab, "stranger")
    monkeypatch.setattr("counterfoil.openlog.UNKNOWN_A_MINUTE", 3)
    for number in range(8):
        envelope = stranger.seal(str(number))
        with pytest.raises(HandoffRefusedError, match="CF-HANDOFF-011"):
            receiver.accept(envelope, str(number))
    assert len(receiver.receipts()) == 3
    # Whom one knows is told of one by one, however often.
    for number in range(5):
        assert receiver.refused(sender.seal(str(number)), "another") == "CF-HANDOFF-016"

    def told() -> list[int]:
        found = counterfoil.read(receiver.evidence).entries()
        return [one.body["context"]["count"] for one in found if one.op == "custom"]

    # The others of a minute are one record, with the first refusal of the next or at close.
    assert told() == []
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 61)
    for number in range(4):
        with pytest.raises(HandoffRefusedError, match="CF-HANDOFF-011"):
            receiver.accept(stranger.seal(f"again {number}"), "x")
    with receiver.inside() as log:
        log.flush()
    assert told() == [5]
    stranger.close()
    found = receiver.verdict()
    assert (found.verdict, told()) == ("intact", [5, 1])
