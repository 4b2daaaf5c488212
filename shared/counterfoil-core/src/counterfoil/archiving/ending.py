"""Ends a log for good: one more session of its identity, with the word that it is kept apart from what it cites."""

from __future__ import annotations

import os
from typing import Any

from counterfoil import environment, keys, records, values
from counterfoil._version import __version__
from counterfoil.appending import Opening
from counterfoil.choosing import Only
from counterfoil.digest import Reducer
from counterfoil.errors import ArchiveError
from counterfoil.stores import FolderStore
from counterfoil.writer import Writer

__all__ = ["OneLog", "end_log", "opening"]


class OneLog(Writer):
    """A writer of the one log that is asked for; raises LogError (CF-LOG-037) when it is not to be had."""

    def __init__(
        self, store: FolderStore, identity: keys.SigningKey, *, only: Only, opening: Opening
    ) -> None:
        self.only = only
        super().__init__(store, identity, opening=opening)


def end_log(store: FolderStore, identity: keys.SigningKey, name: str) -> None:
    """Append the record `archived`, and close.

    Raises:
        ArchiveError: CF-ARCHIVE-007: the disk did not take it.
        LogError: CF-LOG-037: a writer has the log, or it is not whole.
    """
    writer = OneLog(store, identity, only=Only(name, alone=True), opening=_short)
    try:
        body = records.build({"op": "archived", "phase": "point"}, {"at": records.now()})
        ok = writer.entry(body) and writer.flush()
    finally:
        writer.close()
    if not ok or writer.error is not None:
        raise ArchiveError(
            f"a log could not be ended: {writer.error or 'it took no entry'}",
            code="CF-ARCHIVE-007",
            where=name,
            hint="mend what is said, then archive again",
        )


def opening() -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    """Context of a session that archives, and what it runs on."""
    return _session(environment.capture(key=None))


def _short() -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    return _session({})


def _session(ran_on: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    blobs: list[tuple[str, bytes]] = []
    reducer = Reducer(lambda sha256, data: blobs.append((sha256, data)))
    about = {"broken": {}, "capabilities": {}, "environment": ran_on, "plugins": {}}
    context = {
        "about": reducer.reference(values.encode(about)).to_dict(),
        "durability": "group",
        "mode": "archive",
        "pid": os.getpid(),
        "version": __version__,
    }
    return context, blobs
