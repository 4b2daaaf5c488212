"""Chooses an engine by name, and makes sure that its workers can do the work."""

from __future__ import annotations

import json
from typing import Final

from counterfoil._version import __version__
from counterfoil.engines import Engine
from counterfoil.engines.form import pack_task
from counterfoil.engines.pool import PoolEngine
from counterfoil.errors import EngineError
from counterfoil.log import Step
from counterfoil.parts import Task
from counterfoil.stores import FolderStore

__all__ = ["NAMES", "check_workers", "choose", "one_process"]

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


def check_workers(engine: Engine, store: FolderStore) -> None:
    """Make sure that workers run this Counterfoil and see this evidence, before they are relied upon.

    Raises:
        EngineError: CF-ENGINE-004: another Counterfoil, or none; CF-ENGINE-005: the evidence is not there;
            CF-ENGINE-006: it is read in one process only.
    """
    found = next(((log, number) for log in store.logs() for number in store.segments(log)[:1]), None)
    if found is None:
        return
    place = store.elsewhere(*found)
    if place is None:
        raise one_process(store)
    task = pack_task(Task(place, found[0], Step(found[1], None, last=False, opening=""), {}))
    for answer in engine.look(task):
        told = json.loads(answer)
        if told["version"] != __version__:
            raise EngineError(
                f"a worker runs Counterfoil {told['version']}, this is {__version__}"
                if told["version"]
                else f"a worker cannot run Counterfoil: {told['error']}",
                code="CF-ENGINE-004",
                where=engine.name,
                hint=f"install counterfoil-core {__version__} on all workers, under one version of Python",
            )
        if told["error"]:
            raise EngineError(
                f"a worker cannot read this evidence: {told['error']}",
                code="CF-ENGINE-005",
                where=store.place,
                hint="a folder must be there under the same path; for s3:// they need credentials and counterfoil[s3]",
            )


def one_process(store: FolderStore) -> EngineError:
    """The error for evidence that no other process can open: a bundle, or files put in the place of others."""
    return EngineError(
        "this evidence is read in one process only",
        code="CF-ENGINE-006",
        where=store.place,
        hint="leave out --engine: a bundle is one file",
    )
