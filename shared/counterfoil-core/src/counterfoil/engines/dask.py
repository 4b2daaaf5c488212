"""Dask: workers of a cluster at a scheduler's address, or a cluster on this machine for the time of one verification.

What travels inside Dask is pickled by Dask: its scheduler and workers have to be trusted like this machine. A cluster
that is started here has keys of its own (TLS), so that other users of this machine cannot speak to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from counterfoil.engines import Lost, Pending
from counterfoil.engines.pool import cores
from counterfoil.engines.work import look, verify_segment
from counterfoil.errors import EngineError
from counterfoil.needs import needed

__all__ = ["DaskEngine"]

_PATIENCE: Final = 30
"""Seconds that a scheduler may take to answer, and a first worker to come."""
_COUNTED: Final = 5.0
"""Seconds after which the workers are counted again."""
_AHEAD: Final = 2
"""Tasks given to a thread of a worker at once: one is fetched while the other is done."""


class DaskEngine:
    """Workers behind ``scheduler`` (``tcp://host:port``), or ``jobs`` of them (default: one a core) on this machine.

    ``client`` is one that is there already, and stays. Raises ConfigError (CF-CONFIG-020): Dask is not installed;
    EngineError (CF-ENGINE-002): there is no scheduler, or the cluster does not start.
    """

    name = "dask"
    packs = True

    def __init__(self, *, scheduler: str | None = None, jobs: int | None = None, client: Any = None) -> None:
        dask, distributed = needed("dask", extra="dask"), needed("distributed", extra="dask")
        self._began = contextlib.ExitStack()
        self._counted, self._slots, self._seen = 0.0, 1, time.monotonic()
        try:
            if client is not None:
                self._client = client
                return
            self._began.enter_context(dask.config.set(_settings(dask)))
            where: Any = scheduler
            if scheduler is None:
                where = self._began.enter_context(
                    distributed.LocalCluster(
                        n_workers=jobs or cores(),
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",
                        host="127.0.0.1",
                        security=True,
                        silence_logs=logging.CRITICAL,
                    )
                )
            self._client = self._began.enter_context(
                distributed.Client(where, timeout=_PATIENCE, set_as_default=False)
            )
        except Exception as exc:
            self._began.close()
            raise EngineError(
                f"Dask's cluster cannot be {'started' if scheduler is None else 'reached'}: "
                f"{type(exc).__name__}",
                code="CF-ENGINE-002",
                where=scheduler or "this machine",
                hint='start it under `if __name__ == "__main__":`, or leave the engine out'
                if scheduler is None
                else "check the address, and that versions of Dask agree: dask scheduler prints it",
            ) from exc

    def slots(self) -> int:
        """Two tasks for every thread of the workers that are there now."""
        now = time.monotonic()
        if now >= self._counted + _COUNTED or not self._counted:
            self._counted = now
            with contextlib.suppress(
                Exception
            ):  # a scheduler that is gone has as many as before: each will be missed
                self._slots = max(1, _AHEAD * sum(self._client.nthreads().values()))
        return self._slots

    def look(self, task: bytes) -> list[bytes]:
        """What every worker that is there says."""
        try:
            self._client.wait_for_workers(1, timeout=_PATIENCE)
            found = self._client.run(look, task, on_error="return")
        except Exception as exc:
            raise EngineError(
                "the cluster has no worker",
                code="CF-ENGINE-002",
                where=self._client.scheduler.address,
                hint="start workers: dask worker ADDRESS --nthreads 1",
            ) from exc
        return [one if isinstance(one, bytes) else _none(one) for one in found.values()]

    def submit(self, task: bytes, told: Callable[[int], None] | None = None) -> Pending:
        """Check a segment on some worker; the scheduler gives it to another when that one ends."""
        return _Answer(self, self._client.submit(verify_segment, task, pure=False))

    def alone(self) -> bool:
        """Whether nobody is left to answer: the scheduler is gone, or no worker was there for some time."""
        try:
            there = bool(self._client.nthreads())
        except Exception:
            return True
        now = time.monotonic()
        self._seen = now if there else self._seen
        return now - self._seen > _PATIENCE

    def close(self, *, now: bool = False) -> None:
        """Leave the cluster, and end one that was started here."""
        self._began.close()


class _Answer:
    """A future of Dask, which would wait for ever for a worker to come."""

    def __init__(self, engine: DaskEngine, future: Any) -> None:
        self._engine, self._future = engine, future

    def result(self) -> bytes:
        """The answer; raises what the worker did, or Lost."""
        while True:
            try:
                found: bytes = self._future.result(timeout=_COUNTED)
                return found
            except TimeoutError:
                if self._engine.alone():
                    raise Lost from None
            except asyncio.CancelledError:  # no Exception: nobody would take it for one
                raise Lost from None

    def cancel(self) -> None:
        """Let it go."""
        with contextlib.suppress(Exception):
            self._future.cancel()


def _none(failure: object) -> bytes:
    """What a worker says that cannot even look: it has no Counterfoil, or one without this."""
    return json.dumps({"version": "", "logs": 0, "error": type(failure).__name__}).encode()


def _settings(dask: Any) -> dict[str, Any]:
    """Settings of a cluster that is begun here: its workers record nothing, whatever this process does, and are not
    sampled a hundred times a second.
    """
    before = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    return {
        "distributed.nanny.pre-spawn-environ": {**before, "COUNTERFOIL": "off"},
        "distributed.admin.tick.interval": "500ms",
        "distributed.worker.profile.enabled": False,
    }
