"""What the statements say, member by member: strict models, nothing converted, nothing beyond what is named.

Source: ``shared/spec/statement.md``, ``shared/spec/trust.md`` (authority, taint), ``shared/spec/weights.md``.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from counterfoil.patterns import is_capability

__all__ = [
    "PARENTS_INLINE",
    "Archive",
    "Authority",
    "Binding",
    "Depth",
    "Ext",
    "Handoff",
    "HandoffSubject",
    "Head",
    "Hex64",
    "NamedSubject",
    "Parent",
    "ParentSet",
    "PayloadSubject",
    "PlainDigest",
    "Receipt",
    "Strict",
    "Text",
    "Weights",
    "in_order",
]

PARENTS_INLINE: Final = 16
MAX_HANDED_ON: Final = 64
"""How often authority may be handed on, at most."""


def in_order(listed: list[str]) -> list[str]:
    """Refuses a list that is not sorted or names something twice, so that one meaning has one spelling."""
    if any(first >= second for first, second in itertools.pairwise(listed)):
        raise ValueError("not sorted, or with repeats")
    return listed


def _capability(text: str) -> str:
    if not is_capability(text):
        raise ValueError("no capability")
    return text


Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Rel = Literal["control", "data", "call", "return"]
Depth = Annotated[int, Field(ge=0, le=MAX_HANDED_ON)]
Capability = Annotated[str, AfterValidator(_capability)]
Capabilities = Annotated[list[Capability], Field(min_length=1, max_length=64), AfterValidator(in_order)]
_Taint = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Taints = Annotated[list[_Taint], Field(max_length=16), AfterValidator(in_order)]


class Strict(BaseModel):
    """Exactly the members named, exactly their types."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Digests(Strict):
    """in-toto DigestSet: the reduced digest, and plain SHA-256 of the full bytes when the payload leaves."""

    counterfoil_v1: Hex64 = Field(alias="counterfoil-v1")
    sha256: Hex64 | None = None


class PlainDigest(Strict):
    """in-toto DigestSet of one SHA-256."""

    sha256: Hex64


class PayloadSubject(Strict):
    """The payload handed over."""

    name: Literal["payload"]
    digest: Digests


class NamedSubject(Strict):
    """A subject named by plain SHA-256."""

    name: Text
    digest: PlainDigest


class HandoffSubject(NamedSubject):
    """The handoff that a receipt is about."""

    name: Literal["handoff"]


class Parent(Strict):
    """What a statement follows from: a statement's or a record's SHA-256."""

    digest: Hex64
    rel: Rel


class ParentSet(Strict):
    """More parents than stand inline: ``sha256`` names the stored JSON list of Parent objects."""

    count: Annotated[int, Field(ge=1)]
    sha256: Hex64
    size: Annotated[int, Field(ge=1)]


class Head(Strict):
    """A checkpoint: where a log stood."""

    origin: Text
    root: Hex64
    size: Annotated[int, Field(ge=1)]


class Authority(Strict):
    """What a handoff lets its receiver do; ``grant`` is the handoff that let the sender do it."""

    allow: Capabilities
    expires: Annotated[int, Field(ge=0)]
    maxDepth: Depth
    grant: Hex64 | None = Field(default=None, alias="from")


Ext = dict[str, Any]
"""What a later writer says more; a reader passes over it, and nothing in it grants or restricts anything."""
Heads = Annotated[list[Head], Field(max_length=16)]


class Sender(Strict):
    """Who signs, as which actor, by which key."""

    actor: Text
    key: Hex64


class AddressParent(Strict):
    """A parent in the repeatable half: by address, not by digest."""

    address: Annotated[str, StringConstraints(max_length=8192)]
    rel: Rel


class AddressSet(Strict):
    """More parents than stand inline in the repeatable half: SHA-256 of the RFC 8785 list of AddressParent."""

    count: Annotated[int, Field(ge=1)]
    sha256: Hex64


