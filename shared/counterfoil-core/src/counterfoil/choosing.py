"""Which log a writer goes on with: the first of its identity that is whole, is what this machine remembers of it and
is held by nobody else; otherwise a new one.

The lock is taken before the log is read: until then another process may still append to it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterfoil import keys, locking, log, notes
from counterfoil._folders import sync_folder
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.locking import lock_log, unlock
from counterfoil.stores import FolderStore

__all__ = ["Chosen", "Only", "choose", "is_here", "moved_with", "places_of", "stands"]

_SETTLED: Final = 3600.0
"""Seconds after which the kernel has written a file: there may be many logs, and a sync of each takes its time."""


@dataclass(slots=True)
class Chosen:
    """The log, the state to go on from, its locks (file descriptors), the last notes of the other logs, and the heads
    that are remembered for where the evidence stood before.
    """

    name: str
    origin: str
    scan: log.LogScan
    locks: list[int]
    others: list[tuple[str, bytes]]
    moved: list[keys.Head]


@dataclass(frozen=True, slots=True)
class Only:
    """The one log that is wanted: ``new`` makes it, ``alone`` cites no other log."""

    name: str
    new: bool = False
    alone: bool = False


def moved_with(store: FolderStore, heads: dict[str, keys.Head]) -> list[keys.Head]:
    """Heads of logs that were written in another place, which was moved here with all that was in it.

    A log that still stands in that place was copied from there, and is none of these.
    """
    here = dict.fromkeys(store.logs(), "")
    places = places_of(store, heads, here)
    # A place that is a link to here is here, whatever it was called.
    return [
        head
        for _, head in sorted(heads.items())
        if head.evidence in places
        and (os.path.realpath(head.evidence) == os.path.realpath(store.root) or not stands(head))
    ]


def places_of(store: FolderStore, heads: Mapping[str, keys.Head], here: Mapping[str, str]) -> set[str]:
    """Where the logs that are here were written, other than here."""
    return {head.evidence for head in heads.values() if is_here(head, here)} - store.names - {""}


def is_here(head: keys.Head, here: Mapping[str, str]) -> bool:
    """Whether a remembered log is among those here, by name and origin; of an empty one nobody can tell whose it is."""
    return here.get(head.origin.rpartition("/")[2]) in ("", head.origin)


def stands(head: keys.Head) -> bool:
    """Whether a log stands, as far as it is remembered, in the place that it is remembered for.

    Asked of its entries and stored bytes: a folder, file or link by its name is soon made, and so is a part of it. What
    cannot be read does not stand.
    """
    name = head.origin.rpartition("/")[2]
    if head.evidence.startswith("s3://"):
        return True  # a copy was taken from a bucket, where what is written stays
    try:
        place = FolderStore(Path(head.evidence))
        if name not in place.logs():
            return False
        for event in log.LogScan(place, name).events():
            if isinstance(event, log.CheckpointSeen) and event.size >= head.size:
                return (event.size, event.root.hex(), event.stored_ok) == (head.size, head.root, True)
    except (CounterfoilError, OSError, ValueError):
        return False
    return False


def choose(
    store: FolderStore,
    identity: keys.SigningKey,
    *,
    left_alone: Container[str] = (),
    only: Only | None = None,
) -> Chosen:
    """Choose and lock, none of those ``left_alone``.

    Raises LogError (CF-LOG-030) when a new log cannot be locked, OSError when no lock can be. ``only`` names the one
    log to go on with, closed or not; LogError (CF-LOG-037) when it is not to be had.
    """
    damaged: set[str] = set()
    heads = keys.remembered_heads(damaged=damaged)
    moved = moved_with(store, heads)
    others: list[tuple[str, bytes]] = []
    chosen: Chosen | None = None
    for name in store.logs() if only is None or not only.alone else [only.name]:
        origin = f"{identity.keyid}/{name}"
        scan, whole = _look(store, name, identity)
        # What should be there of it cannot be told: it is left as it is for whoever looks into that.
        whole &= keys.head_name(origin) not in damaged and (only is not None or not keys.is_closed(origin))
        whole &= (only is None or name == only.name) and name not in left_alone
        if chosen is None and whole and _ours(scan, origin, identity):
            locks = lock_log(store, name, origin)
            if locks:
                scan, whole = _look(store, name, identity)
                if whole and _ours(scan, origin, identity) and _continues(store, scan, heads.get(origin)):
                    chosen = Chosen(name, origin, scan, locks, others, moved)
                    continue
                for held in locks:
                    unlock(held)
        if scan.last_note is not None and _stored(store, scan, settled=_SETTLED) and _citable(store, scan):
            others.append((name, scan.last_note))
    if chosen is not None:
        return chosen
    if only is not None and not only.new:
        raise LogError(
            "this log cannot be ended: a writer has it, or it is not whole, not this identity's or cut off",
            code="CF-LOG-037",
            where=only.name,
            hint="run counterfoil verify",
        )
    name = secrets.token_hex(8) if only is None else only.name
    origin = f"{identity.keyid}/{name}"
    lock = locking.lock(origin)
    if lock is None:
        raise LogError("a new log is already locked", code="CF-LOG-030", where=origin, hint="try again")
    sync_folder(keys.lock_path(origin).parent)  # it says whose the log is until that has a checkpoint
    return Chosen(name, origin, log.LogScan(store, name), [lock], others, moved)


def _look(store: FolderStore, name: str, identity: keys.SigningKey) -> tuple[log.LogScan, bool]:
    """The state at the end of a log, and whether it is whole; a log that cannot be read is nobody's to continue."""
    scan = log.LogScan(store, name)
    whole = True
    try:
        for event in scan.tail():
            whole &= not isinstance(event, log.Problem) or event.torn
        if scan.last_note is None:
            # Its writer was killed within the first second: there is no checkpoint to read on from.
            scan = log.LogScan(store, name)
            for event in scan.events():
                if isinstance(event, log.Problem):
                    whole &= event.torn
                elif isinstance(event, log.Entry) and event.op == "session":
                    whole &= event.body["context"].get("origin") == f"{identity.keyid}/{name}"
    except CounterfoilError:
        whole = False
    return scan, whole


