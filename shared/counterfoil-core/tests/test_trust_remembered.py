"""What a home remembers for trust's sake: heads of peers, and signatures that were found valid."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil import keys, peers, signatures, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffRefusedError, KeyringError
from counterfoil.peers import PeerHead, Peers
from counterfoil.signatures import Signatures


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys by which signatures were computed."""
    found: list[str] = []
    whole = keys.PublicKey.verify

    def verify(self: keys.PublicKey, sig: bytes, data: bytes) -> bool:
        if data.startswith(b"DSSEv1 "):
            found.append(self.keyid)
        return whole(self, sig, data)

    monkeypatch.setattr(keys.PublicKey, "verify", verify)
    return found


# -- signatures -------------------------------------------------------------------------------------------------------


def test_what_was_verified_before_is_not_computed_again(
    sender: Any, receiver: Any, counted: list[str]
) -> None:
    for number in range(3):
        receiver.accept(sender.seal(f"{number}"), f"{number}")
    receiver.close()
    counted.clear()
    assert receiver.verdict() == ("intact", [])
    assert len(counted) == 6  # three handoffs, three receipts
    counted.clear()
    assert receiver.verdict() == ("intact", [])
    assert counted == []
    assert receiver.verdict(full=True) == ("intact", [])
    assert len(counted) == 6
    receiver.accept(sender.seal("more"), "more")
    receiver.close()
    counted.clear()
    assert receiver.verdict() == ("intact", [])
    assert len(counted) == 2


def test_a_pin_that_is_gone_counts_at_once(sender: Any, receiver: Any) -> None:
    receiver.accept(sender.seal())
    assert receiver.verdict() == ("intact", [])
    with receiver.lab.at(receiver.home):
        keys.Keyring.load().unpin(sender.key.keyid)
    assert receiver.verdict() == ("cannot-tell", ["CF-VERIFY-042"])


def test_marks_of_another_home_match_nothing(sender: Any, receiver: Any, counted: list[str]) -> None:
    receiver.accept(sender.seal())
    receiver.verdict()
    cache = receiver.home / "cache"
    (cache / "key").unlink()
    counted.clear()
    assert receiver.verdict() == ("intact", [])
    assert len(counted) == 2
    (cache / "key").write_bytes(b"short")
    for _ in range(2):
        assert receiver.verdict() == ("intact", [])


def test_only_valid_signatures_are_remembered(lab: Any, counted: list[str]) -> None:
    with lab.at(lab.home):
        key = keys.load_or_create_identity()
        for _ in range(2):
            with Signatures() as found:
                assert not found.check(key.public, bytes(64), b"DSSEv1 x")
                assert not found.check(key.public, key.sign(b"x")[:63], b"DSSEv1 x")
    assert len(counted) == 4
    with lab.at(lab.home), Signatures() as found:
        good = key.sign(b"x")
        assert [found.check(key.public, good, b"x") for _ in range(3)] == [True] * 3
        assert (found.verified, found.known) == (1, 2)
        other = keys.SigningKey.generate()
        assert not found.check(other.public, good, b"x")
        assert not found.check(key.public, good, b"y")


def test_the_file_stays_small(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "KEPT", 50)
    monkeypatch.setattr(signatures, "_BATCH", 20)
    with lab.at(lab.home):
        key = keys.load_or_create_identity()
        for turn in range(3):
            with Signatures() as found:
                for number in range(40):
                    data = b"%d %d" % (turn, number)
                    assert found.check(key.public, key.sign(data), data)
        with sqlite3.connect(lab.home / "cache" / "signatures.sqlite") as file:
            count = file.execute("SELECT count(*) FROM valid").fetchone()[0]
        file.close()
    assert 0 < count <= 50


