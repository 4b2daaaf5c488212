"""Patterns of actors and capabilities: one thing, or everything below a place, by a rule that two readers cannot read
in two ways.

No expressions, no normalisation, no ``..``: whether one pattern covers another is a comparison of prefixes.
Source: ``shared/spec/trust.md``, Patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["covers", "covers_any", "is_actor_pattern", "is_capability"]

MAX_PATTERN: Final = 1024
_CAPABILITY: Final = re.compile(r"[!#-\[\]-~]{1,256}")


def covers(granted: str, asked: str) -> bool:
    """Whether a pattern covers a text or another pattern: ``team/*`` covers ``team/writer`` and ``team/a/*``."""
    if granted == asked:
        return True
    if granted != "*" and granted[-2:] not in ("/*", ":*"):
        return False
    prefix = granted[:-1]
    return len(asked) > len(prefix) and asked.startswith(prefix)


def covers_any(granted: Iterable[str], asked: str) -> bool:
    """Whether one of several patterns covers a text."""
    return any(covers(one, asked) for one in granted)


def is_capability(text: str) -> bool:
    """Whether a text names what one may be allowed to do: segments after ``:`` or ``/``, the last may be ``*``."""
    if not _CAPABILITY.fullmatch(text):
        return False
    segments = re.split("[:/]", text)
    if segments[-1] == "*":
        segments.pop()
    return all(one not in ("", ".", "..") and "*" not in one for one in segments)


def is_actor_pattern(text: str) -> bool:
    """Whether a text is an actor path, or ``*`` alone or as its last name; ``*`` stands nowhere else in it."""
    names = text.split("/")
    if names[-1] == "*":
        names.pop()
    return 0 < len(text) <= MAX_PATTERN and all(name and "*" not in name for name in names)
