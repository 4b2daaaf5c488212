"""The form of a trust policy: its members, and what is refused because it has no one meaning.

Source: ``shared/spec/trust.md``, Policy.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from counterfoil import canonical, statements
from counterfoil.digest import sha256_hex
from counterfoil.errors import CounterfoilError, KeyringError, StatementError, TrustError
from counterfoil.keys import PublicKey
from counterfoil.patterns import is_actor_pattern, is_capability
from counterfoil.predicates import Depth, Ext, Hex64, PlainDigest, Strict, Text, in_order

__all__ = [
    "KIND",
    "MAX_ENVELOPE",
    "MAX_SKEW",
    "Agent",
    "Content",
    "Edge",
    "Key",
    "Limits",
    "build",
    "content_of",
    "no_policy",
    "public_of",
]

KIND: Final = "urn:counterfoil:policy:v1"
MAX_ENVELOPE: Final = 512 * 1024
MAX_SKEW: Final = 86_400_000
"""Milliseconds: the most by which a policy may let clocks differ."""
MAX_POLICY: Final = 256 * 1024


Time = Annotated[int, Field(ge=0)]
Span = Annotated[int, Field(ge=1)]
Threshold = Annotated[int, Field(ge=1, le=4)]
Name = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]


class Admins(Strict):
    """Who may sign a policy, and how many of them must."""

    keys: Annotated[list[Hex64], Field(min_length=1, max_length=16)]
    threshold: Threshold


class Key(Strict):
    """A key, its time, and what is known against it; the algorithm is bound to the key here and nowhere else."""

    key: Hex64
    alg: Literal["ed25519"]
    spki: Annotated[str, StringConstraints(max_length=256)]
    notBefore: Time
    notAfter: Time | None = None
    status: Literal["active", "superseded", "compromised"]
    since: Time | None = None


class Agent(Strict):
    """Which keys speak for the actors that ``id`` covers, and how many of them must."""

    id: Text
    keys: Annotated[list[Hex64], Field(min_length=1, max_length=64)]
    threshold: Threshold


class Edge(Strict):
    """A permission to hand over; what is left out is not limited."""

    sender: Text = Field(alias="from")
    to: Text
    purposes: Annotated[list[Text], Field(min_length=1, max_length=64)] | None = None
    allow: Annotated[list[Text], Field(max_length=64)] | None = None
    maxDepth: Depth | None = None
    ttlMs: Span | None = None
    acceptTaint: Annotated[list[Text], Field(max_length=16)] | None = None


class Limits(Strict):
    """Bounds for every handoff, whatever its edge."""

    maxDepth: Depth | None = None
    ttlMs: Span | None = None


class Clock(Strict):
    """By how much clocks may differ."""

    skewMs: Annotated[int, Field(ge=0, le=MAX_SKEW)] | None = None


class Content(Strict):
    """The predicate of a policy."""

    name: Name
    version: Annotated[int, Field(ge=1)]
    previous: Hex64 | None = None
    validFrom: Time
    admins: Admins
    keys: Annotated[list[Key], Field(min_length=1, max_length=1024)]
    agents: Annotated[list[Agent], Field(min_length=1, max_length=1024)]
    edges: Annotated[list[Edge], Field(max_length=4096)] | None = None
    ext: Ext | None = None
    roots: Annotated[list[Text], Field(max_length=1024)] | None = None
    limits: Limits | None = None
    time: Clock | None = None


class _Subject(Strict):
    name: Text
    digest: PlainDigest


def build(predicate: dict[str, Any]) -> bytes:
    """Payload bytes of a policy; raises TrustError when nobody could use it."""
    digest = sha256_hex(canonical.dumps(predicate))
    subject = {"digest": {"sha256": digest}, "name": predicate.get("name", "")}
    payload = statements.build(KIND, subject, predicate, limit=MAX_POLICY)
    content_of(payload)
    return payload


def content_of(payload: bytes) -> Content:
    """What a policy's payload says, its form and its consistency checked; that anybody signed it is not looked at.

    Raises TrustError: CF-TRUST-002: no policy; CF-TRUST-003: it contradicts itself. Source: ``shared/spec/trust.md``.
    """
    try:
        value = statements.read_payload(payload, limit=MAX_POLICY)
        if value["predicateType"] != KIND:
            raise statements.unknown_kind()
        content, subject = statements.validated(value, Content, _Subject)
    except StatementError as exc:
        raise no_policy(exc) from exc
    if (subject.name, subject.digest.sha256) != (
        content.name,
        sha256_hex(canonical.dumps(value["predicate"])),
    ):
        raise _contradiction("the subject is not the predicate", "/subject")
    _check(content)
    return content


def _check(content: Content) -> None:
    """Refuse what has the right types and no one meaning."""
    if (content.previous is None) != (content.version == 1):
        raise _contradiction("every version but the first names the one before", "/previous")
    _ordered(content.admins.keys, "/admins/keys")
    if content.admins.threshold > len(content.admins.keys):
        raise _contradiction("more admins must sign than there are", "/admins/threshold")
    _ordered([key.key for key in content.keys], "/keys")
    for place, key in enumerate(content.keys):
        _check_key(key, f"/keys/{place}")
    known = {key.key for key in content.keys}
    _ordered([agent.id for agent in content.agents], "/agents")
    for place, agent in enumerate(content.agents):
        where = f"/agents/{place}"
        _patterns([agent.id], where)
        _ordered(agent.keys, f"{where}/keys")
        if agent.threshold > len(agent.keys):
            raise _contradiction("more keys must sign than there are", f"{where}/threshold")
        if not known.issuperset(agent.keys):
            raise _contradiction("a key of an agent is not among the keys", f"{where}/keys")
    for place, edge in enumerate(content.edges or ()):
        where = f"/edges/{place}"
        _patterns([edge.sender, edge.to], where)
        for listed in (edge.purposes, edge.allow, edge.acceptTaint):
            _ordered(listed or [], where)
        if not all(map(is_capability, edge.allow or ())):
            raise _contradiction("no capability", f"{where}/allow")
    _ordered(content.roots or [], "/roots")
    _patterns(content.roots or [], "/roots")


def _check_key(key: Key, where: str) -> None:
    try:
        public = public_of(key)
    except KeyringError as exc:
        raise _contradiction(exc.message, f"{where}/spki") from exc
    if public.keyid != key.key:
        raise _contradiction("the key does not have this fingerprint", f"{where}/spki")
    if key.notAfter is not None and key.notAfter < key.notBefore:
        raise _contradiction("it ends before it begins", f"{where}/notAfter")
    if key.status == "superseded" and key.notAfter is None:
        raise _contradiction("a superseded key has an end", f"{where}/notAfter")
    if (key.status == "compromised") != (key.since is not None):
        raise _contradiction("since belongs to a compromised key", f"{where}/since")


def public_of(key: Key) -> PublicKey:
    """The public key that an entry of a policy lists, from the one base64 spelling of its SPKI.

    Raises KeyringError: CF-KEYS-030: it is none; CF-KEYS-031: one for which everything is signed.
    """
    return PublicKey.from_text(key.spki)


def _ordered(listed: list[str], where: str) -> None:
    try:
        in_order(listed)
    except ValueError as exc:
        raise _contradiction("a list is not sorted, or has repeats", where) from exc


def _patterns(listed: list[str], where: str) -> None:
    if not all(map(is_actor_pattern, listed)):
        raise _contradiction("no pattern of actors", where)


def _contradiction(why: str, where: str) -> TrustError:
    return TrustError(
        f"the policy contradicts itself: {why}",
        code="CF-TRUST-003",
        where=where,
        hint="mend it and have it signed again: counterfoil policy sign",
    )


def no_policy(exc: CounterfoilError) -> TrustError:
    """The TrustError (CF-TRUST-002) for bytes that another reader refused, with that reader's words and place."""
    return TrustError(
        f"not a trust policy: {exc.message} ({exc.code})",
        code="CF-TRUST-002",
        where=exc.where,
        hint="ask its admins for the file as they signed it",
    )
