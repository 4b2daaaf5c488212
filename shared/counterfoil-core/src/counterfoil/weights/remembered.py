"""Digests of large files that were hashed before, in the home: so that hashing begins again where it was stopped.

A digest is believed where device, inode, size, mtime and ctime are those it was hashed at. A file that changed within
the last seconds is not remembered: clocks of file systems are coarse, and a later change might not show in them.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any, Final

from counterfoil import _folders, _home, canonical
from counterfoil.errors import CounterfoilError

__all__ = ["LEAST", "recall", "remember", "sweep"]

LEAST: Final = 16 << 20
"""Bytes from which a file is worth a note; a smaller one is hashed faster than looked up."""
SETTLED: Final = 2.0
"""Seconds since a file last changed, from which on a change would show in its times."""
_LIMIT: Final = 4096
_MONTHS: Final = 90 * 86400.0
_VERSION: Final = 0
_HEX64: Final = re.compile(r"[0-9a-f]{64}")


def recall(status: os.stat_result) -> str | None:
    """The digest that a file of this status had, if it is remembered; what cannot be read is not."""
    if status.st_size < LEAST:
        return None
    try:
        if not _home.check_home():
            return None
        data = _home.read_file(_path(status), limit=_LIMIT, secret=False)
        found = None if data is None else canonical.loads_canonical(data)
    except CounterfoilError:
        return None  # it is hashed, which is all that a damaged note costs
    if type(found) is not dict or {key: found.get(key) for key in _key(status)} != _key(status):
        return None
    digest = found.get("sha256")
    return digest if type(digest) is str and _HEX64.fullmatch(digest) else None


def remember(status: os.stat_result, sha256: str) -> None:
    """Note a digest; a home that takes no note costs time the next time, nothing else."""
    changed = max(status.st_mtime, status.st_ctime)
    if status.st_size < LEAST or time.time() < changed + SETTLED:
        return
    with contextlib.suppress(CounterfoilError, OSError):
        path = _path(status)
        _home.make_private_dir(path.parent)
        _home.write_file(path, canonical.dumps({**_key(status), "sha256": sha256}), sync=False)


def sweep() -> None:
    """Forget what was noted long ago."""
    with contextlib.suppress(CounterfoilError, OSError):
        if _home.check_home() and _folder().is_dir():
            _folders.remove_older(_folder(), _MONTHS)


def _key(status: os.stat_result) -> dict[str, Any]:
    # As texts: inodes and nanoseconds do not fit into 53 bits.
    return {
        "ctime": str(status.st_ctime_ns),
        "device": str(status.st_dev),
        "inode": str(status.st_ino),
        "mtime": str(status.st_mtime_ns),
        "size": str(status.st_size),
        "version": _VERSION,
    }


def _folder() -> Path:
    return _home.home() / "hashed"


def _path(status: os.stat_result) -> Path:
    return _folder() / f"{_home.name_of(f'{status.st_dev} {status.st_ino}')}.json"
