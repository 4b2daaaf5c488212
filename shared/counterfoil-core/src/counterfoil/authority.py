"""What a handoff lets its receiver do: handed on, it only ever becomes less.

Whether it does is decided link by link, where both handoffs are at hand: by the sender, by the receiver, and by
verification in the log. Source: ``shared/spec/trust.md``, Authority.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from counterfoil.patterns import covers_any
from counterfoil.predicates import Handoff

if TYPE_CHECKING:
    from counterfoil.openlog import Accepted

__all__ = ["Allow", "Grant", "why_not"]

SKEW: Final = 60_000
"""Milliseconds by which a handoff may say that it is older than its grant: two clocks differ."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the handoffs that hand it on need to know of one: to whom, what, how far, until when."""

    audience: str | None
    allow: tuple[str, ...]
    depth: int
    expires: int
    taint: tuple[str, ...]
    issued: int

    @classmethod
    def of(cls, handoff: Handoff) -> Grant | None:
        """The grant in a handoff, None when it gives no authority to another process."""
        given = handoff.authority
        if given is None or handoff.proof != "countersigned":
            return None
        # Interned: a log may hold very many grants, and they say much the same.
        audience = handoff.audience
        return cls(
            audience if audience is None else sys.intern(audience),
            tuple(map(sys.intern, given.allow)),
            given.maxDepth,
            given.expires,
            tuple(map(sys.intern, handoff.taint or ())),
            handoff.issued,
        )


class Allow:
    """Authority to give with a handoff: ``Allow("repo:read", "repo:write:tests/*", under=accepted)``.

    ``under`` is the accepted handoff that gave it to the sender, None to start it. ``depth`` says how often it may be
    handed on, ``expires`` (milliseconds since 1970) until when it lasts; by default as much as ``under`` leaves, or
    not at all and as long as the handoff. What a text may say: ``shared/spec/trust.md``, Patterns.
    """

    __slots__ = ("depth", "expires", "under", "what")

    def __init__(
        self,
        *what: str,
        under: Accepted | None = None,
        depth: int | None = None,
        expires: int | None = None,
    ) -> None:
        self.what = tuple(sorted(set(what)))
        self.under = under
        self.depth = depth
        self.expires = expires

    def member(self, expires: int) -> dict[str, Any]:
        """The member of the statement; ``expires`` is the handoff's."""
        out: dict[str, Any] = {"allow": list(self.what)}
        given = None if self.under is None else self.under.grant
        if self.under is not None:
            out["from"] = self.under.digest
        out["maxDepth"] = self.depth if self.depth is not None else 0 if given is None else given.depth - 1
        out["expires"] = (
            self.expires if self.expires is not None else expires if given is None else given.expires
        )
        return out


def why_not(handoff: Handoff, grant: Grant | None) -> str | None:
    """Why a handoff's authority does not narrow its grant; None when it does."""
    asked = handoff.authority
    assert asked is not None
    if grant is None:
        return "its grant is not there"
    if grant.audience != handoff.sender.actor:
        return "its grant was given to somebody else"
    if any(not covers_any(grant.allow, one) for one in asked.allow):
        return "it allows more than its grant"
    if asked.maxDepth >= grant.depth:
        return "it may be handed on further than its grant says"
    if asked.expires > grant.expires:
        return "it lasts longer than its grant"
    if not set(grant.taint) <= set(handoff.taint or ()):
        return "it drops a taint of its grant"
    if handoff.issued < grant.issued - SKEW:
        return "it is older than its grant"
    return None
