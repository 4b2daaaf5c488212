"""What is running here: the actor, the run and the way back to the root, for code that acts on a handoff."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterfoil.ancestry import Ancestry
    from counterfoil.recorder import Call

__all__ = ["Current", "current", "enter"]

_current: ContextVar[Call | None] = ContextVar("counterfoil_current", default=None)


class Current:
    """The call that runs here; ``ancestry()`` walks from it to the root of everything that led to it."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def actor(self) -> tuple[str, ...]:
        """Path of names of the actor."""
        return self._call.actor

    @property
    def run(self) -> str:
        """Identifier of the run."""
        return self._call.run.id

    @property
    def address(self) -> str:
        """Id-free position in the run."""
        return self._call.address

    @property
    def digest(self) -> str:
        """SHA-256 of the record that started what runs here."""
        return self._call.digest

    def ancestry(self) -> Ancestry:
        """Everything this call follows from, nearest first."""
        from counterfoil.ancestry import Ancestry

        return Ancestry.of(self._call)

    def __repr__(self) -> str:
        return f"Current(actor={'/'.join(self.actor)!r}, address={self.address!r})"


def enter(call: Call | None) -> None:
    """Make ``call`` the current one in this context (set only: tokens cannot be reset across contexts)."""
    _current.set(call)


def current() -> Current | None:
    """What is running here, or None outside every recorded call."""
    call = _current.get()
    while call is not None and call.end is not None:  # a context keeps what was set although the call is over
        call = call.parent
    return None if call is None else Current(call)
