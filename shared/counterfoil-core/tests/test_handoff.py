"""A handoff between two owners: accepted once, by whom it is for, as it was sealed; or refused, and that is told."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, context, handoff, hooks, keys, plugins, policy_form, records, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, HandoffError, HandoffRefusedError
from counterfoil.handoff import OpenLog
from counterfoil.nonces import Nonces


class Side:
    """One owner: a home, evidence and a log opened for writing."""

    def __init__(self, lab: Any, name: str) -> None:
        self.lab = lab
        self.name = name
        self.home: Path = lab.root / f"home of {name}"
        self.evidence: Path = lab.root / f"evidence of {name}"
        self._log: OpenLog | None = None

    @contextlib.contextmanager
    def inside(self) -> Iterator[OpenLog]:
        with self.lab.at(self.home):
            if self._log is None:
                self._log = counterfoil.open(self.evidence, actor=self.name)
            yield self._log

    def seal(self, payload: object, **arguments: Any) -> Envelope:
        with self.inside() as log:
            return counterfoil.seal(log, payload, **{"to": "receiver"} | arguments)

    def accept(self, envelope: Any, payload: object) -> handoff.Accepted:
        with self.inside() as log:
            return counterfoil.accept(log, envelope, payload)

    def refused(self, envelope: Any, payload: object) -> str:
        """Code of the refusal, which must be in the log."""
        before = self.receipts()
        with pytest.raises(HandoffRefusedError) as caught:
            self.accept(envelope, payload)
        assert caught.value.hint
        (receipt,) = [one for one in self.receipts() if one not in before]
        assert receipt.status == "refused"
        assert receipt.reason.startswith(caught.value.code)
        return caught.value.code

    def receipts(self) -> list[Any]:
        if not self.evidence.exists():
            return []
        found = [statement.predicate for _, statement in counterfoil.read(self.evidence).statements()]
        return [predicate for predicate in found if isinstance(predicate, statements.Receipt)]

    def trust(self, other: Side) -> None:
        with other.inside() as log:
            fingerprint = log.fingerprint
        with self.lab.at(self.home):
            keys.Keyring.load().pin(fingerprint)

    def sign(self, predicate: dict[str, Any], subject: dict[str, Any] | None = None, **more: Any) -> Envelope:
        """A statement by this side's identity, whatever it says."""
        with self.inside() as log:
            key = log.recorder.open().identity
            kind = more.pop("kind", statements.HANDOFF)
            return Envelope.sign(statements.build(kind, subject or {}, predicate), key, carry_key=True)

    def close(self) -> None:
        with self.lab.at(self.home):
            if self._log is not None:
                self._log.close()
                self._log = None

    def verdict(self) -> Any:
        self.close()
        with self.lab.at(self.home):
            return counterfoil.verify(self.evidence)


@pytest.fixture
def sides(lab: Any, no_plugins: Any) -> Iterator[tuple[Side, Side]]:
    sender, receiver = Side(lab, "sender"), Side(lab, "receiver")
    receiver.trust(sender)
    yield sender, receiver
    sender.close()
    receiver.close()


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


# -- refusals ---------------------------------------------------------------------------------------------------------


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


def test_replayed(sides: tuple[Side, Side], lab: Any) -> None:
    sender, receiver = sides
    envelope = sender.seal("x")
    receiver.accept(envelope, "x")
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-018"
    receiver.close()  # a restart
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-018"
    receiver.close()
    for path in (receiver.home / "nonces").iterdir():  # a home that forgot it: the log tells
        path.unlink()
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-018"
    receiver.close()
    replica = Side(lab, "receiver")  # another evidence folder of the same owner
    replica.evidence = lab.root / "evidence of a replica"
    receiver.accept(sender.seal("y").to_bytes(), "y")
    with receiver.inside():
        pass
    second = sender.seal("z")
    receiver.accept(second, "z")
    assert replica.refused(second, "z") == "CF-HANDOFF-018"
    replica.close()
    assert receiver.verdict().verdict == "intact"


