"""The attack matrix, rows about logs: histories shown to two parties, cut, replaced or made anew."""

from __future__ import annotations

import json
import secrets
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tilelog import TileLog, unbundle

import counterfoil
from counterfoil import choosing, keys, segments, statements, tree, writer
from counterfoil.dsse import Envelope
from counterfoil.errors import ProofError
from counterfoil.stores import FolderStore
from counterfoil.tlog.exporting import export_log


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints come from what is done, not from the clock: two histories then have the same sizes."""
    monkeypatch.setattr(writer, "DELAY", 3600.0)


def work(one: Any, text: str) -> None:
    """A session in which something is sealed; its checkpoint is on disk afterwards."""
    one.seal(text)
    one.close()


def together(lab: Any, *parties: Any) -> Path:
    """All logs of some parties in one folder, as an auditor collects them."""
    folder = lab.root / "collected"
    folder.mkdir(exist_ok=True)
    for one in parties:
        one.close()
        shutil.copytree(one.evidence, folder, dirs_exist_ok=True)
    return folder


def audit(lab: Any, folder: Path, *parties: Any) -> tuple[str, list[str]]:
    """Verdict and codes of somebody who remembers nothing and pinned everybody."""
    with lab.at(lab.root / "home of an auditor"):
        ring = keys.Keyring.of([one.key.public for one in parties])
    with lab.at(lab.root / "home of an auditor"):
        found = counterfoil.verify(folder, keyring=ring)
    return found.verdict, [one.code for one in found.findings]


def test_row_07_two_histories_shown_to_two_parties(
    lab: Any, sender: Any, receiver: Any, party: Callable[..., Any]
) -> None:
    other = party("other", trusts=[sender])
    work(sender, "before")
    back = sender.save()
    work(sender, "one history")
    first = sender.seal()
    receiver.accept(first)
    back()
    work(sender, "another one")
    second = sender.seal()
    third = sender.seal(to="other")
    own = [statements.parse(one.payload).predicate.own for one in (first, second)]
    assert own[0].size == own[1].size
    assert own[0].root != own[1].root
    # Whoever is shown both refuses the second and keeps what proves it to anybody.
    assert receiver.refuses(second) == "CF-HANDOFF-024"
    (kept,) = (receiver.home / "forks").iterdir()
    proof = json.loads(kept.read_bytes())
    shown = [Envelope.parse(proof[name]) for name in ("first", "second")]
    assert [one.digest for one in shown] == [first.digest, second.digest]
    for one in shown:
        assert one.verify({sender.key.keyid: sender.key.public}) == [sender.key.keyid]
    assert receiver.verdict() == ("intact", [])
    # Two parties that were shown one each: their logs together are the proof.
    other.accept(third)
    assert other.verdict() == ("intact", [])
    folder = together(lab, receiver, other)
    assert audit(lab, folder, sender, receiver, other) == ("broken", ["CF-TRUST-042"])


def test_row_26_an_older_log_put_back(sender: Any, receiver: Any) -> None:
    work(sender, "before")
    back = sender.save()
    receiver.accept(late := sender.seal())
    work(sender, "more")
    receiver.accept(sender.seal())
    back()
    assert receiver.refuses(sender.seal()) == "CF-HANDOFF-024"
    assert receiver.refuses(late) == "CF-HANDOFF-018"
    assert receiver.verdict() == ("intact", [])


def test_row_26_a_message_that_comes_late_is_no_older_log(sender: Any, receiver: Any) -> None:
    work(sender, "before")
    early = sender.seal()
    work(sender, "more")
    receiver.accept(sender.seal())
    receiver.accept(early)
    assert receiver.verdict() == ("intact", [])


def test_row_26_an_older_copy_of_the_own_log(sender: Any) -> None:
    work(sender, "before")
    kept = sender.lab.root / "older"
    shutil.copytree(sender.evidence, kept)
    work(sender, "after")
    shutil.rmtree(sender.evidence)
    shutil.copytree(kept, sender.evidence)
    assert sender.verdict() == ("broken", ["CF-VERIFY-052"])


def test_row_27_a_tail_cut_off(lab: Any, sender: Any, receiver: Any) -> None:
    work(sender, "before")
    cut = lab.root / "cut"
    shutil.copytree(sender.evidence, cut)
    work(sender, "to be forgotten")
    receiver.accept(sender.seal())
    folder = together(lab, sender, receiver)
    assert audit(lab, folder, sender, receiver) == ("intact", [])
    shutil.rmtree(folder / next(sender.evidence.glob("*/")).name)
    shutil.copytree(cut, folder, dirs_exist_ok=True)
    # The cut log ends in a checkpoint and is whole in itself: what the receiver was told gives it away.
    assert audit(lab, cut, sender) == ("intact", [])
    assert audit(lab, folder, sender, receiver) == ("broken", ["CF-TRUST-043"])


def test_row_27_a_tail_cut_off_that_a_receipt_speaks_of(lab: Any, sender: Any, receiver: Any) -> None:
    """The other way round: the receiver cuts its log, and the sender kept its word."""
    sender.trust(receiver)
    work(receiver, "before")
    cut = lab.root / "cut"
    shutil.copytree(receiver.evidence, cut)
    work(receiver, "to be forgotten")
    kept = sender.take(receiver.accept(sender.seal()).answer)
    assert kept.own is not None
    folder = together(lab, sender, receiver)
    assert audit(lab, folder, sender, receiver) == ("intact", [])
    shutil.rmtree(folder / next(receiver.evidence.glob("*/")).name)
    shutil.copytree(cut, folder, dirs_exist_ok=True)
    assert audit(lab, folder, sender, receiver) == ("broken", ["CF-TRUST-043"])


def test_row_28_a_whole_log_deleted(lab: Any, sender: Any) -> None:
    work(sender, "first log")
    with sender.inside() as log:  # a second process writes a log of its own
        second = counterfoil.open(sender.evidence, actor="sender")
        counterfoil.seal(second, "x", to="receiver")
        assert second.origin != log.origin
        second.close()
    sender.close()
    work(sender, "third session")
    assert sender.verdict() == ("intact", [])
    first, *_ = [path for path in sorted(sender.evidence.glob("*/")) if path.is_dir()]
    others = [path.name for path in sender.evidence.glob("*/") if path != first]
    shutil.rmtree(first)
    verdict, codes = sender.verdict()
    assert (verdict, "CF-VERIFY-003" in codes) == ("broken", True)
    # All of them, and a new one begun in their place: the new one tells of the others, signed.
    for name in others:
        shutil.rmtree(sender.evidence / name)
    (sender.evidence / ".gitignore").unlink()
    sender.evidence.rmdir()
    work(sender, "a new life")
    found = sender.verify()
    assert [one.code for one in found.notes].count("CF-VERIFY-060") == 2


def test_row_29_a_log_written_anew_from_its_beginning(
    lab: Any, sender: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(sender, "what happened")
    receiver.accept(sender.seal())
    sender.close()
    name = next(path.name for path in sender.evidence.glob("*/"))
    shutil.rmtree(sender.evidence)
    shutil.rmtree(sender.home / "heads")
    token = secrets.token_hex
    monkeypatch.setattr(choosing.secrets, "token_hex", lambda count: name if count == 8 else token(count))
    work(sender, "what should have happened")
    assert sender.verdict() == ("intact", [])
    folder = together(lab, sender, receiver)
    assert audit(lab, folder, sender, receiver) == ("broken", ["CF-TRUST-043"])
    assert receiver.refuses(sender.seal()) == "CF-HANDOFF-024"


def test_row_19_a_bomb_in_a_log(sender: Any) -> None:
    """256 MiB in some kilobytes, and a header that says a gigabyte: reading costs what is there or was said of it."""
    work(sender, "anything")
    (path,) = sender.evidence.glob("*/*.seg")
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(1 << 28))
    hostile = [segments._header(segments.ZSTD_FIRST, bomb, said) for said in (10, 1 << 20)]
    for data in (*(head + bomb for head in hostile), segments._header(segments.RAW, b"", 1 << 30)):
        path.write_bytes(data)
        tracemalloc.start()
        try:
            found = sender.verify()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert found.verdict == "broken"
        assert peak < 16 << 20


def test_row_30_a_piece_of_a_log_forged(sender: Any) -> None:
    """Every chunk of every segment is hashed up to a signed root, none is left out."""
    for number in range(3):
        work(sender, f"{number} " * 300)
    count = 0
    for path in sorted(sender.evidence.glob("*/*.seg")):
        data = path.read_bytes()
        with path.open("rb") as file:
            chunks = list(segments.read_chunks(file, where=path.name))
        for chunk in chunks:
            at = (chunk.start + chunk.end) // 2
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert sender.verify().verdict == "broken"
            count += 1
        path.write_bytes(data)
    assert count > 6
    assert sender.verdict() == ("intact", [])


def test_row_30_a_forged_tile(lab: Any, sender: Any) -> None:
    """A reader of an export that knows nothing of ours goes up to the signed root: no tile can stand for another."""
    with sender.inside() as log:
        for _ in range(150):
            log.recorder.end(log.recorder.start("step", "many", actor=("sender",)))
        name = log.origin.rpartition("/")[2]
    sender.close()
    folder = Path(export_log(FolderStore(sender.evidence), name, lab.root / "tiles").folder)
    raw = sender.key.public.raw
    TileLog(folder, raw).check()
    (partial,) = folder.glob("tile/0/001.p/*")
    forged = {
        folder / "tile/0/000": "an entry has another leaf",
        partial: "an entry has another leaf",
        folder / "tile/entries/000": "an entry has another leaf",
        folder / "tile/entries/001.p" / partial.name: "an entry has another leaf",
        folder / "tile/1/000.p/1": "a tile above is another",
    }
    for path, why in forged.items():
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(AssertionError, match=why):
            TileLog(folder, raw).check()
        path.write_bytes(data)
    # An entry with the leaf that it should have: only the root tells.
    for number, tile in (("000", folder / "tile/0/000"), (f"001.p/{partial.name}", partial)):
        bundle = folder / "tile/entries" / number
        before = bundle.read_bytes(), tile.read_bytes()
        texts = unbundle(before[0])
        texts[-1] = bytes([texts[-1][0] ^ 1]) + texts[-1][1:]
        bundle.write_bytes(b"".join(len(text).to_bytes(2, "big") + text for text in texts))
        tile.write_bytes(before[1][:-32] + tree.leaf_hash(texts[-1]))
        with pytest.raises(AssertionError, match="another root"):
            TileLog(folder, raw).check()
        bundle.write_bytes(before[0])
        tile.write_bytes(before[1])
    TileLog(folder, raw).check()


def test_row_31_a_proof_for_another_entry() -> None:
    leaves = [tree.leaf_hash(b"%d" % number) for number in range(7)]
    grown = tree.Tree()
    for leaf in leaves:
        grown.append(leaf)
    proof = tree.inclusion_proof(leaves, 3)
    tree.verify_inclusion(leaves[3], 3, 7, proof, grown.root())
    for leaf, index, size in ((leaves[4], 3, 7), (leaves[3], 4, 7), (leaves[3], 3, 4), (leaves[4], 4, 7)):
        with pytest.raises(ProofError) as caught:
            tree.verify_inclusion(leaf, index, size, proof, grown.root())
        # A path of another size has another length; one of the right length leads to another root.
        assert caught.value.code == ("CF-PROOF-004" if size == 4 else "CF-PROOF-005")
    with pytest.raises(ProofError, match="CF-PROOF-005"):
        tree.verify_consistency(3, 7, tree.consistency_proof(leaves, 3), grown.root(), grown.root())


def test_a_receiver_that_was_told_what_its_log_never_had(sender: Any, receiver: Any) -> None:
    """Nobody makes another's evidence wrong by telling it nonsense: such a message is not accepted."""
    work(receiver, "something")
    with receiver.inside() as log:
        origin = log.origin
        own = log.recorder.open().last_checkpoint()
    for head in (own | {"root": "0" * 64}, own | {"size": own["size"] + 100}):
        assert receiver.refuses(sender.sign(sender.message(seen=[head]))) == "CF-HANDOFF-024"
    elsewhere = {"origin": f"{sender.key.keyid}/{'a' * 16}", "root": "0" * 64, "size": 1}
    receiver.accept(sender.sign(sender.message(seen=[own, elsewhere])))
    foreign = {"origin": origin, "root": "0" * 64, "size": 1}
    assert receiver.refuses(sender.sign(sender.message(own=foreign))) == "CF-HANDOFF-024"
    assert receiver.verdict() == ("intact", [])


def test_each_side_holds_the_others_word(lab: Any, sender: Any, receiver: Any) -> None:
    sender.trust(receiver)
    work(sender, "before")
    work(receiver, "before")
    answer = receiver.accept(sender.seal()).answer
    kept = sender.take(answer)
    told = statements.parse(sender.seal().payload).predicate
    assert isinstance(told, statements.Handoff)
    assert kept.own is not None
    assert told.seen == [kept.own]
    assert kept.seen is not None
    assert kept.seen[0].origin.startswith(sender.key.keyid)
    for one in (sender, receiver):
        assert one.verdict() == ("intact", [])
    folder = together(lab, sender, receiver)
    assert audit(lab, folder, sender, receiver) == ("intact", [])
    # Pinned nobody but the sender: of the receiver's word nobody can tell.
    assert audit(lab, sender.evidence, sender) == ("cannot-tell", ["CF-VERIFY-042"])
