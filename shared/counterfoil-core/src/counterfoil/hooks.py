"""The hook spec: how adapters and plugins join, readable in two minutes.

A plugin is a module or object with functions marked ``@counterfoil.hookimpl``, found by entry points of the group
``counterfoil``. Every hook is collecting; one that decides (``check_transfer``) is decided by the strictest answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from counterfoil.recorder import Recorder

__all__ = [
    "Deny",
    "Instrumentation",
    "Redaction",
    "Transfer",
    "counterfoil_check_transfer",
    "counterfoil_instrumentations",
    "counterfoil_redactions",
    "counterfoil_sealed",
    "hookimpl",
    "hookspec",
]

hookspec = pluggy.HookspecMarker("counterfoil")
hookimpl = pluggy.HookimplMarker("counterfoil")


@dataclass(frozen=True, slots=True)
class Instrumentation:
    """An adapter: ``install(recorder)`` runs once the module ``target`` has been imported by the application.

    ``modes`` are those the adapter can keep its word for on the installed versions; ``capabilities`` go into the log.
    """

    name: str
    target: str
    install: Callable[[Recorder], None]
    uninstall: Callable[[], None]
    modes: tuple[str, ...] = ("observe",)
    capabilities: Callable[[], dict[str, Any]] = field(default=dict)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Replace what stands under a key (in any object of a request's settings) before anything is stored."""

    key: str
    rule: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """A handoff about to be acted on: who to whom, what kind, the payload's digest, what it follows from."""

    sender: tuple[str, ...]
    to: tuple[str, ...]
    kind: str
    payload: str
    parents: tuple[str, ...]
    proof: str


@dataclass(frozen=True, slots=True)
class Deny:
    """A refusal and its reason, which is signed into the receiver's log."""

    reason: str


@hookspec
def counterfoil_instrumentations() -> Sequence[Instrumentation]:  # type: ignore[empty-body]
    """Adapters this plugin brings."""


@hookspec
def counterfoil_redactions() -> Sequence[Redaction]:  # type: ignore[empty-body]
    """Rules applied before anything is stored; a plugin that fails here stops the recording (fail closed)."""


@hookspec
def counterfoil_check_transfer(transfer: Transfer) -> Deny | None:
    """May this handoff be acted on? Deny wins; a plugin that fails denies."""


@hookspec
def counterfoil_sealed(log: str, entries: Sequence[tuple[int, str, bytes]]) -> None:
    """Entries (index, digest, body bytes) of ``log`` that are on disk now; failures are isolated."""
