"""Folders that are there for good: made, their names put on disk, and rid of what killed processes left."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import Final

_STALE_SECONDS: Final = 60.0
_CANNOT: Final = (errno.EACCES, errno.EINVAL, errno.ENOTSUP)


def make_folders(path: Path) -> bool:
    """Make a folder (mode 0700) and those above it, each one's name on disk when this returns; False if it was there.

    Raises OSError.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        missing.append(folder)
    for folder in reversed(missing):
        # The folders above are nobody's secret; what is made between them and the one asked for is.
        folder.mkdir(mode=0o700 if folder == path else 0o777, exist_ok=True)
        sync_folder(folder.parent)
    if not missing:
        path.mkdir(mode=0o700, exist_ok=True)  # it may be gone again, or something else
    return bool(missing)


def sync_folder(path: Path) -> None:
    """Put a folder's entries on disk: a synced file whose name is not there is lost with the power. Raises OSError."""
    if os.name != "posix":
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # a folder may be written and not read: nothing can be done about it
    try:
        os.fsync(fd)
    except OSError as exc:
        if exc.errno not in _CANNOT:  # file systems that have no such thing
            raise
    finally:
        os.close(fd)


def remove_older(folder: Path, seconds: float) -> None:
    """Remove the files of a folder that were changed so many seconds ago or more."""
    before = time.time() - seconds
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            # A folder in there, or what another process removed first, keeps none of the others.
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(entry.path)


def sweep(folder: Path) -> None:
    """Remove what killed processes left of files they were writing into a folder of the home, a minute ago or more."""
    with contextlib.suppress(OSError):
        for path in folder.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if abs(time.time() - path.lstat().st_mtime) > _STALE_SECONDS:
                    path.unlink()
