"""An acceptance counts in the log it names, whoever keeps a copy; in bundles as in the evidence they are cut from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import counterfoil
from counterfoil import statements
from counterfoil.dsse import Envelope
from counterfoil.errors import BundleError
from counterfoil.openlog import OpenLog

Make = Callable[..., Any]
NONCE = "7" * 32


@pytest.fixture
def receiver(party: Make) -> Any:
    return party("receiver")


@pytest.fixture
def envelope(party: Make, receiver: Any) -> Envelope:
    """A handoff by somebody else, that the receiver knows."""
    sender = party("sender")
    sender.trust(receiver)
    receiver.trust(sender)
    sealed: Envelope = sender.seal()
    return sealed


@pytest.fixture
def logs(receiver: Any, envelope: Envelope) -> Iterator[list[OpenLog]]:
    """Three logs of the receiver's in one evidence, in their order, each with the handoff and a checkpoint."""
    with receiver.inside():
        opened = [counterfoil.open(receiver.evidence, actor="receiver") for _ in range(3)]
        for log in opened:
            log.recorder.value("task")
            put(log, envelope)
            assert log.anchor()
        opened.sort(key=lambda log: log.origin)
        yield opened
        for log in opened:
            log.close()


def put(log: OpenLog, *envelopes: Envelope) -> None:
    """Append past every check."""
    for one in envelopes:
        assert log.recorder.open().entry(one.to_bytes())


def says(receiver: Any, envelope: Envelope, log: OpenLog, status: str, **more: Any) -> Envelope:
    """A receipt that names this log."""
    _, own = log.moment()
    assert own is not None
    assert own["origin"] == log.origin
    predicate = {
        "checks": [],
        "handoff": envelope.digest,
        "issued": time.time_ns() // 1_000_000,
        "nonce": NONCE,
        "own": own,
        "sender": {"actor": "receiver", "key": receiver.key.keyid},
        "status": status,
    }
    members = {name: value for name, value in (predicate | more).items() if value is not None}
    found: Envelope = receiver.sign(members, kind=statements.RECEIPT)
    return found


def both(receiver: Any, envelope: Envelope, logs: list[OpenLog]) -> tuple[str, list[str]]:
    """What verifying says of the evidence; the same, then, as of a bundle of the handoff."""
    for log in logs:
        log.close()
    out = receiver.lab.root / "cut.bundle"
    with receiver.inside():
        counterfoil.bundle(receiver.evidence, out, handoff=envelope.digest, force=True)
        cut = counterfoil.verify(out)
    whole: tuple[str, list[str]] = receiver.verdict()
    assert (cut.verdict, [one.code for one in cut.findings]) == whole
    return whole


@pytest.mark.parametrize("back", [None, 0, 1])
def test_what_two_logs_accepted_is_broken_unless_one_took_it_back(
    receiver: Any, envelope: Envelope, logs: list[OpenLog], back: int | None
) -> None:
    for log in logs[:2]:
        put(log, says(receiver, envelope, log, "accepted"))
    if back is None:
        assert both(receiver, envelope, logs) == ("broken", ["CF-VERIFY-048"])
    else:
        put(logs[back], says(receiver, envelope, logs[back], "refused"))
        assert both(receiver, envelope, logs) == ("incomplete", ["CF-VERIFY-049"])


def test_each_log_beyond_the_first_is_named(receiver: Any, envelope: Envelope, logs: list[OpenLog]) -> None:
    for log in logs:
        put(log, says(receiver, envelope, log, "accepted"))
    assert both(receiver, envelope, logs) == ("broken", ["CF-VERIFY-048"] * 2)


def test_no_bundle_of_it_is_kept_unasked(receiver: Any, envelope: Envelope, logs: list[OpenLog]) -> None:
    for log in logs[:2]:
        put(log, says(receiver, envelope, log, "accepted"))
        log.close()
    out = receiver.lab.root / "cut.bundle"
    with receiver.inside(), pytest.raises(BundleError):
        counterfoil.bundle(receiver.evidence, out, handoff=envelope.digest)
    assert not out.exists()


@pytest.mark.parametrize(
    ("keeper", "taken_back", "another"),
    [(0, True, True), (2, True, True), (0, True, False), (2, False, False), (0, False, True)],
)
def test_a_copy_is_no_acceptance_of_the_log_that_keeps_it(
    receiver: Any, envelope: Envelope, logs: list[OpenLog], keeper: int, taken_back: bool, another: bool
) -> None:
    accepting, third = logs[1], logs[2 - keeper]
    copy = says(receiver, envelope, accepting, "accepted")
    put(accepting, copy)
    if taken_back:
        put(accepting, says(receiver, envelope, accepting, "refused"))
    put(logs[keeper], copy)
    if another:
        put(third, says(receiver, envelope, third, "accepted"))
    expected = ("incomplete", ["CF-VERIFY-049"]) if taken_back else ("intact", [])
    if another and not taken_back:
        expected = ("broken", ["CF-VERIFY-048"])
    assert both(receiver, envelope, logs) == expected


def test_a_refusal_takes_back_no_copy(receiver: Any, envelope: Envelope, logs: list[OpenLog]) -> None:
    copy = says(receiver, envelope, logs[0], "accepted")
    put(logs[0], copy)
    put(logs[1], copy, says(receiver, envelope, logs[1], "refused"))
    assert both(receiver, envelope, logs) == ("intact", [])


def test_a_copy_and_an_acceptance_in_one_log_are_two(
    receiver: Any, envelope: Envelope, logs: list[OpenLog]
) -> None:
    copy = says(receiver, envelope, logs[0], "accepted")
    put(logs[0], copy)
    put(logs[1], copy, says(receiver, envelope, logs[1], "accepted"))
    assert both(receiver, envelope, logs) == ("broken", ["CF-VERIFY-048"])


@pytest.mark.parametrize("roots", [("", "0"), ("1", "2"), ("1", "1")])
def test_two_roots_that_a_log_tells_of_itself_are_two_histories(
    receiver: Any, envelope: Envelope, logs: list[OpenLog], roots: tuple[str, str]
) -> None:
    """Beside each root that it never had."""
    log = logs[0]
    _, own = log.moment()
    assert own is not None
    for root in roots:
        more = {"own": own | {"root": root * 64 or own["root"]}, "nonce": None}
        put(log, says(receiver, envelope, log, "refused", **more))
    for one in logs:
        one.close()
    never = ["CF-VERIFY-047"] * sum(root != "" for root in roots)
    assert receiver.verdict() == ("broken", never + ["CF-TRUST-042"] * (roots[0] != roots[1]))
