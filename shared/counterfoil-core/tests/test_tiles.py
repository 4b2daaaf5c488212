"""C2SP tlog-tiles: equal to other logs' tiles, read back by a reader that knows nothing of ours, never overwritten."""

from __future__ import annotations

import base64
import json
import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tilelog import TileLog, unbundle

from counterfoil import canonical, entries, keys, notes, tree
from counterfoil.errors import CounterfoilError, LogError, NoteError
from counterfoil.reader import read
from counterfoil.tlog import tiles
from counterfoil.tlog.exporting import export_log

TLOG = Path(__file__).resolve().parents[2] / "vectors" / "outside" / "tlog"
TESSERA = json.loads((TLOG / "tessera_log.json").read_text())
SUNLIGHT = json.loads((TLOG / "sunlight_mirror.json").read_text())


def written(texts: list[bytes]) -> tuple[dict[str, bytes], bytes]:
    """Files and root of a log of these entries."""
    files: dict[str, bytes] = {}

    def emit(path: str, data: bytes) -> None:
        assert path not in files
        files[path] = data

    writer = tiles.TileWriter(emit)
    for text in texts:
        writer.add(text)
    writer.finish()
    return files, writer.tree.root()


# -- other people's logs ----------------------------------------------------------------------------------------------


def test_tessera_tiles_bundles_and_roots() -> None:
    """Their bundles give our tiles byte for byte, and the root of each of their checkpoints."""
    known = {path: base64.b64decode(data) for path, data in TESSERA["tiles"].items()}
    for size in range(1, 9):
        texts = unbundle(known[f"tile/entries/000.p/{size}"])
        files, root = written(texts)
        assert files == {path: known[path] for path in known if path.endswith(f".p/{size}")}
        note = notes.Note.parse(TESSERA["checkpoints"][str(size)])
        note.verify([TESSERA["vkey"]])
        assert notes.Checkpoint.parse(note.text).root == root
        leaves = [tree.leaf_hash(text) for text in texts]
        for index, leaf in enumerate(leaves):
            tree.verify_inclusion(leaf, index, size, tree.inclusion_proof(leaves, index), root)


def test_tessera_checkpoints_continue_each_other() -> None:
    known = base64.b64decode(TESSERA["tiles"]["tile/entries/000.p/8"])
    leaves = [tree.leaf_hash(text) for text in unbundle(known)]
    heads = {
        int(size): notes.Checkpoint.parse(notes.Note.parse(text).text)
        for size, text in TESSERA["checkpoints"].items()
    }
    assert sorted(heads) == list(range(9))
    for second in range(1, 9):
        for first in range(1, second + 1):
            proof = tree.consistency_proof(leaves[:second], first)
            tree.verify_consistency(first, second, proof, heads[first].root, heads[second].root)
            for other in heads:
                if heads[other].root not in (heads[first].root, tree.EMPTY_ROOT):
                    with pytest.raises(CounterfoilError):
                        tree.verify_consistency(first, second, proof, heads[other].root, heads[second].root)


def test_sunlight_tiles() -> None:
    """300 leaves: two tiles of level 0, and one of level 1."""
    files, root = written([b"record %d" % number for number in range(300)])
    known = {path: base64.b64decode(data) for path, data in SUNLIGHT["tiles"].items()}
    assert {path: files[path] for path in files if "entries" not in path} == known
    checkpoint = notes.Checkpoint.parse(notes.Note.parse(SUNLIGHT["checkpoint"]).text)
    assert (checkpoint.origin, checkpoint.size, checkpoint.root) == (SUNLIGHT["origin"], 300, root)


def test_a_cosignature_is_kept_and_counts_for_nothing() -> None:
    """Signatures of type cosignature/v1 belong to witnesses: read, written back, and never taken for Ed25519 ones."""
    note = notes.Note.parse(SUNLIGHT["checkpoint"])
    assert note.to_text() == SUNLIGHT["checkpoint"]
    with pytest.raises(NoteError) as caught:
        note.verify([SUNLIGHT["cosignerVkey"]])
    assert caught.value.code == "CF-NOTE-010"
    name, _, rest = SUNLIGHT["cosignerVkey"].partition("+")
    raw = base64.b64decode(rest.partition("+")[2])[1:]
    plain = notes.vkey(name, Ed25519PublicKey.from_public_bytes(raw))
    with pytest.raises(NoteError) as caught:
        note.verify([plain])
    assert caught.value.code == "CF-NOTE-011"
    # It is a good cosignature all the same: over its own header, and a time.
    (signature,) = note.signatures
    message = f"cosignature/v1\ntime {int.from_bytes(signature.signature[:8], 'big')}\n{note.text}".encode()
    Ed25519PublicKey.from_public_bytes(raw).verify(signature.signature[8:], message)


# -- the layout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "path"),
    [
        (0, "000"),
        (7, "007"),
        (999, "999"),
        (1000, "x001/000"),
        (1234067, "x001/x234/067"),
        (10**9, "x001/x000/x000/000"),
    ],
)
def test_paths(number: int, path: str) -> None:
    assert tiles.tile_path(0, number) == f"tile/0/{path}"
    assert tiles.tile_path("entries", number, 8) == f"tile/entries/{path}.p/8"


def test_an_entry_that_no_bundle_can_hold() -> None:
    longest = bytes(entries.MAX_ENTRY)
    files, _ = written([longest])
    assert unbundle(files["tile/entries/000.p/1"]) == [longest]
    with pytest.raises(LogError) as caught:
        written([longest + b"\0"])
    assert caught.value.code == "CF-LOG-016"


