"""Verifying evidence of others, of several logs, of a crafted log, and while somebody writes."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import checks, keys, log, notes, reader, records, segments, tree, verification
from counterfoil.digest import MEDIA_BYTES, MEDIA_FOLD, MEDIA_JSON, MEDIA_TEXT, Reference, sha256_hex
from counterfoil.entries import BlobSeen
from counterfoil.errors import LogError
from counterfoil.stored import Stored
from counterfoil.stores import FolderStore, folder


def codes(result: Any) -> list[str]:
    return [finding.code for finding in result.findings]


def ref(data: bytes, media: str = MEDIA_JSON) -> Reference:
    return Reference(sha256_hex(data), len(data), media)


def cited(*parts: Reference) -> bytes:
    """A stored list of references."""
    return json.dumps([{"$ref": part.to_dict()} for part in parts], separators=(",", ":")).encode()


def node(number: int, before: bytes = b"") -> bytes:
    """A node of a message list."""
    parent = sha256_hex(before).encode() if before else b""
    return b'{"add":{"$msg":{"n":%d}},"n":%d,"parent":"%b"}' % (number, number, parent)


LONG = b'"' + b"x" * 256 + b'"'
NO_VALUES = [
    b"",
    b"text",
    b'"a string stands as text"',
    b'{"$bytes":"AAAA"}',
    b'{"a": 1}',
    b'{"a":1,"a":1}',
    b'{"b":1,"a":1}',
    b'{"a":1}x',
    b"[1.50]",
    b"[1e5]",
    b"9007199254740992",
    b'["\\ud800"]',
    b'{"$ref":{"media":"a","sha256":"' + b"0" * 64 + b'","size":1}}',
    b"[" + LONG + b"]",
    b'{"a":' + LONG + b"}",
    b"[[" + b"1," * 200 + b"1]]",
    b'[{"$bytes":"' + base64.b64encode(bytes(256)) + b'"}]',
    b'[{"$bytes":"AAB="}]',
    b'[{"$msg":1}]',
    b'{"a":[{"$msg":1}]}',
    b"[" * 129 + b"]" * 129,
    b"[" + b"1," * (1 << 18) + b"1.0]",
    b'[{"$msg":1}' + b',{"$msg":1}' * (1 << 16) + b"]",
    b'{"k0":1,' + b",".join(b'"k%07d":1' % (number // 2) for number in range(1 << 16)) + b"}",
]
VALUES = [
    b"0",
    b"true",
    b"null",
    b"[1.5]",
    b"[]",
    b"{}",
    b'{"$msg":1}',
    b'[{"$msg":1},1]',
    b"[" + LONG[:-2] + b'"]',
    b'[{"$bytes":"' + base64.b64encode(bytes(255)) + b'"}]',
    b"[" * 127 + b"]" * 127,
    b"[" + b"1," * (1 << 18) + b"1]",
    b'[{"$msg":1}' + b',{"$msg":1}' * (1 << 16) + b",1]",
    b"{" + b",".join(b'"k%07d":1' % number for number in range(1 << 16)) + b"}",
    b'{"' + b"k," * (1 << 17) + b'":1}',
]


class Crafted:
    """Evidence of one log with whatever blobs and records somebody wants, rightly chained and signed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "0123456789abcdef"
        self.folder.mkdir(parents=True)
        (root / ".gitignore").write_bytes(b"*\n")
        self.key = keys.SigningKey.generate()
        self.origin = f"{self.key.keyid}/{self.folder.name}"
        self._tree = tree.Tree()
        self._prev = log.ZERO
        self._out = b""
        spki = base64.b64encode(self.key.spki).decode()
        context = {"at": 1, "origin": self.origin, "spki": spki, "tree": {"peaks": [], "size": 0}}
        self.record({"op": "session", "phase": "point"}, context)

    def record(self, content: dict[str, Any], context: dict[str, Any]) -> None:
        data = log.entry_bytes(records.build(content, context), self._tree.size, self._prev)
        self._prev = hashlib.sha256(data).hexdigest()
        self._tree.append(tree.leaf_hash(data))
        self._out += segments.raw_chunk(segments.pack_item(segments.ENTRY, data))

    def blobs(self, *listed: bytes) -> None:
        packed = b"".join(segments.pack_item(segments.BLOB, data) for data in listed)
        self._out += segments.raw_chunk(packed)

    def verify(self) -> Any:
        sha256 = hashlib.sha256(self._out).hexdigest()
        self.record({"offset": len(self._out), "op": "stored", "segment": 0, "sha256": sha256}, {})
        text = notes.Checkpoint(self.origin, self._tree.size, self._tree.root()).to_text()
        note = segments.pack_item(segments.NOTE, notes.sign_note(text, self.origin, self.key).encode())
        (self.folder / "00000000.seg").write_bytes(self._out + segments.raw_chunk(note))
        return counterfoil.verify(self.root, keyring=keys.Keyring.of([self.key.public]))


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(FolderStore(tmp_path), "0123456789abcdef")


