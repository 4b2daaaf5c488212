"""A process that dies between any two changes of the file system, or in the middle of one, and a disk without power.

Whatever it was promised is there, nobody is accused, and the next process goes on with the same log.
"""

from __future__ import annotations

import base64
import io
import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from forging import codes

import counterfoil
from counterfoil import segments, tails
from counterfoil.digest import sha256_hex

CUT = 77
BLOCK = 512


class Nursery:
    """Processes of one test, forked from one that has everything loaded."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.number = 0
        self.process = lab.nursery()

    def run(self, scenario: str = "two runs", **order: Any) -> tuple[int, set[str]]:
        """The exit code of one process and what it was promised."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.number += 1
        told = self.lab.root / f"told-{self.number}"
        order |= {"scenario": scenario, "told": str(told), "seed": self.number}
        order |= {"home": str(self.lab.home), "evidence": str(self.lab.evidence)}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        int(self.process.stdout.readline())
        code = int(self.process.stdout.readline())
        promised = set(told.read_text().split()) if told.exists() else set()
        told.unlink(missing_ok=True)
        return code, promised

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


@pytest.fixture
def nursery(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    # Nothing here depends on a disk that keeps its power, or on a model of one that does not.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    made = Nursery(lab)
    yield made
    made.close()


def kept(evidence: Path) -> set[str]:
    return {sha256_hex(entry.body_bytes) for entry in counterfoil.read(evidence).entries()}


def clear(lab: Any) -> None:
    for folder in (lab.home, lab.evidence, lab.root / "deep"):
        shutil.rmtree(folder, ignore_errors=True)


def judge(lab: Any, promised: set[str], at: object) -> None:
    """After a crash: what was promised is there, nobody is accused, and the same log goes on."""
    promised = promised - {"closed"}
    if lab.evidence.exists():
        result = lab.verify()
        if not promised and codes(result) == {"CF-VERIFY-001"}:
            assert result.verdict == "cannot-tell"
        else:
            assert result.verdict in ("intact", "incomplete"), (at, result.findings)
            assert promised <= kept(lab.evidence), at
    else:
        assert not promised, at
    logs = counterfoil.read(lab.evidence).logs() if lab.evidence.exists() else []
    recorder = lab.recorder()
    after = recorder.start("invoke_workflow", "afterwards", actor=("app",))
    recorder.end(after)
    recorder.close()
    assert (recorder.losses, recorder.error) == (0, None), at
    result = lab.verify()
    assert result.verdict in ("intact", "incomplete"), (at, result.findings)
    assert promised | {after.start, after.end} <= kept(lab.evidence), at
    assert not promised or counterfoil.read(lab.evidence).logs() == logs, at
    assert result.counts["logs"] == 1, at
    assert lab.verify_elsewhere().verdict == result.verdict, at


@pytest.mark.parametrize("half", [False, True], ids=["between", "within"])
def test_killed_at_every_change_of_the_file_system(lab: Any, nursery: Nursery, half: bool) -> None:
    """From the first folder of the home to the last checkpoint; within: a write that is half done."""
    code, cut = CUT, 0
    while code == CUT:
        clear(lab)
        code, promised = nursery.run(cut=cut, half=half)
        assert code in (0, CUT)
        judge(lab, promised, cut)
        cut += 1
    assert "closed" in promised
    assert cut > 40


# -- a disk that loses its power --------------------------------------------------------------------------------------


@dataclass
class File:
    """A file: what is on the platter, and what was written since its last sync."""

    stored: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        for at, data in self.pending:
            self.put(at, data)
        self.pending = []

    def put(self, at: int, data: bytes) -> None:
        self.stored.extend(bytes(max(0, at - len(self.stored))))
        self.stored[at : at + len(data)] = data

    def after(self, rng: random.Random) -> bytes:
        """The bytes after a power failure: what was synced, and of each block of the rest what it had when the system
        last wrote it: any time after any of the writes since, or never. The size is that of some such time as well.
        """
        versions = [bytes(self.stored)]
        for at, data in self.pending:
            new = File(bytearray(versions[-1]))
            new.put(at, data)
            versions.append(bytes(new.stored))
        fate = rng.choice(["nothing", "all", "cut", "blocks", "blocks", "times", "times"])
        if fate == "nothing":
            return versions[0]
        if fate in ("all", "cut"):
            return versions[-1 if fate == "all" else rng.randrange(len(versions))]
        size = len(rng.choice(versions[-2:]) if rng.random() < 0.3 else versions[-1])
        out = bytearray()
        for start in range(0, size, BLOCK):
            if fate == "blocks":
                written = versions[-1 if rng.random() < 0.6 else 0]
            else:
                written = rng.choice(versions)
            out += written[start : start + BLOCK].ljust(BLOCK, b"\0")
        return bytes(out[:size])


@dataclass
class Folder:
    """A folder: the entries on the platter, and the changes since its last sync."""

    stored: dict[str, File | Folder] = field(default_factory=dict)
    now: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[dict[str, File | Folder]] = field(default_factory=list)

    def change(self, name: str, thing: File | Folder | None) -> None:
        self.now = {**self.now, name: thing} if thing is not None else {**self.now}
        if thing is None:
            del self.now[name]
        self.pending.append(self.now)

    def sync(self) -> None:
        self.stored, self.pending = self.now, []


class Disk:
    """Replays a trace and says what could be there if the power failed then."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = Folder()
        self.promised: set[str] = set()

    def find(self, path: str) -> File | Folder:
        thing: File | Folder = self.root
        for part in Path(path).relative_to(self.top).parts:
            assert isinstance(thing, Folder)
            thing = thing.now[part]
        return thing

    def folder(self, path: str) -> tuple[Folder, str]:
        folder = self.find(os.path.dirname(path))
        assert isinstance(folder, Folder)
        return folder, os.path.basename(path)

    def apply(self, op: str, *what: Any) -> None:
        if op == "told":
            self.promised |= set(what) - {"closed"}
        elif op == "sync":
            self.find(what[0]).sync()
        elif op == "write":
            thing = self.find(what[0])
            assert isinstance(thing, File)
            thing.pending.append((what[1], base64.b64decode(what[2])))
        elif op in ("create", "mkdir"):
            folder, name = self.folder(what[0])
            folder.change(name, File() if op == "create" else Folder())
        elif op == "unlink":
            folder, name = self.folder(what[0])
            folder.change(name, None)
        else:
            folder, name = self.folder(what[1])
            folder.change(name, self.find(what[0]))
            if op == "rename":
                old, name = self.folder(what[0])
                assert old is folder
                del folder.now[name]  # one change, not two

    def lose_power(self, rng: random.Random) -> None:
        """Write what is left to where it was."""
        for name in ("home", "evidence", "deep"):
            shutil.rmtree(self.top / name, ignore_errors=True)
        self._write(self.root, self.top, rng)

    def _write(self, folder: Folder, place: Path, rng: random.Random) -> None:
        place.mkdir(mode=0o700, exist_ok=True)
        for name, thing in rng.choice([folder.stored, *folder.pending]).items():
            if isinstance(thing, Folder):
                self._write(thing, place / name, rng)
            else:
                (place / name).write_bytes(thing.after(rng))
                (place / name).chmod(0o600)


def trace_of(nursery: Nursery, *orders: dict[str, Any]) -> list[list[Any]]:
    path = nursery.lab.root / "trace"
    path.unlink(missing_ok=True)
    for order in orders:
        nursery.run(**order, trace=str(path))
    return [json.loads(line) for line in path.read_text().splitlines()]


def fail_everywhere(
    lab: Any, trace: list[list[Any]], rng: random.Random, *, each: int, every: int = 1
) -> int:
    """Let the power fail after every change, in so many ways each; the count of failures."""
    count = 0
    for stop in range(1, len(trace) + 1, every):
        disk = Disk(lab.root)
        for op, *what in trace[:stop]:
            disk.apply(op, *what)
        for _ in range(each):
            disk.lose_power(rng)
            judge(lab, disk.promised, (stop, trace[stop - 1][:2]))
            count += 1
    return count


def test_the_power_fails(lab: Any, nursery: Nursery) -> None:
    """What was promised was synced, and so was the way to it; blocks that were not may be there in any order."""
    lab.evidence = lab.root / "deep" / "er" / "evidence"
    trace = trace_of(nursery, {})
    assert any(op == "told" for op, *_ in trace)
    assert fail_everywhere(lab, trace, random.Random("power"), each=1) > 40


def test_the_power_fails_after_a_kill(lab: Any, nursery: Nursery) -> None:
    """The second process builds upon what the first one wrote and never synced: it has to sync it itself."""
    rng = random.Random("kill, then power")
    for cut in (34, 41, 48, 52):
        clear(lab)
        trace = trace_of(nursery, {"cut": cut, "half": True}, {})
        assert fail_everywhere(lab, trace, rng, each=1, every=3) > 10


def test_the_power_fails_after_a_sync_did(lab: Any, nursery: Nursery) -> None:
    """What the next segment says of the one that was given up must be so on the disk, not in memory alone."""
    rng = random.Random("sync, then power")
    for fail in (1, 2, 3):
        clear(lab)
        trace = trace_of(nursery, {"fail": fail})
        assert any(op == "told" for op, *_ in trace)
        assert fail_everywhere(lab, trace, rng, each=1, every=2) > 10


def test_what_a_disk_may_leave_of_one_group_is_never_called_damage(lab: Any) -> None:
    """Some writes behind what was synced, beginning anywhere in a block, of compressed and raw chunks."""
    rng = random.Random("blocks")
    lab.record()
    (path,) = lab.segments()
    data, name = path.read_bytes(), path.parent.name
    with path.open("rb") as file:
        ends = [chunk.end for chunk in segments.read_chunks(file, where="")]
    groups = [at for at in range(1, len(ends)) if tails.is_note(data, ends[at - 1])]
    holes = 0
    for _ in range(1500):
        last = rng.choice(groups)
        first = rng.randrange(max(0, last - 6), last)
        # What stands before moves the group through the block; nothing else depends on where it begins.
        pad = rng.randrange(BLOCK)
        whole = bytes(pad) + data
        at = [pad + end for end in ends]
        lost = File(bytearray(whole[: at[first]]))
        lost.pending = [(at[one], whole[at[one] : at[one + 1]]) for one in range(first, last)]
        left = io.BytesIO(lost.after(rng))
        torn = next(
            (
                one
                for one in range(first, last)
                if left.getvalue()[at[one] :][: at[one + 1] - at[one]] != whole[at[one] : at[one + 1]]
            ),
            None,
        )
        if torn is None or next(tails.notes_from(left, name, at[torn]), None) is None:
            continue
        holes += 1
        assert tails.has_hole(left, at[torn])
        # Other damage to that chunk, with every block there, is none that a power failure does.
        place = rng.randrange(at[torn], at[torn + 1])
        changed = bytearray(whole)
        changed[place] ^= rng.randrange(1, 256)
        assert not tails.has_hole(io.BytesIO(bytes(changed)), at[torn])
    assert holes > 60


# -- long -------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_killed_at_every_change_while_it_recovers(lab: Any, nursery: Nursery) -> None:
    """A second process that is killed while it goes on with what a killed one left."""
    first = 0
    pairs = 0
    code = CUT
    while code == CUT:
        second, then = first % 2, CUT
        while then == CUT:
            clear(lab)
            code, promised = nursery.run(cut=first, half=True)
            then, more = nursery.run(cut=second, half=bool(second % 3))
            judge(lab, promised | more, (first, second))
            pairs += 1
            second += 2
        first += 1
    assert pairs > 500


@pytest.mark.long
def test_killed_at_every_change_of_a_longer_recording(lab: Any, nursery: Nursery) -> None:
    code, cut = CUT, 0
    while code == CUT:
        clear(lab)
        code, promised = nursery.run("many runs", cut=cut, half=bool(cut % 2))
        judge(lab, promised, cut)
        cut += 1
    assert cut > 100


@pytest.mark.long
def test_the_power_fails_in_many_ways(lab: Any, nursery: Nursery) -> None:
    rng = random.Random("many ways")
    trace = trace_of(nursery, {"scenario": "many runs"})
    assert fail_everywhere(lab, trace, rng, each=4) > 400
    for cut in range(25, 70, 7):
        clear(lab)
        trace = trace_of(nursery, {"cut": cut, "half": bool(cut % 2)}, {})
        fail_everywhere(lab, trace, rng, each=2)
