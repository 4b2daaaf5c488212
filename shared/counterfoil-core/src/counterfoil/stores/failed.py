"""What a failing disk or folder means: one error with a stable code."""

from __future__ import annotations

import errno
from pathlib import Path

from counterfoil.errors import StoreError

__all__ = ["gone", "store_error"]


def store_error(exc: OSError, message: str, where: str) -> StoreError:
    """The StoreError for an OSError: full disk, read-only, permission and the rest have their own codes."""
    reason = exc.strerror or type(exc).__name__
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(
            f"{message}: {reason}", code="CF-STORE-004", where=where, hint="free space on this disk"
        )
    if exc.errno == errno.EROFS:
        return StoreError(
            f"{message}: {reason}",
            code="CF-STORE-005",
            where=where,
            hint="choose a folder that can be written",
        )
    if exc.errno in (errno.EACCES, errno.EPERM):
        return StoreError(
            f"{message}: {reason}",
            code="CF-STORE-006",
            where=where,
            hint="check the folder's owner and permissions",
        )
    return StoreError(
        f"{message}: {reason}", code="CF-STORE-001", where=where, hint="check the path and the disk"
    )


def gone(place: Path) -> StoreError:
    """The StoreError for a log that was removed or moved away under its writer."""
    return StoreError(
        "the log was removed or moved away while it was written",
        code="CF-STORE-007",
        where=str(place),
        hint="restore it from a copy; recording goes on in another log",
    )