def passes(stored: Stored, *listed: bytes) -> None:
    for data in listed:
        stored.blob(BlobSeen(sha256_hex(data), data, (0, 0, 0, 0)))


def covered(recorder: Any) -> None:
    """All that was recorded stands under a checkpoint."""
    writer = recorder.open()
    writer.checkpoint()
    assert writer.flush()
    assert writer.last_checkpoint() is not None


# -- whose log, which log ---------------------------------------------------------------------------------------------


def test_one_identity_may_hand_over_between_two_folders(lab: Any, one_run: Any) -> None:
    first, second = lab.root / "planner", lab.root / "writer"
    with counterfoil.open(first, actor="planner") as planner:
        one_run(planner.recorder)
        covered(planner.recorder)
        envelope = counterfoil.seal(planner, {"task": 1}, to="writer")
        assert b'"own"' in envelope.payload
        with counterfoil.open(second, actor="writer") as writer:
            counterfoil.accept(writer, envelope.to_bytes(), {"task": 1})
    assert lab.verify(first).verdict == "intact"
    assert (lab.verify(second).verdict, lab.verify(second).counts["handoffs"]) == ("intact", 1)


def two_logs(lab: Any, one_run: Any) -> tuple[str, str, Any]:
    """Names of two logs with a run each, and the first one's run."""
    one, two = lab.recorder(), lab.recorder()
    run = one_run(one).run.id
    one_run(two, number=1)
    one.flush()
    two.flush()
    names = (one.open().log, two.open().log)
    one.close()
    two.close()
    assert names[0] != names[1]
    return (*names, run)


def test_a_run_is_judged_by_its_log_alone(lab: Any, one_run: Any) -> None:
    _, other, run = two_logs(lab, one_run)
    result = lab.verify(run=run)
    assert (result.verdict, result.counts["logs"], result.counts["runs"]) == ("intact", 1, 1)
    path = lab.evidence / other / "00000000.seg"
    path.write_bytes(path.read_bytes() + b"torn")
    assert lab.verify().verdict == "incomplete"
    assert lab.verify(run=run).counts["logs"] == 1


def test_a_log_that_cannot_be_read_to_its_end_may_hold_any_run(lab: Any, one_run: Any) -> None:
    _, other, run = two_logs(lab, one_run)
    path = lab.evidence / other / "00000000.seg"
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    result = lab.verify(run=run)
    assert (result.verdict, result.counts["logs"]) == ("broken", 2)


def test_a_log_that_this_machine_remembers_longer_may_hold_any_run(lab: Any, one_run: Any) -> None:
    _, other, run = two_logs(lab, one_run)
    old = lab.root / "old"
    shutil.copytree(lab.evidence / other, old)
    while not (lab.evidence / other / "00000001.seg").exists():
        one, two = lab.recorder(), lab.recorder()
        for number, recorder in enumerate((one, two)):
            one_run(recorder, number=number + 5)
        one.close()
        two.close()
    shutil.rmtree(lab.evidence / other)
    shutil.copytree(old, lab.evidence / other)
    assert "CF-VERIFY-052" in codes(lab.verify(run=run))