# -- our logs ---------------------------------------------------------------------------------------------------------


def public() -> bytes:
    identity = keys.load_identity()
    assert identity is not None
    return identity.public.raw


def exported(lab: Any, to: str = "out") -> Path:
    (name,) = read(lab.evidence).logs()
    done = export_log(read(lab.evidence).store, name, lab.root / to)
    assert done.folder == str(lab.root / to / name)
    return lab.root / to / name


def test_an_export_is_the_log(lab: Any) -> None:
    recorder = lab.recorder()
    for _ in range(300):
        recorder.end(recorder.start("invoke_workflow", "w", actor=("w",)))
    recorder.close()
    folder = exported(lab)
    log = TileLog(folder, public())
    log.check()
    assert log.size > 600
    told = list(read(lab.evidence).entries())
    assert [canonical.loads(text)["i"] for text in log.entries()] == [entry.index for entry in told]
    assert [sha256(text).hexdigest() for text in log.entries()] == [entry.digest for entry in told]
    again = exported(lab, "again")

    def content(root: Path) -> dict[str, bytes]:
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    assert content(again) == content(folder)


def test_an_export_follows_its_log(lab: Any) -> None:
    sizes = []
    for _ in range(3):
        lab.record()
        folder = exported(lab)
        log = TileLog(folder, public())
        log.check()
        sizes.append(log.size)
    assert sizes == sorted(set(sizes))
    assert len(list(folder.glob("tile/0/000.p/*"))) == 3


def test_entries_behind_the_last_checkpoint_are_left_out(lab: Any) -> None:
    lab.record()
    recorder = lab.recorder()
    recorder.start("invoke_workflow", "w", actor=("w",))
    recorder.flush()
    (name,) = read(lab.evidence).logs()
    before = len(list(read(lab.evidence).entries()))
    done = export_log(read(lab.evidence).store, name, lab.root / "out")
    assert done.size <= before
    TileLog(Path(done.folder), public()).check()


@pytest.mark.parametrize("which", ["tile/0/000.p/*", "tile/entries/000.p/*"])
@pytest.mark.parametrize("how", ["changed", "cut", "emptied", "longer"])
def test_other_bytes_are_never_overwritten(lab: Any, which: str, how: str) -> None:
    lab.record()
    folder = exported(lab)
    (path,) = folder.glob(which)
    data = path.read_bytes()
    other = {
        "changed": bytes([data[0] ^ 1]) + data[1:],
        "cut": data[:-1],
        "emptied": b"",
        "longer": data + b"x",
    }[how]
    path.write_bytes(other)
    with pytest.raises(CounterfoilError) as caught:
        exported(lab)
    assert (caught.value.code, path.read_bytes()) == ("CF-EXPORT-002", other)


@pytest.mark.parametrize(
    ("which", "code"), [("tile/0/000.p/*", "CF-EXPORT-002"), ("checkpoint", "CF-EXPORT-003")]
)
def test_of_a_file_that_is_there_no_more_is_read_than_it_may_have(lab: Any, which: str, code: str) -> None:
    lab.record()
    (path,) = exported(lab).glob(which)
    os.truncate(path, 1 << 36)  # a hole: nothing of it is on the disk
    with pytest.raises(CounterfoilError) as caught:
        exported(lab)
    assert (caught.value.code, path.stat().st_size) == (code, 1 << 36)


def test_another_checkpoint_is_never_overwritten(lab: Any, one_run: Any) -> None:
    """One of another log, of another history of this one, of a longer one, or none at all."""
    lab.record()
    folder = exported(lab)
    place = folder / "checkpoint"
    text = notes.Note.parse(place.read_bytes()).text
    checkpoint = notes.Checkpoint.parse(text)
    identity = keys.load_identity()
    assert identity is not None
    stranger = keys.SigningKey.generate()
    wrong = [
        b"",
        b"no note",
        notes.sign_note(text, checkpoint.origin, stranger).encode(),
        notes.sign_note(text, "other", identity).encode(),
    ]
    for size, root in (
        (checkpoint.size, bytes(32)),
        (checkpoint.size - 1, checkpoint.root),
        (checkpoint.size + 1, checkpoint.root),
    ):
        changed = notes.Checkpoint(checkpoint.origin, size, root).to_text()
        wrong.append(notes.sign_note(changed, checkpoint.origin, identity).encode())
    for data in wrong:
        place.write_bytes(data)
        with pytest.raises(CounterfoilError) as caught:
            exported(lab)
        assert (caught.value.code, place.read_bytes()) == ("CF-EXPORT-003", data)
    place.unlink()
    exported(lab)
    assert notes.Note.parse(place.read_bytes()).text == text


def test_an_export_never_follows_links(lab: Any) -> None:
    lab.record()
    folder = exported(lab)
    (tile,) = folder.glob("tile/0/000.p/*")
    elsewhere = lab.root / "elsewhere.bin"
    shutil.move(tile, elsewhere)
    tile.symlink_to(elsewhere)
    with pytest.raises(CounterfoilError) as caught:
        exported(lab)
    assert caught.value.code == "CF-EXPORT-005"


def test_the_independent_reader_refuses(lab: Any) -> None:
    """The reader of these tests is no rubber stamp."""
    lab.record()
    folder = exported(lab)
    (tile,) = folder.glob("tile/0/000.p/*")
    data = tile.read_bytes()
    tile.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(AssertionError):
        TileLog(folder, public()).check()
    with pytest.raises((InvalidSignature, AssertionError)):
        TileLog(folder, keys.SigningKey.generate().public.raw)
