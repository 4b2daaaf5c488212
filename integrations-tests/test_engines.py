"""Verification on real clusters: Dask with its scheduler on TCP, Ray; with workers that are killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys
from counterfoil.engines.choosing import choose
from counterfoil.engines.dask import DaskEngine
from counterfoil.engines.ray import RayEngine
from counterfoil.errors import EngineError
from counterfoil.stores import FolderStore

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

from _evidence import make

pytestmark = [
    pytest.mark.engines,
    # Dask and Ray leave sockets and files for the interpreter to close.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two logs of some seconds' work, in segments of a megabyte."""
    root = tmp_path_factory.mktemp("engines") / "evidence"
    identity = keys.load_or_create_identity()
    made = make(root, identity, entries=40_000, logs=2, segment_bytes=400_000)
    assert made["statements"] > 4_000
    return root


@pytest.fixture(scope="module")
def broken(evidence: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, one bit of it changed."""
    root = tmp_path_factory.mktemp("engines") / "broken"
    for path in sorted(evidence.rglob("*")):
        if path.is_file():
            (root / path.relative_to(evidence)).parent.mkdir(parents=True, exist_ok=True)
            (root / path.relative_to(evidence)).write_bytes(path.read_bytes())
    victim = sorted(root.rglob("*.seg"))[3]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 16
    victim.write_bytes(data)
    return root


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler that speaks TCP, and two workers that are replaced when they are killed."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=50,
    ) as found:
        assert found.scheduler_address.startswith("tcp://127.0.0.1:")
        yield found


@pytest.fixture(scope="module")
def ray_engine() -> Iterator[RayEngine]:
    """Ray on this machine, started as a caller does who names no scheduler."""
    engine = choose("ray", jobs=2)
    assert isinstance(engine, RayEngine)
    yield engine
    engine.close()


def outcome(found: Any) -> tuple[Any, ...]:
    return found.verdict, found.findings, found.notes, found.counts


def alone(root: Path) -> tuple[Any, ...]:
    return outcome(counterfoil.verify(root, jobs=1, full=True))


def test_dask_says_what_reading_in_order_says(cluster: Any, evidence: Path, broken: Path) -> None:
    for root, verdict in ((evidence, "intact"), (broken, "broken")):
        found = counterfoil.verify(root, engine="dask", scheduler=cluster.scheduler_address, full=True)
        assert found.verdict == verdict
        assert outcome(found) == alone(root)
        assert (found.elsewhere.engine, found.elsewhere.failed) == ("dask", {})
        assert found.elsewhere.taken > 4


def test_a_cluster_of_its_own_is_begun_and_ended(evidence: Path) -> None:
    found = counterfoil.verify(evidence, engine="dask", jobs=2, full=True)
    assert outcome(found) == alone(evidence)
    assert (found.elsewhere.here, found.elsewhere.failed) == (0, {})


class Killing(DaskEngine):
    """Kills a worker with its segment in hand, and again some tasks later."""

    def __init__(self, scheduler: str) -> None:
        super().__init__(scheduler=scheduler)
        self.given = 0
        self.killed: list[int] = []

    def submit(self, task: bytes, told: Any = None) -> Any:
        pending = super().submit(task, told)
        self.given += 1
        if self.given in (5, 12):
            found = self._client.run(os.getpid)
            busy = [
                found[where] for where, what in self._client.processing().items() if what and where in found
            ]
            os.kill(busy[0], signal.SIGKILL)
            self.killed.append(busy[0])
        return pending


def test_a_dask_worker_killed_in_the_middle(cluster: Any, evidence: Path, broken: Path) -> None:
    for root in (evidence, broken):
        engine = Killing(cluster.scheduler_address)
        try:
            found = counterfoil.verify(root, engine=engine, full=True)
        finally:
            engine.close()
        assert outcome(found) == alone(root)
        assert engine.killed
        # Dask gave what the worker had in hand to another one.
        assert found.elsewhere.failed == {}


def test_a_scheduler_that_goes_away(evidence: Path) -> None:
    """What the cluster no longer answers is read here."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=50,
    ) as found:
        engine = DaskEngine(scheduler=found.scheduler_address)
        submit, given = engine.submit, []

        def leaves(task: bytes, told: Any = None) -> Any:
            given.append(task)
            if len(given) == 4:
                found.close()
            return submit(task, told)

        engine.submit = leaves  # type: ignore[method-assign]
        try:
            done = counterfoil.verify(evidence, engine=engine, full=True)
        finally:
            engine.close()
    assert outcome(done) == alone(evidence)
    assert done.elsewhere.failed
    assert done.elsewhere.here


