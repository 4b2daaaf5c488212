"""A group that comes back from a failed sync: it is written as quickly as before, and a close tries it again."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import records, writer

GROUP = 64


def record(number: int) -> bytes:
    return records.build({"name": f"n{number}", "op": "custom", "phase": "point"}, {"at": number})


def kept(evidence: Path) -> list[int]:
    """The numbers of the records in the log, in its order."""
    bodies = (entry.body for entry in counterfoil.read(evidence).entries())
    names = (body["content"].get("name", "") for body in bodies if body["content"]["op"] == "custom")
    return [int(name[1:]) for name in names]


class Paced:
    """A writer that takes a group only when told to, and a disk that refuses the syncs whose numbers are named."""

    def __init__(self, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Semaphore(0)
        self.syncs = 0
        self.failing: set[int] = set()
        self._real = os.fdatasync
        gather = writer.Writer._gather

        def held(writer: Any, item: Any) -> Any:
            if threading.current_thread() is writer._thread:
                assert self.go.acquire(timeout=60)
            return gather(writer, item)

        monkeypatch.setattr(writer.Writer, "_gather", held)
        monkeypatch.setattr(writer, "GROUP", GROUP)
        monkeypatch.setattr(writer, "DELAY", 3600.0)
        monkeypatch.setattr(writer, "EVERY", 1 << 30)
        monkeypatch.setattr(writer, "RETRY", 0.05)
        monkeypatch.setattr(os, "fdatasync", self.sync)
        self.recorder = lab.recorder()
        self.log = self.recorder.open()

    def sync(self, fd: int) -> None:
        self.syncs += 1
        if self.syncs in self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._real(fd)

    def groups(self, count: int, *, before: int = 0) -> None:
        """So many full groups from ``before`` on, and behind them as many orders as make the last go ahead."""
        for number in range(before, before + count * GROUP):
            assert self.log.entry(record(number))
        for _ in range(GROUP):
            self.log.checkpoint()

    def close(self) -> None:
        """Close, with no more waiting."""
        self.go.release(1000)
        self.recorder.close()
        assert self.log.error is None


@pytest.fixture
def paced(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Paced:
    return Paced(lab, monkeypatch)


def test_a_group_that_comes_back_to_nothing_is_written_in_few_parts(lab: Any, paced: Paced) -> None:
    """The orders behind it make a group of nothing, and settling that is where the failure is noticed."""
    paced.groups(2)
    paced.failing = {2}  # the second group, which is on its way while nothing stands behind it
    paced.go.release(1000)
    while not paced.log.flush():
        assert paced.syncs < 60
    paced.close()
    assert kept(lab.evidence) == list(range(2 * GROUP))
    assert paced.recorder.losses == 0
    assert {one.code for one in lab.verify().findings} == {"CF-VERIFY-020"}
    assert paced.syncs < 2 + 8


def test_a_large_group_that_comes_back_to_a_small_one(lab: Any, paced: Paced) -> None:
    """What is written at once goes by what failed, not by the one record that stood behind it."""
    for number in range(2 * GROUP):
        assert paced.log.entry(record(number))
    for _ in range(GROUP - 1):
        paced.log.checkpoint()
    assert paced.log.entry(record(2 * GROUP))
    paced.failing = {2}
    paced.close()
    assert kept(lab.evidence) == list(range(2 * GROUP + 1))
    assert paced.syncs < 2 + 8


def test_parts_grow_again_behind_a_disk_that_failed_for_long(lab: Any, paced: Paced) -> None:
    paced.failing = set(range(1, 20))
    for number in range(GROUP):
        assert paced.log.entry(record(number))
    paced.go.release(1000)
    while not paced.log.flush():
        assert paced.syncs < 60
    assert paced.log._part == writer.PART
    assert paced.syncs < 19 + 12
    paced.close()
    assert kept(lab.evidence) == list(range(GROUP))


def test_a_close_tries_again_what_came_back_to_it(lab: Any, paced: Paced) -> None:
    """Nothing but the record of the end stands behind a group that fails: the group is not given up with it."""
    paced.groups(2)
    paced.go.release(2)  # both groups are taken, the second goes ahead
    paced.failing = {2}
    paced.close()
    assert kept(lab.evidence) == list(range(2 * GROUP))
    assert (paced.recorder.losses, paced.log.lost) == (0, 0)
    found = lab.verify()
    assert {one.code for one in found.findings} == {"CF-VERIFY-020"}
    assert found.counts["tail"] == 0


def test_the_end_is_told_where_all_there_is_was_on_its_way(lab: Any, paced: Paced) -> None:
    paced.groups(1)
    paced.close()
    assert kept(lab.evidence) == list(range(GROUP))
    assert lab.verify().verdict == "intact"


def test_a_close_on_a_disk_that_fails_for_good_ends(lab: Any, paced: Paced) -> None:
    paced.groups(2)
    paced.failing = set(range(2, 10_000))
    paced.go.release(1000)
    paced.recorder.close()
    assert paced.log.error is not None
    assert paced.recorder.losses >= GROUP
    assert kept(lab.evidence)[:GROUP] == list(range(GROUP))
    assert paced.syncs < 30