def test_a_home_that_cannot_be_written_is_no_matter(lab: Any, tmp_path: Path) -> None:
    with lab.at(tmp_path / "nowhere"):
        with Signatures() as found:
            key = keys.SigningKey.generate()
            assert found.check(key.public, key.sign(b"x"), b"x")
        assert not (tmp_path / "nowhere").exists()
    with lab.at(lab.home):
        keys.load_or_create_identity()
        (lab.home / "cache").write_bytes(b"a file in the way")
        with Signatures() as found:
            assert found.check(key.public, key.sign(b"x"), b"x")


# -- heads of peers ---------------------------------------------------------------------------------------------------


def told(
    key: keys.SigningKey, size: int, *, root: str = "0" * 64, issued: int = 0, log: str = "a" * 16
) -> PeerHead:
    """A head that a peer tells, in a receipt of its own."""
    origin = f"{key.keyid}/{log}"
    predicate = {
        "checks": [],
        "handoff": "9" * 64,
        "issued": issued or size,
        "own": {"origin": origin, "root": root, "size": size},
        "sender": {"actor": "peer", "key": key.keyid},
        "status": "accepted",
    }
    subject = {"digest": {"sha256": "9" * 64}, "name": "handoff"}
    envelope = Envelope.sign(statements.build(statements.RECEIPT, subject, predicate), key)
    found = PeerHead.of(statements.parse(envelope.payload).predicate, envelope)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_largest_head_is_kept_whoever_is_faster(lab: Any) -> None:
    with lab.at(lab.home):
        key = keys.load_or_create_identity()
        heads = [told(key, size) for size in (5, 3, 9, 1, 7, 2, 8)]
        threads = [threading.Thread(target=Peers().learn, args=(one,)) for one in heads]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = Peers().kept(heads[0].origin)
        assert kept is not None
        assert kept.size == 9
        assert Peers().heads("peer") == [{"origin": kept.origin, "root": kept.root, "size": 9}]
        assert Peers().heads("nobody") == []


def test_what_contradicts_a_head() -> None:
    key = keys.SigningKey.generate()
    kept = told(key, 5, issued=100)
    assert peers.contradiction(told(key, 9, issued=1), None) is None
    for same in (told(key, 5, issued=200), told(key, 6, issued=50), told(key, 4, issued=99)):
        assert peers.contradiction(same, kept) is None
    assert (
        peers.contradiction(told(key, 5, root="1" * 64), kept) == "the sender keeps two histories of its log"
    )
    assert peers.contradiction(told(key, 4, issued=101), kept) == "the sender's log is shorter than it was"


def test_a_kept_head_that_is_damaged_refuses(sender: Any, receiver: Any) -> None:
    sender.seal()
    sender.close()
    receiver.accept(sender.seal())
    (kept,) = (receiver.home / "peers").iterdir()
    whole = kept.read_bytes()
    changed = whole.replace(b'"size":', b'"size":1')
    for wrong in (b"", b"{}", whole[:-1], changed, b"[" * 1000):
        kept.write_bytes(wrong)
        assert receiver.refuses(sender.seal()) == "CF-HANDOFF-024"
        with receiver.lab.at(receiver.home), pytest.raises(KeyringError, match="CF-KEYS-044"):
            Peers().heads("sender")
    kept.unlink()
    receiver.accept(sender.seal())


def test_no_more_heads_than_a_home_can_keep(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "KEPT", 4)
    with lab.at(lab.home):
        keys.load_or_create_identity()
        found = Peers()
        for number in range(9):
            found.learn(told(keys.SigningKey.generate(), 1, issued=number + 1))
        assert len(peers._all()) == 4
    with lab.at(lab.root / "another home"):
        keys.load_or_create_identity()
        honest, many = keys.SigningKey.generate(), keys.SigningKey.generate()
        found.learn(told(honest, 7, issued=1))
        for number in range(9):  # one that has any number of logs pushes out its own
            found.learn(told(many, 1, issued=100 + number, log=f"{number:016x}"))
        kept = peers._all()
        assert sorted(one.issued for one in kept) == [1, 106, 107, 108]


# -- receipts that come back ------------------------------------------------------------------------------------------


