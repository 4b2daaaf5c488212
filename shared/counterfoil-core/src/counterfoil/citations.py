"""What a log's sessions cite of other logs: where those stood when the session began.

Source: ``shared/spec/log.md``, *Opening entries* (``seen``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from counterfoil import canonical, notes
from counterfoil.digest import Reference, is_reference, looks_like_reference
from counterfoil.errors import CounterfoilError, StoreError

if TYPE_CHECKING:
    from counterfoil.stored import Stored

__all__ = [
    "MAX_LIST",
    "Citations",
    "Cited",
    "Told",
    "is_citation",
    "is_list_of_citations",
    "may_be_checkpoint",
    "read_list",
    "told_by",
]

Told = tuple[str, int, str] | tuple[str, str]
"""Origin, size and root (hex) of a checkpoint; or code and message of what is none."""

MAX_LIST: Final = 64 << 20
"""Bytes of a list that is parsed; all of it stands in memory many times over."""
_MAX_NOTE: Final = 512
"""Bytes of a note that can be a checkpoint in the one form: the longest has 329."""
_ORIGIN: Final = re.compile(rb"[0-9a-f]{64}/[0-9a-f]{16}\n")


class Cited(NamedTuple):
    """A checkpoint of another log: the log's name, the note, empty where it is none, and what it says."""

    log: str
    note: bytes
    told: Told


def may_be_checkpoint(data: bytes) -> bool:
    """Whether bytes begin as a log's checkpoint does, and are no more than one can have; else they are none."""
    return len(data) <= _MAX_NOTE and _ORIGIN.match(data) is not None


def told_by(note: bytes) -> Told:
    """What a note says that another log cites; who signed it is not asked."""
    if not may_be_checkpoint(note):
        return "CF-NOTE-003", "what is cited of another log is no checkpoint"
    try:
        checkpoint = notes.in_one_form(notes.Note.parse(note))
    except CounterfoilError as exc:
        return exc.code, exc.message
    return checkpoint.origin, checkpoint.size, checkpoint.root.hex()


class Citations:
    """The checkpoints that one log's sessions cite; ``found`` has each, in order."""

    def __init__(self, stored: Stored, say: Callable[[str, str, str], None]) -> None:
        self.found: list[Cited] = []
        self._stored = stored
        self._say = say
        self._listed: set[tuple[str, int]] = set()
        self._told: dict[Reference, tuple[bytes, Told]] = {}

    def session(self, listed: object, at: str) -> None:
        """Take a session's ``seen``: a list, or the reference of one."""
        apart = looks_like_reference(listed)
        if apart:
            # Nobody needs a key to write sessions, and one line of evidence can stand for a list of 64 MiB.
            if is_reference(listed):
                # Under whatever media type: there are as many of these as somebody likes.
                reference = Reference.from_dict(listed)
                key = (reference.sha256, reference.size)
                if key in self._listed:
                    return
                self._listed.add(key)
            listed = self._read(listed)
            if not is_list_of_citations(listed):
                self._say("CF-CANON-011", at, "the list of other logs cannot be read")
                return
        for one in listed if type(listed) is list else []:
            if is_citation(one) and is_reference(one.get("note")):
                note = Reference.from_dict(one["note"])
                if note not in self._told and self._stored.there(note):
                    self._told[note] = self._stored.note(note)
                if note in self._told:
                    self.found.append(Cited(one["log"], *self._told[note]))
                elif apart:
                    self._say("CF-VERIFY-010", at, "the checkpoint of another log that it cites is missing")

    def _read(self, listed: Any) -> object:
        try:
            return read_list(self._stored.read(Reference.from_dict(listed)))
        except StoreError:
            raise  # what the system does not let be read accuses nobody
        except CounterfoilError:
            return None


def read_list(data: bytes) -> object:
    """The value of a list that stands apart; raises CanonicalError: it is no canonical text."""
    return canonical.loads_canonical(data, max_bytes=MAX_LIST)


def is_list_of_citations(listed: object) -> bool:
    """Whether it is a list of what sessions cite of other logs."""
    return type(listed) is list and all(map(is_citation, listed))


def is_citation(one: Any) -> bool:
    """Whether it names a log."""
    return type(one) is dict and type(one.get("log")) is str
