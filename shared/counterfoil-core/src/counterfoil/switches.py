"""What the variable ``COUNTERFOIL`` means; read at interpreter start, so it imports next to nothing."""

from __future__ import annotations

import os
import re
from typing import Final

__all__ = ["DEFAULT_EVIDENCE", "LAUNCH", "OFF", "ON", "absolute", "evidence", "launch"]

DEFAULT_EVIDENCE: Final = "counterfoil-evidence"
OFF: Final = frozenset({"", "0", "false", "off", "no"})
ON: Final = frozenset({"1", "true", "on", "yes"})
"""Values that switch recording on without naming a place."""

LAUNCH: Final = "COUNTERFOIL_LAUNCH"
"""Set by ``counterfoil run`` for its application: what it calls itself, behind what started it, if that did too."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+://")
_LAUNCHES: Final = re.compile(r"[0-9a-f]{16}(\.[0-9a-f]{16}){0,15}")


def evidence() -> str | None:
    """The place that ``COUNTERFOIL`` names, None when it is unset, off, or only says on."""
    value = os.environ.get("COUNTERFOIL", "")
    return None if value.strip().lower() in OFF | ON else value


def launch() -> str | None:
    """What ``counterfoil run`` that started this process calls itself; None when there was none."""
    value = os.environ.get(LAUNCH, "")
    return value if _LAUNCHES.fullmatch(value) else None


def absolute(place: str) -> str:
    """A folder's absolute path; a URI stays as it is."""
    return place if _SCHEME.match(place) else os.path.abspath(place)
