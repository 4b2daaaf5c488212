"""Which log a writer goes on with: the first of its identity that is whole, is what this machine remembers of it and
is held by nobody else; otherwise a new one.

The lock is taken before the log is read: until then another process may still append to it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from dataclasses import dataclass

from counterfoil import keys, log, notes
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.stores import FolderStore

__all__ = ["Chosen", "choose", "is_live", "lock_log", "unlock"]


@dataclass(slots=True)
class Chosen:
    """The log, the state to go on from, its locks (file descriptors) and the last notes of the other logs."""

    name: str
    origin: str
    scan: log.LogScan
    locks: list[int]
    others: list[tuple[str, bytes]]


def choose(store: FolderStore, identity: keys.SigningKey) -> Chosen:
    """Choose and lock; raises LogError (CF-LOG-030) when a new log cannot be locked, OSError when no lock can be."""
    heads = keys.remembered_heads()
    others: list[tuple[str, bytes]] = []
    chosen: Chosen | None = None
    for name in store.logs():
        origin = f"{identity.keyid}/{name}"
        scan, whole = _look(store, name)
        if chosen is None and whole and _ours(scan, origin, identity):
            locks = lock_log(store, name, origin)
            if locks:
                scan, whole = _look(store, name)
                head = heads.get(origin)
                if whole and _ours(scan, origin, identity) and (head is None or _continues(scan, head)):
                    chosen = Chosen(name, origin, scan, locks, others)
                    continue
                for held in locks:
                    unlock(held)
        if scan.last_note is not None:
            others.append((name, scan.last_note))
    if chosen is not None:
        return chosen
    name = secrets.token_hex(8)
    origin = f"{identity.keyid}/{name}"
    lock = _lock(origin)
    if lock is None:
        raise LogError("a new log is already locked", code="CF-LOG-030", where=origin, hint="try again")
    return Chosen(name, origin, log.LogScan(store, name), [lock], others)


def unlock(lock: int) -> None:
    """Give a log free for other writers."""
    # A forked child may hold a copy of the descriptor: closing ours alone would not free the lock.
    try:
        fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


def _look(store: FolderStore, name: str) -> tuple[log.LogScan, bool]:
    """The state at the end of a log, and whether it is whole; a log that cannot be read is nobody's to continue."""
    scan = log.LogScan(store, name)
    whole = True
    try:
        for event in scan.tail():
            whole &= not isinstance(event, log.Problem) or event.torn
    except CounterfoilError:
        whole = False
    return scan, whole


def _ours(scan: log.LogScan, origin: str, identity: keys.SigningKey) -> bool:
    """Whether the log's last checkpoint is validly signed by this identity for this origin."""
    if scan.last_note is None:
        return False
    try:
        checkpoint = notes.parse_own_checkpoint(scan.last_note, notes.vkey(origin, identity.public))
    except CounterfoilError:
        return False
    return checkpoint.size <= scan.index


def _continues(scan: log.LogScan, head: keys.Head) -> bool:
    """Whether a log still has what is remembered of it (a shorter or other log is left alone)."""
    if scan.covered < head.size or scan.last_note is None:
        return False
    if scan.covered > head.size:
        return True
    try:
        return notes.Checkpoint.parse(notes.Note.parse(scan.last_note).text).root.hex() == head.root
    except CounterfoilError:
        return False


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
    return [lock, held]


def _lock(origin: str) -> int | None:
    path = keys.prepare_lock(origin)
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


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
