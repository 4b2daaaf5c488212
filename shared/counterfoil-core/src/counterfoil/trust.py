"""Trust policies: which keys speak for which agent, who may hand what to whom, and since when a key counts no more.

A policy is a file, a DSSE statement signed by admins. ``parse`` reads one that nobody vouches for yet, ``load`` one
that this machine believes. Source: ``shared/spec/trust.md``.
"""

from __future__ import annotations

import os
import time
from functools import cached_property
from typing import Final, Literal

from counterfoil import _files, _policies, policy_form, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, EnvelopeError, TrustError
from counterfoil.keys import Keyring
from counterfoil.patterns import covers, covers_any
from counterfoil.policy_form import MAX_ENVELOPE, Agent, Content, Edge

__all__ = ["SKEW", "Judged", "Policy", "load", "parse", "read"]

SKEW: Final = 60_000
"""Milliseconds by which two clocks may differ, unless the policy says otherwise."""

Judged = Literal["valid", "unknown", "outside", "revoked", "unproven"]
"""What a key is worth for one statement."""


class Policy:
    """A trust policy as its envelope says it; ``digest`` is its identity. That anybody believes it is ``load``'s."""

    def __init__(self, content: Content, envelope: Envelope) -> None:
        self.content = content
        self.envelope = envelope
        self.digest = envelope.digest
        self._keys = {key.key: key for key in content.keys}
        self._agents = {agent.id: agent for agent in content.agents}

    @property
    def skew(self) -> int:
        """Milliseconds by which two clocks may differ."""
        found = None if self.content.time is None else self.content.time.skewMs
        return SKEW if found is None else found

    @cached_property
    def keyring(self) -> Keyring:
        """The keys of this policy, in the place of pinned ones."""
        return Keyring.of(policy_form.public_of(key) for key in self.content.keys)

    def lists(self, key: str) -> bool:
        """Whether the policy says anything about a key."""
        return key in self._keys

    def judge(self, key: str, issued: int, *, proven: int | None = None) -> Judged:
        """What a key is worth for a statement that says it was issued then.

        ``proven`` is a time by which something outside the signer's reach shows that the statement existed; without
        one nothing saves a statement by a superseded or compromised key, whatever it says itself.
        """
        found = self._keys.get(key)
        if found is None:
            return "unknown"
        if issued < found.notBefore or (found.notAfter is not None and issued > found.notAfter):
            return "outside"
        if found.status == "active":
            return "valid"
        if found.status == "superseded":
            assert found.notAfter is not None
            return "valid" if proven is not None and proven <= found.notAfter else "unproven"
        assert found.since is not None
        if proven is not None and proven < found.since:
            return "valid"
        return "revoked" if issued >= found.since else "unproven"

    def usable(self, key: str, now: int) -> bool:
        """Whether a key signs now: active, and inside its time as far as clocks can tell."""
        found = self._keys.get(key)
        return (
            found is not None
            and found.status == "active"
            and found.notBefore - self.skew <= now
            and (found.notAfter is None or now <= found.notAfter + self.skew)
        )

    def retired(self, key: str) -> bool:
        """Whether a key is listed as superseded or compromised."""
        found = self._keys.get(key)
        return found is not None and found.status != "active"

    def agent(self, actor: str) -> Agent | None:
        """The entry that decides about an actor: its own, else the longest that covers it."""
        found, place = self._agents.get(actor), actor
        while found is None and "/" in place:
            place = place.rpartition("/")[0]
            found = self._agents.get(f"{place}/*")
        return found or self._agents.get("*")

    def speaks(self, actor: str, key: str, signers: list[str], issued: int) -> bool:
        """Whether these signatures make ``key`` speak for an actor; every key counts once."""
        entry = self.agent(actor)
        if entry is None or key not in entry.keys:
            return False
        counted = {one for one in signers if one in entry.keys and self.judge(one, issued) == "valid"}
        return len(counted) >= entry.threshold

    def starts(self, actor: str) -> bool:
        """Whether an actor may start authority."""
        return self.content.roots is None or covers_any(self.content.roots, actor)

    def denies(self, handoff: statements.Handoff) -> str | None:
        """Why a handoff is not permitted, None when it is: limits first, then the edges."""
        limits = self.content.limits
        if limits is not None and (why := _beyond(handoff, limits.ttlMs, limits.maxDepth)):
            return why
        if self.content.edges is None:
            return None
        why = "no edge from this sender to this receiver"
        for edge in self.content.edges:
            if covers(edge.sender, handoff.sender.actor) and covers(edge.to, handoff.content.to):
                found = _denied(edge, handoff)
                if found is None:
                    return None
                why = found
        return why

    def __repr__(self) -> str:
        return f"Policy({self.content.name!r}, version={self.content.version}, digest={self.digest[:12]!r})"


