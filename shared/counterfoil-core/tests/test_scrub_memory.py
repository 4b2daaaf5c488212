"""A scrub needs as much memory for a large segment as for a small one: it holds no copy of it."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from counterfoil.digest import sha256_hex
from counterfoil.errors import StoreError
from counterfoil.scrub.damage import Copy
from counterfoil.scrub.filebytes import WINDOW, FileBytes
from counterfoil.scrub.mending import Proposal

MIB = 1 << 20
SIZE = 64 * MIB
GROWTH = 32 * MIB

SCRUB = """
import json, pathlib, re, resource, sys
from counterfoil.scrub.scrubbing import scrub
def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # what getrusage tells begins, on Linux, with the peak of the process that started this one
        return int(re.search("VmHWM:\\s*(\\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
evidence, mirror, other, keep = sys.argv[1:]
before = peak()
told = scrub(evidence, mirrors=[mirror, other])
done = scrub(evidence, mirrors=[mirror, other], repair=True, keep=keep)
print(json.dumps([peak() - before, told.result, done.result, done.verdict, told.damage[0].at]))
"""


@pytest.fixture
def large(lab: Any) -> Path:
    """Evidence of one segment of 64 MiB and more, and its segment."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for _ in range(SIZE // MIB + 1):
        call = recorder.start(
            "step", "reads", actor=("reader",), parent=root, request=recorder.value(os.urandom(MIB))
        )
        recorder.end(call)
    recorder.end(root)
    recorder.close()
    found: list[Path] = lab.segments()
    assert found[0].stat().st_size >= SIZE
    return found[0]


def test_memory_does_not_grow_with_a_segment(lab: Any, large: Path) -> None:
    copies = [lab.root / "mirror", lab.root / "other"]
    for copy in copies:
        shutil.copytree(lab.evidence, copy)
    good = large.read_bytes()
    with large.open("r+b") as file:
        file.seek(SIZE // 2)
        file.write(bytes([good[SIZE // 2] ^ 1]))
        file.truncate(len(good) - 5)
    grown, told, done, verdict, at = json.loads(lab.python(SCRUB, *copies, lab.root / "keep"))
    print(f"{grown / MIB:.1f} MiB more for a segment of {len(good) / MIB:.0f} MiB")
    assert (told, done, verdict, at) == ("findings", "repaired", "intact", SIZE // 2)
    assert large.read_bytes() == good
    assert grown < GROWTH


def numbered(size: int) -> bytes:
    """Bytes that tell their own place."""
    return b"".join(b"%07d\n" % number for number in range(size // 8 + 1))[:size]


@pytest.mark.parametrize("size", [0, 1, 7, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 5])
def test_bytes_of_a_file_are_those_in_memory(tmp_path: Path, size: int) -> None:
    data = numbered(size)
    path = tmp_path / "file"
    path.write_bytes(data)
    found = FileBytes.at(path)
    places = [0, 1, 8, size // 2, WINDOW - 3, WINDOW, WINDOW + 3, 2 * WINDOW, size - 1, size, size + 9]
    for start in places:
        for end in (*places, start + 8, start + WINDOW, start + WINDOW + 1):
            if min(start, end) < 0:
                continue
            assert found[start:end] == data[start:end]
            assert b"".join(found.pieces(start, end)) == data[start:end]
            assert found.crc32(start, end, 5) == zlib.crc32(data[start:end], 5)
            assert found.same(FileBytes.of(data), start, end) == (end <= size)
            assert not found.same(FileBytes.of(data[: size // 2]), start, size + 1)
    for start in range(0, size, max(1, size // 13)):
        assert found[start] == data[start]
        for wanted in (b"\n", b"0\n", b"9\n0", b"\0\0\0"):
            assert found.find(wanted, start) == data.find(wanted, start)
    assert (len(found), found.sha256()) == (size, sha256_hex(data))


def test_zeros_and_what_stands_behind_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * WINDOW + 1) + b"x" + bytes(WINDOW))
    found = FileBytes.at(path)
    assert [found.solid(start) for start in (0, WINDOW, 3 * WINDOW + 1)] == [3 * WINDOW + 1] * 3
    assert found.solid(3 * WINDOW + 2) == -1
    assert found.find(b"\0x\0", 5) == 3 * WINDOW


def test_a_file_that_shrinks_meanwhile_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(numbered(2 * WINDOW))
    found = FileBytes.at(path)
    os.truncate(path, WINDOW + 5)
    with pytest.raises(StoreError) as caught:
        found.sha256()
    assert (caught.value.code, caught.value.where) == ("CF-SCRUB-007", str(path))


def test_what_is_put_together_from_copies(tmp_path: Path) -> None:
    """Ranges of copies one behind the other, compared with a copy without being written."""
    data = numbered(2 * WINDOW)
    one, other = Copy("one", data), Copy("other", data[:WINDOW] + b"x" + data[WINDOW + 1 :])
    made = Proposal()
    for copy, end in ((one, 5), (one, 900), (other, 1000), (one, 2 * WINDOW)):
        made.add(copy, end)
    assert made.ranges == [(one, 0, 900), (other, 900, 1000), (one, 1000, 2 * WINDOW)]
    assert (made.same(one), made.same(other), made.same(None)) == (True, False, False)
    assert (made.begins(Copy("", data[:WINDOW])), made.begins(Copy("", data + b"x"))) == (False, True)
    assert (Proposal().same(None), Proposal().same(Copy("", b""))) == (True, True)
    made.write(tmp_path / "made")
    assert (tmp_path / "made").read_bytes() == data
    assert made.sha256() == sha256_hex(data)
