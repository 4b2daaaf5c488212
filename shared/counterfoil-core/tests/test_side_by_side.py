"""Reading segments side by side gives what reading them in order gives: verdict, findings, order, notes and counts."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import appending, keys, parts, sidebyside, verification
from counterfoil.engines import pool, work
from counterfoil.findings import Verification
from counterfoil.stores import FolderStore

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "log.json").read_text(encoding="utf-8"))


class Counted:
    """How many segments were gone on from, and how many were read again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, here: bool = True) -> None:
        self.taken = self.refused = 0
        judge = verification.judge_part

        def counted(*arguments: Any) -> bool:
            taken = judge(*arguments)
            self.taken += taken
            self.refused += not taken
            return taken

        monkeypatch.setattr(verification, "judge_part", counted)
        if here:  # what a process does, without one
            monkeypatch.setattr(pool.PoolEngine, "submit", lambda self, task, told=None: Here(task))


class Here:
    """An answer that is found when it is asked for."""

    def __init__(self, task: bytes) -> None:
        self._task = task

    def result(self) -> bytes:
        return work.verify_segment(self._task)

    def cancel(self) -> None:
        pass


def same(evidence: Path, **arguments: Any) -> Verification:
    one, two = (counterfoil.verify(evidence, jobs=jobs, full=True, **arguments) for jobs in (1, 2))
    assert two.findings == one.findings
    assert (two.verdict, two.notes, two.counts) == (one.verdict, one.notes, one.counts)
    return one


@pytest.fixture
def long(lab: Any, one_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Evidence of two logs of many segments each, with a run that goes through all of them."""
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 6000)
    first, second = lab.recorder(), lab.recorder()
    for recorder in (first, second):
        whole = recorder.start(
            "invoke_workflow", "long", actor=("long",), request=recorder.value({"n": "x" * 999})
        )
        for number in range(6):
            one_run(recorder, number=number)
            inner = recorder.start("step", "one", actor=("long", "one"), parent=whole)
            recorder.open().checkpoint()
            assert recorder.flush()
            recorder.end(inner, response=recorder.value({"n": "x" * 999}))
        recorder.end(whole)
    first.close()
    second.close()
    lab.record(2)
    evidence: Path = lab.evidence
    assert len(list(evidence.rglob("*.seg"))) > 8
    return evidence


def test_intact_evidence_is_read_once(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    result = same(long)
    assert (result.verdict, counted.refused) == ("intact", 0)
    assert counted.taken == len(list(long.rglob("*.seg")))
    assert result.counts["open"] == 0
    assert result.counts["handoffs"] >= 14


def test_every_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    known = VECTORS["keys"]
    before = keys.home()
    try:
        for number, case in enumerate(VECTORS["cases"]):
            place = tmp_path / f"{number}"
            keys.set_home(tmp_path / f"home{number}")
            for name, data in case["files"].items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(base64.b64decode(data))
            for name in case.get("folders", []):
                (place / name).mkdir(parents=True)
            public = [
                base64.b64decode(known[name.rstrip("+")]["spki"])
                for name in case["keyring"]
                if name[0] != "~"
            ]
            ring = keys.Keyring.of([keys.PublicKey.from_spki(spki) for spki in public])
            same(place, keyring=ring)
    finally:
        keys.set_home(before)
    assert counted.taken > 150


def test_damage_of_every_kind(long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    chance = random.Random(7)
    files = sorted(long.rglob("*.seg"))
    verdicts = set()
    for number in range(36):
        place = tmp_path / "copy"
        shutil.copytree(long, place)
        victim = place / chance.choice(files).relative_to(long)
        data = bytearray(victim.read_bytes())
        how = number % 6
        if how == 0:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif how == 1:
            del data[chance.randrange(len(data)) :]
        elif how == 2:
            data[:] = chance.choice(files).read_bytes()
        elif how == 3:
            data += data[chance.randrange(len(data)) :]
        elif how == 4:
            data[:] = b""
        victim.write_bytes(data)
        if how == 5:
            victim.unlink()
        verdicts.add(same(place).verdict)
        shutil.rmtree(place)
    assert "broken" in verdicts
    assert counted.taken > counted.refused > 0


def test_what_a_segment_believes_is_held_against_what_is_there(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    believed = []
    check = parts.check_part

    def watched(task: parts.Task, told: Any) -> parts.Part | None:
        part = check(task, told)
        if part is not None:
            believed.append((len(part.before.parts), len(part.before.open), len(part.before.totals)))
        return part

    monkeypatch.setattr(work, "check_part", watched)
    Counted(monkeypatch)
    same(long)
    assert all(any(counts[place] for counts in believed) for place in range(3)), believed


def test_other_processes_do_the_work(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch, here=False)
    assert same(long).verdict == "intact"
    assert (counted.taken, counted.refused) == (len(list(long.rglob("*.seg"))), 0)


def test_other_processes_tell_what_they_read_while_they_read(long: Path) -> None:
    store = FolderStore(long)
    heard: list[int] = []
    before_the_first: list[int] = []
    engine = pool.PoolEngine(jobs=2)
    names = store.logs()
    with sidebyside.SideBySide(store, names, engine=engine, told=heard.append) as ahead:
        for name in names:
            for _, part in ahead.parts(name):
                assert part is not None
                before_the_first = before_the_first or list(heard)
    engine.close()
    whole = sum(path.stat().st_size for path in long.rglob("*.seg"))
    assert before_the_first
    assert whole <= sum(heard) <= 2 * whole
    assert len(heard) >= len(list(long.rglob("*.seg")))


def test_a_process_that_fails_costs_time_only(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_CODE", "import os; os.read(0, 9); os._exit(9)")
    counted = Counted(monkeypatch, here=False)
    assert same(long).verdict == "intact"
    assert (counted.taken, counted.refused) == (0, 0)


def test_processes_end_when_what_they_read_for_fails(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> bool:
        raise ZeroDivisionError

    started: list[Any] = []
    begin = pool.subprocess.Popen

    def watched(*arguments: Any, **more: Any) -> Any:
        started.append(begin(*arguments, **more))
        return started[-1]

    monkeypatch.setattr(pool.subprocess, "Popen", watched)
    monkeypatch.setattr(verification, "judge_part", fails)
    with pytest.raises(ZeroDivisionError):
        counterfoil.verify(long, jobs=2)
    assert started
    assert all(child.poll() is not None for child in started)
