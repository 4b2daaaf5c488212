"""What this machine still has to upload, for who only looks: segments of a spool behind the last one that was sent."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from counterfoil import _home
from counterfoil.errors import CounterfoilError
from counterfoil.stores.folder import FolderStore

__all__ = ["spool_root", "waiting"]

_SENT: Final = re.compile(r"([0-9]{8})\.sent\Z")


def spool_root(name: str) -> Path:
    """The folder for the place in a bucket that is remembered by this name; it need not be there."""
    return _home.home() / "spool" / hashlib.sha256(name.encode()).hexdigest()[:16]


def waiting(name: str, log: str | None = None, segment: int | str | None = None) -> Path | None:
    """The folder, when it holds this segment, or any, and it was not sent; None where nothing is known of it."""
    try:
        store = FolderStore(spool_root(name))
        for one in [log] if log is not None else store.logs():
            marks = [_SENT.match(path.name) for path in (store.root / one).glob("*.sent")]
            sent = max((int(mark[1]) for mark in marks if mark), default=-1)
            pending = [number for number in store.segments(one) if number > sent]
            if segment in pending or (segment is None and pending):
                return store.root
    except (CounterfoilError, OSError):
        return None
    return None
