"""Ray: workers of a cluster at an address, or a cluster on this machine for the time of one verification.

What travels inside Ray is pickled by Ray: its cluster has to be trusted like this machine. A cluster that is started
here reports its use to nobody, and asks for a token that only this process knows; where Ray was imported before, its
own settings count, for it reads them then.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from counterfoil.engines import Pending
from counterfoil.engines.pool import cores
from counterfoil.engines.work import look, verify_segment
from counterfoil.errors import EngineError
from counterfoil.needs import needed

__all__ = ["RayEngine"]

_COUNTED: Final = 5.0
"""Seconds after which the workers are counted again."""
_AHEAD: Final = 2
_PATIENCE: Final = 60.0
_TRIES: Final = 3
_STORE: Final = 512 << 20
"""Bytes of memory in which a cluster of this machine keeps answers."""


class RayEngine:
    """Workers of the cluster at ``scheduler`` (``ray://host:port``, ``host:port`` or ``auto``), or ``jobs`` (default:
    one a core) on this machine; where this process uses Ray already, that.

    Raises ConfigError (CF-CONFIG-020): Ray is not installed; EngineError (CF-ENGINE-002): there is no cluster, or it
    does not start.
    """

    name = "ray"
    packs = True

    def __init__(self, *, scheduler: str | None = None, jobs: int | None = None) -> None:
        if scheduler is None and "ray" not in sys.modules:
            # They stay: Ray holds to the token it was imported with, and so must all that this process starts later.
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self._ray = needed("ray", extra="ray")
        self._counted, self._slots = 0.0, 1
        self._own = not self._ray.is_initialized()
        if self._own:
            self._begin(scheduler, jobs)
        self._check = self._ray.remote(num_cpus=1, max_retries=_TRIES)(verify_segment)

    def _begin(self, scheduler: str | None, jobs: int | None) -> None:
        given: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        here = scheduler is None
        if here:
            given |= {
                "_node_ip_address": "127.0.0.1",
                "include_dashboard": False,
                "num_cpus": jobs or cores(),
                "object_store_memory": _STORE,
            }
        try:
            with _variables() if here else contextlib.nullcontext():
                self._ray.init(address="local" if here else scheduler, **given)
        except Exception as exc:
            raise EngineError(
                f"Ray's cluster cannot be {'started' if here else 'reached'}: {type(exc).__name__}",
                code="CF-ENGINE-002",
                where=scheduler or "this machine",
                hint="check the address, and that versions of Ray and Python agree" if scheduler else None,
            ) from exc

    def slots(self) -> int:
        """Two tasks for every processor of the cluster as it is now."""
        now = time.monotonic()
        if now >= self._counted + _COUNTED or not self._counted:
            self._counted = now
            self._slots = max(1, _AHEAD * int(self._ray.cluster_resources().get("CPU", 1)))
        return self._slots

    def look(self, task: bytes) -> list[bytes]:
        """What one worker says: Ray starts workers when there is work."""
        ray = self._ray
        try:
            return [ray.get(ray.remote(num_cpus=1, max_retries=0)(look).remote(task), timeout=_PATIENCE)]
        except ray.exceptions.GetTimeoutError as exc:
            raise EngineError(
                "the cluster has no worker", code="CF-ENGINE-002", where="ray", hint="start nodes: ray start"
            ) from exc
        except Exception as exc:
            failed = {"version": "", "logs": 0, "error": type(exc).__name__}
            return [json.dumps(failed).encode()]

    def submit(self, task: bytes, told: Callable[[int], None] | None = None) -> Pending:
        """Check a segment on some worker; Ray gives it to another when that one ends."""
        return _Ref(self._ray, self._check.remote(task))

    def close(self, *, now: bool = False) -> None:
        """Leave the cluster, and end one that was started here."""
        if self._own:
            self._ray.shutdown()


class _Ref:
    """An answer in Ray's store."""

    def __init__(self, ray: Any, ref: Any) -> None:
        self._ray, self._ref = ray, ref

    def result(self) -> bytes:
        """The answer; raises RayError when there is none."""
        found: bytes = self._ray.get(self._ref)
        return found

    def cancel(self) -> None:
        """Let it go."""
        with contextlib.suppress(Exception):
            self._ray.cancel(self._ref)


@contextlib.contextmanager
def _variables() -> Iterator[None]:
    """What processes of Ray are to find in their environment while they are started."""
    given = {
        "COUNTERFOIL": "off",  # they record nothing, whatever this process does
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
