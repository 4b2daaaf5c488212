"""Chooses an engine by name, and makes sure that its workers can do the work."""

from __future__ import annotations

import json
from typing import Final

from counterfoil._version import __version__
from counterfoil.engines import Engine
from counterfoil.engines.pool import PoolEngine
from counterfoil.errors import EngineError

__all__ = ["NAMES", "check_workers", "choose"]

NAMES: Final = ("pool", "dask", "ray")


def choose(name: str, *, scheduler: str | None = None, jobs: int | None = None) -> Engine:
    """The engine of a name, started: ``jobs`` workers on this machine, or those of the cluster at ``scheduler``.

    Raises:
        ConfigError: CF-CONFIG-020: the engine's package is not installed.
        EngineError: CF-ENGINE-001: no such engine; CF-ENGINE-002: its cluster cannot be started or reached;
            CF-ENGINE-003: a scheduler for an engine that has none, or a number of workers for one that has them.
    """
    if name not in NAMES:
        raise EngineError(
            "there is no such engine", code="CF-ENGINE-001", where=name, hint=f"engines: {', '.join(NAMES)}"
        )
    if name == "pool":
        if scheduler is not None:
            raise EngineError(
                "the engine pool has no scheduler",
                code="CF-ENGINE-003",
                where=scheduler,
                hint="name the engine of the cluster: --engine dask or --engine ray",
            )
        return PoolEngine(jobs=jobs)
    if scheduler is not None and jobs is not None:
        raise EngineError(
            "a cluster has as many workers as it has",
            code="CF-ENGINE-003",
            where=scheduler,
            hint="leave out --jobs or --scheduler",
        )
    if name == "dask":
        from counterfoil.engines.dask import DaskEngine

        return DaskEngine(scheduler=scheduler, jobs=jobs)
    from counterfoil.engines.ray import RayEngine

    return RayEngine(scheduler=scheduler, jobs=jobs)


def check_workers(engine: Engine, address: str, logs: int) -> None:
    """Make sure that workers run this Counterfoil and see this evidence, before they are relied upon.

    Raises:
        EngineError: CF-ENGINE-004: another Counterfoil, or none; CF-ENGINE-005: the evidence is not there.
    """
    for answer in engine.look(address):
        told = json.loads(answer)
        if told["version"] != __version__:
            raise EngineError(
                f"a worker runs Counterfoil {told['version'] or '(none)'}, this is {__version__}",
                code="CF-ENGINE-004",
                where=engine.name,
                hint="install the same version on all workers",
            )
        if told["error"] or (logs and not told["logs"]):
            raise EngineError(
                f"a worker cannot read this evidence: {told['error'] or 'there is none at this address'}",
                code="CF-ENGINE-005",
                where=address,
                hint="put it where all workers see it: a shared file system under the same path, or s3://",
            )
