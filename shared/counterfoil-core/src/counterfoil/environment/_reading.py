"""Small files of the system, read with a cap and never with an error."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

__all__ = ["data", "plain", "text"]

_LIMIT: Final = 1 << 20


def text(path: str, limit: int = _LIMIT) -> str:
    """The file's text, at most ``limit`` bytes of it; empty when it cannot be read or is no regular file."""
    try:
        return data(path, limit).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def data(path: str, limit: int) -> bytes:
    """A regular file's bytes, at most ``limit``; raises OSError. A buffered file makes room for all of it first."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        at_once = max(status.st_size + 1, 4096)  # files of the kernel have no size
        pieces = []
        while limit > 0 and (piece := os.read(fd, min(at_once, limit))):
            pieces.append(piece)
            limit -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def plain(value: object) -> bool:
    """Whether ``value`` is a string that UTF-8 can hold (names of the system may hold undecodable bytes)."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