class HandoffContent(Strict):
    """The half of a handoff that repeats in a replay."""

    senders: Annotated[list[Text], Field(min_length=1, max_length=256)] = Field(alias="from")
    to: Text
    kind: Literal["edge", "join", "enter", "command", "send", "call", "return", "continue", "message"]
    basis: Literal["sealed", "observed"]
    payload: Hex64
    parents: Annotated[list[AddressParent], Field(max_length=PARENTS_INLINE)] | None = None
    parentSet: AddressSet | None = None


class Payload(Strict):
    """Media type and size of the payload."""

    media: Text
    size: Annotated[int, Field(ge=0)]


class Handoff(Strict):
    """What a sender signs before a receiver acts."""

    content: HandoffContent
    exact: bool
    issued: Annotated[int, Field(ge=0)]
    parents: Annotated[list[Parent], Field(max_length=PARENTS_INLINE)]
    payload: Payload
    proof: Literal["recorded", "countersigned"]
    sender: Sender
    audience: Text | None = None
    authority: Authority | None = None
    call: Annotated[str, StringConstraints(max_length=64)] | None = None
    expires: Annotated[int, Field(ge=0)] | None = None
    ext: Ext | None = None
    nonce: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    own: Head | None = None
    parentSet: ParentSet | None = None
    policy: Hex64 | None = None
    purpose: Text | None = None
    reason: Text | None = None
    run: Annotated[str, StringConstraints(max_length=64)] | None = None
    seen: Heads | None = None
    taint: Taints | None = None


class Receipt(Strict):
    """What a receiver signs about a handoff."""

    handoff: Hex64
    status: Literal["accepted", "refused", "completed", "failed"]
    issued: Annotated[int, Field(ge=0)]
    sender: Sender
    checks: list[Text]
    ext: Ext | None = None
    nonce: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    own: Head | None = None
    policy: Hex64 | None = None
    reason: Text | None = None
    run: Annotated[str, StringConstraints(max_length=64)] | None = None
    seen: Heads | None = None


class Binding(Strict):
    """The identity's word that a key speaks for an actor in this log from here on."""

    actor: Text
    key: Hex64
    spki: Annotated[str, StringConstraints(max_length=256)]
    origin: Text
    issued: Annotated[int, Field(ge=0)]
    ext: Ext | None = None


class Manifest(Strict):
    """The stored list of what was archived."""

    sha256: Hex64
    size: Annotated[int, Field(ge=1)]


class Archive(Strict):
    """The identity's word that one of its logs is whole in another place, and was taken away from here."""

    bytes: Annotated[int, Field(ge=0)]
    first: Annotated[int, Field(ge=0)]
    issued: Annotated[int, Field(ge=0)]
    last: Annotated[int, Field(ge=0)]
    log: Head
    manifest: Manifest
    place: Text
    runs: Annotated[int, Field(ge=0)]
    verdict: Literal["intact", "incomplete"]
    ext: Ext | None = None
    retain: Annotated[int, Field(ge=0)] | None = None


class WeightsList(Strict):
    """The blob that lists the files."""

    media: Literal["application/vnd.counterfoil.weights+json"]
    sha256: Hex64
    size: Annotated[int, Field(ge=1)]


class WeightsFiles(Strict):
    """How many files, how many bytes in all, and the list of them."""

    count: Annotated[int, Field(ge=1)]
    list: WeightsList
    size: Annotated[int, Field(ge=0)]


class WeightsSource(Strict):
    """Where the files came from, as whoever hashed them says."""

    repo: Text
    revision: Text | None = None


class Weights(Strict):
    """Somebody's word that a tree of files had these digests."""

    cached: Annotated[int, Field(ge=0)]
    files: WeightsFiles
    issued: Annotated[int, Field(ge=0)]
    key: Hex64
    name: Text
    root: Hex64
    without: Annotated[list[Text], Field(max_length=64), AfterValidator(in_order)]
    ext: Ext | None = None
    source: WeightsSource | None = None
