"""What the lines of a bundle say, one object each."""

from __future__ import annotations

from dataclasses import dataclass

from counterfoil._ed25519 import PublicKey
from counterfoil.bundles.parts import Held
from counterfoil.entries import Entry

__all__ = ["Absent", "Blob", "Contents", "Gap", "Head", "Key", "Line", "Section", "SectionEnd", "Text"]


@dataclass(frozen=True, slots=True)
class Contents:
    """What the bundle was asked for (``run`` or ``handoff``), and its counts."""

    line: int
    kind: str
    asked: str
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Section:
    """A log begins: its checkpoint, whose signature by the identity's key holds."""

    line: int
    origin: str
    size: int
    root: bytes
    identity: PublicKey

    @property
    def name(self) -> str:
        """The log's name."""
        return self.origin.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Text:
    """An entry; ``entry`` is None where it is of a later version. ``offset`` is where its line begins."""

    line: int
    offset: int
    index: int
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries that are not shown."""

    line: int
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Head:
    """The root over the first ``size`` entries, which is right."""

    line: int
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class SectionEnd:
    """All of a log was passed, and its root is the checkpoint's."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob whose bytes are right; ``held`` says where it stands and what it cites."""

    sha256: str
    held: Held


@dataclass(frozen=True, slots=True)
class Absent:
    """A digest that is cited and not here."""

    line: int
    digest: str


@dataclass(frozen=True, slots=True)
class Key:
    """A public key, carried along."""

    line: int
    public: PublicKey


Line = Contents | Section | Text | Gap | Head | SectionEnd | Blob | Absent | Key