def test_a_replica_that_was_open_before(sides: tuple[Side, Side], lab: Any) -> None:
    sender, receiver = sides
    replica = Side(lab, "receiver")
    warm = sender.seal("warm")
    replica.accept(warm, "warm")  # has read all receipts
    envelope = sender.seal("x")
    receiver.accept(envelope, "x")
    assert replica.refused(envelope, "x") == "CF-HANDOFF-018"
    replica.close()
    assert receiver.verdict().verdict == "intact"


def test_of_many_at_once_one_wins(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    envelope = sender.seal("x")
    outcomes: list[str] = []
    go = threading.Barrier(8)
    with receiver.inside() as log:

        def work() -> None:
            go.wait()
            try:
                counterfoil.accept(log, envelope, "x")
                outcomes.append("accepted")
            except HandoffRefusedError as exc:
                outcomes.append(exc.code)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == ["CF-HANDOFF-018"] * 7 + ["accepted"]


def test_nonces_are_forgotten_after_their_handoff(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = sides
    receiver.accept(sender.seal("x", lifetime=1), "x")
    kept = receiver.home / "nonces"
    assert len(list(kept.iterdir())) == 1
    receiver.close()
    real = time.time
    # Not before the policy with the most patient clocks refuses it.
    monkeypatch.setattr(time, "time", lambda: real() + policy_form.MAX_SKEW / 1000)
    receiver.accept(sender.seal("y"), "y")
    assert len(list(kept.iterdir())) == 2
    receiver.close()
    monkeypatch.setattr(time, "time", lambda: real() + policy_form.MAX_SKEW / 1000 + 3600)
    (kept / "00").mkdir()  # whatever else is in there keeps none of them
    receiver.accept(sender.seal("z"), "z")
    assert len(list(kept.iterdir())) == 2


def test_what_others_of_this_identity_accept_meanwhile(sides: tuple[Side, Side]) -> None:
    """Receipts tell it, between processes that hold one evidence open: whatever became of the home, or however many
    homes hold the identity."""
    sender, receiver = sides
    with receiver.inside() as first, counterfoil.open(receiver.evidence, actor="receiver") as second:
        assert first.origin != second.origin

        def taken(log: OpenLog, envelope: Envelope, payload: str) -> str:
            with receiver.inside():
                try:
                    counterfoil.accept(log, envelope, payload)
                except HandoffRefusedError as exc:
                    return exc.code
                finally:
                    shutil.rmtree(receiver.home / "nonces", ignore_errors=True)
            return ""

        sealed = [sender.seal(str(number)) for number in range(40)]
        for turn, envelope in enumerate(sealed):
            one, other = (first, second) if turn % 3 else (second, first)
            assert taken(one, envelope, str(turn)) == ""
            assert taken(other, envelope, str(turn)) == "CF-HANDOFF-018"
            assert taken(one, envelope, str(turn)) == "CF-HANDOFF-018"
    receiver.close()
    found = receiver.verdict()
    assert (found.verdict, found.findings) == ("intact", [])


def test_a_home_that_cannot_tell_refuses(sides: tuple[Side, Side]) -> None:
    sender, receiver = sides
    with receiver.inside():
        (receiver.home / "nonces").write_text("in the way")
    assert receiver.refused(sender.seal("x"), "x") == "CF-HANDOFF-019"
    with receiver.inside():
        (receiver.home / "nonces").unlink()
        (receiver.home / "keyring.json").write_text("damaged")
    with pytest.raises(HandoffRefusedError) as caught:
        receiver.accept(sender.seal("x"), "x")
    assert caught.value.code == "CF-HANDOFF-011"


def test_nothing_is_acted_on_that_is_not_on_disk(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = sides
    envelope = sender.seal("x")
    with receiver.inside() as log:
        writer = log.recorder.open()
        monkeypatch.setattr(type(writer), "flush", lambda self, *, timeout=None: False)
        with pytest.raises(HandoffError) as caught:
            counterfoil.accept(log, envelope, "x")
        assert caught.value.code == "CF-HANDOFF-003"
        with pytest.raises(HandoffError):
            counterfoil.accept(log, envelope, "x")
        monkeypatch.undo()
        counterfoil.accept(log, envelope, "x")  # tried again once the disk is back
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-018"
    assert [one.status for one in receiver.receipts()] == ["accepted", "refused"]
    assert receiver.verdict().verdict == "intact"
    with sender.inside() as log:
        monkeypatch.setattr(type(log.recorder.open()), "flush", lambda self, *, timeout=None: False)
        with pytest.raises(HandoffError) as caught:
            counterfoil.seal(log, "x", to="receiver")
        assert caught.value.code == "CF-HANDOFF-003"


# -- statements a pinned sender may sign ------------------------------------------------------------------------------


def predicate(side: Side, given: object, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Predicate and subject of a good handoff, with changes (None takes a member out)."""
    with side.inside() as log:
        reference = log.recorder.value(given)
        now = time.time_ns() // 1_000_000
        made: dict[str, Any] = {
            "audience": "receiver",
            "content": {
                "basis": "sealed",
                "from": ["sender"],
                "kind": "message",
                "payload": reference.sha256,
                "to": "receiver",
            },
            "exact": True,
            "expires": now + 60_000,
            "issued": now,
            "nonce": "0123456789abcdef" * 2,
            "parents": [],
            "payload": {"media": reference.media, "size": reference.size},
            "proof": "countersigned",
            "sender": {"actor": "sender", "key": log.fingerprint},
        } | changes
        made = {name: value for name, value in made.items() if value is not None}
        subject = {"digest": {"counterfoil-v1": reference.sha256}, "name": "payload"}
        return made, subject


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


# -- plugins ----------------------------------------------------------------------------------------------------------


def checker(answer: Callable[[hooks.Transfer], Any]) -> Any:
    class Plugin:
        @hooks.hookimpl
        def counterfoil_check_transfer(self, transfer: hooks.Transfer) -> Any:
            return answer(transfer)

    return Plugin()


def fail(transfer: hooks.Transfer) -> Any:
    raise RuntimeError("the policy server is down")


@pytest.mark.parametrize(
    "answer",
    [
        lambda transfer: hooks.Deny("not today"),
        lambda transfer: hooks.Deny("\ud800" * 3000),
        lambda transfer: True,
        lambda transfer: "yes",
        fail,
    ],
    ids=["denies", "denies at length", "true", "text", "raises"],
)
def test_a_plugin_that_does_not_allow_it(
    sides: tuple[Side, Side], no_plugins: plugins.Plugins, answer: Any
) -> None:
    sender, receiver = sides
    envelope = sender.seal("x")
    no_plugins.register(checker(answer), "policy")
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-017"
    assert "policy" in receiver.receipts()[-1].reason
    assert receiver.verdict().verdict == "intact"


def test_the_strictest_plugin_decides_and_sees_everything(
    sides: tuple[Side, Side], no_plugins: plugins.Plugins
) -> None:
    sender, receiver = sides
    seen: list[hooks.Transfer] = []

    def allow(transfer: hooks.Transfer) -> None:
        seen.append(transfer)

    no_plugins.register(checker(allow), "first")
    envelope = sender.seal("x", parents=["1" * 64])
    accepted = receiver.accept(envelope, "x")
    (transfer,) = seen
    assert (transfer.sender, transfer.to, transfer.kind) == (("sender",), ("receiver",), "message")
    assert (transfer.parents, transfer.proof) == (("1" * 64,), "countersigned")
    assert accepted.parents == (("control", "1" * 64),)
    no_plugins.register(checker(lambda transfer: hooks.Deny("no")), "second")
    assert receiver.refused(sender.seal("y"), "y") == "CF-HANDOFF-017"
    assert len(seen) == 2


def test_a_denied_handoff_inside_a_process_is_told(
    lab: Any, no_plugins: plugins.Plugins, one_run: Any
) -> None:
    no_plugins.register(checker(lambda transfer: hooks.Deny("not this one")), "policy")
    recorder = lab.recorder()
    one_run(recorder)
    recorder.close()
    assert lab.verify().verdict == "intact"
    reader = counterfoil.read(lab.evidence)
    (decision,) = [entry for entry in reader.records() if entry.op == "decision"]
    assert decision.body["content"]["status"] == "deny"
    assert reader.value(decision.body["context"]["reason"]) == "policy: not this one"


# -- arguments --------------------------------------------------------------------------------------------------------


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


# -- two real processes -----------------------------------------------------------------------------------------------


SENDER = """
import json, sys, counterfoil
log = counterfoil.open(sys.argv[2], actor="sender")
print(log.fingerprint, flush=True)
for line in sys.stdin:
    payload = json.loads(line)
    print(counterfoil.seal(log, payload, to="receiver").to_bytes().decode(), flush=True)
log.close()
"""

RECEIVER = """
import json, sys, counterfoil
from counterfoil import keys
from counterfoil.errors import HandoffRefusedError
if len(sys.argv) > 3:
    keys.load_or_create_identity()
    keys.Keyring.load().pin(sys.argv[3])
log = counterfoil.open(sys.argv[2], actor="receiver")
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    try:
        accepted = counterfoil.accept(log, asked["envelope"], asked["payload"])
        print("accepted by", "/".join(accepted.sender), flush=True)
    except HandoffRefusedError as exc:
        print(exc.code, flush=True)
log.close()
"""


def ask(child: subprocess.Popen[str], line: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def stop(child: subprocess.Popen[str]) -> None:
    _, err = child.communicate(timeout=30)
    assert child.returncode == 0, err


def test_two_processes_with_two_homes(lab: Any) -> None:
    homes = {name: str(lab.root / f"home of {name}") for name in ("sender", "receiver")}
    evidence = {name: lab.root / f"evidence of {name}" for name in homes}
    sender = lab.start(SENDER, evidence["sender"], COUNTERFOIL_HOME=homes["sender"])
    fingerprint = sender.stdout.readline().strip()
    receiver = lab.start(RECEIVER, evidence["receiver"], fingerprint, COUNTERFOIL_HOME=homes["receiver"])
    assert receiver.stdout.readline() == "ready\n"

    def hand(payload: Any, got: Any, child: subprocess.Popen[str], envelope: str | None = None) -> str:
        envelope = envelope or ask(sender, json.dumps(payload))
        return ask(child, json.dumps({"envelope": envelope, "payload": got}))

    first = ask(sender, json.dumps({"task": "a"}))
    assert hand(None, {"task": "a"}, receiver, first) == "accepted by sender"
    assert hand(None, {"task": "a"}, receiver, first) == "CF-HANDOFF-018"
    assert hand({"task": "b"}, {"task": "c"}, receiver) == "CF-HANDOFF-016"
    # A second process of the same receiver, open at the same time, and then a restart.
    twin = lab.start(RECEIVER, evidence["receiver"], COUNTERFOIL_HOME=homes["receiver"])
    assert twin.stdout.readline() == "ready\n"
    assert hand(None, {"task": "a"}, twin, first) == "CF-HANDOFF-018"
    second = ask(sender, json.dumps("second"))
    assert hand(None, "second", twin, second) == "accepted by sender"
    assert hand(None, "second", receiver, second) == "CF-HANDOFF-018"
    stop(receiver)
    stop(twin)
    again = lab.start(RECEIVER, evidence["receiver"], COUNTERFOIL_HOME=homes["receiver"])
    assert again.stdout.readline() == "ready\n"
    assert hand(None, {"task": "a"}, again, first) == "CF-HANDOFF-018"
    assert hand(None, "second", again, second) == "CF-HANDOFF-018"
    again.kill()
    again.communicate()
    stop(sender)
    with lab.at(Path(homes["sender"])):
        assert counterfoil.verify(evidence["sender"]).verdict == "intact"
    with lab.at(Path(homes["receiver"])):
        result = counterfoil.verify(evidence["receiver"])
        assert result.verdict == "incomplete"  # the last receiver was killed
        rows = counterfoil.read(evidence["receiver"]).handoffs()
    assert [(row["from"], row["to"], row["status"], row["proof"]) for row in rows] == [
        ("sender", "receiver", "accepted", "countersigned")
    ] * 2


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


def test_a_nonce_is_its_senders_own(
    sides: tuple[Side, Side], lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = sides
    other = Side(lab, "other")
    receiver.trust(other)
    monkeypatch.setattr("counterfoil.handoff.secrets.token_hex", lambda size: "ab" * size)
    receiver.accept(other.seal("theirs", to="receiver").to_bytes(), "theirs")
    receiver.accept(sender.seal("mine").to_bytes(), "mine")
    with pytest.raises(HandoffRefusedError):
        receiver.accept(sender.seal("again").to_bytes(), "again")
    other.close()


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
