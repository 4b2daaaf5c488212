"""A handoff is accepted once: replays, races, restarts, homes that cannot tell, disks that are gone."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import Any

import pytest
from busy import together
from sides import Side

import counterfoil
from counterfoil import policy_form
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffError, HandoffRefusedError
from counterfoil.handoff import OpenLog


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

        together(work, 8)
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


def accepted_and_not_on_disk(log: OpenLog, envelope: Envelope, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handoff is decided while the disk takes nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(type(log.recorder.open()), "flush", lambda self, *, timeout=None: False)
        with pytest.raises(HandoffError, match="CF-HANDOFF-003"):
            counterfoil.accept(log, envelope, "x")


def test_what_is_not_on_disk_yet_is_the_parents_alone(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a fork only one of two processes acts on what both remember as decided."""
    sender, receiver = sides
    envelope = sender.seal("x")
    with receiver.inside() as log:
        receiver.accept(sender.seal("warm"), "warm")
        accepted_and_not_on_disk(log, envelope, monkeypatch)
        child = os.fork()
        if child == 0:
            said = 1
            try:
                counterfoil.accept(log, envelope, "x")
            except HandoffRefusedError as exc:
                said = 0 if exc.code == "CF-HANDOFF-018" else 2
            finally:
                os._exit(said)
        assert os.waitpid(child, 0)[1] == 0
        counterfoil.accept(log, envelope, "x")
    receiver.close()
    assert [one.status for one in receiver.receipts()].count("accepted") == 2


def test_what_was_decided_goes_into_the_next_log(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, receiver = sides
    envelope = sender.seal("x")
    with receiver.inside() as log:
        first = log.recorder.open()
        receiver.accept(sender.seal("warm"), "warm")
        accepted_and_not_on_disk(log, envelope, monkeypatch)
        shutil.rmtree(receiver.evidence / first.log)
        deadline = time.monotonic() + 60
        while log.recorder.open() is first or log.recorder.open() is None:
            log.recorder.value(str(time.monotonic()))
            assert time.monotonic() < deadline
            time.sleep(0.05)
        counterfoil.accept(log, envelope, "x")
        assert receiver.refused(envelope, "x") == "CF-HANDOFF-018"
    receiver.close()
    assert [one.status for one in receiver.receipts()].count("accepted") == 1


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
