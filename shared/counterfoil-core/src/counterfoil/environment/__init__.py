"""What a run ran on, so that two runs that differ can be told apart by more than their prompts.

The record is a value of JSON types (``shared/spec/environment.md``); every item carries ``source``: ``probed`` (read
here), ``declared`` (said by whoever deployed it) or ``unknown``. It takes a few milliseconds and never runs another
program, never imports a framework, and never raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from counterfoil.environment import application, clock, distributions, frameworks, gpu, machine, variables
from counterfoil.environment.application import program
from counterfoil.environment.variables import ALLOWED

__all__ = ["ALLOWED", "capture", "program", "state"]

_log = logging.getLogger("counterfoil")

_PROBES: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "application": application.revision,
    "clock": clock.capture,
    "container": machine.container,
    "cpu": machine.cpu,
    "distributions": distributions.capture,
    "frameworks": frameworks.capture,
    "gpu": gpu.capture,
    "image": application.image,
    "os": machine.system,
    "python": machine.python,
}


def capture(*, key: bytes | None = None) -> dict[str, Any]:
    """The environment record's value, JSON types only; ``key`` (32 bytes) makes the variables' fingerprints."""
    found = {name: _probed(name, probe) for name, probe in _PROBES.items()}
    found["variables"] = _probed("variables", lambda: variables.capture(key))
    return found


def state() -> tuple[object, ...]:
    """What can change while a process runs; equal as long as a new capture would say the same of it."""
    return frameworks.state()


def _probed(name: str, probe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return probe()
    except Exception as exc:  # an odd machine is no reason not to record what runs on it
        _log.debug("counterfoil: %s of the environment cannot be read: %s", name, type(exc).__name__)
        return {"reason": f"could not be read: {type(exc).__name__}", "source": "unknown"}
