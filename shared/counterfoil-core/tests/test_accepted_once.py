"""Several processes with one identity and one evidence: what one of them accepts no other one acts on, what honest ones
leave is never called broken, and what two of them acted on is never called intact.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import counterfoil
from counterfoil import handoff, nonces, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffRefusedError
from counterfoil.openlog import OpenLog
from counterfoil.receiving import Receiving

Make = Callable[..., Any]


@pytest.fixture
def pair(party: Make) -> Iterator[tuple[Any, Any, OpenLog]]:
    """A sender, a receiver whose log is open, and a second log of the receiver's in the same evidence."""
    sender = party("sender")
    receiver = party("receiver", trusts=[sender])
    sender.trust(receiver)
    with receiver.inside(), counterfoil.open(receiver.evidence, actor="receiver") as second:
        yield sender, receiver, second


@pytest.fixture
def homes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process marks nonces in a home of its own, so that receipts alone tell what others accept."""
    monkeypatch.setattr(nonces, "_mark", lambda name, expires: True)


def outcome(receiver: Any, log: OpenLog, envelope: Envelope) -> str:
    """What ``accept`` into this log came to."""
    with receiver.inside():
        try:
            counterfoil.accept(log, envelope, "task")
        except HandoffRefusedError as exc:
            return exc.code
    return "accepted"


def between(monkeypatch: pytest.MonkeyPatch, log: OpenLog, what: Callable[[], None]) -> None:
    """Do something when this log has taken a nonce and not written its receipt yet, once."""
    take = nonces.Nonces.take

    def slow(self: nonces.Nonces, *arguments: Any, **more: Any) -> bool:
        found = take(self, *arguments, **more)
        if self is log.nonces:
            monkeypatch.setattr(nonces.Nonces, "take", take)
            what()
        return found

    monkeypatch.setattr(nonces.Nonces, "take", slow)


@pytest.mark.parametrize("same_moment", [False, True])
def test_who_sees_the_other_s_receipt_takes_its_own_back(
    pair: tuple[Any, Any, OpenLog], homes_apart: None, same_moment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver, second = pair
    envelope = sender.seal()
    if same_moment:  # down to the millisecond, in logs that have no checkpoint yet
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now)
    with receiver.inside() as first:
        pass
    done: list[str] = []
    between(monkeypatch, second, lambda: done.append(outcome(receiver, first, envelope)))
    assert [outcome(receiver, second, envelope), *done] == ["CF-HANDOFF-018", "accepted"]
    assert [outcome(receiver, log, envelope) for log in (first, second)] == ["CF-HANDOFF-018"] * 2
    second.close()
    assert receiver.verdict() == ("incomplete", ["CF-VERIFY-049"])
    (row,) = [
        one for one in counterfoil.read(receiver.evidence).graph().handoffs() if one["to"] == "receiver"
    ]
    assert row["status"] == "accepted"


@pytest.mark.parametrize("same_moment", [False, True])
def test_what_two_acted_on_is_never_intact(
    pair: tuple[Any, Any, OpenLog], homes_apart: None, same_moment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when a process does not look, nor when it is killed before it can take its receipt back."""
    sender, receiver, second = pair
    envelope = sender.seal()
    if same_moment:
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now)
    with receiver.inside() as first:
        pass
    monkeypatch.setattr(Receiving, "alone", lambda self, digest, nonce: None)
    done: list[str] = []
    between(monkeypatch, second, lambda: done.append(outcome(receiver, first, envelope)))
    assert [outcome(receiver, second, envelope), *done] == ["accepted", "accepted"]
    second.close()
    assert receiver.verdict() == ("broken", ["CF-VERIFY-048"])