def test_receipts_that_are_kept_and_those_that_are_not(
    sender: Any, receiver: Any, party: Callable[..., Any]
) -> None:
    sender.trust(receiver)
    envelope = sender.seal()
    answer = receiver.accept(envelope).answer
    other = party("other", trusts=[sender])
    strange = other.accept(sender.seal(to="other")).answer

    def code(receipt: Any) -> str:
        with pytest.raises(HandoffRefusedError) as caught:
            sender.take(receipt)
        return caught.value.code

    assert code(b"{}") == "CF-HANDOFF-010"
    assert code(strange) == "CF-HANDOFF-011"
    assert code(envelope) == "CF-HANDOFF-012"
    value = statements.parse(answer.payload).predicate.model_dump(exclude_none=True)
    assert code(receiver.sign(value | {"handoff": "0" * 64}, kind=statements.RECEIPT)) == "CF-HANDOFF-025"
    forged = value | {"sender": {"actor": "receiver", "key": sender.key.keyid}}
    assert code(receiver.sign(forged, kind=statements.RECEIPT)) == "CF-HANDOFF-013"
    late = receiver.sign(value | {"issued": 4_000_000_000_000}, kind=statements.RECEIPT)
    assert code(late) == "CF-HANDOFF-015"
    sender.close()  # after a restart it still knows what it sealed
    assert sender.take(answer.to_bytes()).handoff == envelope.digest
    assert code(answer) == "CF-HANDOFF-018"
    sender.close()
    assert code(answer) == "CF-HANDOFF-018"
    completed = receiver.sign(value | {"status": "completed"}, kind=statements.RECEIPT)
    assert sender.take(completed).status == "completed"
    assert sender.verdict() == ("intact", [])


def test_a_receipt_under_a_policy(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    other = party("other", trusts=[sender])
    sender.policy = sender.policy_of(receiver, other)
    receiver.policy = receiver.policy_of(sender)
    first, second = sender.seal(), sender.seal(to="other")
    answer = receiver.accept(first).answer
    wrong = statements.parse(other.accept(second).answer.payload).predicate.model_dump(exclude_none=True)
    with pytest.raises(HandoffRefusedError, match="CF-HANDOFF-025"):
        sender.take(other.sign(wrong | {"handoff": first.digest}, kind=statements.RECEIPT))
    named = {"sender": {"actor": "receiver", "key": other.key.keyid}, "handoff": first.digest}
    with pytest.raises(HandoffRefusedError, match="CF-HANDOFF-020"):
        sender.take(other.sign(wrong | named, kind=statements.RECEIPT))
    sender.take(answer)
    assert sender.verdict(policy=sender.policy) == ("intact", [])


def test_a_refused_message_is_not_trusted_after_a_restart(sender: Any, receiver: Any) -> None:
    envelope = sender.seal()
    forged = envelope.to_dict()
    forged["signatures"][0]["sig"] = sender.seal("other").to_dict()["signatures"][0]["sig"]
    assert receiver.refuses(forged) == "CF-HANDOFF-011"
    receiver.close()
    assert receiver.refuses(forged) == "CF-HANDOFF-011"
    receiver.accept(envelope)
    assert receiver.verdict() == ("intact", [])


def test_a_home_that_cannot_tell_which_policy_was_believed(
    party: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nobody knows whether this one is older: cannot-tell, and nothing is accepted by it."""
    sender, receiver = party("sender"), party("receiver")
    receiver.agree(sender)
    receiver.accept(sender.seal())
    assert receiver.verdict(policy=receiver.policy) == ("intact", [])
    real = os.open

    def refused(path: Any, *arguments: Any, **options: Any) -> int:
        if "/policies/" in str(path):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
    verdict, found = receiver.verdict(policy=receiver.policy)
    assert (verdict, found) == (
        "cannot-tell",
        ["CF-KEYS-008", "CF-VERIFY-042"],
    )  # by pins alone he is not known
