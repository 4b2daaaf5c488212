"""Whoever changes evidence is found out: no change of any file is ever called intact."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import random
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from forging import Forger, Item, bodies, chunk, chunks, codes, identity, item, items, nowhere_intact

import counterfoil
from counterfoil import appending, canonical, keys, log, notes, records, segments, statements
from counterfoil.dsse import Envelope
from counterfoil.stores import FolderStore

# -- evidence to attack -----------------------------------------------------------------------------------------------


def _one(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()


def _sessions(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        lab.record(calls=0)


def _segments(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 2_000)
    recorder = lab.recorder()
    for number in range(4):
        root = recorder.start(
            "invoke_workflow", str(number), actor=("app",), request=recorder.value(os.urandom(900))
        )
        recorder.end(root)
        recorder.flush()
        while recorder.open()._covered != recorder.open()._index:
            time.sleep(0.005)
    recorder.close()
    assert len(lab.segments()) > 2


def _logs(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab.recorder(), lab.recorder()
    for recorder in (first, second):
        recorder.end(
            recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value("x" * 400))
        )
        recorder.flush()
    first.close()
    second.close()
    lab.record(calls=0)


def _recovered(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill; its verdict is incomplete from the start."""
    lab.python(
        """
        import os, sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        recorder.end(recorder.start("invoke_workflow", "first", actor=("app",)))
        recorder.flush()
        recorder.start("invoke_workflow", "second", actor=("app",))
        recorder.flush()
        os._exit(0)
        """
    )
    lab.record(calls=0)


KINDS: dict[str, Callable[[Any, pytest.MonkeyPatch], None]] = {
    "one": _one,
    "sessions": _sessions,
    "segments": _segments,
    "logs": _logs,
    "recovered": _recovered,
}


@pytest.fixture(params=list(KINDS))
def attacked(request: pytest.FixtureRequest, lab: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    KINDS[request.param](lab, monkeypatch)
    lab.before = lab.verify().verdict
    assert lab.before == ("incomplete" if request.param == "recovered" else "intact")
    return lab


@pytest.fixture
def valid(lab: Any) -> Any:
    lab.record()
    assert lab.verify().verdict == "intact"
    return lab


def saved(lab: Any) -> Callable[[], None]:
    """Takes a copy; the returned function puts it back."""
    copy = lab.root / "copy"
    shutil.copytree(lab.evidence, copy, dirs_exist_ok=False)

    def restore() -> None:
        shutil.rmtree(lab.evidence)
        shutil.copytree(copy, lab.evidence)

    return restore


# -- blind changes ----------------------------------------------------------------------------------------------------


def test_a_flipped_bit_anywhere(attacked: Any, request: pytest.FixtureRequest) -> None:
    rng = random.Random(request.node.name)
    places = [(path, at) for path in attacked.files() for at in range(path.stat().st_size)]
    elsewhere = []
    for path, at in rng.sample(places, 80):
        before = path.read_bytes()
        data = bytearray(before)
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        here, there, _ = nowhere_intact(attacked)
        assert here == "broken", (path.name, at)
        elsewhere.append(there)
        path.write_bytes(before)
    assert attacked.verify().verdict == attacked.before
    # Without a remembered head only damage behind the last checkpoint may pass for an unclean stop.
    assert elsewhere.count("broken") > 60


DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut by a byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "doubled": lambda path: path.write_bytes(path.read_bytes() * 2),
    "a zero more": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "an empty chunk more": lambda path: path.write_bytes(path.read_bytes() + chunk(b"")),
    "a blob more": lambda path: path.write_bytes(path.read_bytes() + chunk(item(segments.BLOB, b"x"))),
    "its last chunk again": lambda path: path.write_bytes(path.read_bytes() + path.read_bytes()[-300:]),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(path.stat().st_size)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a link": lambda path: (shutil.move(path, aside(path)), path.symlink_to(aside(path))),
    "a loop": lambda path: (path.unlink(), path.symlink_to(path)),
    "a device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
}


LONGER = {"a zero more", "an empty chunk more", "a blob more", "doubled", "its last chunk again"}