def test_ray_says_what_reading_in_order_says(ray_engine: RayEngine, evidence: Path, broken: Path) -> None:
    for root, verdict in ((evidence, "intact"), (broken, "broken")):
        found = counterfoil.verify(root, engine=ray_engine, full=True)
        assert found.verdict == verdict
        assert outcome(found) == alone(root)
        assert (found.elsewhere.engine, found.elsewhere.failed) == ("ray", {})


def test_a_ray_worker_killed_in_the_middle(ray_engine: RayEngine, evidence: Path) -> None:
    import psutil

    submit, killed, given = ray_engine.submit, [], []

    def kills(task: bytes, told: Any = None) -> Any:
        pending = submit(task, told)
        given.append(task)
        if len(given) == 6:
            for one in psutil.process_iter(["cmdline"]):
                if one.info["cmdline"] and "ray::verify_segment" in one.info["cmdline"][0]:
                    one.kill()
                    killed.append(one.pid)
                    break
        return pending

    ray_engine.submit = kills  # type: ignore[method-assign]
    try:
        found = counterfoil.verify(evidence, engine=ray_engine, full=True)
    finally:
        del ray_engine.submit
    assert outcome(found) == alone(evidence)
    assert killed
    assert found.elsewhere.failed == {}


class _Mistaken(FolderStore):
    """A folder that the workers are to find under another path, where nothing is."""

    def __init__(self, root: Path, there: Path) -> None:
        super().__init__(root)
        self._there = there

    def elsewhere(self, log: str, number: int) -> dict[str, str | int | None]:
        return {"folder": str(self._there)}


def test_no_cluster_and_no_evidence_are_told(cluster: Any, tmp_path: Path, evidence: Path) -> None:
    with pytest.raises(EngineError) as caught:
        choose("dask", scheduler="tcp://127.0.0.1:9")
    assert (caught.value.code, caught.value.where) == ("CF-ENGINE-002", "tcp://127.0.0.1:9")
    gone = tmp_path / "evidence"
    with pytest.raises(EngineError) as caught:
        counterfoil.verify(_Mistaken(evidence, gone), engine="dask", scheduler=cluster.scheduler_address)
    assert (caught.value.code, caught.value.where) == ("CF-ENGINE-005", str(evidence))
    done = _command("verify", str(evidence), "--engine", "dask", "--scheduler", "tcp://127.0.0.1:9", wait=60)
    assert (done.returncode, "CF-ENGINE-002" in done.stderr) == (2, True), done.stderr


def test_the_command_line(cluster: Any, evidence: Path, broken: Path) -> None:
    for root, code in ((evidence, 0), (broken, 3)):
        plain = _command("verify", str(root), "--json")
        words = ("verify", str(root), "--engine", "dask", "--scheduler", cluster.scheduler_address, "--json")
        done = _command(*words)
        assert (plain.returncode, done.returncode, done.stderr) == (code, code, "")
        told = json.loads(done.stdout)
        engine = told.pop("engine")
        assert told == json.loads(plain.stdout)
        assert (engine["name"], engine["failed"]) == ("dask", {})
        assert engine["taken"] > 4


def _command(*words: str, wait: int = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counterfoil", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=wait, check=False)


def test_threads_of_one_worker_share_nothing_that_is_judged(evidence: Path, broken: Path) -> None:
    """A worker of several threads: four segments at once in one process."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=4,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=50,
        ) as found,
        Client(found, set_as_default=False) as client,
    ):
        engine = DaskEngine(client=client)
        for root in (evidence, broken):
            assert outcome(counterfoil.verify(root, engine=engine, full=True)) == alone(root)
        engine.close()
        assert client.status == "running"
    assert threading.active_count() < 100