def _ours(scan: log.LogScan, origin: str, identity: keys.SigningKey) -> bool:
    """Whether the log is this identity's: its last checkpoint is validly signed by it for this origin.

    A log without a checkpoint is, if its writer's lock is in this home: nobody else can have made that for its name.
    """
    if scan.last_note is None:
        return os.path.exists(keys.lock_path(origin))
    try:
        checkpoint = notes.parse_own_checkpoint(scan.last_note, notes.vkey(origin, identity.public))
    except CounterfoilError:
        return False
    return checkpoint.size <= scan.index


def _continues(store: FolderStore, scan: log.LogScan, head: keys.Head | None) -> bool:
    """Whether a log still has what is remembered of it (a shorter or other log is left alone).

    What is built upon is on disk then: a writer that was killed may have left it in memory only.
    """
    if head is not None:
        if scan.covered < head.size or scan.last_note is None:
            return False
        try:
            root = notes.Checkpoint.parse(notes.Note.parse(scan.last_note).text).root.hex()
        except CounterfoilError:
            return False
        if scan.covered == head.size and root != head.root:
            return False
    return scan.segment < 0 or _stored(store, scan)


def _citable(store: FolderStore, scan: log.LogScan) -> bool:
    """Whether a log's last note may be cited: readers elsewhere find it there before what cites it."""
    return store.remote is None or store.remote.is_there(scan.log, scan.noted)


def _stored(store: FolderStore, scan: log.LogScan, *, settled: float | None = None) -> bool:
    """Put the segments that a log's end was read from on disk; False where that fails."""
    try:
        for number in {*scan.suspects, scan.noted, scan.segment} - {-1}:
            store.sync(scan.log, number, settled=settled)
    except OSError:
        return False
    return True
