"""What a crash, a bad disk or a hand leaves at the end of a log: cut, zeroed, written over, at every byte."""

from __future__ import annotations

import io
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import records, segments, writer
from counterfoil.digest import sha256_hex
from counterfoil.log import CheckpointSeen, LogScan
from counterfoil.stores import FolderStore

BLOCK = 4096


@dataclass
class Killed:
    """Evidence of a writer that was killed: a checkpoint, and behind it what nothing signed covers yet."""

    lab: Any
    saved: Path
    data: bytes
    covered: int
    """Bytes up to the end of the last checkpoint."""
    notes: list[int]
    """Where checkpoints end."""

    @property
    def segment(self) -> Path:
        (path,) = (self.saved / "evidence").glob("*/*.seg")
        return self.lab.root / path.relative_to(self.saved)

    def restore(self) -> None:
        for name in ("home", "evidence"):
            shutil.rmtree(self.lab.root / name, ignore_errors=True)
            shutil.copytree(self.saved / name, self.lab.root / name, copy_function=shutil.copyfile)
        for path in (self.lab.home, self.lab.evidence):
            path.chmod(0o700)
        (self.lab.home / "identity.pem").chmod(0o600)

    def damage(self, data: bytes) -> None:
        self.restore()
        self.segment.write_bytes(data)


@pytest.fixture
def killed(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Killed:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(writer, "DELAY", 100.0)
    recorder = lab.recorder()

    def group(number: int) -> None:
        request = recorder.value(
            {"text": f"{number} " * 200, "noise": random.Random(number).randbytes(300).hex()}
        )
        root = recorder.start("invoke_workflow", f"run {number}", actor=("app",), request=request)
        if number < 2:
            recorder.end(root)
        assert recorder.flush()

    for number in range(2):
        group(number)
    recorder.open().checkpoint()
    assert recorder.flush()
    for number in range(2, 5):
        group(number)
    saved = lab.root / "saved"
    for name in ("home", "evidence"):
        shutil.copytree(lab.root / name, saved / name)
    recorder.close()
    store = FolderStore(saved / "evidence")
    (name,) = store.logs()
    seen = [event for event in LogScan(store, name).events() if isinstance(event, CheckpointSeen)]
    data = (saved / "evidence" / name / "00000000.seg").read_bytes()
    assert seen[-1].end < len(data) - 1000
    return Killed(lab, saved, data, seen[-1].end, [one.end for one in seen])


def cut(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at]


def zeroed(data: bytes, at: int, rng: random.Random) -> bytes:
    """From here to the end, as a file that was made longer before its bytes came."""
    return data[:at] + bytes(len(data) - at)


def block_of_zeros(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + bytes(min(BLOCK, len(data) - at)) + data[at + BLOCK :]


def scribbled(data: bytes, at: int, rng: random.Random) -> bytes:
    length = min(rng.choice([1, 4, 64, 700]), len(data) - at)
    other = bytes(byte ^ rng.randrange(1, 256) for byte in data[at : at + length])
    return data[:at] + other + data[at + length :]


def garbage(data: bytes, at: int, rng: random.Random) -> bytes:
    """Cut, and what was on the disk before stands behind."""
    return data[:at] + rng.randbytes(rng.randrange(1, 5000))


def doubled(data: bytes, at: int, rng: random.Random) -> bytes:
    return data[:at] + data[at:] + data[at:]


WAYS: list[Callable[[bytes, int, random.Random], bytes]] = [
    cut,
    zeroed,
    block_of_zeros,
    scribbled,
    garbage,
    doubled,
]


def bodies(evidence: Path) -> list[str]:
    return [sha256_hex(one.body_bytes) for one in counterfoil.read(evidence).entries()]


def torn_tail(killed: Killed, way: Callable[..., bytes], at: int, rng: random.Random) -> None:
    """Behind the last checkpoint: nobody is accused, what is before it is there, and the same log goes on."""
    lab = killed.lab
    data = way(killed.data, at, rng)
    killed.damage(data)
    told = (way.__name__, at, len(data))
    result = lab.verify()
    assert result.verdict == "incomplete", (told, result.findings)  # right behind the checkpoint as well
    before = bodies(lab.evidence)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "afterwards", actor=("app",))
    recorder.end(root)
    recorder.close()
    assert recorder.losses == 0, told
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("incomplete", 1), (told, result.findings)
    after = bodies(lab.evidence)
    assert after[: len(before)] == before, told
    assert {root.start, root.end} <= set(after), told
    assert lab.verify_elsewhere().verdict == result.verdict, told


def damaged_head(killed: Killed, way: Callable[..., bytes], at: int, rng: random.Random) -> None:
    """Before the last checkpoint: broken here, never whole anywhere, and left alone by who records next."""
    lab = killed.lab
    data = way(killed.data, at, rng)
    killed.damage(data)
    told = (way.__name__, at, len(data))
    assert lab.verify().verdict == "broken", told
    elsewhere = lab.verify_elsewhere().verdict
    assert elsewhere in ("broken", "incomplete"), told  # cut at a checkpoint as well: its session never ended
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "afterwards", actor=("app",))
    recorder.end(root)
    recorder.close()
    assert recorder.losses == 0, told
    assert killed.segment.read_bytes() == data, told
    after = lab.verify()
    assert (after.verdict, after.counts["logs"]) == ("broken", 2), (told, after.findings)
    assert root.start in bodies(lab.evidence), told