def test_a_log_of_another_pinned_identity_is_told(lab: Any, one_run: Any) -> None:
    lab.record()
    theirs = lab.root / "theirs"
    with lab.at(lab.elsewhere):
        lab.record(evidence=theirs)
        peer = keys.load_identity()
        own = lab.verify(theirs)
    assert peer is not None
    assert (own.verdict, own.notes) == ("intact", [])
    assert lab.verify().notes == []
    (name,) = counterfoil.read(theirs).logs()
    shutil.copytree(theirs / name, lab.evidence / name)
    mine = keys.load_identity()
    assert mine is not None
    result = lab.verify(keyring=keys.Keyring.of([mine.public, peer.public]))
    assert (result.verdict, [note.code for note in result.notes]) == (
        "intact",
        ["CF-VERIFY-061", "CF-VERIFY-062"],
    )
    assert peer.keyid[:16] in result.notes[0].message
    with lab.at(lab.root / "nobody"):
        ring = keys.Keyring.of([mine.public, peer.public])
        codes = [note.code for note in counterfoil.verify(lab.evidence, keyring=ring).notes]
        assert set(codes) == {
            "CF-VERIFY-062"
        }  # no identity here, so nobody else's either; no end is remembered


# -- what composites cite ---------------------------------------------------------------------------------------------


def test_a_composite_is_there_once_its_last_part_is(stored: Stored) -> None:
    inner = cited(ref(b"part", MEDIA_TEXT), ref(b"other", MEDIA_BYTES))
    outer = cited(ref(inner), ref(inner))
    passes(stored, outer, inner, outer)
    assert [stored.there(ref(data)) for data in (outer, inner)] == [False, False]
    assert stored.there(ref(outer, MEDIA_TEXT))
    passes(stored, b"part")
    assert not stored.there(ref(outer))
    passes(stored, b"other")
    assert [stored.there(ref(data)) for data in (outer, inner)] == [True, True]


@pytest.mark.parametrize("late", [False, True])
def test_a_part_of_another_size_is_no_part(stored: Stored, late: bool) -> None:
    whole = cited(Reference(sha256_hex(b"part"), 5, MEDIA_TEXT))
    passes(stored, *((whole, b"part") if late else (b"part", whole)))
    assert stored.there(ref(b"part", MEDIA_TEXT))
    assert not stored.there(ref(whole))


@pytest.mark.parametrize("media", ["a\\nb", 'a"b', "é", "x" * 100_000, ""])
def test_a_part_of_any_media_type_is_one(stored: Stored, media: str) -> None:
    body = b'{"media":%b,"sha256":"%b","size":4}' % (
        json.dumps(media, ensure_ascii=False).encode(),
        sha256_hex(b"part").encode(),
    )
    whole = b'{"a":{"$ref":' + body + b"}}"
    passes(stored, whole)
    assert not stored.there(ref(whole))
    passes(stored, b"part")
    assert stored.there(ref(whole))


def test_a_reference_inside_a_string_is_none(stored: Stored) -> None:
    text = json.dumps([cited(ref(b"nowhere")).decode()]).encode()
    passes(stored, text)
    assert stored.there(ref(text))


def test_a_message_list_needs_the_nodes_before(stored: Stored) -> None:
    first = node(1)
    second = node(2, first)
    third = node(3, second)
    passes(stored, third, second)
    assert not stored.there(ref(third, MEDIA_FOLD))
    passes(stored, first)
    assert all(stored.there(ref(node, MEDIA_FOLD)) for node in (first, second, third))


@pytest.mark.parametrize(
    "value",
    [
        b'{"add":{"$msg":1},"n":1,"parent":"mum"}',
        b'{"add":{"$msg":1},"n":1,"parent":"%b"}' % (b"0" * 64),
        b'{"add":{"$msg":1},"n":2,"parent":""}',
        b'{"add":{"$msg":1},"n":0,"parent":""}',
        b'{"add":{"$msg":1},"n":"1","parent":""}',
        b'{"add":{"$msg":1},"n":1,"parent":1}',
        b'{"add":1,"n":1,"parent":""}',
        b'{"add":{"$msg":1,"b":1},"n":1,"parent":""}',
        b'{"add":{"$msg":1},"b":1,"n":1,"parent":""}',
    ],
)
def test_a_value_that_looks_like_a_node_is_none(stored: Stored, value: bytes) -> None:
    passes(stored, value)
    assert (stored.there(ref(value)), stored.there(ref(value, MEDIA_FOLD))) == (True, False)


@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_node_counts_on_from_the_one_before(stored: Stored, number: int) -> None:
    first = node(1)
    second = node(2, first)
    third = node(number, second)
    passes(stored, first, second, third)
    assert stored.there(ref(second, MEDIA_FOLD))
    assert stored.there(ref(third, MEDIA_FOLD)) == (number == 3)


