"""Evidence that is full, refused or read-only while somebody writes into it, and every way a file can fail."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
from typing import Any

import pytest
from forging import codes
from losing import some, starts, wait

import counterfoil
from counterfoil import writer
from counterfoil.stores import FolderStore

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
    end = time.monotonic() + 120
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
