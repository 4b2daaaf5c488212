"""A Dask cluster inside this process, spoken to over TCP, in the place of the pool of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from counterfoil import verification

__all__ = ["Borrowed", "instead"]


class Borrowed:
    """An engine that stays when somebody who borrowed it closes it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.given = 0

    def submit(self, task: bytes, told: Callable[[int], None] | None = None) -> Any:
        self.given += 1
        return self._engine.submit(task, told)

    def close(self, *, now: bool = False) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@contextmanager
def instead() -> Iterator[Borrowed]:
    """``verify`` with several jobs gives its segments to Dask."""
    from distributed import Client, LocalCluster

    from counterfoil.engines.dask import DaskEngine

    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            protocol="tcp",
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=50,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.MonkeyPatch.context() as patch,
    ):
        engine = Borrowed(DaskEngine(client=client))
        patch.setattr(verification, "PoolEngine", lambda jobs: engine)
        yield engine
