"""What the recorder holds in memory of calls and runs while they are open."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from counterfoil import records
from counterfoil.digest import Reference

if TYPE_CHECKING:
    from counterfoil.streams import Stream

__all__ = ["Call", "Parent", "Run"]


@dataclass(slots=True, eq=False)
class Call:
    """One started call: its place in the run and the digests of its records.

    ``parents`` are (relation, call) pairs it follows from, ``foreign`` (relation, digest) pairs of statements that came
    from another process; ``end`` is None while it is open. A digest is empty when the record was lost; ``log`` is the
    writer that took the last one. ``stream`` is there while its answer comes in pieces.
    """

    id: str
    op: str
    name: str
    actor: tuple[str, ...]
    address: str
    run: Run
    parent: Call | None
    parents: Sequence[tuple[str, Call]] = ()
    foreign: Sequence[tuple[str, str]] = ()
    request: Reference | None = None
    start: str = ""
    end: str | None = None
    log: object = None
    began: int = field(default_factory=time.monotonic_ns)
    steps: dict[tuple[str, str, str], int] = field(default_factory=dict)
    stream: Stream | None = None

    @property
    def digest(self) -> str:
        """Digest of the call's last record, the end when there is one; empty when none is in a log."""
        return self.end or self.start

    def content(self, phase: str) -> dict[str, Any]:
        """What its start and its end say of it."""
        content: dict[str, Any] = {
            "actor": records.actor_text(self.actor),
            "address": self.address,
            "name": records.label(self.name),
            "op": self.op,
            "phase": phase,
        }
        if self.request is not None:
            content["request"] = self.request.to_dict()
        return content

    def step(self, op: str, name: str, key: str) -> str:
        """Address of a new child; the caller holds the recorder's lock, since siblings are counted here."""
        same = (op, name, key)
        occurrence = self.steps[same] = self.steps.get(same, 0) + 1
        return records.below(self.address, records.step(op, name, key, occurrence))


@dataclass(slots=True, eq=False)
class Run:
    """One root call and everything under it."""

    id: str
    open: dict[str, Call] = field(default_factory=dict)
    started: int = 0
    ended: int = 0
    closed: bool = False


Parent = tuple[str, Call]