def test_what_is_no_value_is_not_there_as_one(stored: Stored) -> None:
    for data in NO_VALUES:
        passes(stored, data)
        assert not stored.there(ref(data)), data[:60]
        assert stored.there(ref(data, MEDIA_BYTES))
        assert stored.there(ref(data, "image/png"))
    for data in VALUES:
        passes(stored, data)
        assert stored.there(ref(data)), data[:60]


def test_what_is_no_text_is_not_there_as_one(stored: Stored) -> None:
    passes(stored, b"\xff\xfe", "\u00e9".encode() * 200_000, "\u00e9".encode() * 200_000 + b"\xc3")
    assert not stored.there(ref(b"\xff\xfe", MEDIA_TEXT))
    assert stored.there(ref(b"\xff\xfe", MEDIA_BYTES))
    assert stored.there(ref("\u00e9".encode() * 200_000, MEDIA_TEXT))
    assert not stored.there(ref("\u00e9".encode() * 200_000 + b"\xc3", MEDIA_TEXT))


def test_a_composite_that_lacks_hundreds_of_parts_is_never_whole(stored: Stored) -> None:
    listed = [b"%d" % (number + 1) for number in range(300)]
    few, many = (cited(*(ref(data) for data in listed[:count])) for count in (256, 300))
    passes(stored, few, many, *listed)
    assert (stored.there(ref(few)), stored.there(ref(many))) == (True, False)


def test_a_crafted_composite_takes_no_memory(stored: Stored) -> None:
    data = b'[{"$ref":0}' + b",{}" * (1 << 19) + b"]"
    many = cited(*(Reference(sha256_hex(b"%d" % number), 1, MEDIA_JSON) for number in range(20_000)))
    tracemalloc.start()
    try:
        passes(stored, data, many)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_long_chain_of_hollow_composites_is_never_walked_twice(stored: Stored) -> None:
    chain = [cited(ref(b"31415926"))]
    for _ in range(20_000):
        chain.append(cited(ref(chain[-1])))
    passes(stored, *reversed(chain))
    # Walked each time, these would be hundreds of millions of steps.
    assert not any(stored.there(ref(data)) for data in chain)
    passes(stored, *(b"%d" % number for number in range(1000)), b"31415926")
    assert all(stored.there(ref(data)) for data in chain)


def test_what_an_entry_lacks_is_told_once(tmp_path: Path) -> None:
    crafted = Crafted(tmp_path / "evidence")
    hollow = cited(ref(b"missing"))
    crafted.blobs(hollow)
    for _ in range(2):
        crafted.record(
            {"list": [ref(hollow).to_dict()] * 150, "name": "x", "op": "custom", "phase": "point"}, {}
        )
    assert codes(crafted.verify()) == ["CF-VERIFY-010"] * 2


# -- reading values ---------------------------------------------------------------------------------------------------


def test_a_reference_has_a_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_VALUE", 1 << 20)
    crafted = Crafted(tmp_path / "evidence")
    few, many = cited(*[ref(b"7")] * 500), cited(*[ref(b"7")] * 2000)
    crafted.blobs(b"7", few, many)
    crafted.verify()
    evidence = counterfoil.read(crafted.root)
    assert evidence.value(ref(few)) == [7] * 500
    with pytest.raises(LogError) as raised:
        evidence.value(ref(many))
    assert raised.value.code == "CF-LOG-043"


def test_a_value_that_stands_for_billions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_VALUE", 1 << 22)
    crafted = Crafted(tmp_path / "evidence")
    levels = [b"7"]
    for _ in range(40):
        levels.append(cited(ref(levels[-1]), ref(levels[-1])))
    crafted.blobs(*levels)
    crafted.verify()
    with pytest.raises(LogError) as raised:
        counterfoil.read(crafted.root).value(ref(levels[-1]))
    assert raised.value.code == "CF-LOG-043"


def test_leaves_are_read_once_and_by_media_type() -> None:
    listed = {sha256_hex(data): data for data in (b"7", b"text")}
    whole = cited(*[ref(b"7"), ref(b"7", MEDIA_TEXT), ref(b"7", MEDIA_BYTES), ref(b"text", MEDIA_TEXT)] * 3)
    listed[sha256_hex(whole)] = whole
    read: list[str] = []

    def blob(sha256: str) -> bytes:
        read.append(sha256)
        return listed[sha256]

    assert reader._Value(blob).of(ref(whole)) == [7, "7", {"$bytes": "Nw=="}, "text"] * 3
    assert len(read) == 5