def aside(path: Path) -> Path:
    """A place outside of the evidence for one of its files."""
    return next(up for up in path.parents if up.name == "evidence").parent / f"moved {path.name}"


@pytest.mark.parametrize("how", DAMAGE)
def test_every_file_damaged(attacked: Any, how: str) -> None:
    restore = saved(attacked)
    for name in [path.relative_to(attacked.evidence) for path in attacked.files()]:
        path = attacked.evidence / name
        others = sorted(path.parent.glob("*.seg"))
        DAMAGE[how](path)
        if how == "deleted" and len(others) > 1 and path == others[-1]:
            # What is left is whole: only who remembers the head, or met the log, can tell.
            assert attacked.verify().verdict == "broken"
        else:
            here, _, _ = nowhere_intact(attacked)
            assert here == "broken" or (how in LONGER and here == "incomplete"), (name, here)
        restore()
    assert attacked.verify().verdict == attacked.before


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file": lambda place: (place / "notes.txt").write_text("mine"),
    "an empty file": lambda place: (place / "x").touch(),
    "a hidden file": lambda place: (place / ".DS_Store").touch(),
    "a folder": lambda place: (place / "folder").mkdir(),
    "a link": lambda place: (place / "link").symlink_to("/etc/passwd"),
    "a dangling link": lambda place: (place / "link").symlink_to("nowhere"),
    "a pipe": lambda place: os.mkfifo(place / "pipe"),
    "a name that is no text": lambda place: (place / os.fsdecode(b"\xff\x1b[31m\n")).touch(),
    "a name like a segment": lambda place: (place / "0000000a.seg").touch(),
    "a segment of nine digits": lambda place: (place / "000000000.seg").touch(),
    "a temporary file": lambda place: (place / "00000000.seg.tmp").touch(),
    "a name like a log's": lambda place: (place / "0123456789abcdef").touch(),
    "an empty log": lambda place: (place / "0123456789abcdef").mkdir(),
    "a log of an empty segment": lambda place: (
        (place / "0123456789abcdef").mkdir(),
        (place / "0123456789abcdef" / "00000000.seg").touch(),
    ),
    "a link like a log": lambda place: (place / "0123456789abcdef").symlink_to("/usr"),
    "a pipe like a log": lambda place: os.mkfifo(place / "0123456789abcdef"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_something_foreign_is_added(valid: Any, what: str) -> None:
    restore = saved(valid)
    for place in (valid.evidence, valid.segments()[0].parent):
        FOREIGN[what](place)
        nowhere_intact(valid)
        for finding in valid.verify().findings:
            assert finding.where.isprintable()
            assert finding.where.encode()
        restore()


def test_a_changed_gitignore(valid: Any) -> None:
    ignore = valid.evidence / ".gitignore"
    for text in (b"", b"*", b"*\n\n", b"!*\n", b"* \n", b"*\n" * 40):
        ignore.write_bytes(text)
        assert nowhere_intact(valid)[0] == "broken"
        assert "CF-VERIFY-002" in codes(valid.verify())


# -- segments moved about ---------------------------------------------------------------------------------------------


def test_segments_swapped_duplicated_renumbered_dropped(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _segments(lab, monkeypatch)
    restore = saved(lab)
    names = [path.name for path in lab.segments()]
    folder = lab.segments()[0].parent
    moves: list[Callable[[], object]] = []
    for a, b in itertools.pairwise(names):
        moves.append(
            lambda a=a, b=b: (  # type: ignore[misc]
                (folder / a).rename(folder / "t"),
                (folder / b).rename(folder / a),
                (folder / "t").rename(folder / b),
            )
        )
        moves.append(lambda a=a, b=b: shutil.copy(folder / a, folder / b))  # type: ignore[misc]
    moves += [
        lambda: shutil.copy(folder / names[-1], folder / f"{len(names):08d}.seg"),
        lambda: shutil.copy(folder / names[0], folder / f"{len(names):08d}.seg"),
        lambda: (folder / f"{len(names):08d}.seg").touch(),
        lambda: (folder / names[-1]).rename(folder / f"{len(names):08d}.seg"),
        lambda: [(folder / name).rename(folder / f"{int(name[:8]) + 1:08d}.seg") for name in reversed(names)],
        lambda: (
            [(folder / names[0]).unlink()]
            + [(folder / name).rename(folder / f"{int(name[:8]) - 1:08d}.seg") for name in names[1:]]
        ),
        lambda: (folder / names[1]).unlink(),
        lambda: (folder / names[-1]).unlink(),
        lambda: (folder / names[1]).write_bytes(
            (folder / names[1]).read_bytes() + chunk(item(segments.BLOB, b"x"))
        ),
        lambda: (folder / names[1]).write_bytes((folder / names[1]).read_bytes() + chunk(b"")),
    ]
    for move in moves:
        move()
        here = lab.verify().verdict
        assert here in ("broken", "incomplete")
        with lab.at(lab.root / "stranger"):
            assert counterfoil.verify(lab.evidence).verdict != "intact"
        restore()
    assert lab.verify().verdict == "intact"


def test_a_log_cut_at_every_chunk(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the remembered head tells; where nothing is known of the log, nobody calls it intact."""
    lab.record(3)
    (path,) = lab.segments()
    data = path.read_bytes()
    for part in chunks(path)[:-1]:
        path.write_bytes(data[: part.end])
        assert lab.verify().verdict == "broken", part
        with lab.at(lab.root / "stranger"):
            assert counterfoil.verify(lab.evidence).verdict in ("cannot-tell", "broken")
    path.write_bytes(data)
    assert lab.verify().verdict == "intact"


def test_a_log_cut_in_the_middle_of_a_run_is_seen_everywhere(lab: Any, one_run: Any) -> None:
    """Even at a checkpoint: a clean stop would have ended the calls."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.open().checkpoint()
    recorder.flush()
    recorder.end(root)
    recorder.close()
    (path,) = lab.segments()
    data = path.read_bytes()
    cuts = [part.end for part in chunks(path) if next(segments.items(part, where="")).kind == segments.NOTE]
    assert len(cuts) >= 2
    path.write_bytes(data[: cuts[0]])
    assert nowhere_intact(lab)[:2] == ("broken", "incomplete")


def test_an_older_copy_put_back(lab: Any) -> None:
    lab.record()
    older = saved(lab)
    lab.record()
    older()
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-052"})
    # The next process does not go on with it.
    lab.record()
    after = lab.verify()
    assert after.verdict == "broken"
    assert after.counts["logs"] == 2


def test_an_older_copy_with_the_segments_in_between_made_anew(lab: Any) -> None:
    """Rolled back and continued by the same identity on another machine: the heads of both differ."""
    lab.record()
    older = saved(lab)
    lab.record()
    older()
    key = (lab.home / "identity.pem").read_bytes()
    with lab.at(lab.root / "twin"):
        keys.load_or_create_identity()
        (lab.root / "twin" / "identity.pem").write_bytes(key)
        (lab.root / "twin" / "keyring.json").unlink()
        keys.load_or_create_identity()
        for _ in range(3):
            lab.record(calls=0)
        assert lab.verify().verdict == "intact"
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-053"})


# -- logs as a whole --------------------------------------------------------------------------------------------------


def cited_logs(evidence: Path) -> set[str]:
    """Logs whose checkpoint a session of another log cites."""
    sessions = [
        entry.body["context"] for entry in counterfoil.read(evidence).records() if entry.op == "session"
    ]
    return {one["log"] for context in sessions for one in context.get("seen", [])}


def test_a_log_deleted(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _logs(lab, monkeypatch)
    restore = saved(lab)
    cited = cited_logs(lab.evidence)
    assert cited
    for name in counterfoil.read(lab.evidence).logs():
        shutil.rmtree(lab.evidence / name)
        here, there = lab.verify(), lab.verify_elsewhere()
        assert here.verdict == "broken"
        assert "CF-VERIFY-003" in codes(here)
        assert ("CF-VERIFY-004" in codes(there)) == (name in cited)
        restore()
    shutil.rmtree(lab.evidence)
    lab.evidence.mkdir()
    assert lab.verify().verdict == "broken"


def test_a_cited_log_cut(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its witness is the other log: no machine needs to remember anything."""
    lab.record()
    recorder = lab.recorder()  # holds that log
    recorder.open()
    lab.record(calls=0)  # cites it
    recorder.close()
    (cited,) = cited_logs(lab.evidence)
    path = lab.evidence / cited / "00000000.seg"
    data = path.read_bytes()
    assert lab.verify_elsewhere().verdict == "intact"
    for part in chunks(path)[:-1]:
        path.write_bytes(data[: part.end])
        assert lab.verify_elsewhere().verdict == "broken"
        assert "CF-VERIFY-005" in codes(lab.verify_elsewhere())


def test_more_logs_than_a_session_can_name(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "SEEN_MAX", 2)
    recorders = [lab.recorder() for _ in range(5)]
    for recorder in recorders:
        recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
        recorder.flush()
    for recorder in recorders:
        recorder.close()
    lab.record(calls=0)
    assert lab.verify().verdict == "intact"
    last = max(counterfoil.read(lab.evidence).records(), key=lambda one: one.body["context"].get("at", 0)).log
    for name in counterfoil.read(lab.evidence).logs():
        if name != last:
            shutil.move(lab.evidence / name, lab.root / name)
            assert "CF-VERIFY-004" in codes(lab.verify_elsewhere())
            shutil.move(lab.root / name, lab.evidence / name)


def test_a_log_under_another_name(valid: Any) -> None:
    folder = valid.segments()[0].parent
    shutil.copytree(folder, folder.parent / "0123456789abcdef")
    assert nowhere_intact(valid)[:2] == ("broken", "broken")
    shutil.rmtree(folder)
    assert nowhere_intact(valid)[:2] == ("broken", "broken")


def test_a_log_of_other_evidence_copied_in(lab: Any) -> None:
    lab.record()
    other = lab.root / "other"
    lab.record(evidence=other)
    (name,) = counterfoil.read(other).logs()
    shutil.copytree(other / name, lab.evidence / name)
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-006"})
    # Moved as a whole it is simply in another place.
    assert lab.verify(other).verdict == "intact"
    shutil.rmtree(lab.evidence / name)
    shutil.move(other, lab.root / "moved")
    assert lab.verify(lab.root / "moved").verdict == "intact"


def test_a_log_of_another_identity_copied_in(lab: Any) -> None:
    lab.record()
    other = lab.root / "other"
    with lab.at(lab.root / "mallory"):
        lab.record(evidence=other)
    (name,) = counterfoil.read(other).logs()
    shutil.copytree(other / name, lab.evidence / name)
    assert nowhere_intact(lab)[:2] == ("cannot-tell", "cannot-tell")


# -- changes by somebody who knows the format -------------------------------------------------------------------------


def rewritten(path: Path, change: Callable[[list[Item]], list[Item]], key: keys.SigningKey | None) -> bytes:
    """The segment with its bodies changed and everything computed anew; without a key the old note stays."""
    entry = next(canonical.loads(data) for kind, data in items(path) if kind == segments.ENTRY)
    origin = entry["body"]["context"]["origin"]
    old = [data for kind, data in items(path) if kind == segments.NOTE][-1]
    forger = Forger(origin, key)
    forger.add(change(bodies(path)))
    forger.checkpoint(old if key is None else None)
    return forger.out


def test_the_forger_writes_what_the_writer_would(valid: Any) -> None:
    """So that the attacks below fail for the reason they name."""
    (path,) = valid.segments()
    path.write_bytes(rewritten(path, lambda listed: listed, identity()))
    result = valid.verify_elsewhere()
    assert (result.verdict, result.findings) == ("intact", [])
    assert codes(valid.verify()) == {
        "CF-VERIFY-053"
    }  # one checkpoint where this machine remembers another size


def test_one_character_changed_without_the_key(valid: Any) -> None:
    def change(listed: list[Item]) -> list[Item]:
        return [
            (kind, data.replace(b"answer", b"Answer")) if kind == segments.BLOB else (kind, data)
            for kind, data in listed
        ]

    (path,) = valid.segments()
    path.write_bytes(rewritten(path, change, None))
    assert nowhere_intact(valid)[:2] == ("broken", "broken")


def test_a_record_changed_without_the_key(valid: Any) -> None:
    def change(listed: list[Item]) -> list[Item]:
        return [(kind, data.replace(b'"name":"model"', b'"name":"modem"')) for kind, data in listed]

    (path,) = valid.segments()
    path.write_bytes(rewritten(path, change, None))
    result = valid.verify_elsewhere()
    assert (result.verdict, "CF-VERIFY-050" in codes(result)) == ("broken", True)
    assert valid.verify().verdict == "broken"


def test_everything_signed_anew_by_another_key(valid: Any) -> None:
    """The attacker's evidence is whole in itself: only who signed it tells."""
    (path,) = valid.segments()
    mallory = keys.SigningKey.generate()
    old = identity()
    name = path.parent.name

    def change(listed: list[Item]) -> list[Item]:
        out = []
        for kind, data in listed:
            if kind == segments.ENTRY:
                body = canonical.loads(data)
                if body.get("content", {}).get("op") == "session":
                    body["context"]["origin"] = f"{mallory.keyid}/{name}"
                    body["context"]["spki"] = base64.b64encode(mallory.spki).decode()
                elif "payload" in body:
                    payload = base64.b64decode(body["payload"]).replace(
                        old.keyid.encode(), mallory.keyid.encode()
                    )
                    if b"urn:counterfoil:binding" in payload:
                        body = Envelope.sign(payload, mallory).to_dict()
                data = canonical.dumps(body)
            out.append((kind, data))
        return out

    forger = Forger(f"{mallory.keyid}/{name}", mallory)
    forger.add(change(bodies(path)))
    forger.checkpoint()
    path.write_bytes(forger.out)
    here, there, stranger = nowhere_intact(valid)
    assert (here, there, stranger) == ("broken", "cannot-tell", "cannot-tell")
    assert "CF-VERIFY-053" in codes(valid.verify())
    assert valid.verify(keyring=keys.Keyring.of([mallory.public])).verdict == "broken"


def test_text_compressed_another_way(valid: Any) -> None:
    (path,) = valid.segments()
    parts = chunks(path)
    data = path.read_bytes()
    for at, part in enumerate(parts):
        if part.form != segments.ZSTD_FIRST:
            continue
        for level in (1, 19):
            stream = zstandard.ZstdCompressor(
                level=level, write_checksum=False, write_content_size=False
            ).compressobj()
            stored = stream.compress(part.data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            # One that is padded with an empty block says the same as well.
            for padding in (b"", b"\0\0\0"):
                changed = data[: part.start] + chunk(stored + padding, form=part.form, raw=len(part.data))
                if at + 1 < len(parts) and parts[at + 1].form == segments.ZSTD_NEXT:
                    continue
                path.write_bytes(changed + data[part.end :])
                assert nowhere_intact(valid)[:2] == ("broken", "broken")
    path.write_bytes(data)


def test_items_moved_over_chunks(valid: Any) -> None:
    """The same items in the same order, in one raw chunk instead of compressed ones."""
    (path,) = valid.segments()
    data = path.read_bytes()
    parts = chunks(path)
    first = next(part for part in parts if part.form == segments.RAW)
    raw = chunk(b"".join(part.data for part in parts if part.start < first.start))
    path.write_bytes(raw + data[first.start :])
    assert nowhere_intact(valid)[:2] == ("broken", "broken")


@pytest.mark.parametrize(
    "added", ["blob", "empty chunk", "zstd", "note twice", "stored twice", "signature line"]
)
def test_bytes_added_around_the_last_checkpoint(valid: Any, added: str) -> None:
    """The last two chunks are covered by no later ``stored``: nothing may be added to them, or stand between."""
    (path,) = valid.segments()
    data = path.read_bytes()
    *_, stored, note = chunks(path)
    head = data[: stored.start]
    stored_bytes, note_bytes = data[stored.start : stored.end], data[note.start : note.end]
    blob = item(segments.BLOB, b"added")
    variants: list[bytes] = []
    match added:
        case "blob":
            variants += [
                head + chunk(blob + stored.data) + note_bytes,
                head + chunk(stored.data + blob) + note_bytes,
                head + stored_bytes + chunk(blob + note.data),
                head + stored_bytes + chunk(note.data + blob),
                head + stored_bytes + chunk(blob) + note_bytes,
            ]
        case "empty chunk":
            variants += [
                head + stored_bytes + chunk(b"") + note_bytes,
                head + stored_bytes + note_bytes + chunk(b""),
            ]
        case "zstd":
            for part in (stored, note):
                stream = zstandard.ZstdCompressor(
                    write_checksum=False, write_content_size=False
                ).compressobj()
                packed = stream.compress(part.data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
                again = chunk(packed, form=segments.ZSTD_FIRST, raw=len(part.data))
                variants.append(head + (again + note_bytes if part is stored else stored_bytes + again))
        case "note twice":
            variants += [head + stored_bytes + note_bytes * 2, head + stored_bytes + chunk(note.data * 2)]
        case "stored twice":
            variants += [
                head + stored_bytes * 2 + note_bytes,
                head + stored_bytes + note_bytes + stored_bytes,
            ]
        case "signature line":
            text = note.data[5:].decode()
            mallory = notes.sign_note(text.partition("\n\n")[0] + "\n", "mallory", keys.SigningKey.generate())
            line = mallory.rpartition("\n\n")[2]
            variants += [
                head + stored_bytes + chunk(item(segments.NOTE, (text + line).encode())),
                head
                + stored_bytes
                + chunk(item(segments.NOTE, text.replace("\n\n", "\n\n" + line).encode())),
            ]
    for variant in variants:
        path.write_bytes(variant)
        nowhere_intact(valid)


# -- statements that the identity's log holds, by somebody else -------------------------------------------------------


def entered(lab: Any, make: Callable[[Any, Any], bytes]) -> Any:
    """Evidence whose writer was made to take one more entry: what code inside the process could do."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.end(root, response=recorder.value("x" * 300))
    recorder.open().entry(make(recorder, root))
    recorder.close()
    return lab.verify()


def handoff(recorder: Any, root: Any, key: keys.SigningKey, **changes: Any) -> bytes:
    payload = recorder.value("payload")
    predicate: dict[str, Any] = {
        "content": {
            "basis": "sealed",
            "from": ["a"],
            "kind": "message",
            "payload": payload.sha256,
            "to": "b",
        },
        "exact": True,
        "issued": 1,
        "parents": [{"digest": root.digest, "rel": "control"}],
        "payload": {"media": payload.media, "size": payload.size},
        "proof": "recorded",
        "sender": {"actor": "a", "key": key.keyid},
    }
    predicate |= changes
    subject = {"digest": {"counterfoil-v1": predicate["content"]["payload"]}, "name": "payload"}
    return Envelope.sign(statements.build(statements.HANDOFF, subject, predicate), key).to_bytes()


def binding(
    recorder: Any, actor: str, key: keys.SigningKey, signer: keys.SigningKey, changes: Any = None
) -> bytes:
    predicate = {
        "actor": actor,
        "issued": 1,
        "key": key.keyid,
        "origin": recorder.open().origin,
        "spki": base64.b64encode(key.spki).decode(),
    }
    subject = {"digest": {"sha256": key.keyid}, "name": actor}
    return Envelope.sign(
        statements.build(statements.BINDING, subject, predicate | (changes or {})), signer
    ).to_bytes()


def test_a_handoff_by_a_key_that_nobody_bound(lab: Any) -> None:
    result = entered(lab, lambda recorder, root: handoff(recorder, root, keys.SigningKey.generate()))
    assert (result.verdict, codes(result)) == ("broken", {"CF-DSSE-010"})


def test_a_handoff_appended_after_the_last_checkpoint(valid: Any) -> None:
    (path,) = valid.segments()
    last = [canonical.loads(data) for kind, data in items(path) if kind == segments.ENTRY][-1]
    prev = hashlib.sha256(canonical.dumps(last)).hexdigest()
    body = b'{"content":{"op":"custom","phase":"point"},"context":{},"v":0}'
    data = log.entry_bytes(body, last["i"] + 1, prev)
    path.write_bytes(path.read_bytes() + chunk(item(segments.ENTRY, data)))
    assert nowhere_intact(valid)[:2] == ("incomplete", "incomplete")


def test_a_binding_by_an_actor_s_key(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        key = recorder.actor_key(("a",))
        return binding(recorder, "b", keys.SigningKey.generate(), key)

    result = entered(lab, make)
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-043"})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"key": "0" * 64}, "CF-STMT-005"),
        ({"actor": "b"}, "CF-STMT-005"),
        ({"origin": "0" * 64 + "/0123456789abcdef"}, "CF-VERIFY-043"),
        ({"spki": "AAAA"}, "CF-VERIFY-043"),
        ({"spki": base64.b64encode(keys.SigningKey.generate().spki).decode()}, "CF-VERIFY-043"),
    ],
    ids=["another key", "another actor", "another log", "no key", "the key of somebody else"],
)
def test_a_binding_of_the_identity_that_does_not_fit(lab: Any, changes: dict[str, str], code: str) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        return binding(recorder, "a", keys.SigningKey.generate(), recorder.open().identity, changes)

    result = entered(lab, make)
    assert (result.verdict, codes(result)) == ("broken", {code})


def test_a_binding_of_the_identity_key_to_an_actor(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        own = recorder.open().identity
        return binding(recorder, "a", own, own)

    assert codes(entered(lab, make)) == {"CF-VERIFY-043"}


def test_a_handoff_by_the_key_of_another_actor(lab: Any) -> None:
    result = entered(lab, lambda recorder, root: handoff(recorder, root, recorder.actor_key(("other",))))
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-044"})


def test_a_handoff_by_the_identity_itself(lab: Any) -> None:
    result = entered(lab, lambda recorder, root: handoff(recorder, root, recorder.open().identity))
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-044"})


def test_an_actor_s_key_of_an_earlier_session(lab: Any) -> None:
    recorder = lab.recorder()
    key = recorder.actor_key(("a",))
    recorder.close()
    result = entered(lab, lambda recorder, root: handoff(recorder, root, key))
    assert (result.verdict, codes(result)) == ("broken", {"CF-DSSE-010"})


def test_a_handoff_that_names_another_key_than_its_own(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        key = recorder.actor_key(("a",))
        return handoff(recorder, root, key, sender={"actor": "a", "key": "0" * 64})

    assert codes(entered(lab, make)) == {"CF-VERIFY-041"}


def test_a_handoff_from_parents_that_are_not_there(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        return handoff(
            recorder, root, recorder.actor_key(("a",)), parents=[{"digest": "0" * 64, "rel": "data"}]
        )

    assert codes(entered(lab, make)) == {"CF-VERIFY-045"}

    def many(recorder: Any, root: Any) -> bytes:
        listed = {"count": 20, "sha256": "0" * 64, "size": 9}
        return handoff(recorder, root, recorder.actor_key(("a",)), parents=[], parentSet=listed)

    assert codes(entered(lab, many)) == {"CF-VERIFY-045"}


def test_a_list_of_parents_that_are_not_there(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        data = canonical.dumps([{"digest": f"{number:064x}", "rel": "data"} for number in range(20)])
        sha256 = hashlib.sha256(data).hexdigest()
        recorder.open().blob(sha256, data)
        listed = {"count": 20, "sha256": sha256, "size": len(data)}
        return handoff(recorder, root, recorder.actor_key(("a",)), parents=[], parentSet=listed)

    assert codes(entered(lab, make)) == {"CF-VERIFY-045"}


def test_a_handoff_whose_payload_is_not_there(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        key = recorder.actor_key(("a",))
        content = {"basis": "sealed", "from": ["a"], "kind": "message", "payload": "0" * 64, "to": "b"}
        return handoff(recorder, root, key, content=content)

    assert codes(entered(lab, make)) == {"CF-VERIFY-046"}


def test_a_handoff_that_claims_another_head_of_its_log(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        own = {"origin": recorder.open().origin, "root": "0" * 64, "size": 2}
        return handoff(recorder, root, recorder.actor_key(("a",)), own=own)

    assert codes(entered(lab, make)) == {"CF-VERIFY-047"}


def test_an_envelope_that_is_not_in_its_normal_form(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        body = canonical.loads(handoff(recorder, root, recorder.actor_key(("a",))))
        return canonical.dumps(body | {"extra": 1})

    assert codes(entered(lab, make)) == {"CF-VERIFY-040"}


def test_a_record_that_cites_bytes_that_are_not_there(lab: Any) -> None:
    def missing(recorder: Any, root: Any) -> bytes:
        ref = {"media": "text/plain;charset=utf-8", "sha256": "0" * 64, "size": 1}
        return records.build({"op": "custom", "phase": "point", "request": ref}, {})

    assert codes(entered(lab, missing)) == {"CF-VERIFY-010"}

    def another_size(recorder: Any, root: Any) -> bytes:
        ref = recorder.value("x" * 300).to_dict()
        return records.build({"op": "custom", "phase": "point", "request": ref | {"size": 299}}, {})

    assert codes(entered(lab, another_size)) == {"CF-VERIFY-010"}

    def hollow(recorder: Any, root: Any) -> bytes:
        inner = {"$ref": {"media": "text/plain;charset=utf-8", "sha256": "1" * 64, "size": 1}}
        data = canonical.dumps({"a": inner})
        sha256 = hashlib.sha256(data).hexdigest()
        recorder.open().blob(sha256, data)
        ref = {"media": "application/vnd.counterfoil.value+json", "sha256": sha256, "size": len(data)}
        return records.build({"op": "custom", "phase": "point", "request": ref}, {})

    assert codes(entered(lab, hollow)) == {"CF-VERIFY-010"}


def test_a_text_that_looks_like_a_hollow_composite_harms_nobody(lab: Any) -> None:
    """A prompt may hold the text of a composite that is recorded as one later: that must not break the evidence."""
    recorder = lab.recorder()
    later = {"a": "b" * 300, "c": "d" * 300}
    text = recorder.capture.reduce(later)
    recorder.capture.forget()
    fresh = lab.root / "fresh"
    recorder.close()
    recorder = lab.recorder(fresh)
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    sha256 = canonical.loads(text)["$ref"]["sha256"]
    composite = canonical.dumps(
        {name: {"$ref": recorder_reference(value)} for name, value in later.items()}
    ).decode()
    assert hashlib.sha256(composite.encode()).hexdigest() == sha256
    recorder.end(recorder.start("chat", "m", actor=("app",), parent=root, request=recorder.value(composite)))
    recorder.end(recorder.start("chat", "m", actor=("app",), parent=root, request=recorder.value(later)))
    recorder.end(root)
    recorder.close()
    result = lab.verify(fresh)
    assert (result.verdict, result.findings) == ("intact", [])
    reader = counterfoil.read(fresh)
    assert [reader.value(call.request) for call in reader.calls()[1:]] == [composite, later]


def recorder_reference(text: str) -> dict[str, Any]:
    return {
        "media": "text/plain;charset=utf-8",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "size": len(text),
    }


def test_a_crafted_chunk_costs_no_more_than_it_says(valid: Any) -> None:
    """A few bytes that decompress to a gigabyte end at the length the chunk declares."""
    (path,) = valid.segments()
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(1 << 28))
    for raw in (10, 1 << 20):
        path.write_bytes(chunk(bomb, form=segments.ZSTD_FIRST, raw=raw))
        assert nowhere_intact(valid)[0] == "broken"
    path.write_bytes(struct.pack("<B3xIII", 0, 1 << 30, 1 << 30, 0))
    assert nowhere_intact(valid)[0] == "broken"


def test_the_head_this_machine_remembers_is_damaged(valid: Any) -> None:
    (head,) = (valid.home / "heads").glob("*.json")
    head.write_bytes(b"{}")
    assert valid.verify().verdict == "cannot-tell"
    valid.record()  # and recording says why it does not go on
    assert FolderStore(valid.evidence).logs()
