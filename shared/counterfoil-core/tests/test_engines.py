"""Engines: tasks and answers are plain data, read strictly; whatever an engine does, the outcome is one."""

from __future__ import annotations

import ast
import json
import os
import pickle
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import appending, parts
from counterfoil.engines import Engine, Lost, answers, form, pool, work
from counterfoil.engines.choosing import NAMES, choose
from counterfoil.errors import ConfigError, EngineError
from counterfoil.log import LogScan, Step
from counterfoil.stores import FolderStore

SOURCE = Path(counterfoil.__file__).parent


@pytest.fixture
def long(lab: Any, one_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Evidence of two logs of some segments each."""
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 6000)
    for _ in range(2):
        recorder = lab.recorder()
        for number in range(3):
            one_run(recorder, number=number)
            recorder.open().checkpoint()
            assert recorder.flush()
        recorder.close()
    evidence: Path = lab.evidence
    assert len(list(evidence.rglob("*.seg"))) > 4
    return evidence


def tasks(evidence: Path, **more: Any) -> list[parts.Task]:
    store = FolderStore(evidence)
    found = []
    for name in store.logs():
        for step in LogScan(store, name).plan():
            place = store.elsewhere(name, step.number)
            assert place is not None
            found.append(parts.Task(place, name, step, {"ab" * 32: b"k" * 32}, **more))
    return found


# -- tasks and answers ------------------------------------------------------------------------------------------------


def test_a_task_comes_out_as_it_went_in() -> None:
    recovered = {"good": 1, "segment": 0, "sha256": "0" * 64, "size": 2}
    for place in (
        {"folder": "/tmp/\udcff é"},
        {"s3": "s3://b/p", "endpoint": None, "version": "1", "size": 3},
    ):
        task = parts.Task(place, "0" * 16, Step(3, recovered, True, "segment"), {"ab" * 32: b"k" * 32}, True)
        assert form.unpack_task(form.pack_task(task)) == task


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_comes_out_as_it_went_in(long: Path, packed: bool) -> None:
    kinds = set()
    for task in tasks(long):
        part = parts.check_part(task)
        assert part is not None
        kinds |= {type(item[2]).__name__ for item in part.items}
        assert answers.unpack_answer(form.pack_part(part, packed=packed), task.log) == part
    assert kinds >= {"CheckpointSeen", "Entry", "Signed"}


def test_answers_that_are_none_are_refused_and_nothing_else_happens(long: Path) -> None:
    """Cut, flipped, of other types: an answer is read or refused, and what is read can be gone on from."""
    chance = random.Random(3)
    task = tasks(long)[0]
    whole = form.pack_part(parts.check_part(task))  # type: ignore[arg-type]
    refused = 0
    for number in range(1500):
        data = bytearray(whole)
        if number % 3 == 0:
            del data[chance.randrange(len(data)) :]
        elif number % 3 == 1:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        else:
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(9)] = chance.randbytes(chance.randrange(9))
        try:
            answers.unpack_answer(data, task.log)
        except answers.NotAnAnswer:
            refused += 1
    assert refused > 700


@pytest.mark.parametrize("size", [(2 << 30) + 1, 1 << 40, 1 << 62])
def test_no_room_is_taken_for_what_an_answer_says_of_its_size(size: int) -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x01\x00\x00"
    with pytest.raises(answers.NotAnAnswer):
        answers.unpack_answer(form.PACKED + frame, "0" * 16)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        return found + [leaf for key, one in value.items() for leaf in _leaves(one, (*path, key))]
    if isinstance(value, list):
        return found + [leaf for at, one in enumerate(value[:3]) for leaf in _leaves(one, (*path, at))]
    return found


def test_every_member_of_an_answer_is_looked_at(long: Path) -> None:
    """Another type, or a number below nothing, in any place is refused."""
    task = tasks(long)[0]
    whole = form.pack_part(parts.check_part(task))  # type: ignore[arg-type]
    length = struct.unpack("<I", whole[4:8])[0]
    text, tail = whole[8 : 8 + length], whole[8 + length :]
    passed = []
    for path in _leaves(json.loads(text))[1:]:
        for wrong in ({"x": [None]}, -7, 1.5):
            told = json.loads(text)
            inner = told
            for key in path[:-1]:
                inner = inner[key]
            if inner[path[-1]] == wrong:
                continue
            inner[path[-1]] = wrong
            changed = json.dumps(told).encode()
            try:
                answers.unpack_answer(b"CFP1" + struct.pack("<I", len(changed)) + changed + tail, task.log)
            except answers.NotAnAnswer:
                continue
            passed.append((path, wrong))
    # A number may stand below nothing where it says that there is none: the last checkpoint of a segment without.
    assert [one for one in passed if not (one[0][0] == "state" and one[1] == -7)] == []


def test_no_answer_is_ever_unpickled(long: Path) -> None:
    task = tasks(long)[0]
    with pytest.raises(answers.NotAnAnswer):
        answers.unpack_answer(pickle.dumps(parts.check_part(task)), task.log)
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [f"{path.name} {name}" for name in names if name in ("pickle", "cloudpickle")]
    assert found == []


def test_what_a_worker_cannot_do_is_an_answer_too(long: Path) -> None:
    task = tasks(long)[0]
    gone = form.pack_task(task._replace(place={"folder": str(long / "not there")}))
    unread = answers.unpack_answer(work.verify_segment(gone), task.log)
    assert unread == form.No("CF-STORE-001")
    for wrong in (b"", b"{}", b"[]", form.pack_task(task._replace(place={})), b'{"keys":{"a":"zz"}}'):
        answer = answers.unpack_answer(work.verify_segment(wrong), task.log)
        assert isinstance(answer, form.No)
        assert answer.reason in ("KeyError", "TypeError", "ValueError", "JSONDecodeError")


# -- choosing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"name": "spark"}, "CF-ENGINE-001"),
        ({"name": "pool", "scheduler": "tcp://127.0.0.1:1"}, "CF-ENGINE-003"),
        ({"name": "dask", "scheduler": "tcp://127.0.0.1:1", "jobs": 2}, "CF-ENGINE-003"),
        ({"name": "ray", "scheduler": "ray://127.0.0.1:1", "jobs": 2}, "CF-ENGINE-003"),
    ],
)
def test_what_cannot_be_chosen(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(EngineError) as caught:
        choose(**arguments)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_an_engine_whose_package_is_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dask", "distributed", "ray"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("RAY_AUTH_MODE", "")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    with pytest.raises(ConfigError) as caught:
        choose(name)
    assert (caught.value.code, caught.value.where) == ("CF-CONFIG-020", name)
    assert f'"counterfoil[{name}]"' in str(caught.value.hint)
    assert {"pool", name} <= set(NAMES)


# -- an engine of one's own -------------------------------------------------------------------------------------------


class Fickle:
    """Answers, fails, loses and damages in turn."""

    name = "fickle"
    packs = True

    def __init__(self, *ways: str) -> None:
        self._ways = ways
        self.given = self.cancelled = 0
        self.closed = False
        self.looks: list[bytes] = []

    def slots(self) -> int:
        return 3

    def look(self, task: bytes) -> list[bytes]:
        return [work.look(task), *self.looks]

    def submit(self, task: bytes, told: Callable[[int], None] | None = None) -> Any:
        way = self._ways[self.given % len(self._ways)]
        self.given += 1
        return _Answer(self, way, task)

    def close(self, *, now: bool = False) -> None:
        self.closed = True


class _Answer:
    def __init__(self, engine: Fickle, way: str, task: bytes) -> None:
        self._engine, self._way, self._task = engine, way, task

    def result(self) -> bytes:
        if self._way == "lost":
            raise Lost
        if self._way == "raised":
            raise ConnectionError("gone")
        if self._way == "damaged":
            return work.verify_segment(self._task)[:-9]
        if self._way == "blind":
            return form.pack_no("CF-STORE-001")
        return work.verify_segment(self._task)

    def cancel(self) -> None:
        self._engine.cancelled += 1


@pytest.mark.parametrize("ways", [("good",), ("lost",), ("good", "damaged", "raised", "blind", "lost")])
@pytest.mark.parametrize("broken", [False, True])
def test_an_engine_that_fails_costs_time_only(long: Path, ways: tuple[str, ...], broken: bool) -> None:
    if broken:
        victim = sorted(long.rglob("*.seg"))[2]
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 4
        victim.write_bytes(data)
    engine = Fickle(*ways)
    assert isinstance(engine, Engine)
    alone = counterfoil.verify(long, jobs=1, full=True)
    found = counterfoil.verify(long, engine=engine, full=True)
    assert (found.findings, found.notes, found.counts) == (alone.findings, alone.notes, alone.counts)
    assert found.verdict == ("broken" if broken else "intact")
    done = found.elsewhere
    assert (done.engine, engine.closed) == ("fickle", False)
    assert bool(done.failed) == (ways != ("good",))
    assert done.taken + done.here <= engine.given
    assert alone.elsewhere is None
    assert broken or (done.taken, done.here) == (
        engine.given - sum(done.failed.values()),
        sum(done.failed.values()),
    )


def test_workers_that_are_not_ours_are_told_before_anything_is_relied_on(long: Path) -> None:
    for look, code in (
        ({"version": "0.0.1", "error": ""}, "CF-ENGINE-004"),
        ({"version": "", "error": "ModuleNotFoundError"}, "CF-ENGINE-004"),
        ({"version": counterfoil.__version__, "error": "there is no such folder"}, "CF-ENGINE-005"),
    ):
        engine = Fickle("good")
        engine.looks = [json.dumps(look).encode()]
        with pytest.raises(EngineError) as caught:
            counterfoil.verify(long, engine=engine)
        assert (caught.value.code, engine.given) == (code, 0)


def test_a_bundle_is_read_in_one_process(lab: Any) -> None:
    lab.record()
    run = counterfoil.read(lab.evidence).runs()[0].id
    counterfoil.bundle(lab.evidence, lab.root / "cut.bundle", run=run)
    with pytest.raises(EngineError) as caught:
        counterfoil.verify(lab.root / "cut.bundle", engine="pool")
    assert caught.value.code == "CF-ENGINE-006"


# -- processes that are killed ----------------------------------------------------------------------------------------

_KILLED_ONCE = """
import os, sys
from counterfoil.engines import pool
told = []
check = pool.verify_segment
def dies(task, told):
    try:
        os.close(os.open({flag!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return check(task, told)
    os.kill(os.getpid(), 9)
pool.verify_segment = dies
pool.serve()
"""


def test_a_killed_process_is_replaced_and_its_segment_tried_again(
    long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "was killed"
    monkeypatch.setattr(pool, "_CODE", _KILLED_ONCE.format(flag=os.fspath(flag)))
    found = counterfoil.verify(long, engine="pool", jobs=2, full=True)
    assert flag.exists()
    assert found.verdict == "intact"
    done = found.elsewhere
    assert (done.taken, done.here, done.failed) == (len(list(long.rglob("*.seg"))), 0, {})