def borders(killed: Killed) -> list[int]:
    """Where chunks behind the last checkpoint begin."""
    read = segments.read_chunks(io.BytesIO(killed.data), where="here")
    return [one.start for one in read if one.start >= killed.covered]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_torn_tail(killed: Killed, way: Callable[..., bytes]) -> None:
    rng = random.Random(way.__name__)
    for at in sorted(rng.sample(range(killed.covered, len(killed.data)), 8)):
        if way is not doubled or at not in borders(killed):
            torn_tail(killed, way, at, rng)


def test_whole_chunks_twice_are_no_torn_tail(killed: Killed) -> None:
    """No power failure writes a chunk again: what repeats entries is told as it is."""
    listed = borders(killed)
    assert len(listed) > 2
    for at in listed:
        killed.damage(doubled(killed.data, at, random.Random(at)))
        assert killed.lab.verify().verdict == "broken", at


@pytest.mark.parametrize("way", [cut, zeroed, scribbled], ids=lambda way: way.__name__)
def test_a_damaged_head(killed: Killed, way: Callable[..., bytes]) -> None:
    rng = random.Random(way.__name__)
    places = rng.sample(range(killed.covered), 4)
    for at in [*places, *(killed.notes[:1] if way is cut else ())]:
        if way is not cut or at != killed.covered:
            damaged_head(killed, way, at, rng)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_tail_torn_at_every_byte(killed: Killed, way: Callable[..., bytes]) -> None:
    rng = random.Random(way.__name__)
    count = 0
    whole = borders(killed) if way is doubled else []
    for at in range(killed.covered, len(killed.data)):
        if at not in whole:
            torn_tail(killed, way, at, rng)
            count += 1
    print(f"{way.__name__}: {count} tails")
    assert count > 1000


@pytest.mark.long
@pytest.mark.parametrize("way", [cut, zeroed, scribbled, garbage], ids=lambda way: way.__name__)
def test_a_head_damaged_at_every_third_byte(killed: Killed, way: Callable[..., bytes]) -> None:
    rng = random.Random(way.__name__)
    for at in range(0, killed.covered, 3):
        damaged_head(killed, way, at, rng)


def test_what_stood_behind_good_is_never_read_again(killed: Killed) -> None:
    """A recovered segment may end in what looks like more of it; the log goes on elsewhere."""
    lab = killed.lab
    killed.damage(killed.data[:-10])
    lab.record()
    kept = bodies(lab.evidence)
    path = killed.segment
    path.write_bytes(killed.data)
    result = lab.verify()
    assert result.verdict == "broken"
    assert {finding.code for finding in result.findings} >= {"CF-LOG-015"}
    path.write_bytes(killed.data[:-10])
    assert bodies(lab.evidence) == kept
    assert lab.verify().verdict == "incomplete"


def test_the_entry_that_tells_of_a_recovery(killed: Killed) -> None:
    lab = killed.lab
    data = killed.data[:-10]
    killed.damage(data)
    lab.record()
    told = [one for one in counterfoil.read(lab.evidence).entries() if one.op == "recovered"]
    assert len(told) == 1
    assert records.is_record(told[0].body)
    (one,) = told[0].body["content"]["segments"]
    assert (one["segment"], one["size"], one["sha256"]) == (0, len(data), sha256_hex(data))
    assert killed.covered < one["good"] < len(data)
