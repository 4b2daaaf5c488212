"""What the variable ``COUNTERFOIL`` means; read at interpreter start, so it imports next to nothing."""

from __future__ import annotations

import os
import re
from typing import Final

__all__ = ["DEFAULT_EVIDENCE", "OFF", "ON", "evidence"]

DEFAULT_EVIDENCE: Final = "counterfoil-evidence"
OFF: Final = frozenset({"", "0", "false", "off", "no"})
ON: Final = frozenset({"1", "true", "on", "yes"})
"""Values that switch recording on without naming a place."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]+://")


def evidence() -> str | None:
    """The place that ``COUNTERFOIL`` names, None when it is unset, off, or only says on."""
    value = os.environ.get("COUNTERFOIL", "")
    return None if value.strip().lower() in OFF | ON else value


def absolute(place: str) -> str:
    """A folder's absolute path; a URI stays as it is."""
    return place if _SCHEME.match(place) else os.path.abspath(place)
