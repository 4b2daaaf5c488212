"""Signed entries: in-toto Statements v1 in a strict profile, so that one digest names one meaning.

Profile (``shared/spec/statement.md``): RFC 8785 text, integers only, no null, depth <= 16, <= 8 KiB, predicate types
under
``urn:counterfoil:``. A statement's identity is the SHA-256 of its payload bytes. Verify the envelope, then parse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from counterfoil import canonical
from counterfoil.digest import sha256_hex
from counterfoil.errors import CanonicalError, CounterfoilError, StatementError

__all__ = [
    "BINDING",
    "HANDOFF",
    "PARENTS_INLINE",
    "RECEIPT",
    "Binding",
    "Handoff",
    "Receipt",
    "Statement",
    "build",
    "parse",
    "parse_parents",
    "split_parents",
]

TYPE: Final = "https://in-toto.io/Statement/v1"
HANDOFF: Final = "urn:counterfoil:handoff:v0"
RECEIPT: Final = "urn:counterfoil:receipt:v0"
BINDING: Final = "urn:counterfoil:binding:v0"

MAX_STATEMENT: Final = 8 * 1024
MAX_DEPTH: Final = 16
PARENTS_INLINE: Final = 16

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Rel = Literal["control", "data", "call", "return"]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Digests(_Strict):
    """in-toto DigestSet: the reduced digest, and plain SHA-256 of the full bytes when the payload leaves."""

    counterfoil_v1: Hex64 = Field(alias="counterfoil-v1")
    sha256: Hex64 | None = None


class PlainDigest(_Strict):
    """in-toto DigestSet of one SHA-256."""

    sha256: Hex64


class PayloadSubject(_Strict):
    """The payload handed over."""

    name: Literal["payload"]
    digest: Digests


class NamedSubject(_Strict):
    """A subject named by plain SHA-256."""

    name: Text
    digest: PlainDigest


class Parent(_Strict):
    """What a statement follows from: a statement's or a record's SHA-256."""

    digest: Hex64
    rel: Rel


class ParentSet(_Strict):
    """More parents than stand inline: ``sha256`` names the stored JSON list of Parent objects."""

    count: Annotated[int, Field(ge=1)]
    sha256: Hex64
    size: Annotated[int, Field(ge=1)]


class Head(_Strict):
    """A checkpoint: where a log stood."""

    origin: Text
    root: Hex64
    size: Annotated[int, Field(ge=1)]


class Sender(_Strict):
    """Who signs, as which actor, by which key."""

    actor: Text
    key: Hex64


class AddressParent(_Strict):
    """A parent in the repeatable half: by address, not by digest."""

    address: Annotated[str, StringConstraints(max_length=8192)]
    rel: Rel


class AddressSet(_Strict):
    """More parents than stand inline in the repeatable half: SHA-256 of the RFC 8785 list of AddressParent."""

    count: Annotated[int, Field(ge=1)]
    sha256: Hex64


class HandoffContent(_Strict):
    """The half of a handoff that repeats in a replay."""

    senders: Annotated[list[Text], Field(min_length=1, max_length=256)] = Field(alias="from")
    to: Text
    kind: Literal["edge", "join", "enter", "command", "send", "call", "return", "continue", "message"]
    basis: Literal["sealed", "observed"]
    payload: Hex64
    parents: Annotated[list[AddressParent], Field(max_length=PARENTS_INLINE)] | None = None
    parentSet: AddressSet | None = None


class Payload(_Strict):
    """Media type and size of the payload."""

    media: Text
    size: Annotated[int, Field(ge=0)]


class Handoff(_Strict):
    """What a sender signs before a receiver acts."""

    content: HandoffContent
    exact: bool
    issued: Annotated[int, Field(ge=0)]
    parents: Annotated[list[Parent], Field(max_length=PARENTS_INLINE)]
    payload: Payload
    proof: Literal["recorded", "countersigned"]
    sender: Sender
    audience: Text | None = None
    call: Annotated[str, StringConstraints(max_length=64)] | None = None
    expires: Annotated[int, Field(ge=0)] | None = None
    nonce: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    own: Head | None = None
    parentSet: ParentSet | None = None
    reason: Text | None = None
    run: Annotated[str, StringConstraints(max_length=64)] | None = None
    seen: list[Head] | None = None


class Receipt(_Strict):
    """What a receiver signs about a handoff."""

    handoff: Hex64
    status: Literal["accepted", "refused", "completed", "failed"]
    issued: Annotated[int, Field(ge=0)]
    sender: Sender
    checks: list[Text]
    nonce: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    own: Head | None = None
    reason: Text | None = None
    run: Annotated[str, StringConstraints(max_length=64)] | None = None


class Binding(_Strict):
    """The identity's word that a key speaks for an actor in this log from here on."""

    actor: Text
    key: Hex64
    spki: Annotated[str, StringConstraints(max_length=256)]
    origin: Text
    issued: Annotated[int, Field(ge=0)]


