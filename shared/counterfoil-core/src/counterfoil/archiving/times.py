"""Moments and spans as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from counterfoil.errors import ConfigError

__all__ = ["before", "span"]

_SPAN: Final = re.compile(r"([0-9]{1,6})([smhdy])\Z")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "y": 365 * 86_400}
_LONGEST: Final = 100 * 365 * 86_400


def span(text: str, *, name: str) -> int:
    """Seconds of ``90d``, ``12h`` or ``7y`` (years of 365 days); raises ConfigError (CF-ARCHIVE-010)."""
    match = _SPAN.match(text)
    found = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < found <= _LONGEST:
        raise ConfigError(
            f"no span of time of up to 100 years: {text[:40]!a}",
            code="CF-ARCHIVE-010",
            where=name,
            hint="write a number and s, m, h, d or y: 90d",
        )
    return found


def before(text: str, *, now: float, name: str) -> int:
    """Unix microseconds of a date (midnight, UTC), a moment in ISO 8601, or a span back from ``now``.

    Raises:
        ConfigError: CF-ARCHIVE-010: it is none of these, or not in the past.
    """
    if _SPAN.match(text):
        return int((now - span(text, name=name)) * 1_000_000)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is not None:
        at = found.replace(tzinfo=found.tzinfo or UTC).timestamp()
        if 0 <= at <= now:
            return int(at * 1_000_000)
    raise ConfigError(
        f"no moment of the past: {text[:40]!a}",
        code="CF-ARCHIVE-010",
        where=name,
        hint="write a date (2026-09-01), a moment (2026-09-01T12:00:00+02:00) or an age (90d)",
    )
