"""What a handoff lets its receiver do: handed on, it only ever becomes less.

Whether it does is decided link by link, where both handoffs are at hand: by the sender, by the receiver, and by
verification in the log. Source: ``shared/spec/trust.md``, Authority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from counterfoil.patterns import covers_any
from counterfoil.predicates import Authority, Handoff

__all__ = ["Given", "Grant", "why_not"]

SKEW: Final = 60_000
"""Milliseconds by which a handoff may say that it is older than its grant: two clocks differ."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the handoffs that hand it on need to know of one: to whom, what, how far, until when."""

    audience: str | None
    authority: Authority
    taint: tuple[str, ...]
    issued: int

    @classmethod
    def of(cls, handoff: Handoff) -> Grant | None:
        """The grant in a handoff, None when it gives no authority to another process."""
        if handoff.authority is None or handoff.proof != "countersigned":
            return None
        return cls(handoff.audience, handoff.authority, tuple(handoff.taint or ()), handoff.issued)


@dataclass(frozen=True, slots=True)
class Given:
    """Authority to give with a handoff; ``depth`` and ``expires`` (milliseconds) are as much as the grant leaves."""

    allow: tuple[str, ...]
    depth: int | None = None
    expires: int | None = None


def why_not(handoff: Handoff, grant: Grant | None) -> str | None:
    """Why a handoff's authority does not narrow its grant; None when it does."""
    asked = handoff.authority
    assert asked is not None
    if grant is None:
        return "its grant is not there"
    given = grant.authority
    if grant.audience != handoff.sender.actor:
        return "its grant was given to somebody else"
    if any(not covers_any(given.allow, one) for one in asked.allow):
        return "it allows more than its grant"
    if asked.maxDepth >= given.maxDepth:
        return "it may be handed on further than its grant says"
    if asked.expires > given.expires:
        return "it lasts longer than its grant"
    if not set(grant.taint) <= set(handoff.taint or ()):
        return "it drops a taint of its grant"
    if handoff.issued < grant.issued - SKEW:
        return "it is older than its grant"
    return None