_PREDICATES: Final[dict[str, tuple[type[_Strict], type[_Strict]]]] = {
    HANDOFF: (Handoff, PayloadSubject),
    RECEIPT: (Receipt, NamedSubject),
    BINDING: (Binding, NamedSubject),
}


class Statement(_Strict):
    """A parsed statement; ``digest`` is its identity."""

    digest: Hex64
    kind: Text
    subject: PayloadSubject | NamedSubject
    predicate: Handoff | Receipt | Binding


def build(kind: str, subject: dict[str, Any], predicate: dict[str, Any]) -> bytes:
    """Payload bytes of a statement; raises StatementError when it would be longer than 8 KiB."""
    payload = canonical.dumps(
        {"_type": TYPE, "predicate": predicate, "predicateType": kind, "subject": [subject]}
    )
    if len(payload) > MAX_STATEMENT:
        raise StatementError(
            f"a statement of {len(payload)} bytes exceeds {MAX_STATEMENT}",
            code="CF-STMT-001",
            hint="cite a parentSet",
        )
    return payload


def parse(payload: bytes) -> Statement:
    """Parse verified payload bytes; raises StatementError for anything outside the profile, known types only."""
    if len(payload) > MAX_STATEMENT:
        raise StatementError("a statement is longer than 8 KiB", code="CF-STMT-001")
    try:
        value = canonical.loads_canonical(payload, max_depth=MAX_DEPTH, max_bytes=MAX_STATEMENT)
    except CounterfoilError as exc:
        raise StatementError(f"a statement is not canonical: {exc.message}", code="CF-STMT-002") from exc
    if type(value) is not dict or value.keys() != {"_type", "predicate", "predicateType", "subject"}:
        raise StatementError("not an in-toto Statement v1", code="CF-STMT-003")
    if value["_type"] != TYPE:
        raise StatementError("not an in-toto Statement v1", code="CF-STMT-003")
    _refuse_null_and_float(value)
    models = _PREDICATES.get(value["predicateType"]) if type(value["predicateType"]) is str else None
    if models is None:
        raise StatementError(
            "the predicate type is unknown",
            code="CF-STMT-004",
            hint="read this evidence with a newer Counterfoil",
        )
    if type(value["subject"]) is not list or len(value["subject"]) != 1:
        raise StatementError("a statement has exactly one subject", code="CF-STMT-005")
    predicate, subject = models
    try:
        found = Statement.model_construct(
            digest=sha256_hex(payload),
            kind=value["predicateType"],
            subject=subject.model_validate(value["subject"][0]),
            predicate=predicate.model_validate(value["predicate"]),
        )
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        where = "/" + "/".join(map(str, first["loc"]))
        raise StatementError(
            f"a statement is malformed: {first['msg']}", code="CF-STMT-005", where=where
        ) from exc
    if not _same_subject(found):
        raise StatementError(
            "the subject is not what the predicate is about", code="CF-STMT-005", where="/subject"
        )
    return found


def _same_subject(statement: Statement) -> bool:
    """Whether the subject, which every in-toto tool reads, says what the predicate says."""
    subject, predicate = statement.subject, statement.predicate
    if isinstance(subject, PayloadSubject):
        return isinstance(predicate, Handoff) and subject.digest.counterfoil_v1 == predicate.content.payload
    if isinstance(predicate, Receipt):
        return subject.digest.sha256 == predicate.handoff
    return (
        isinstance(predicate, Binding)
        and subject.digest.sha256 == predicate.key
        and subject.name == predicate.actor
    )


def parse_parents(data: bytes) -> list[Parent]:
    """The parents in a stored list; raises StatementError (CF-STMT-007) when it is none."""
    try:
        listed = canonical.loads_canonical(data)
        if type(listed) is not list:
            raise StatementError("a list of parents is no list", code="CF-STMT-007")
        return [Parent.model_validate(one) for one in listed]
    except (CanonicalError, ValidationError) as exc:
        raise StatementError("a list of parents is malformed", code="CF-STMT-007") from exc


def split_parents(parents: Sequence[dict[str, str]], limit: int) -> tuple[list[dict[str, str]], bytes | None]:
    """Sorted unique parents that stand inline, and the stored list's bytes when there are more than ``limit``."""
    unique = {(parent["digest"], parent["rel"]) for parent in parents}
    listed = [{"digest": digest, "rel": rel} for digest, rel in sorted(unique)]
    if len(listed) <= limit:
        return listed, None
    return [], canonical.dumps(listed)


def _refuse_null_and_float(value: object) -> None:
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
        elif node is None or type(node) is float:
            raise StatementError("a statement holds a null or a float", code="CF-STMT-006")
