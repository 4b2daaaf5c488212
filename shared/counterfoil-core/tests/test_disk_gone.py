"""Evidence that is full, refused, removed or moved while somebody writes into it, by the kernel where it lets us.

A limit on the size of files does it everywhere. Where a process may mount a disk of its own (as root, or in a user
namespace) there are further tests that fill and remount that; elsewhere they are not collected, and nothing stands in
for them under their name.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import _locks, keys, writer
from counterfoil.recorder import Recorder
from counterfoil.stores import FolderStore


def codes(result: Any) -> set[str]:
    return {finding.code for finding in result.findings}


def starts(evidence: Path) -> set[str]:
    return {call.start_digest for call in counterfoil.read(evidence).calls()}


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def some(recorder: Recorder, count: int = 5) -> list[str]:
    made = []
    for number in range(count):
        request = recorder.value({"text": f"{number} " * 300, "noise": os.urandom(300)})
        call = recorder.start("invoke_workflow", str(number), actor=("app",), request=request)
        recorder.end(call, response=request)
        made.append(call.start)
    return made


# -- a disk of one's own ----------------------------------------------------------------------------------------------

PLACE = """
import os, resource, signal, subprocess, sys, time
from pathlib import Path
import counterfoil
from counterfoil import keys, writer
from counterfoil.recorder import Recorder
writer.RETRY = 0.05
mounted = sys.argv[2] == "mounted"
disk = Path(sys.argv[1])
evidence = disk / "evidence"
disk.mkdir()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
if mounted:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(disk)], check=True)

def largest():
    return max((path.stat().st_size for path in evidence.glob("*/*.seg")), default=0)

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def fill(spare):
    if mounted:
        (disk / "ballast").write_bytes(bytes(max(0, room() - spare)))
    else:
        limit(largest() + spare if spare else 300)

def room():
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize

def empty():
    (disk / "ballast").unlink(missing_ok=True)
    limit(resource.RLIM_INFINITY)

def remount(how):
    if mounted:
        subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)
    else:
        limit(0 if how == "ro" else resource.RLIM_INFINITY)

def some(recorder, count):
    made = []
    for number in range(count):
        request = recorder.value(os.urandom(700))
        call = recorder.start("invoke_workflow", str(number), actor=("app",), request=request)
        recorder.end(call)
        made.append(call.start)
    return made

def kept():
    return {call.start_digest for call in counterfoil.read(evidence).calls()}

def judge(*acknowledged):
    result = counterfoil.verify(evidence)
    assert result.verdict in ("intact", "incomplete"), result.findings
    for made in acknowledged:
        assert set(made) <= kept()
    return result

def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)

recorder = Recorder(evidence)
first = some(recorder, 20)
assert recorder.flush()
"""

FULL = """
fill(60_000)
second = some(recorder, 200)
assert not recorder.flush()
assert recorder.open().error.code == ("CF-STORE-004" if mounted else "CF-STORE-001"), recorder.open().error
if mounted:
    # What fits is there: the group was not lost whole.
    assert 10 < len(set(second) & kept()) < 200, len(set(second) & kept())
judge(first)
empty()
until(recorder.flush)
third = some(recorder, 20)
recorder.close()
assert recorder.losses == 0
result = judge(first, second, third)
assert {one.code for one in result.findings} == {"CF-VERIFY-020"}
"""

STAYS_FULL = """
fill(60_000 if mounted else 0)
second = some(recorder, 200)
recorder.close()
there = set(second) & kept()
assert recorder.losses > 0
assert recorder.error is not None
if mounted:
    assert len(there) > 10
