"""Which log a damaged one is, by what was not damaged: only that decides whose bytes may repair it."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from counterfoil import keys, notes
from counterfoil.checks import LogCheck
from counterfoil.errors import CounterfoilError
from counterfoil.scrub.damage import Copy

__all__ = ["Known"]


@dataclass(slots=True)
class Known:
    """What vouches for a log: origins that name it, and tree heads (size to root) that it must still have.

    ``kept`` are heads that this machine remembers, ``noted`` checkpoints in what can be read of the damaged log, or
    cited by other logs; these count only once ``vkey`` is known and verifies them.
    """

    name: str
    origins: set[str] = field(default_factory=set)
    kept: list[tuple[int, str]] = field(default_factory=list)
    noted: list[bytes] = field(default_factory=list)
    ends: set[tuple[int | str, int]] = field(default_factory=set)
    """Where remembered checkpoints end: segment and offset."""
    vkey: str = ""
    pinned: bool = False

    def head(self, head: keys.Head) -> None:
        """A remembered head of this log."""
        self.origins.add(head.origin)
        self.kept.append((head.size, head.root))
        self.ends.add((head.segment, head.offset))

    def note(self, note: bytes) -> None:
        """A checkpoint found in the log's own whole chunks, or cited by another log of the evidence."""
        try:
            origin = notes.Checkpoint.parse(notes.Note.parse(note).text).origin
        except CounterfoilError:
            return
        if origin.endswith(f"/{self.name}"):
            self.origins.add(origin)
            self.noted.append(note)

    def identify(self, ring: keys.Keyring, local: Iterable[Copy], mirrors: Iterable[Copy]) -> str | None:
        """Find the key of the one origin; what is wrong, or None.

        A key comes from the keyring or from a session, where its SHA-256 is the origin's fingerprint. Without any
        origin from here, a mirror's counts if its identity is pinned.
        """
        found = {key.keyid: key for copy in local for key in _session_keys(copy)}
        if not self.origins:
            self.origins = {f"{keyid}/{self.name}" for keyid in found}
        foreign = {key.keyid: key for copy in mirrors for key in _session_keys(copy)}
        if not self.origins:
            self.origins = {f"{keyid}/{self.name}" for keyid in foreign if ring.trusts(keyid)}
        if not self.origins:
            return "nothing here says whose log it is, and the mirrors' is by nobody who is pinned"
        if len(self.origins) > 1:
            return "what is left of it and what is remembered name two identities"
        (origin,) = self.origins
        keyid = origin.partition("/")[0]
        public = ring.get(keyid) or found.get(keyid) or foreign.get(keyid)
        if public is None:
            return f"no copy holds the key of its identity {keyid[:16]}: they are another log"
        self.pinned = ring.resolve(keyid, public.spki) is not None
        self.vkey = notes.vkey(origin, public)
        return None

    def signed(self, note: bytes) -> bool:
        """Whether the log's own identity signed this checkpoint."""
        try:
            notes.parse_own_checkpoint(note, self.vkey)
        except CounterfoilError:
            return False
        return True

    def misses(self, check: LogCheck) -> str | None:
        """Why a proposed log that was checked is not the damaged one, or None."""
        heads = list(self.kept)
        for note in self.noted:
            if self.signed(note):
                checkpoint = notes.Checkpoint.parse(notes.Note.parse(note).text)
                heads.append((checkpoint.size, checkpoint.root.hex()))
        if check.origin not in self.origins:
            return "it is another identity's log"
        if not heads and not self.pinned:
            return "nothing here vouches for it: no checkpoint is left, none is remembered, its key is not pinned"
        for size, root in heads:
            if check.checkpoints.get(size) != root:
                return f"it is another history: it lacks a checkpoint of {size} entries that is known here"
        return None


def _session_keys(copy: Copy) -> list[keys.PublicKey]:
    found = []
    for body in copy.openings():
        if body["content"].get("op") == "session":
            try:
                spki = base64.b64decode(str(body["context"].get("spki")), validate=True)
                found.append(keys.PublicKey.from_spki(spki))
            except (CounterfoilError, ValueError):
                continue
    return found
