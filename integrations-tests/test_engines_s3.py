"""Evidence in a bucket, verified by workers that fetch its segments themselves: processes, and Dask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording import one_run

import counterfoil
from counterfoil import appending
from counterfoil.engines.dask import DaskEngine
from counterfoil.stores import open_store
from counterfoil.stores.s3 import copying
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def outcome(found: Any) -> tuple[Any, ...]:
    return found.verdict, found.findings, found.notes, found.counts


@pytest.mark.parametrize("broken", [False, True])
def test_workers_fetch_the_segments_of_a_bucket(
    s3_place: Any, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(appending, "SEGMENT_SIZE", 6000)
    folder: Path = s3_place.folder / "evidence"
    for _ in range(2):
        recorder = counterfoil.Recorder(folder)
        for number in range(4):
            one_run(recorder, number=number)
            recorder.open().checkpoint()
            assert recorder.flush()
        recorder.close()
    if broken:
        victim = sorted(folder.rglob("*.seg"))[2]
        data = bytearray(victim.read_bytes())
        data[len(data) // 2] ^= 1
        victim.write_bytes(data)
        # What is damaged is not pushed, so it goes there as somebody else would put it.
        for path in sorted(folder.rglob("*.seg")):
            key = s3_place.key(str(path.relative_to(folder)))
            s3_place.admin.put_object(
                Bucket=s3_place.name, Key=key, Body=path.read_bytes(), ChecksumAlgorithm="SHA256"
            )
    else:
        copying.push(open_store(folder), Bucket(Address.parse(s3_place.uri)))
    segments = len(list(folder.rglob("*.seg")))
    assert segments > 4
    alone = counterfoil.verify(s3_place.uri, jobs=1, full=True)
    assert alone.verdict == ("broken" if broken else "intact")
    pool = counterfoil.verify(s3_place.uri, engine="pool", jobs=2, full=True)
    assert outcome(pool) == outcome(alone)
    # The workers' own environment holds the credentials: nothing that is a secret goes to them.
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=50,
    ) as cluster:
        engine = _Listening(scheduler=cluster.scheduler_address)
        found = counterfoil.verify(s3_place.uri, engine=engine, full=True)
        engine.close()
    assert outcome(found) == outcome(alone)
    assert found.elsewhere.failed == {}
    if not broken:
        assert (found.elsewhere.taken, found.elsewhere.here) == (segments, 0)
    secrets = s3_place.server.variables()["AWS_SECRET_ACCESS_KEY"].encode()
    assert engine.tasks
    assert not any(secrets in task for task in engine.tasks)


class _Listening(DaskEngine):
    """Keeps what is sent."""

    def __init__(self, scheduler: str) -> None:
        super().__init__(scheduler=scheduler)
        self.tasks: list[bytes] = []

    def submit(self, task: bytes, told: Any = None) -> Any:
        self.tasks.append(task)
        return super().submit(task, told)
