"""Small files of the system, read with a cap and never with an error."""

from __future__ import annotations

from typing import Final

from counterfoil._files import open_given

__all__ = ["plain", "text"]

_LIMIT: Final = 1 << 20


def text(path: str, limit: int = _LIMIT) -> str:
    """The file's text, at most ``limit`` bytes of it; empty when it cannot be read or is no regular file."""
    try:
        with open_given(path) as file:
            return file.read(limit).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def plain(value: object) -> bool:
    """Whether ``value`` is a string that UTF-8 can hold (names of the system may hold undecodable bytes)."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
