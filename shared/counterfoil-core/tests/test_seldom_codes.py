"""Refusals that take somebody else's doing at the wrong moment: each is said by its code, and costs nothing else."""

from __future__ import annotations

import errno
import fcntl
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from forging import chunks

from counterfoil import choosing, keys, log, records, segments
from counterfoil.actors import ActorKeys
from counterfoil.errors import CounterfoilError, LogError, StoreError
from counterfoil.log import BlobSeen, LogScan
from counterfoil.reader import read
from counterfoil.recorder import Recorder
from counterfoil.statements import PARENTS_INLINE
from counterfoil.stores import FolderStore
from counterfoil.tlog.entrytexts import entry_texts


def blobs(store: FolderStore, name: str) -> list[BlobSeen]:
    return [event for event in LogScan(store, name).events() if isinstance(event, BlobSeen)]


def rebuilt(path: Path, change: Any) -> bytes:
    """The bytes of a segment, its chunks raw, with its items changed."""
    return b"".join(
        segments.raw_chunk(
            b"".join(
                segments.pack_item(*change(one.kind, one.data)) for one in segments.items(part, where="")
            )
        )
        for part in chunks(path)
    )


def test_stored_bytes_that_moved_or_changed_under_a_reader(lab: Any) -> None:
    lab.record()
    (path,) = lab.segments()
    path.write_bytes(rebuilt(path, lambda kind, data: (kind, data)))
    before = path.read_bytes()
    store = FolderStore(lab.evidence)
    (name,) = store.logs()
    seen = blobs(store, name)[-1]
    reader = read(lab.evidence)
    assert reader.blob(seen.sha256) == seen.data

    def other(kind: int, data: bytes) -> tuple[int, bytes]:
        return (
            (kind, bytes([data[0] ^ 1]) + data[1:])
            if (kind, data) == (segments.BLOB, seen.data)
            else (kind, data)
        )

    for changed, code in ((rebuilt(path, other), "CF-LOG-041"), (before[:200], "CF-LOG-0")):
        path.write_bytes(before)
        reader = read(lab.evidence)
        reader.blob(blobs(store, name)[0].sha256)  # where everything stands is known from here on
        reader._streams.clear()
        path.write_bytes(changed)
        with pytest.raises(LogError, match=code):
            reader.blob(seen.sha256)
    path.write_bytes(before)
    number, stream, start, position = seen.place
    with pytest.raises(LogError, match="CF-LOG-019"):
        log.read_blob(store, name, (number, stream, start, position + 1_000))
    with pytest.raises(LogError, match="CF-LOG-019"):
        log.read_blob(store, name, (number, stream, start + 1, position))


def test_a_record_that_is_too_long() -> None:
    made = records.build({"op": "custom", "text": "x" * (records.MAX_RECORD - 100)}, {})
    assert len(made) <= records.MAX_RECORD
    with pytest.raises(LogError, match="CF-LOG-020"):
        records.build({"op": "custom", "text": "x" * records.MAX_RECORD}, {})


def test_a_log_that_became_shorter(lab: Any) -> None:
    lab.record()
    store = FolderStore(lab.evidence)
    (name,) = store.logs()
    count = len(list(read(lab.evidence).entries()))
    assert len(list(entry_texts(store, name, count))) == count
    with pytest.raises(LogError, match="CF-LOG-024"):
        list(entry_texts(store, name, count + 1))


def test_a_new_log_that_somebody_holds_already(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = keys.load_or_create_identity()
    monkeypatch.setattr(choosing.secrets, "token_hex", lambda size: "ab" * size)
    store = FolderStore(lab.evidence)
    store.prepare()
    first = choosing.choose(store, identity)
    with pytest.raises(LogError, match="CF-LOG-030"):
        choosing.choose(store, identity)
    for lock in first.locks:
        choosing.unlock(lock)


def test_a_home_without_locks(
    lab: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file system that knows no locks: nothing is recorded, which is told once, and the application goes on."""
    keys.load_or_create_identity()

    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", flock)
        recorder = lab.recorder()
        call = recorder.start("invoke_workflow", "app", actor=("app",))
        recorder.end(call)
        assert isinstance(recorder.error, CounterfoilError)
        assert recorder.error.code in ("CF-LOG-032", "CF-KEYS-008")
        assert recorder.losses == 2
    assert "not recording" in caplog.text


def test_a_writer_that_cannot_be_made(
    lab: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("counterfoil.intake.Writer", full)
        recorder = lab.recorder()
        recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    assert (recorder.error.code, recorder.losses) == ("CF-LOG-032", 2)
    assert "Too many open files" in caplog.text


@pytest.mark.parametrize("what", ["_blob", "binding"])
def test_a_handoff_that_the_log_does_not_take(
    lab: Any, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The list of its parents, or the key of its sender: without it there is no handoff, and a loss is counted."""
    caplog.set_level(logging.ERROR)
    recorder: Recorder = lab.recorder()
    run = recorder.start("invoke_workflow", "app", actor=("app",))
    parents = []
    for number in range(PARENTS_INLINE + 1):
        step = recorder.start("step", "many", actor=("many",), parent=run, key=str(number))
        recorder.end(step)
        parents.append(("data", step))
    payload = recorder.value("text")
    if what == "_blob":
        monkeypatch.setattr(recorder, "_blob", lambda *_: False)
    else:
        monkeypatch.setattr(recorder._actors, "_log", lambda body: False)
    made = recorder.handoff(
        senders=[("many",)],
        to=("next",),
        signer=("many",),
        kind="edge",
        basis="observed",
        payload=payload,
        parents=parents,
        run=run.run,
    )
    assert made is None
    code = "CF-LOG-035" if what == "_blob" else "CF-LOG-036"
    assert code in caplog.text
    monkeypatch.undo()
    recorder.end(run)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.counts["losses"]) == ("incomplete", 1)


def test_an_actor_whose_binding_is_not_taken(lab: Any) -> None:
    identity = keys.load_or_create_identity()
    with pytest.raises(LogError, match="CF-LOG-036"):
        ActorKeys(identity, f"{identity.keyid}/{'a' * 16}", lambda body: False).key(("writer",))


def test_a_further_segment_of_a_log_that_is_gone(lab: Any) -> None:
    lab.record()
    store = FolderStore(lab.evidence)
    (name,) = store.logs()
    shutil.rmtree(lab.evidence / name)
    with pytest.raises(StoreError, match="CF-STORE-007"):
        store.create_segment(name, 1)
    assert not (lab.evidence / name).exists()
