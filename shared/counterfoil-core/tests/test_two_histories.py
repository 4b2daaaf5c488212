"""A peer that tells two roots of one size is refused, in whatever order, by whatever way and to whichever process.

What is refused never gets into the log, so the receiver's evidence stays intact, and both statements are kept as proof.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys, statements, told
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffRefusedError

NAME = "a" * 16


@pytest.fixture
def pair(party: Callable[..., Any]) -> tuple[Any, Any]:
    sender, receiver = party("sender"), party("receiver")
    sender.trust(receiver)
    receiver.trust(sender)
    return sender, receiver


def head(sender: Any, size: int, root: str) -> dict[str, Any]:
    return {"origin": f"{sender.key.keyid}/{NAME}", "root": root * 64, "size": size}


def telling(sender: Any, size: int, root: str, *, age: int = 0, **more: Any) -> Envelope:
    """A handoff whose sender tells a head; ``age`` in milliseconds."""
    issued = time.time_ns() // 1_000_000 - age
    return sender.sign(sender.message(own=head(sender, size, root), issued=issued, **more))


def proofs(receiver: Any) -> Iterator[set[str]]:
    """Of each proof that was kept, the roots that two statements by one key tell of one size."""
    for path in sorted((receiver.home / "forks").glob("*")):
        kept = json.loads(path.read_bytes())
        roots, places = set(), set()
        for one in (kept["first"], kept["second"]):
            envelope = Envelope.parse(one)
            predicate = statements.parse(envelope.payload).predicate
            assert not isinstance(predicate, statements.Binding)
            assert predicate.own is not None
            ring = keys.Keyring.of([keys.PublicKey.from_spki(envelope.signatures[0].spki or b"")])
            assert envelope.verify(ring) == [predicate.sender.key]
            roots.add(predicate.own.root[0])
            places.add((predicate.own.origin, predicate.own.size))
        assert places == {(kept["origin"], kept["size"])}
        yield roots


def test_below_the_largest(pair: tuple[Any, Any]) -> None:
    sender, receiver = pair
    receiver.accept(telling(sender, 10, "a"))
    receiver.accept(telling(sender, 5, "b", age=1000))
    receiver.accept(telling(sender, 5, "b", age=900))
    assert receiver.refuses(telling(sender, 5, "c", age=1000)) == "CF-HANDOFF-024"
    receiver.accept(telling(sender, 6, "c", age=800))
    assert list(proofs(receiver)) == [{"b", "c"}]
    assert receiver.verdict() == ("intact", [])


@pytest.mark.parametrize("how", ["restart", "peers lost", "home lost", "let go", "all let go"])
def test_whatever_is_forgotten(pair: tuple[Any, Any], how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = pair
    for size in range(1, 9):
        receiver.accept(telling(sender, size, "a", age=9000 - size))
    receiver.accept(telling(sender, 20, "a"))
    if how in ("restart", "peers lost", "home lost"):
        receiver.close()
    if how in ("peers lost", "home lost"):
        shutil.rmtree(receiver.home / "peers")
    if how == "home lost":
        shutil.rmtree(receiver.home / "told")
    if how in ("let go", "all let go"):
        monkeypatch.setattr(told, "KEPT", 1)
        receiver.accept(telling(sender, 21, "a"))
        if how == "all let go":
            other = {"origin": f"{sender.key.keyid}/{'b' * 16}", "root": "d" * 64, "size": 1}
            receiver.accept(sender.sign(sender.message(own=other)))
            receiver.accept(sender.sign(sender.message(own=other | {"size": 2})))
        shutil.rmtree(receiver.home / "told")
    for size in (1, 4, 8, 20):
        assert receiver.refuses(telling(sender, size, "c", age=9000)) == "CF-HANDOFF-024"
        receiver.accept(telling(sender, size, "a", age=9000))
    receiver.accept(telling(sender, 9, "c", age=19_000))
    assert list(proofs(receiver)) == [{"a", "c"}] * 4
    assert receiver.verdict() == ("intact", [])


@pytest.mark.parametrize("order", ["receipt last", "receipt first"])
def test_in_a_receipt(pair: tuple[Any, Any], order: str) -> None:
    sender, receiver = pair
    sealed = receiver.seal(to="sender")
    predicate = statements.parse(sender.accept(sealed).answer.payload).predicate
    made = predicate.model_dump(by_alias=True, exclude_none=True)
    answer = sender.sign({**made, "own": head(sender, 5, "c")}, kind=statements.RECEIPT)
    receiver.accept(telling(sender, 10, "a"))
    if order == "receipt last":
        receiver.accept(telling(sender, 5, "b", age=1000))
        with pytest.raises(HandoffRefusedError) as caught:
            receiver.take(answer)
        assert caught.value.code == "CF-HANDOFF-024"
    else:
        receiver.take(answer)
        assert receiver.refuses(telling(sender, 5, "b", age=1000)) == "CF-HANDOFF-024"
    assert list(proofs(receiver)) == [{"b", "c"}]
    assert receiver.verdict() == ("intact", [])


def test_in_a_grant(pair: tuple[Any, Any], party: Callable[..., Any]) -> None:
    sender, receiver = pair
    first = party("first")
    first.agree(sender, receiver)
    given = {"allow": ["read/*"], "expires": time.time_ns() // 1_000_000 + 60_000, "maxDepth": 3}
    grant = telling(first, 5, "c", age=1000, to="sender", authority=given)
    parents = [{"digest": grant.digest, "rel": "control"}]
    narrowed = {**given, "from": grant.digest, "maxDepth": 2}
    handed = sender.sign(sender.message(authority=narrowed, parents=parents))
    receiver.accept(telling(first, 10, "a"))
    receiver.accept(telling(first, 5, "b", age=1000))
    assert receiver.refuses(handed, grants=[grant]) == "CF-HANDOFF-024"
    assert list(proofs(receiver)) == [{"b", "c"}]
    assert receiver.verdict() == ("intact", [])


@pytest.mark.parametrize("moment", ["on disk", "not yet on disk", "on disk, of another home"])
def test_to_two_processes(pair: tuple[Any, Any], moment: str, party: Callable[..., Any]) -> None:
    sender, receiver = pair
    second = party("receiver", home="the other" if "another home" in moment else "receiver")
    if "another home" in moment:
        receiver.key  # noqa: B018 - makes it
        shutil.copytree(receiver.home, second.home, dirs_exist_ok=True)
    second.evidence = receiver.evidence
    receiver.accept(telling(sender, 10, "a"))
    second.accept(telling(sender, 10, "a"))
    fork = telling(sender, 5, "b", age=1000)
    if moment == "not yet on disk":
        with receiver.inside() as log:
            found = statements.parse(fork.payload).predicate
            assert isinstance(found, statements.Handoff)
            here = told.PeerHead.of(found, fork)
            assert here is not None
            assert log.nonces.told.take(here)
    else:
        receiver.accept(fork)
    assert second.refuses(telling(sender, 5, "c", age=1000)) == "CF-HANDOFF-024"
    assert list(proofs(second)) == ([] if moment == "not yet on disk" else [{"b", "c"}])
    second.accept(telling(sender, 5, "b", age=900))
    second.close()
    assert receiver.verdict() == ("intact", [])


def test_to_threads_at_one_moment(pair: tuple[Any, Any]) -> None:
    sender, receiver = pair
    receiver.accept(telling(sender, 50, "a"))
    outcomes: list[str] = []
    gate = threading.Barrier(8)

    def one(envelope: Envelope) -> None:
        gate.wait()
        try:
            counterfoil.accept(log, envelope, "task")
            outcomes.append("accepted")
        except HandoffRefusedError as exc:
            outcomes.append(exc.code)

    envelopes = [telling(sender, 5, "bcdef012"[number], age=1000) for number in range(8)]
    with receiver.inside() as log:
        threads = [threading.Thread(target=one, args=(envelope,)) for envelope in envelopes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == ["CF-HANDOFF-024"] * 7 + ["accepted"]
    assert receiver.verdict() == ("intact", [])


def test_of_a_log_that_stands_here(pair: tuple[Any, Any], party: Callable[..., Any]) -> None:
    """Another process of this identity writes into the same evidence: its log says what heads it had."""
    _, receiver = pair
    second = party("receiver", home="receiver")
    second.evidence = receiver.evidence
    receiver.trust(receiver)
    receiver.seal(to="sender")
    with second.inside() as log:
        second.seal(to="sender")
        log.recorder.open().checkpoint()
        assert log.flush()
        last = log.recorder.open().last_checkpoint()
        assert last is not None
        assert log.origin != receiver.inside().__enter__().origin
    receiver.accept(second.sign(second.message(own=last)))
    for wrong in ({"root": "0" * 64}, {"size": last["size"] + 1}, {"size": 1}):
        assert receiver.refuses(second.sign(second.message(own=last | wrong))) == "CF-HANDOFF-024"
    second.close()
    assert receiver.verdict() == ("intact", [])


@pytest.mark.parametrize("left", [b"", bytes(64), b"x" * 64])
def test_what_a_power_failure_leaves_of_a_file(pair: tuple[Any, Any], left: bytes) -> None:
    sender, receiver = pair
    receiver.accept(telling(sender, 5, "a"))
    (file,) = (receiver.home / "told").iterdir()
    restored: Path = file
    receiver.accept(telling(sender, 6, "a"))
    restored.write_bytes(left)
    receiver.close()
    shutil.rmtree(receiver.evidence)
    receiver.accept(telling(sender, 5, "a", age=1000))
    assert restored.read_bytes() == b"a" * 64
    assert receiver.refuses(telling(sender, 5, "b", age=1000)) == "CF-HANDOFF-024"


def test_files_are_swept(pair: tuple[Any, Any]) -> None:
    sender, receiver = pair
    receiver.accept(telling(sender, 5, "a"))
    (file,) = (receiver.home / "told").iterdir()
    os.utime(file, (time.time() - 4000, time.time() - 4000))
    receiver.close()
    receiver.accept(telling(sender, 6, "a"))
    (left,) = (receiver.home / "told").iterdir()
    assert left != file


def test_a_home_that_cannot_tell_refuses(pair: tuple[Any, Any]) -> None:
    sender, receiver = pair
    receiver.accept(telling(sender, 5, "a"))
    shutil.rmtree(receiver.home / "told")
    (receiver.home / "told").write_bytes(b"")
    assert receiver.refuses(telling(sender, 6, "a")) == "CF-HANDOFF-024"
    receiver.accept(telling(sender, 5, "a"))
