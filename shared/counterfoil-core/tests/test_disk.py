"""A disk that fills, fails or refuses: nothing acknowledged is lost, the rest is counted, and recording goes on."""

from __future__ import annotations

import errno
import os
import time
from typing import Any

import pytest
from forging import codes
from losing import starts, wait, workflow

import counterfoil
from counterfoil import writer


class Disk:
    """Stands between the writer and the disk: lets so many bytes pass, then fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 60
        self.error = errno.ENOSPC
        self.sync_errors = 0
        self.attempts = 0
        self._write, self._sync = os.write, os.fdatasync
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "fdatasync", self.sync)
        monkeypatch.setattr(writer, "RETRY", 0.05)

    def write(self, fd: int, data: Any) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".seg"):
            if self.room <= 0:
                self.attempts += 1
                raise OSError(self.error, os.strerror(self.error))
            data = data[: min(len(data), self.room, 100_000)]
            self.room -= len(data)
        return self._write(fd, data)

    def sync(self, fd: int) -> None:
        if self.sync_errors:
            self.sync_errors -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._sync(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_disk_that_is_full_from_the_start(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    disk.room = 0
    made = workflow(recorder)
    assert not recorder.flush()
    assert recorder.open().error is not None
    assert recorder.open().error.code == "CF-STORE-004"
    assert lab.segments() == []
    disk.room = 1 << 60
    wait(recorder.flush)
    recorder.close()
    assert recorder.losses == 0
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert set(made) <= starts(lab.evidence)


@pytest.mark.parametrize("room", [0, 1, 15, 16, 17, 300, 1000, 2500, 4000, 7777])
def test_a_disk_that_fills_in_the_middle_of_anything(lab: Any, disk: Disk, room: int) -> None:
    recorder = lab.recorder()
    first = workflow(recorder)
    assert recorder.flush()
    before = lab.segments()[0].read_bytes()
    disk.room = room
    second = workflow(recorder)
    assert not recorder.flush()
    assert set(first) <= starts(lab.evidence)
    assert lab.segments()[0].read_bytes().startswith(before)
    disk.room = 1 << 60
    wait(recorder.flush)
    third = workflow(recorder)
    recorder.close()
    assert recorder.losses == 0
    result = lab.verify()
    assert codes(result) == {"CF-VERIFY-020"}
    assert result.verdict == "incomplete"
    assert {*first, *second, *third} <= starts(lab.evidence)
    assert [path.name for path in lab.segments()] == ["00000000.seg", "00000001.seg"]
    assert lab.verify_elsewhere().verdict == "incomplete"
    lab.record()
    assert lab.verify().verdict == "incomplete"


def test_a_disk_that_fills_again_and_again(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    made: list[str] = []
    for round in range(6):
        made += workflow(recorder, 5)
        disk.room = 700 * round
        made += workflow(recorder, 5)
        assert not recorder.flush() or disk.room > 0
        disk.room = 1 << 60
        wait(recorder.flush)
    recorder.close()
    result = lab.verify()
    assert codes(result) == {"CF-VERIFY-020"}
    assert set(made) <= starts(lab.evidence)


def test_a_disk_that_stays_full_is_asked_once_a_while_and_gathers_no_files(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    workflow(recorder)
    assert recorder.flush()
    disk.room = 0
    began = time.monotonic()
    while (took := time.monotonic() - began) < 1 or disk.attempts < 2:
        assert took < 120
        workflow(recorder, 1)
        time.sleep(0.002)
    assert disk.attempts <= 40 * max(took, 1)
    assert len(lab.segments()) <= 2  # the second is the attempt that is being made
    disk.room = 1 << 60
    wait(recorder.flush)
    recorder.close()
    assert len(lab.segments()) == 2
    assert codes(lab.verify()) == {"CF-VERIFY-020"}


class Counting:
    """A queue that counts how often its reader wakes."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.woken = 0

    def get(self, *, timeout: float | None = None) -> Any:
        self.woken += 1
        return self.real.get(timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def test_a_writer_that_waits_for_the_disk_sleeps(
    lab: Any, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when all it has to write is a checkpoint that is overdue."""
    monkeypatch.setattr(writer, "DELAY", 0.05)
    recorder = lab.recorder()
    open_writer = recorder.open()
    counting = Counting(open_writer._queue)
    open_writer._queue = counting
    recorder.start("invoke_workflow", "app", actor=("app",))
    assert recorder.flush()
    disk.room = 0
    wait(lambda: disk.attempts >= 5)
    assert counting.woken <= 4 * disk.attempts + 10
    disk.room = 1 << 60
    wait(lambda: open_writer._covered == open_writer._index)
    recorder.close()
    assert codes(lab.verify()) == {"CF-VERIFY-020"}


def test_when_too_much_waits_the_loss_is_counted_in_the_log(
    lab: Any, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PENDING_MAX", 40_000)
    recorder = lab.recorder()
    first = workflow(recorder)
    assert recorder.flush()
    disk.room = 0
    workflow(recorder, 1)
    assert not recorder.flush()
    during = [one for _ in range(20) for one in workflow(recorder, 10)]
    lost = recorder.open().lost
    assert lost > 100
    disk.room = 1 << 60
    wait(recorder.flush)
    after = workflow(recorder)
    recorder.close()
    result = lab.verify()
    kept = starts(lab.evidence)
    assert {*first, *after} <= kept
    assert result.verdict == "incomplete"
    assert "CF-VERIFY-021" in codes(result)
    assert codes(result) <= {"CF-VERIFY-020", "CF-VERIFY-021", "CF-VERIFY-025"}
    # Every record that is not there is counted: lost starts are also missing from what `start` promised.
    assert {one for one in during if one} <= kept
    assert result.counts["losses"] >= lost
    reader = counterfoil.read(lab.evidence)
    for call in reader.calls():
        assert reader.value(call.request) is not None or call.request is None


def test_values_given_while_the_disk_was_full_are_given_again(
    lab: Any, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PENDING_MAX", 10_000)
    recorder = lab.recorder()
    assert recorder.open()
    disk.room = 0
    workflow(recorder, 1)
    assert not recorder.flush()
    value = {"history": ["a long text " * 100, "another one " * 300]}
    for _ in range(50):
        recorder.value([value, os.urandom(1000)])
    disk.room = 1 << 60
    wait(recorder.flush)
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value(value))
    recorder.end(root)
    recorder.close()
    assert "broken" not in {finding.verdict for finding in lab.verify().findings}
    reader = counterfoil.read(lab.evidence)
    assert reader.value(reader.calls()[-1].request) == value


def test_a_sync_that_fails(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    made = workflow(recorder)
    assert recorder.flush()
    disk.sync_errors = 1
    made += workflow(recorder)
    assert not recorder.flush()
    wait(recorder.flush)
    made += workflow(recorder)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, codes(result) - {"CF-VERIFY-026"}) == ("incomplete", {"CF-VERIFY-020"})
    assert set(made) <= starts(lab.evidence)


def test_a_disk_that_never_comes_back(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    made = workflow(recorder)
    assert recorder.flush()
    disk.room = 0
    disk.error = errno.EIO
    workflow(recorder)
    recorder.close()
    assert recorder.losses > 40
    assert recorder.error is not None
    assert recorder.error.code == "CF-STORE-001"
    result = lab.verify()
    assert result.verdict in ("intact", "incomplete")
    assert set(made) <= starts(lab.evidence)


def test_durability_call_tells_what_was_not_on_disk(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder(durability="call")
    root = recorder.start("invoke_workflow", "app", actor=("app",), wait=True)
    disk.sync_errors = 1
    recorder.start("step", "node", actor=("node",), parent=root, wait=True)
    recorder.end(root)
    recorder.close()
    assert recorder.losses == 1
    assert "CF-VERIFY-021" in codes(lab.verify())


def test_a_writer_that_fails_for_its_own_reasons_says_so(
    lab: Any, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = lab.recorder()
    made = workflow(recorder)
    assert recorder.flush()
    failures = iter([MemoryError(), KeyError("x"), RuntimeError("y")])
    real = writer.Writer._pack

    def pack(self: Any, *arguments: Any) -> Any:
        for failure in failures:
            raise failure
        return real(self, *arguments)

    monkeypatch.setattr(writer.Writer, "_pack", pack)
    made += workflow(recorder)
    assert not recorder.flush()
    assert recorder.open().error.code == "CF-LOG-034"
    wait(recorder.flush)
    recorder.close()
    assert set(made) <= starts(lab.evidence)
    assert codes(lab.verify()) == {"CF-VERIFY-020"}


def test_a_writer_thread_that_dies_keeps_nobody_waiting(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = lab.recorder()
    workflow(recorder)
    assert recorder.flush()

    def die(self: Any, *arguments: Any, **named: Any) -> bool:
        raise SystemExit

    monkeypatch.setattr(writer.Writer, "_commit", die)
    dead = recorder.open()
    workflow(recorder)
    assert not recorder.flush(timeout=20)
    assert dead.error.code == "CF-LOG-033"
    workflow(recorder)
    assert not recorder.flush(timeout=20)
    assert recorder.losses > 40
    # Another writer takes its place, and the losses are told in the log.
    monkeypatch.undo()
    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    wait(lambda: recorder._open() is not None)
    made = workflow(recorder)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("incomplete", 1)
    assert result.counts["losses"] > 40
    assert set(made) <= starts(lab.evidence)


LIMITED = """
import resource, sys, time
from counterfoil import writer
from counterfoil.recorder import Recorder
writer.RETRY = 0.05
recorder = Recorder(sys.argv[1])
root = recorder.start("invoke_workflow", "app", actor=("app",))
def some(count):
    import os
    for number in range(count):
        request = recorder.value(os.urandom(500))
        call = recorder.start("step", str(number), actor=("node",), parent=root, request=request)
        recorder.end(call)
        print(call.start)
some(20)
assert recorder.flush()
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
some(60)
assert not recorder.flush()
assert recorder.open().error.code == "CF-STORE-001", recorder.open().error
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
while not recorder.flush():
    time.sleep(0.02)
some(5)
recorder.end(root)
recorder.close()
assert recorder.losses == 0
"""


@pytest.mark.parametrize("limit", [25_000, 31_337])
def test_a_real_limit_cuts_a_write_in_the_middle(lab: Any, limit: int) -> None:
    made = set(lab.python(LIMITED, limit).split())
    assert len(made) == 85
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("incomplete", {"CF-VERIFY-020"})
    assert made <= starts(lab.evidence)
