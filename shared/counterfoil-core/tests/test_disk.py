"""A disk that fills, fails or refuses: nothing acknowledged is lost, the rest is counted, and recording goes on."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys, writer
from counterfoil.errors import ConfigError, CounterfoilError, StoreError
from counterfoil.recorder import Recorder


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


def digests(evidence: Path) -> set[str]:
    return {call.start_digest for call in counterfoil.read(evidence).calls()}


def codes(result: Any) -> set[str]:
    return {finding.code for finding in result.findings}


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def some(recorder: Recorder, count: int = 20) -> list[str]:
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    out = [root.start]
    for number in range(count):
        request = recorder.value({"text": f"{number} " * 300, "noise": os.urandom(300)})
        call = recorder.start("step", str(number), actor=("node",), parent=root, request=request)
        recorder.end(call, response=request)
        out.append(call.start)
    recorder.end(root)
    return out


def test_a_disk_that_is_full_from_the_start(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    disk.room = 0
    made = some(recorder)
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
    assert set(made) <= digests(lab.evidence)


@pytest.mark.parametrize("room", [0, 1, 15, 16, 17, 300, 1000, 2500, 4000, 7777])
def test_a_disk_that_fills_in_the_middle_of_anything(lab: Any, disk: Disk, room: int) -> None:
    recorder = lab.recorder()
    first = some(recorder)
    assert recorder.flush()
    before = lab.segments()[0].read_bytes()
    disk.room = room
    second = some(recorder)
    assert not recorder.flush()
    assert set(first) <= digests(lab.evidence)
    assert lab.segments()[0].read_bytes().startswith(before)
    disk.room = 1 << 60
    wait(recorder.flush)
    third = some(recorder)
    recorder.close()
    assert recorder.losses == 0
    result = lab.verify()
    assert codes(result) == {"CF-VERIFY-020"}
    assert result.verdict == "incomplete"
    assert {*first, *second, *third} <= digests(lab.evidence)
    assert [path.name for path in lab.segments()] == ["00000000.seg", "00000001.seg"]
    assert lab.verify_elsewhere().verdict == "incomplete"
    lab.record()
    assert lab.verify().verdict == "incomplete"


def test_a_disk_that_fills_again_and_again(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    made: list[str] = []
    for round in range(6):
        made += some(recorder, 5)
        disk.room = 700 * round
        made += some(recorder, 5)
        assert not recorder.flush() or disk.room > 0
        disk.room = 1 << 60
        wait(recorder.flush)
    recorder.close()
    result = lab.verify()
    assert codes(result) == {"CF-VERIFY-020"}
    assert set(made) <= digests(lab.evidence)


def test_a_disk_that_stays_full_is_asked_once_a_while_and_gathers_no_files(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    some(recorder)
    assert recorder.flush()
    disk.room = 0
    end = time.monotonic() + 1
    while time.monotonic() < end:
        some(recorder, 1)
        time.sleep(0.002)
    assert 2 <= disk.attempts <= 40
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
    first = some(recorder)
    assert recorder.flush()
    disk.room = 0
    some(recorder, 1)
    assert not recorder.flush()
    during = [one for _ in range(20) for one in some(recorder, 10)]
    lost = recorder.open().lost
    assert lost > 100
    disk.room = 1 << 60
    wait(recorder.flush)
    after = some(recorder)
    recorder.close()
    result = lab.verify()
    kept = digests(lab.evidence)
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
    some(recorder, 1)
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
    made = some(recorder)
    assert recorder.flush()
    disk.sync_errors = 1
    made += some(recorder)
    assert not recorder.flush()
    wait(recorder.flush)
    made += some(recorder)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, codes(result) - {"CF-VERIFY-026"}) == ("incomplete", {"CF-VERIFY-020"})
    assert set(made) <= digests(lab.evidence)


def test_a_disk_that_never_comes_back(lab: Any, disk: Disk) -> None:
    recorder = lab.recorder()
    made = some(recorder)
    assert recorder.flush()
    disk.room = 0
    disk.error = errno.EIO
    some(recorder)
    recorder.close()
    assert recorder.losses > 40
    assert recorder.error is not None
    assert recorder.error.code == "CF-STORE-001"
    result = lab.verify()
    assert result.verdict in ("intact", "incomplete")
    assert set(made) <= digests(lab.evidence)


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
    made = some(recorder)
    assert recorder.flush()
    failures = iter([MemoryError(), KeyError("x"), RuntimeError("y")])
    real = writer.Writer._pack

    def pack(self: Any, *arguments: Any) -> Any:
        for failure in failures:
            raise failure
        return real(self, *arguments)

    monkeypatch.setattr(writer.Writer, "_pack", pack)
    made += some(recorder)
    assert not recorder.flush()
    assert recorder.open().error.code == "CF-LOG-034"
    wait(recorder.flush)
    recorder.close()
    assert set(made) <= digests(lab.evidence)
    assert codes(lab.verify()) == {"CF-VERIFY-020"}


def test_a_writer_thread_that_dies_keeps_nobody_waiting(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = lab.recorder()
    some(recorder)
    assert recorder.flush()

    def die(self: Any, *arguments: Any, **named: Any) -> bool:
        raise SystemExit

    monkeypatch.setattr(writer.Writer, "_commit", die)
    dead = recorder.open()
    some(recorder)
    assert not recorder.flush(timeout=20)
    assert dead.error.code == "CF-LOG-033"
    some(recorder)
    assert not recorder.flush(timeout=20)
    assert recorder.losses > 40
    # Another writer takes its place, and the losses are told in the log.
    monkeypatch.undo()
    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    wait(lambda: recorder._open() is not None)
    made = some(recorder)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("incomplete", 1)
    assert result.counts["losses"] > 40
    assert set(made) <= digests(lab.evidence)


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
    assert made <= digests(lab.evidence)


# -- places that cannot be used ---------------------------------------------------------------------------------------


def refused(recorder: Recorder) -> CounterfoilError:
    """Recording goes on without a log and without an error; opening tells why."""
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value("x" * 500))
    recorder.end(root)
    assert recorder.flush() is False
    assert recorder.losses == 2
    assert recorder.error is not None
    with pytest.raises(CounterfoilError) as caught:
        recorder.open()
    assert caught.value.code == recorder.error.code
    assert caught.value.hint
    recorder.close()
    return recorder.error


def test_the_evidence_is_a_file(lab: Any) -> None:
    lab.evidence.write_text("mine")
    assert refused(lab.recorder()).code == "CF-STORE-003"
    assert lab.evidence.read_text() == "mine"
    with pytest.raises(StoreError) as caught:
        lab.verify()
    assert caught.value.code == "CF-STORE-003"


def test_a_file_stands_in_the_way_of_the_folder(lab: Any) -> None:
    lab.evidence.write_text("mine")
    assert refused(lab.recorder(lab.evidence / "below")).code.startswith("CF-STORE-00")


def test_a_folder_that_cannot_be_written(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert refused(lab.recorder()).code == "CF-STORE-006"
    assert lab.verify().verdict == "intact"


def test_a_folder_on_a_read_only_disk(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()
    real = os.open

    def read_only(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if str(path).endswith(".seg") and flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(writer, "RETRY", 0.05)
    recorder = lab.recorder()
    some(recorder, 1)
    assert not recorder.flush()
    assert recorder.open().error.code == "CF-STORE-005"
    recorder.close()
    assert recorder.losses == 4
    assert lab.verify().verdict == "intact"


def test_an_identity_key_that_others_can_read(lab: Any) -> None:
    keys.load_or_create_identity()
    (lab.home / "identity.pem").chmod(0o644)
    assert refused(lab.recorder()).code == "CF-KEYS-006"
    assert not lab.evidence.exists()


def test_a_home_that_is_a_file(lab: Any) -> None:
    lab.home.write_text("mine")
    assert refused(lab.recorder()).code == "CF-KEYS-003"


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        ("", "CF-CONFIG-011"),
        ("s3://bucket/prefix", "CF-CONFIG-010"),
        ("a\x00b", "CF-CONFIG-012"),
    ],
)
def test_paths_that_are_none(lab: Any, evidence: str, code: str) -> None:
    assert refused(Recorder(evidence)).code == code
    with pytest.raises(ConfigError) as caught:
        counterfoil.read(evidence)
    assert caught.value.code == code


def test_a_place_that_becomes_usable(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    lab.evidence.write_text("in the way")
    recorder = lab.recorder()
    value = {"text": "x" * 1000, "more": ["y" * 1000]}
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value(value))
    step = recorder.start("step", "node", actor=("node",), parent=root, request=recorder.value(value))
    lab.evidence.unlink()
    other = recorder.start(
        "step",
        "other",
        actor=("node",),
        parent=root,
        request=recorder.value(value),
        parents=[("control", step)],
    )
    recorder.handoff(
        senders=[("node",)],
        to=("other",),
        signer=("node",),
        kind="edge",
        basis="observed",
        payload=recorder.value(value),
        parents=[("control", step)],
        run=root.run,
    )
    recorder.end(step, response=recorder.value(value))
    recorder.end(other)
    recorder.end(root)
    recorder.close()
    result = lab.verify()
    assert result.verdict == "incomplete"
    assert codes(result) == {"CF-VERIFY-021"}
    reader = counterfoil.read(lab.evidence)
    assert [call.name for call in reader.calls()] == ["other"]
    assert reader.value(reader.calls()[0].request) == value


def test_a_log_that_cannot_be_read_is_left_alone(lab: Any) -> None:
    lab.record()
    segment = lab.segments()[0]
    data = segment.read_bytes()
    segment.unlink()
    segment.mkdir()
    lab.record()
    assert len(counterfoil.read(lab.evidence).logs()) == 2
    segment.rmdir()
    segment.write_bytes(data)
    assert lab.verify().verdict == "intact"


def test_nothing_is_left_behind_when_an_opening_is_cut(lab: Any) -> None:
    """What a kill leaves of the very first steps: a folder, an empty .gitignore, a log without a segment."""
    lab.evidence.mkdir(mode=0o700)
    assert lab.verify().verdict == "cannot-tell"
    (lab.evidence / ".gitignore").write_bytes(b"*")
    lab.record()
    assert lab.verify().verdict == "intact"
    (lab.evidence / ("ab" * 8)).mkdir()
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("incomplete", {"CF-VERIFY-024"})
    for size in (0, 5, 16, 40):
        empty = lab.evidence / ("ab" * 8) / "00000000.seg"
        empty.write_bytes(lab.segments()[0].read_bytes()[:size])
        assert lab.verify().verdict == "incomplete"