def test_at_once_at_most_one_acts(pair: tuple[Any, Any, OpenLog], homes_apart: None) -> None:
    sender, receiver, second = pair
    sealed = [sender.seal() for _ in range(12)]
    acted: list[list[str]] = []
    with receiver.inside() as first:
        for envelope in sealed:
            go, outcomes = threading.Barrier(2), []

            def work(
                log: OpenLog, envelope: Envelope = envelope, go: Any = go, out: list[str] = outcomes
            ) -> None:
                go.wait()
                with contextlib.suppress(HandoffRefusedError):
                    counterfoil.accept(log, envelope, "task")
                    out.append(log.origin)

            threads = [threading.Thread(target=work, args=(log,)) for log in (first, second)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            acted.append(outcomes)
    assert all(len(one) <= 1 for one in acted)
    second.close()
    verdict, codes = receiver.verdict()
    assert verdict == ("incomplete" if codes else "intact")
    assert set(codes) <= {"CF-VERIFY-049"}
    assert len(codes) >= sum(not one for one in acted)


def test_nobody_can_tell_takes_the_receipt_back(
    pair: tuple[Any, Any, OpenLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver, second = pair
    envelope = sender.seal()

    def fails(self: nonces.Nonces, digest: str) -> bool:
        raise OSError("no such disk")

    monkeypatch.setattr(nonces.Nonces, "twice", fails)
    assert outcome(receiver, second, envelope) == "CF-HANDOFF-019"
    second.close()
    assert receiver.verdict() == ("incomplete", ["CF-VERIFY-049"])
    (row,) = [
        one for one in counterfoil.read(receiver.evidence).graph().handoffs() if one["to"] == "receiver"
    ]
    assert row["status"] == "refused"


@pytest.mark.parametrize("anchored", [False, True])
def test_a_log_that_goes_meanwhile_leaves_no_receipt_without_its_handoff(
    pair: tuple[Any, Any, OpenLog], anchored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipt and handoff stand in one log, whichever the recorder writes by then; the receipt names no other one."""
    sender, receiver, second = pair
    writer = second.recorder.open()
    real = handoff.receipt

    def late(log: OpenLog, *arguments: Any, **more: Any) -> Any:
        log.recorder._writer = None  # the next entry opens another log
        if anchored:
            assert log.recorder.open().entry(envelope.to_bytes())
            assert log.anchor()
        return real(log, *arguments, **more)

    monkeypatch.setattr(handoff, "receipt", late)
    envelope = sender.seal()
    assert outcome(receiver, second, envelope) in ("accepted", "CF-HANDOFF-018")
    with receiver.inside():
        assert second.origin != writer.origin
    second.close()
    writer.close()
    assert receiver.verdict() == ("intact", [])
    told = [
        (entry.log, one.predicate.own)
        for entry, one in counterfoil.read(receiver.evidence).statements()
        if isinstance(one.predicate, statements.Receipt)
    ]
    assert told
    assert all(own is None or own.origin.endswith(f"/{log}") for log, own in told)


# -- receipts that come back ------------------------------------------------------------------------------------------


def takes(side: Any, log: OpenLog, answer: Envelope) -> str:
    with side.inside():
        try:
            return counterfoil.take_receipt(log, answer).status
        except HandoffRefusedError as exc:
            return exc.code


def test_a_receipt_comes_back_to_another_process(party: Make) -> None:
    """The one that sealed, one that was open before, one after a restart: the evidence stays as good as it was."""
    sender, receiver = party("sender"), party("receiver")
    receiver.trust(sender)
    sender.trust(receiver)
    with sender.inside() as first, counterfoil.open(sender.evidence, actor="sender") as second:
        third = counterfoil.open(sender.evidence, actor="sender")
        answers = [receiver.accept(sender.seal(str(n)), str(n)).answer for n in range(6)]
        assert takes(sender, second, answers[0]) == "accepted"
        assert takes(sender, first, answers[1]) == "accepted"
        # What another one kept since this one looked is kept here as well: once in a log.
        assert takes(sender, second, answers[1]) == "accepted"
        assert takes(sender, first, answers[0]) == "accepted"
        assert takes(sender, second, answers[2]) == "accepted"
        assert takes(sender, second, answers[2]) == "CF-HANDOFF-018"
        third.close()
        with sender.inside(), counterfoil.open(sender.evidence, actor="sender") as fourth:
            assert takes(sender, fourth, answers[3]) == "accepted"
            assert takes(sender, fourth, answers[2]) == "CF-HANDOFF-018"
    sender.close()
    with sender.inside() as again:
        assert takes(sender, again, answers[4]) == "accepted"
        assert takes(sender, again, answers[3]) == "CF-HANDOFF-018"
    assert sender.verdict() == ("intact", [])
    assert receiver.verdict() == ("intact", [])


def test_one_receipt_in_many_threads_is_kept_once(party: Make) -> None:
    sender, receiver = party("sender"), party("receiver")
    receiver.trust(sender)
    sender.trust(receiver)
    answer = receiver.accept(sender.seal()).answer
    outcomes: list[str] = []
    go = threading.Barrier(8)
    with sender.inside() as log:

        def work() -> None:
            go.wait()
            try:
                outcomes.append(counterfoil.take_receipt(log, answer).status)
            except HandoffRefusedError as exc:
                outcomes.append(exc.code)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == ["CF-HANDOFF-018"] * 7 + ["accepted"]
    assert sender.verdict() == ("intact", [])


@pytest.mark.parametrize("own_log", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
def test_who_hands_to_itself_keeps_its_own_receipt(party: Make, own_log: bool, restarted: bool) -> None:
    one = party("one")
    with one.inside() as first, counterfoil.open(one.evidence, actor="one") as second:
        accepting = first if own_log else second
        answer = counterfoil.accept(accepting, one.seal(to="one"), "task").answer
        if restarted:
            one.close()
            with one.inside() as first:
                code = takes(one, first, answer)
        else:
            code = takes(one, first, answer)
        assert code == ("CF-HANDOFF-018" if own_log or restarted else "accepted")
    assert one.verdict() == ("intact", [])


def test_a_receipt_of_one_s_own_that_names_no_log_is_not_kept(party: Make) -> None:
    """It would be taken for a second acceptance, in the log that keeps it."""
    one = party("one")
    envelope = one.seal(to="one")
    said = {
        "checks": [],
        "handoff": envelope.digest,
        "issued": time.time_ns() // 1_000_000,
        "sender": {"actor": "one", "key": one.key.keyid},
        "status": "accepted",
    }
    answer = one.sign(said, kind="urn:counterfoil:receipt:v1")
    with one.inside() as log:
        assert takes(one, log, answer) == "CF-HANDOFF-025"
    assert one.verdict() == ("intact", [])


def test_a_receipt_for_what_was_handed_on_comes_back_to_another_process(party: Make) -> None:
    """Then the grants come along into that log, or the handoff would give what nobody gave its sender."""
    owner, middle, worker = party("owner"), party("middle"), party("worker")
    owner.agree(middle, worker)
    for one in (middle, worker):
        one.trust(middle, worker)
    given = owner.seal(to="middle", authority=counterfoil.Allow("repo:read", depth=2))
    accepted = middle.accept(given)
    narrower = counterfoil.Allow("repo:read", under=accepted, depth=1)
    with middle.inside(), counterfoil.open(middle.evidence, actor="middle", policy=middle.policy) as second:
        envelope = middle.seal(to="worker", authority=narrower)
        answer = worker.accept(envelope, grants=accepted.chain).answer
        assert takes(middle, second, answer) == "accepted"
    assert middle.verdict(policy=middle.policy) == ("intact", [])
    assert middle.verdict() == ("intact", [])
