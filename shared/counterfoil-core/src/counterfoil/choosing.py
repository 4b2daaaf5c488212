"""Which log a writer goes on with: the first of its identity that is whole, is what this machine remembers of it and
is held by nobody else; otherwise a new one.

The lock is taken before the log is read: until then another process may still append to it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterfoil import _locks, keys, log, notes
from counterfoil._folders import sync_folder
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.stores import FolderStore

__all__ = [
    "Chosen",
    "Only",
    "choose",
    "is_here",
    "is_live",
    "lock_log",
    "moved_with",
    "places_of",
    "stands",
    "unlock",
]

_TRIES: Final = 4
_PAUSE: Final = 0.002
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


def choose(store: FolderStore, identity: keys.SigningKey, *, only: Only | None = None) -> Chosen:
    """Choose and lock; raises LogError (CF-LOG-030) when a new log cannot be locked, OSError when no lock can be.

    ``only`` names the one log to go on with, closed or not; LogError (CF-LOG-037) when it is not to be had.
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
        whole &= only is None or name == only.name
        if chosen is None and whole and _ours(scan, origin, identity):
            locks = lock_log(store, name, origin)
            if locks:
                scan, whole = _look(store, name, identity)
                if whole and _ours(scan, origin, identity) and _continues(store, scan, heads.get(origin)):
                    chosen = Chosen(name, origin, scan, locks, others, moved)
                    continue
                for held in locks:
                    unlock(held)
        if scan.last_note is not None and _stored(store, scan, settled=_SETTLED):
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
    lock = _lock(origin)
    if lock is None:
        raise LogError("a new log is already locked", code="CF-LOG-030", where=origin, hint="try again")
    sync_folder(keys.lock_path(origin).parent)  # it says whose the log is until that has a checkpoint
    return Chosen(name, origin, log.LogScan(store, name), [lock], others, moved)


def unlock(lock: int) -> None:
    """Give a log free for other writers."""
    # A child that C code forked may hold a copy of the descriptor: closing ours alone would not free the lock.
    try:
        fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        _locks.close_lock(lock)


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


def _stored(store: FolderStore, scan: log.LogScan, *, settled: float | None = None) -> bool:
    """Put the segments that a log's end was read from on disk; False where that fails."""
    try:
        for number in {*scan.suspects, scan.noted, scan.segment} - {-1}:
            store.sync(scan.log, number, settled=settled)
    except OSError:
        return False
    return True


def lock_log(store: FolderStore, name: str, origin: str) -> list[int]:
    """The lock in the home and the hold on the log's folder, or none of them; ``unlock`` each."""
    lock = _lock(origin)
    if lock is None:
        return []
    try:
        held = store.hold(name)
    except CounterfoilError:
        held = None
    if held is None:
        unlock(lock)
        return []
    _locks.keep_lock(held)
    return [lock, held]


def _lock(origin: str) -> int | None:
    """The lock of a log, None when a writer has it; raises OSError where there are no locks."""
    path = keys.prepare_lock(origin)
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    _locks.keep_lock(fd)
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)  # a reader that looks whether a writer lives has it for a moment
        except OSError:
            _locks.close_lock(fd)
            raise
        else:
            return fd
    _locks.close_lock(fd)
    return None


def is_live(origin: str) -> bool:
    """Whether a writer on this machine holds a log's lock right now (never creates the lock)."""
    try:
        fd = os.open(keys.lock_path(origin), os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, CounterfoilError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
