"""Finds out before the application starts whether anything can be recorded, without leaving a trace in evidence."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from counterfoil import keys
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.places import is_bucket, open_for_writing
from counterfoil.stores import FolderStore, open_store
from counterfoil.stores.folder import store_error

__all__ = ["check", "never"]

_NEVER = (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def check(evidence: str) -> CounterfoilError | None:
    """What will keep the recorder from recording, or None; makes the identity key at first use.

    A disk may still fill up later: the recorder tells that itself.
    """
    try:
        keys.load_or_create_identity()
        store = open_for_writing(evidence)
        store.exists()
        _writable(store)
    except CounterfoilError as exc:
        return exc
    except OSError as exc:
        return store_error(exc, "cannot write the evidence", evidence)
    return None


def never(evidence: str) -> StoreError | None:
    """Why a path can never be a folder (it is, or lies below, something else), or None; a disk may change.

    The address of a bucket is looked at, and nothing is asked of it. Raises ConfigError for one that is none.
    """
    if is_bucket(evidence):
        open_for_writing(evidence)
        return None
    root = open_store(evidence).root
    for place in (root, *root.parents):
        try:
            folder, reason = stat.S_ISDIR(os.stat(place).st_mode), "it is there and is none"
        except FileNotFoundError:
            continue
        except OSError as exc:
            folder, reason = exc.errno not in _NEVER, str(exc.strerror)
        if folder:
            return None
        message = f"the evidence path can be no folder: {reason}"
        return StoreError(message, code="CF-STORE-003", where=str(root), hint="name a folder")
    return None


def _writable(store: FolderStore) -> None:
    place: Path = store.root
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    status = os.statvfs(place)
    if status.f_flag & getattr(os, "ST_RDONLY", 1):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(place))
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    if (status.f_blocks and not status.f_bavail) or (status.f_files and not status.f_favail):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))
