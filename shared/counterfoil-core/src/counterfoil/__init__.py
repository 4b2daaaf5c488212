"""Counterfoil: verified ancestry for multi-agent systems.

Every prompt, tool call, model output and handoff is recorded as canonical JSON under its SHA-256 in an append-only,
signed log; every handoff travels as a signed envelope that the receiver verifies before it acts.

    import counterfoil
    counterfoil.install("evidence")            # recording on, for every installed adapter
    result = counterfoil.verify("evidence")    # intact, broken, incomplete or cannot-tell

Names are imported at first use, so that an interpreter that records nothing pays nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from counterfoil._version import __version__

if TYPE_CHECKING:
    from counterfoil import canonical, dsse, errors, hooks, keys, notes, tree, trust, values, weights
    from counterfoil.autostart import install, uninstall
    from counterfoil.context import current
    from counterfoil.errors import CounterfoilError, HandoffRefusedError
    from counterfoil.findings import Finding, Verification
    from counterfoil.handoff import Accepted, Allow, OpenLog, accept, open, seal, take_receipt
    from counterfoil.hooks import hookimpl, hookspec
    from counterfoil.reader import read
    from counterfoil.recorder import Recorder
    from counterfoil.verification import verify
    from counterfoil.weights.binding import bind_model

__all__ = [
    "Accepted",
    "Allow",
    "CounterfoilError",
    "Finding",
    "HandoffRefusedError",
    "OpenLog",
    "Recorder",
    "Verification",
    "__version__",
    "accept",
    "bind_model",
    "bundle",
    "canonical",
    "current",
    "dsse",
    "errors",
    "hookimpl",
    "hooks",
    "hookspec",
    "install",
    "keys",
    "notes",
    "open",
    "read",
    "seal",
    "take_receipt",
    "tree",
    "trust",
    "uninstall",
    "values",
    "verify",
    "weights",
]

_WHERE = {
    "Accepted": "handoff",
    "Allow": "handoff",
    "OpenLog": "handoff",
    "CounterfoilError": "errors",
    "Finding": "findings",
    "HandoffRefusedError": "errors",
    "Recorder": "recorder",
    "Verification": "findings",
    "accept": "handoff",
    "bind_model": "weights.binding",
    "bundle": "bundles.cutting",
    "current": "context",
    "hookimpl": "hooks",
    "hookspec": "hooks",
    "install": "autostart",
    "open": "handoff",
    "read": "reader",
    "seal": "handoff",
    "take_receipt": "handoff",
    "uninstall": "autostart",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'counterfoil' has no attribute {name!r}")
    if name in _WHERE:
        found = getattr(importlib.import_module(f"counterfoil.{_WHERE[name]}"), name)
    else:
        found = importlib.import_module(f"counterfoil.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
