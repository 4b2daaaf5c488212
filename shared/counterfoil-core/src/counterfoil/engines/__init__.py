"""Where segments are checked: on processes of this machine, or on a cluster. Whatever does it, the outcome is one.

An engine takes a task as bytes and gives an answer as bytes, some time later; that is all it has to know. The task
names a segment by the address of its evidence, the worker opens that itself, and who judges the log goes on from the
answers in the order of the log. A segment whose answer never comes is read here.

A new engine is one file: a class with the members of ``Engine``, and a line in ``choosing``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

__all__ = ["Engine", "Lost", "Pending"]


class Lost(Exception):
    """The worker ended, and so did the others that were given its segment."""


class Pending(Protocol):
    """An answer that is to come."""

    def result(self) -> bytes | bytearray:
        """The answer, waited for; raises whatever the engine does when there is none."""

    def cancel(self) -> object:
        """Nobody waits for it any more."""


@runtime_checkable
class Engine(Protocol):
    """Something that runs ``counterfoil.engines.work.verify_segment`` on tasks, on any worker, in any order.

    ``name`` is what it is chosen by; ``packs`` says that answers cross a network and are to be compressed.
    """

    name: str
    packs: bool

    def slots(self) -> int:
        """How many tasks to give it at once; asked again as answers come, for a cluster may grow."""

    def look(self, task: bytes) -> list[bytes]:
        """What ``work.look`` says on the workers that are there; empty where they see what this process sees.

        Raises EngineError when there is no worker.
        """

    def submit(self, task: bytes, told: Callable[[int], None] | None = None) -> Pending:
        """Check a segment some time; ``told`` may hear, on whatever thread, how many bytes were read."""

    def close(self, *, now: bool = False) -> None:
        """Let go of everything that this engine began itself; ``now`` without waiting for what is under way."""
