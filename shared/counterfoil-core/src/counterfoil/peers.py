"""Where the logs of others stood, by their own signed word: so that each party is the other's witness.

Kept in the home, one small file per log under ``peers/``, with the statement that told it: two statements of one log
with one size and two roots prove to anybody that its owner keeps two histories. Source: ``shared/spec/trust.md``.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from counterfoil import _home, _locks, canonical, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, KeyringError

__all__ = ["TWO", "PeerHead", "Peers", "contradiction"]

KEPT: Final = 1024
TOLD: Final = 4
"""Heads of one actor's logs told back to it at most: a handoff has to fit into a header."""
_VERSION: Final = 0
_MAX_BYTES: Final = 128 * 1024
_FILE: Final = re.compile(r"[0-9a-f]{32}\.json")
TWO: Final = "the sender keeps two histories of its log"
_MEMBERS: Final = {"actor", "issued", "origin", "root", "size", "statement", "version"}


@dataclass(frozen=True, slots=True)
class PeerHead:
    """The largest head that a log's owner told, and the statement in which it did."""

    origin: str
    size: int
    root: str
    actor: str
    issued: int
    statement: Envelope

    @property
    def head(self) -> statements.Head:
        """The head alone."""
        return statements.Head(origin=self.origin, root=self.root, size=self.size)

    @classmethod
    def of(cls, predicate: statements.Handoff | statements.Receipt, envelope: Envelope) -> PeerHead | None:
        """The head of its signer's log that a verified statement tells."""
        own = predicate.own
        if own is None:
            return None
        return cls(own.origin, own.size, own.root, predicate.sender.actor, predicate.issued, envelope)


def contradiction(told: PeerHead, kept: PeerHead | None) -> str | None:
    """Why a head cannot be true besides the one kept; a message may be late, but no log ever becomes shorter."""
    if kept is None:
        return None
    if told.size == kept.size and told.root != kept.root:
        return TWO
    if told.size < kept.size and told.issued > kept.issued:
        return "the sender's log is shorter than it was"
    return None


class Peers:
    """The heads kept in this home; several processes may use it at once."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, PeerHead]] | None = None

    def kept(self, origin: str) -> PeerHead | None:
        """What is kept of a log; raises KeyringError (CF-KEYS-044: malformed, and those of the home)."""
        return _read(_path(origin)) if _home.check_home() else None

    def heads(self, actor: str) -> list[dict[str, Any]]:
        """Heads of the logs of an actor, for what is sent to it."""
        if self._told is None:
            self._told = {}
            for one in _all():
                self._note(one)
        found = sorted(self._told.get(actor, {}).values(), key=lambda one: (-one.issued, one.origin))[:TOLD]
        listed = [{"origin": one.origin, "root": one.root, "size": one.size} for one in found]
        return sorted(listed, key=lambda one: str(one["origin"]))

    def keys(self, actor: str) -> frozenset[str]:
        """The keys by which an actor told heads of its logs."""
        self.heads(actor)
        return frozenset(origin.partition("/")[0] for origin in (self._told or {}).get(actor, ()))

    def learn(self, told: PeerHead) -> None:
        """Keep a head, unless a larger one is kept."""
        path = _path(told.origin)
        _home.make_private_dir(path.parent)
        with _locks.locked():
            old = _read(path)
            if old is None or old.size < told.size:
                # Not synced: after a power failure an older head is compared with, and the receipt tells the rest.
                _home.write_file(path, _bytes(told), sync=False)
            if old is None:
                _sweep(path.parent)
        self._note(told)

    def keep_fork(self, first: PeerHead, second: PeerHead) -> Path:
        """Keep two statements that contradict each other, for others to see; returns the file."""
        folder = _home.home() / "forks"
        _home.make_private_dir(folder)
        path = folder / f"{_home.name_of(first.origin)}-{first.size}.json"
        content = {
            "first": first.statement.to_dict(),
            "origin": first.origin,
            "second": second.statement.to_dict(),
            "size": first.size,
            "version": _VERSION,
        }
        _home.create_file(path, canonical.dumps_record(content))
        return path

    def _note(self, told: PeerHead) -> None:
        if self._told is not None:
            known = self._told.setdefault(told.actor, {})
            old = known.get(told.origin)
            if old is None or old.size < told.size:
                known[told.origin] = told


def _path(origin: str) -> Path:
    return _home.home() / "peers" / f"{_home.name_of(origin)}.json"


def _bytes(told: PeerHead) -> bytes:
    return canonical.dumps_record(
        {
            "actor": told.actor,
            "issued": told.issued,
            "origin": told.origin,
            "root": told.root,
            "size": told.size,
            "statement": told.statement.to_dict(),
            "version": _VERSION,
        }
    )


def _read(path: Path) -> PeerHead | None:
    data = _home.read_file(path, limit=_MAX_BYTES, secret=False)
    if data is None:
        return None
    try:
        content = canonical.loads_canonical(data, max_depth=8, max_bytes=_MAX_BYTES)
        found = _of(content)
    except CounterfoilError:
        found = None
    if found is None or path != _path(found.origin):
        raise KeyringError(
            "the remembered head of a peer's log is malformed",
            code="CF-KEYS-044",
            where=str(path),
            hint="remove the file if a disk damaged it: the peer's next message tells its head again",
        )
    return found


def _of(content: Any) -> PeerHead | None:
    """The head in a file, which must be what the statement kept with it says."""
    if not isinstance(content, dict) or set(content) != _MEMBERS or content["version"] != _VERSION:
        return None
    envelope = Envelope.parse(content["statement"])
    predicate = statements.parse(envelope.payload).predicate
    if not isinstance(predicate, statements.Handoff | statements.Receipt):
        return None
    found = PeerHead.of(predicate, envelope)
    return found if found is not None and _bytes(found) == canonical.dumps_record(content) else None


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder / name for name in os.listdir(folder) if _FILE.fullmatch(name))
    except FileNotFoundError:
        return []


def _all() -> list[PeerHead]:
    if not _home.check_home():
        return []
    return [one for path in _files(_home.home() / "peers") if (one := _read(path)) is not None]


def _sweep(folder: Path) -> None:
    """Forget what was told longest ago by the key that told most: nobody pushes out what others told."""
    found = _files(folder)
    if len(found) <= KEPT:
        return
    by_key: dict[str, list[tuple[int, Path]]] = {}
    for path in found:
        with contextlib.suppress(CounterfoilError):
            kept = _read(path)
            if kept is not None:
                by_key.setdefault(kept.origin.partition("/")[0], []).append((kept.issued, path))
    for _ in range(len(found) - KEPT):
        most = max(by_key.values(), key=len, default=[])
        if not most:
            return
        oldest = min(most)
        most.remove(oldest)
        oldest[1].unlink(missing_ok=True)