def parse(data: bytes | str) -> Policy:
    """A policy from its envelope, its signatures not verified; raises TrustError (CF-TRUST-001 to 003)."""
    if len(data) > MAX_ENVELOPE:
        raise TrustError("the policy is larger than 512 KiB", code="CF-TRUST-001", hint="split it by name")
    try:
        envelope = Envelope.parse(data, limit=MAX_ENVELOPE)
    except CounterfoilError as exc:
        raise policy_form.no_policy(exc) from exc
    return Policy(policy_form.content_of(envelope.payload), envelope)


def read(source: str | os.PathLike[str] | bytes | Policy) -> Policy:
    """A policy from a file or its bytes, its signatures not verified; raises TrustError (CF-TRUST-001 to 003)."""
    if isinstance(source, Policy):
        return source
    if isinstance(source, bytes):
        return parse(source)
    where = os.fspath(source)
    try:
        data = _files.read_given(where, limit=MAX_ENVELOPE)
    except OSError as exc:
        raise TrustError(
            f"the policy cannot be read: {exc.strerror}",
            code="CF-TRUST-001",
            where=where,
            hint="check the path",
        ) from exc
    try:
        return parse(data)
    except TrustError as exc:
        place = f"{where} {exc.where}" if exc.where else where
        raise TrustError(exc.message, code=exc.code, where=place, hint=exc.hint) from exc


def load(
    source: str | os.PathLike[str] | bytes | Policy, *, keyring: Keyring | None = None, now: int | None = None
) -> Policy:
    """A policy that this machine believes, and remembers from now on.

    ``source`` is a path, the file's bytes, or a policy. ``keyring`` says who its admins are (by default this user's);
    ``now`` is in milliseconds. Raises TrustError: CF-TRUST-001 to 003: no policy; CF-TRUST-004: too few admins signed
    it; CF-TRUST-005 to 007: it does not follow the one remembered; CF-TRUST-008: not valid yet; KeyringError when the
    home cannot tell.
    """
    found = read(source)
    ring = Keyring.load() if keyring is None else keyring
    counted = _admins(found, ring)
    content = found.content
    if len(counted.intersection(content.admins.keys)) < content.admins.threshold:
        raise TrustError(
            f"not signed by {content.admins.threshold} of its admins that are pinned here as such",
            code="CF-TRUST-004",
            where=content.name,
            hint="get the admins' fingerprints from their owners: counterfoil keys pin --admin FINGERPRINT",
        )
    if content.validFrom > (time.time_ns() // 1_000_000 if now is None else now) + found.skew:
        raise TrustError(
            "the policy is not valid yet",
            code="CF-TRUST-008",
            where=content.name,
            hint="check the clock, or wait",
        )
    _policies.follow(
        _policies.Remembered(
            content.name,
            content.version,
            found.digest,
            tuple(content.admins.keys),
            content.admins.threshold,
        ),
        previous=content.previous,
        counted=counted,
    )
    return found


def _admins(policy: Policy, ring: Keyring) -> frozenset[str]:
    """Admins of this machine whose signatures on a policy are valid; by their keys, so that none counts twice."""
    try:
        return ring.admins.intersection(policy.envelope.verify(ring))
    except EnvelopeError:
        return frozenset()


def _denied(edge: Edge, handoff: statements.Handoff) -> str | None:
    if edge.purposes is not None and handoff.purpose not in edge.purposes:
        return "not for this purpose"
    granted = handoff.authority
    if granted is not None and edge.allow is not None:
        for asked in granted.allow:
            if not covers_any(edge.allow, asked):
                return "more is allowed than the edge permits"
    if edge.acceptTaint is not None and any(one not in edge.acceptTaint for one in handoff.taint or ()):
        return "a taint that the edge does not accept"
    return _beyond(handoff, edge.ttlMs, edge.maxDepth)


def _beyond(handoff: statements.Handoff, ttl: int | None, depth: int | None) -> str | None:
    if ttl is not None and (handoff.expires is None or handoff.expires - handoff.issued > ttl):
        return "it lives longer than permitted"
    if depth is not None and handoff.authority is not None and handoff.authority.maxDepth > depth:
        return "it may be handed on further than permitted"
    return None