# Every entry is either there or counted.
entries = sum(1 for call in counterfoil.read(evidence).calls() for phase in (call.start_digest, call.end) if phase)
assert entries + recorder.losses == 2 * 220, (entries, recorder.losses)
judge(first)
empty()
after = Recorder(evidence)
made = some(after, 3)
after.close()
assert after.losses == 0
assert judge(first, there, made).counts["logs"] == 1
"""

READ_ONLY = """
second = some(recorder, 20)
recorder.close()
remount("ro")
refused = Recorder(evidence)
some(refused, 2)
assert not refused.flush()
refused.close()
assert refused.losses > 0
assert refused.error.code == ("CF-STORE-005" if mounted else "CF-STORE-001"), refused.error
assert judge(first, second).verdict == "intact"
remount("rw")
after = Recorder(evidence)
made = some(after, 3)
after.close()
assert judge(first, second, made).verdict == "intact"
"""


def namespace() -> tuple[str, ...] | None:
    """How to start a process that may mount; None where nobody lets us."""
    for words in (("unshare", "-m"), ("unshare", "-Urm")):
        if shutil.which("unshare"):
            done = subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
            if done.returncode == 0:
                return words
    return None


MOUNTING = namespace()
WHAT = pytest.mark.parametrize("what", [FULL, STAYS_FULL, READ_ONLY], ids=["full", "stays full", "read-only"])

if MOUNTING is not None:

    @WHAT
    def test_a_disk_of_its_own(lab: Any, what: str) -> None:
        """A file system that is full or read-only; there is such a test only where this process may mount one."""
        assert MOUNTING is not None
        lab.evidence = lab.root / "disk"
        lab.python(PLACE + what, "mounted", before=MOUNTING)


@WHAT
def test_a_limit_on_the_size_of_files(lab: Any, what: str) -> None:
    """The kernel refuses to write (EFBIG), for whoever asks: what a full or read-only disk does to a writer.

    The codes of those (CF-STORE-004, -005) are held by ``test_every_failure_is_told_and_passes``, anywhere.
    """
    lab.evidence = lab.root / "disk"
    lab.python(PLACE + what, "limited")


def test_no_more_files_may_be_opened(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The open segment is written on; what cannot be opened is told, and recording starts when it can be."""
    lab.python(
        """
        import os, resource, sys, time
        import counterfoil
        from counterfoil import intake, writer
        from counterfoil.recorder import Recorder
        intake._REOPEN = writer.RETRY = 0.05
        recorder = Recorder(sys.argv[1])
        def some(recorder):
            call = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value("x" * 400))
            recorder.end(call)
            return call.start
        made = [some(recorder)]
        assert recorder.flush()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = len(os.listdir("/proc/self/fd"))
        taken = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 4, hard))
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        made.append(some(recorder))
        assert recorder.flush()
        other = Recorder(sys.argv[1] + "-2")
        assert some(other) == ""
        assert other.losses == 2 and other.error is not None
        for fd in taken: os.close(fd)
        time.sleep(0.1)
        assert some(other) != ""
        other.close()
        recorder.close()
        calls = {call.start_digest for call in counterfoil.read(sys.argv[1]).calls()}
        assert set(made) <= calls
        assert counterfoil.verify(sys.argv[1]).verdict == "incomplete"  # a head could not be remembered
        assert counterfoil.verify(sys.argv[1] + "-2").counts["losses"] == 2
        """
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "CF-STORE-004"),
        (errno.EDQUOT, "CF-STORE-004"),
        (errno.EROFS, "CF-STORE-005"),
        (errno.EACCES, "CF-STORE-006"),
        (errno.EIO, "CF-STORE-001"),
        (errno.EMFILE, "CF-STORE-001"),
        (errno.ENFILE, "CF-STORE-001"),
        (errno.ESTALE, "CF-STORE-001"),
    ],
    ids=lambda one: errno.errorcode.get(one, one) if isinstance(one, int) else one,
)
@pytest.mark.parametrize("call", ["write", "fdatasync", "open"])
def test_every_failure_is_told_and_passes(
    lab: Any, monkeypatch: pytest.MonkeyPatch, call: str, number: int, code: str
) -> None:
    monkeypatch.setattr(writer, "RETRY", 0.02)
    recorder = lab.recorder(durability="call")
    made = some(recorder)
    assert recorder.flush()
    failing = True
    synced_after_failure: list[str] = []
    failed: set[str] = set()
    real = {name: getattr(os, name) for name in ("write", "fdatasync", "open")}

    def segment(fd: Any) -> str:
        path = os.readlink(f"/proc/self/fd/{fd}") if isinstance(fd, int) else os.fspath(fd)
        return path if path.endswith(".seg") else ""

    def fail(name: str, first: Any, *rest: Any, **named: Any) -> Any:
        path = segment(first)
        if name == "fdatasync" and path in failed:
            synced_after_failure.append(path)
        creating = name != "open" or rest[0] & os.O_CREAT
        if path and creating and failing and name in (call, "write" if call == "open" else call):
            failed.add(path)
            raise OSError(number, os.strerror(number))
        return real[name](first, *rest, **named)

    for name in real:
        monkeypatch.setattr(os, name, functools.partial(fail, name))
    root = recorder.start("invoke_workflow", "late", actor=("app",), wait=True)
    assert root.start
    assert recorder.open().error.code == code
    assert recorder.losses == 1  # the caller asked for the disk, and is told
    failing = False
    failed_then = set(failed)
    wait(recorder.flush)
    recorder.end(root)
    more = some(recorder)
    recorder.close()
    result = lab.verify()
    assert result.verdict == "incomplete"
    assert codes(result) <= {"CF-VERIFY-020", "CF-VERIFY-021", "CF-VERIFY-026"}
    assert {*made, *more, root.start} <= starts(lab.evidence)
    # A sync that failed is not tried again on the same file: its pages may be gone, and it would say that all is well.
    assert not [path for path in synced_after_failure if path in failed_then and os.path.exists(path)]


