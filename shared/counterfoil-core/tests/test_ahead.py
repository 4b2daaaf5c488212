"""A group is made while the disk is busy with the one before: whatever becomes of them, nothing is lost or doubled."""

from __future__ import annotations

import errno
import gzip
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import packing, records, segments, writer
from counterfoil.digest import sha256_hex

DISK = "counterfoil-disk"


class Busy:
    """A disk that waits until ``free`` is set; writes or syncs (``call``) of the named numbers then fail, if beside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failing: int, call: str = "fdatasync") -> None:
        self.free = threading.Event()
        self.beside = 0
        self._failing, self._call = failing, call
        self._real = {name: getattr(os, name) for name in ("write", "fdatasync")}
        monkeypatch.setattr(os, "write", lambda fd, data: self._pass("write", fd, data))
        monkeypatch.setattr(os, "fdatasync", lambda fd: self._pass("fdatasync", fd))
        monkeypatch.setattr(writer, "RETRY", 0.05)
        monkeypatch.setattr(writer, "GROUP", 8)

    def _pass(self, call: str, *arguments: Any) -> Any:
        self.free.wait(60)
        if call == self._call and threading.current_thread().name == DISK:
            self.beside += 1
            if self.beside in self._failing:
                if call == "write":
                    self._real["write"](arguments[0], arguments[1][:33])
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._real[call](*arguments)


def record(number: int) -> bytes:
    return records.build({"name": f"n{number}", "op": "custom", "phase": "point"}, {"at": number})


def kept(evidence: Path) -> list[int]:
    """The numbers of the records in the log, in its order."""
    bodies = (entry.body for entry in counterfoil.read(evidence).entries())
    names = (body["content"].get("name", "") for body in bodies if body["content"]["op"] == "custom")
    return [int(name[1:]) for name in names]


def begun(lab: Any) -> tuple[Any, Any]:
    """A recorder and its writer, with record 0 on disk."""
    recorder = lab.recorder()
    log = recorder.open()
    assert log.entry(record(0))
    assert log.flush()
    return recorder, log


def wait(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_groups_are_made_while_the_disk_is_busy(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, log = begun(lab)
    disk = Busy(monkeypatch)
    for number in range(1, 100):
        assert log.entry(record(number))
    disk.free.set()
    assert log.flush()
    recorder.close()
    assert disk.beside > 3
    assert kept(lab.evidence) == list(range(100))
    assert lab.verify().verdict == "intact"


@pytest.mark.parametrize("call", ["write", "fdatasync"])
@pytest.mark.parametrize("failing", [(1,), (2,), (5,), (1, 2, 3), (3, 5)])
def test_a_disk_that_fails_while_the_next_group_is_made(
    lab: Any, monkeypatch: pytest.MonkeyPatch, failing: tuple[int, ...], call: str
) -> None:
    recorder, log = begun(lab)
    disk = Busy(monkeypatch, *failing, call=call)
    blobs = []
    for number in range(1, 100):
        data = f"{number} ".encode() * 50
        blobs.append(sha256_hex(data))
        assert log.blob(blobs[-1], data)
        assert log.entry(record(number))
    disk.free.set()
    wait(log.flush)
    assert log.error is None
    recorder.close()
    assert disk.beside >= max(failing)
    assert recorder.losses == 0
    # Every failure gives its segment up; what counts of it was acknowledged, so that nothing stands there twice.
    assert kept(lab.evidence) == list(range(100))
    result = lab.verify()
    assert result.verdict == "incomplete"
    assert {finding.code for finding in result.findings} == {"CF-VERIFY-020"}
    reader = counterfoil.read(lab.evidence)
    assert [sha256_hex(reader.blob(one)) for one in blobs] == blobs


def test_a_group_that_cannot_be_made_takes_nothing_from_the_one_before(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, log = begun(lab)
    disk = Busy(monkeypatch)
    real, calls = writer.Writer._pack, []

    def pack(self: Any, *arguments: Any) -> Any:
        calls.append(self._flight is not None)
        if calls.count(True) == 1 and calls[-1]:
            raise MemoryError
        return real(self, *arguments)

    monkeypatch.setattr(writer.Writer, "_pack", pack)
    for number in range(1, 60):
        assert log.entry(record(number))
    disk.free.set()
    wait(log.flush)
    recorder.close()
    assert True in calls
    assert recorder.losses == 0
    assert kept(lab.evidence) == list(range(60))
    assert {finding.code for finding in lab.verify().findings} == {"CF-VERIFY-020"}


def test_where_no_thread_can_be_started_the_writer_syncs_itself(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, log = begun(lab)
    disk = Busy(monkeypatch)
    asked = []

    def start(self: packing.Beside) -> None:
        asked.append(self)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(packing.Beside, "start", start)
    for number in range(1, 60):
        assert log.entry(record(number))
    disk.free.set()
    assert log.flush()
    recorder.close()
    assert asked
    assert disk.beside == 0
    assert kept(lab.evidence) == list(range(60))
    assert lab.verify().verdict == "intact"


def test_the_log_removed_while_a_sync_goes_on(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, log = begun(lab)
    disk = Busy(monkeypatch)
    for number in range(1, 60):
        assert log.entry(record(number))
    (segment,) = lab.segments()
    segment.unlink()
    disk.free.set()
    assert not log.flush()
    recorder.close()
    assert disk.beside >= 1
    assert log.lost > 0
    assert recorder.losses >= log.lost


def test_what_is_compressed_already_is_stored_as_it_is(lab: Any) -> None:
    chance = random.Random(1)
    packed = [gzip.compress(chance.randbytes(size), mtime=0) for size in (100, 5000, 70_000)]
    holed = gzip.compress(b"x", mtime=0) + bytes(5000) + chance.randbytes(500)
    assert [packing.packed_already(data) for data in (*packed, holed, b"text " * 99)] == [True] * 3 + [
        False
    ] * 2
    recorder = lab.recorder()
    log = recorder.open()
    references = []
    for data in (*packed, holed):
        sha256 = sha256_hex(data)
        assert log.blob(sha256, data)
        references.append({"media": "application/octet-stream", "sha256": sha256, "size": len(data)})
    content = {
        "name": "n0",
        "op": "custom",
        "phase": "point",
        "request": references[0],
        "response": references[3],
    }
    assert log.entry(records.build(content, {"at": 1}))
    assert log.flush()
    recorder.close()
    (segment,) = lab.segments()
    stored = segment.read_bytes()
    assert all(data in stored for data in packed)
    assert bytes(600) not in stored
    with segment.open("rb") as file:
        raw = [chunk.data for chunk in segments.read_chunks(file, where="") if chunk.form == 0]
    assert raw[0] == b"".join(segments.pack_item(segments.BLOB, data) for data in packed)
    assert lab.verify().verdict == "intact"