def test_the_items_of_a_chunk_are_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crafted = Crafted(tmp_path / "evidence")
    listed = [b"%d" % number for number in range(100)]
    crafted.blobs(*listed)
    crafted.verify()
    evidence = counterfoil.read(crafted.root)
    assert evidence.blob(sha256_hex(listed[0])) == listed[0]
    monkeypatch.setattr(segments, "items", lambda chunk, *, where: pytest.fail("listed again"))
    assert [evidence.blob(sha256_hex(data)) for data in listed] == listed


# -- while others write -----------------------------------------------------------------------------------------------


def test_what_is_written_meanwhile_is_no_damage(
    lab: Any, one_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log read first goes on, and a session in a third one cites what it says now."""
    recorders = sorted((lab.recorder(), lab.recorder()), key=lambda one: one.open().log)
    for number, recorder in enumerate(recorders):
        one_run(recorder, number=number)
        recorder.flush()
    recorders[1].close()
    check, passed = checks.LogCheck.run, []

    def meanwhile(self: checks.LogCheck) -> Any:
        found = check(self)
        passed.append(self.name)
        if len(passed) == 1:
            one_run(recorders[0], number=7)
            covered(recorders[0])
            lab.record()
        return found

    monkeypatch.setattr(checks.LogCheck, "run", meanwhile)
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("intact", [])
    assert len(passed) == 4


def test_a_log_begun_after_the_heads_were_read_is_not_missed(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.record()
    remembered = keys.remembered_heads

    def late() -> Any:
        monkeypatch.setattr(keys, "remembered_heads", remembered)
        lab.record()
        return remembered()

    monkeypatch.setattr(keys, "remembered_heads", late)
    monkeypatch.setattr(verification, "_AGAIN", 0)
    result = lab.verify()
    assert (result.verdict, result.counts["runs"]) == ("intact", 2)


def test_evidence_that_never_rests_is_read_four_times(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()
    (path,) = lab.segments()
    once, times = verification.examine, []

    def touched(*arguments: Any) -> Any:
        times.append(arguments)
        path.write_bytes(path.read_bytes() + b"x")
        return once(*arguments)

    monkeypatch.setattr(verification, "examine", touched)
    assert (lab.verify().verdict, len(times)) == ("incomplete", 4)
    monkeypatch.setattr(
        verification, "examine", lambda *arguments: times.append(arguments) or once(*arguments)
    )
    assert (lab.verify().verdict, len(times)) == ("incomplete", 5)


def test_where_no_end_is_remembered_a_cut_tail_is_said_to_be_invisible(lab: Any) -> None:
    for _ in range(2):
        lab.record()
    (log_folder,) = [path for path in lab.evidence.iterdir() if path.is_dir()]
    assert lab.verify().notes == []
    (log_folder / "00000001.seg").unlink()
    here, elsewhere = lab.verify(), lab.verify_elsewhere()
    assert (here.verdict, [one.code for one in here.findings]) == ("broken", ["CF-VERIFY-052"])
    assert (elsewhere.verdict, [one.code for one in elsewhere.notes]) == ("intact", ["CF-VERIFY-062"])
    assert "a checkpoint held elsewhere" in elsewhere.notes[0].hint


def test_a_segment_that_may_not_be_read_cannot_be_judged(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()

    real = folder._open_regular

    def refuse(path: Path) -> Any:
        if path.suffix == ".seg":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(folder, "_open_regular", refuse)
    result = lab.verify()
    assert "CF-STORE-006" in {one.code for one in result.findings}
    assert all(one.verdict == "cannot-tell" for one in result.findings if one.code == "CF-STORE-006")


def test_a_log_that_is_just_beginning(lab: Any) -> None:
    """Its writer holds the lock, and nothing of its first group is on disk."""
    lab.record()
    identity = keys.load_identity()
    assert identity is not None
    name = "ab" * 8
    (lab.evidence / name).mkdir(mode=0o700)
    (lab.evidence / name / "00000000.seg").touch(mode=0o600)
    with open(keys.prepare_lock(f"{identity.keyid}/{name}"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert (lab.verify().verdict, lab.verify().findings) == ("intact", [])
    result = lab.verify()
    assert (result.verdict, [one.code for one in result.findings]) == ("incomplete", ["CF-VERIFY-024"])