def test_what_fits_is_written(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group larger than the rest of the disk is written in parts; only what has no room is lost, and counted."""
    monkeypatch.setattr(writer, "RETRY", 0.02)
    recorder = lab.recorder()
    first = some(recorder)
    assert recorder.flush()
    room = 120_000
    real = os.write

    def write(fd: int, data: Any) -> int:
        nonlocal room
        if not os.readlink(f"/proc/self/fd/{fd}").endswith(".seg"):
            return real(fd, data)
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = real(fd, data[:room])
        room -= done
        return done

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(FolderStore, "room", lambda self: max(room, 0))
    second = some(recorder, 300)
    recorder.close()
    there = starts(lab.evidence)
    assert set(first) <= there
    # In order: what is there is a beginning of it.
    fits = [one in there for one in second]
    assert 50 < sum(fits) < 300
    assert fits == sorted(fits, reverse=True)
    entries = sum(bool(call.start_digest) + bool(call.end) for call in counterfoil.read(lab.evidence).calls())
    assert entries + recorder.losses == 2 * 305
    assert lab.verify().verdict == "incomplete"
    assert lab.verify_elsewhere().verdict == "incomplete"
    room = 1 << 60
    lab.record()
    after = lab.verify()
    assert (after.verdict, after.counts["logs"]) == ("incomplete", 1)
    assert there <= starts(lab.evidence)


# -- removed, moved, replaced -----------------------------------------------------------------------------------------


def lose(lab: Any, how: Callable[[Path], object]) -> tuple[Recorder, list[str], list[str]]:
    """Something happens to the place of a writer; what it was given before and after."""
    recorder = lab.recorder()
    before = some(recorder)
    recorder.open().checkpoint()
    wait(lambda: recorder.flush() and recorder.open().last_checkpoint())
    how(lab.evidence)
    some(recorder, 1)
    recorder.flush()
    wait(lambda: recorder.open().ended or not recorder.open().gone)
    after = some(recorder)
    assert recorder.flush()
    recorder.close()
    assert set(after) <= starts(lab.evidence)
    return recorder, before, after


def test_the_whole_folder_is_removed(lab: Any) -> None:
    """It is begun anew, and says what stood there."""
    recorder, _, _ = lose(lab, shutil.rmtree)
    assert recorder.losses == 2
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("incomplete", {"CF-VERIFY-021"})
    assert result.counts["losses"] == 2
    assert [note.code for note in result.notes] == ["CF-VERIFY-060"]


def test_the_log_is_removed(lab: Any) -> None:
    recorder, _, _ = lose(lab, lambda place: [shutil.rmtree(path) for path in place.glob("*/")])
    assert recorder.losses == 2
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("broken", 1)
    assert "CF-VERIFY-003" in codes(result)


def test_the_segment_is_removed(lab: Any) -> None:
    lose(lab, lambda place: [path.unlink() for path in place.glob("*/*.seg")])
    result = lab.verify()
    assert result.verdict == "broken"


def test_the_segment_is_replaced_by_a_copy(lab: Any) -> None:
    def replace(place: Path) -> None:
        for path in place.glob("*/*.seg"):
            shutil.copy(path, path.with_suffix(".copy"))
            path.with_suffix(".copy").rename(path)

    recorder, before, _ = lose(lab, replace)
    assert recorder.losses == 2
    assert set(before) <= starts(lab.evidence)
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("incomplete", 1)


def test_the_folder_is_moved_away(lab: Any) -> None:
    """What was written into the moved one stays whole there; recording goes on where it was asked for."""
    recorder, before, _ = lose(lab, lambda place: place.rename(lab.root / "moved"))
    assert recorder.losses == 0
    assert set(before) <= starts(lab.root / "moved")
    # Its session was never closed: what came afterwards is elsewhere.
    assert {one.code for one in lab.verify(lab.root / "moved").findings} == {"CF-VERIFY-027"}
    result = lab.verify()
    assert (result.verdict, [note.code for note in result.notes]) == ("intact", ["CF-VERIFY-060"])


def test_a_file_stands_where_the_folder_was(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    recorder = lab.recorder()
    some(recorder)
    assert recorder.flush()
    shutil.rmtree(lab.evidence)
    lab.evidence.write_text("mine")
    some(recorder, 1)
    recorder.flush()
    some(recorder, 1)
    assert not recorder.flush()
    assert recorder.error is not None
    assert recorder.error.code == "CF-STORE-003"
    lab.evidence.unlink()
    made = some(recorder)
    recorder.close()
    assert set(made) <= starts(lab.evidence)
    assert lab.verify().counts["losses"] == recorder.losses == 4
    assert lab.verify().verdict == "incomplete"


def test_the_home_is_removed(lab: Any) -> None:
    """The identity is gone with it: what is written on is signed by it all the same, and nobody here knows it."""
    recorder = lab.recorder()
    some(recorder)
    assert recorder.flush()
    identity = recorder.open().identity
    shutil.rmtree(lab.home)
    made = some(recorder)
    recorder.close()
    assert recorder.losses == 0
    assert set(made) <= starts(lab.evidence)
    assert lab.verify().verdict == "cannot-tell"
    ring = keys.Keyring.of([identity.public])
    assert counterfoil.verify(lab.evidence, keyring=ring).verdict == "intact"


def test_a_home_that_another_process_holds_holds_nobody_up(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped while it held the home's lock: the head is not remembered, and the log says so."""
    monkeypatch.setattr("counterfoil.appending.PATIENCE", 0.1)
    recorder = lab.recorder(durability="call")
    some(recorder)
    assert recorder.flush()
    with _locks.locked():
        root = recorder.start("invoke_workflow", "app", actor=("app",), wait=True)
        recorder.end(root)
        assert recorder.flush(timeout=20)
        wait(lambda: recorder.open()._forgetful)
    recorder.close()
    assert root.start in starts(lab.evidence)
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("incomplete", {"CF-VERIFY-021"})


def test_a_lock_that_is_stolen_lets_nobody_into_an_open_log(lab: Any) -> None:
    """The lock's file is removed: the folder of the log is held as well."""
    first = lab.recorder()
    some(first)
    assert first.flush()
    for path in (lab.home / "locks").iterdir():
        path.unlink()
    second = lab.recorder()
    some(second)
    assert second.flush()
    assert second.open().log != first.open().log
    some(first)
    first.close()
    second.close()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("intact", 2)


def test_a_thread_that_cannot_start_leaves_the_log_free(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    lab.record()
    real = threading.Thread.start
    refused: list[threading.Thread] = []

    def start(self: threading.Thread) -> None:
        if len(refused) < 3:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    open_files = len(os.listdir("/proc/self/fd"))
    recorder = lab.recorder()
    for _ in range(3):
        assert some(recorder, 1) != []
    assert len(os.listdir("/proc/self/fd")) <= open_files + 3
    made = some(recorder)
    recorder.close()
    assert set(made) <= starts(lab.evidence)
    assert lab.verify().counts["logs"] == 1


# -- an evidence folder behind a link ---------------------------------------------------------------------------------


def two_logs(lab: Any) -> str:
    """Evidence of two logs; the name of one that no other cites."""
    first, second = lab.recorder(), lab.recorder()
    some(first)
    some(second)
    assert first.flush()
    assert second.flush()
    first.close()
    second.close()
    cited = {
        one["log"]
        for entry in counterfoil.read(lab.evidence).records()
        if entry.op == "session"
        for one in entry.body["context"].get("seen", [])
    }
    return next(name for name in counterfoil.read(lab.evidence).logs() if name not in cited)


@pytest.mark.parametrize(
    "way", ["behind a link", "elsewhere", "behind two links", "its parent behind a link"]
)
def test_a_moved_folder_hides_no_deleted_log(lab: Any, way: str) -> None:
    lab.evidence = lab.root / "parent" / "evidence"
    name = two_logs(lab)
    moved = lab.root / "moved"
    place = lab.evidence
    if way == "elsewhere":
        place.rename(moved)
        place = moved
    elif way == "its parent behind a link":
        place.parent.rename(moved)
        place.parent.symlink_to(moved)
    else:
        place.rename(moved)
        if way == "behind two links":
            (lab.root / "link").symlink_to(moved)
            moved = lab.root / "link"
        place.symlink_to(moved)
    assert lab.verify(place).verdict == "intact"
    shutil.rmtree(place / name)
    result = lab.verify(place)
    assert result.verdict == "broken"
    assert "CF-VERIFY-003" in codes(result)
    lab.record(evidence=place)
    assert lab.verify(place).verdict == "broken"


def test_a_folder_behind_a_link_whose_only_log_was_deleted(lab: Any) -> None:
    lab.record()
    moved = lab.root / "moved"
    lab.evidence.rename(moved)
    lab.evidence.symlink_to(moved)
    shutil.rmtree(moved / counterfoil.read(moved).logs()[0])
    lab.record()
    assert "CF-VERIFY-003" in codes(lab.verify())


def test_a_part_that_was_copied_out_accuses_nobody(lab: Any) -> None:
    name = two_logs(lab)
    part = lab.root / "part"
    part.mkdir()
    (part / ".gitignore").write_bytes(b"*\n")
    (other,) = (one for one in counterfoil.read(lab.evidence).logs() if one != name)
    shutil.copytree(lab.evidence / name, part / name)
    assert other
    assert "CF-VERIFY-003" not in codes(lab.verify(part))
