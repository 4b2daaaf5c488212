"""What one pass over a log tells those who want to archive it: when, which runs, what can still be handed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from counterfoil import records, statements
from counterfoil.archived import Archived, Manifest
from counterfoil.dsse import Envelope
from counterfoil.entries import BlobSeen, CheckpointSeen, Entry
from counterfoil.errors import CounterfoilError
from counterfoil.log import LogScan
from counterfoil.stores import FolderStore
from counterfoil.views import Runs

__all__ = ["Facts", "facts_of"]

_ITS_OWN: Final = frozenset({"session", "segment", "recovered", "stored", "closed", "archived"})
"""Operations that are about the log itself: a log that was only opened is no younger for it."""
_RUN_MAX: Final = 64
_LIST_MAX: Final = 64 << 20


@dataclass(slots=True)
class Facts:
    """``first`` and ``last`` in Unix microseconds, 0 where nothing tells a time.

    ``ended``: its last word is said, under a checkpoint; ``open_until``: when the last handoff in it that crosses
    processes expires, in milliseconds.
    """

    first: int = 0
    last: int = 0
    entries: int = 0
    runs: set[str] = field(default_factory=set)
    ended: bool = False
    open_until: int = 0
    archived: list[Archived] = field(default_factory=list)


def facts_of(store: FolderStore, name: str) -> Facts:
    """Look through a log as far as it can be read; nothing of it is verified here.

    Raises:
        StoreError: a segment cannot be read.
    """
    found, told = Facts(), Runs()
    began, word = 0, False
    lists: dict[str, bytes] = {}
    for event in LogScan(store, name).events():
        if isinstance(event, BlobSeen):
            # An archive statement follows its list at once.
            lists = {event.sha256: event.data} if len(event.data) <= _LIST_MAX else {}
            continue
        if isinstance(event, CheckpointSeen):
            found.ended = word
        if not isinstance(event, Entry):
            continue
        found.entries += 1
        run = told.of(event)[0]
        if run is not None and len(run) <= _RUN_MAX:
            found.runs.add(run)
        at = 0
        if records.is_record(event.body):
            at = _at(event)
            if event.op == "session":
                began = began or at
            if event.op in ("session", "archived"):
                word, found.ended = event.op == "archived", False
        else:
            at = _statement(event, found, lists)
        if at and event.op not in _ITS_OWN:
            found.first = min(found.first, at) if found.first else at
            found.last = max(found.last, at)
    found.first, found.last = found.first or began, found.last or began
    return found


def _at(entry: Entry) -> int:
    at = entry.body["context"].get("at")
    return at if type(at) is int and at > 0 else 0


def _statement(entry: Entry, found: Facts, lists: dict[str, bytes]) -> int:
    try:
        said = statements.parse(Envelope.parse(entry.body).payload).predicate
    except CounterfoilError:
        return 0
    if isinstance(said, statements.Archive):
        data = lists.get(said.manifest.sha256)
        if data is not None:
            try:
                found.archived.append(Archived(said, Manifest.parse(data)))
            except CounterfoilError:
                return 0
    elif isinstance(said, statements.Handoff) and said.proof == "countersigned":
        found.open_until = max(found.open_until, said.expires or 0)
    return said.issued * 1000
