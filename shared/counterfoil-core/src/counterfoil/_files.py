"""Files that people name: read without waiting for ever or filling memory, written in one step and through no link.

What the home and the evidence hold is read by their own modules.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from counterfoil._folders import sync_folder

__all__ = ["open_given", "open_regular", "read_given", "read_regular", "read_up_to", "write_given"]

_WAIT: Final = 30.0
_PIECE: Final = 1 << 16
_PIPES: Final = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


def read_given(path: str | os.PathLike[str], *, limit: int) -> bytes:
    """The bytes of a file, at most one more than ``limit``, so that a caller sees that there are too many.

    A pipe of a shell's process substitution (``/dev/fd/N``) is read too, for 30 seconds at most. Raises OSError: also
    for anything else that is no regular file, and for a file that is larger (EFBIG) before a byte of it is read.
    """
    name = os.fspath(path)
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if stat.S_ISFIFO(status.st_mode) and name.startswith(_PIPES):
            return _piped(fd, limit)
        _check(status)
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit} bytes")
        return read_up_to(fd, limit + 1)
    finally:
        os.close(fd)


def open_given(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file opened for reading; raises OSError for anything else, without waiting for a pipe's writer."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(fd))
        return open(fd, "rb")
    except OSError:
        os.close(fd)
        raise


def open_regular(path: Path) -> BinaryIO:
    """A regular file that is behind no link, opened for reading; raises OSError for anything else, without waiting."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = open(fd, "rb")
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise OSError(None, "not a regular file")
    return file


def read_regular(path: Path, *, most: int = -1) -> bytes:
    """The bytes of a regular file that is behind no link, no more than ``most``, or all.

    Raises OSError for anything else, without waiting.
    """
    with open_regular(path) as file:
        return file.read() if most < 0 else read_up_to(file.fileno(), most)


def read_up_to(fd: int, most: int) -> bytes:
    """What comes from a descriptor, no more than ``most`` bytes: a large limit takes no memory for a small file."""
    out = bytearray()
    while len(out) < most:
        piece = os.read(fd, min(_PIECE, most - len(out)))
        if not piece:
            break
        out += piece
    return bytes(out)


def write_given(path: str | os.PathLike[str], data: bytes, *, replace: bool, mode: int = 0o644) -> None:
    """Put bytes in a file's place in one step: a new file beside it, on disk, then renamed.

    The new file has a name that nobody can guess and is opened through no link. A link at ``path`` is refused, for
    it is somebody else's choice where the bytes go. Raises OSError; FileExistsError where there is a file already
    and ``replace`` is not set.
    """
    place = Path(path)
    if place.is_symlink():
        raise OSError(errno.ELOOP, "a link is in the way", str(place))
    if not replace and place.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place))
    with _beside(place, mode) as (fd, temporary):
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
        if replace:
            os.replace(temporary, place)
        else:
            os.link(temporary, place, follow_symlinks=False)
    sync_folder(place.parent)


@contextlib.contextmanager
def _beside(place: Path, mode: int) -> Iterator[tuple[int, Path]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(16)}.tmp")
    fd = os.open(temporary, flags, mode)
    try:
        yield fd, temporary
    finally:
        os.close(fd)
        temporary.unlink(missing_ok=True)


def _check(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def _piped(fd: int, limit: int) -> bytes:
    out = bytearray()
    until = time.monotonic() + _WAIT
    while len(out) <= limit:
        left = until - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            raise OSError(errno.ETIMEDOUT, "nothing more came through the pipe")
        piece = os.read(fd, min(_PIECE, limit + 1 - len(out)))
        if not piece:
            break
        out += piece
    return bytes(out)
