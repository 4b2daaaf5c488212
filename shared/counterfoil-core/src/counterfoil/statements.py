"""Signed entries: in-toto Statements v1 in a strict profile, so that one digest names one meaning.

Profile (``shared/spec/statement.md``): RFC 8785 text, integers only, no null, depth <= 16, <= 8 KiB, predicate types
under
``urn:counterfoil:``. A statement's identity is the SHA-256 of its payload bytes. Verify the envelope, then parse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import orjson
from pydantic import ValidationError

from counterfoil import canonical
from counterfoil.digest import sha256_hex
from counterfoil.errors import CanonicalError, CounterfoilError, StatementError
from counterfoil.predicates import (
    PARENTS_INLINE,
    Archive,
    Authority,
    Binding,
    Handoff,
    HandoffSubject,
    Head,
    NamedSubject,
    Parent,
    ParentSet,
    PayloadSubject,
    PlainDigest,
    Receipt,
    Strict,
    Weights,
    in_order,
)

__all__ = [
    "ARCHIVE",
    "BINDING",
    "HANDOFF",
    "PARENTS_INLINE",
    "RECEIPT",
    "WEIGHTS",
    "Archive",
    "Authority",
    "Binding",
    "Handoff",
    "Head",
    "Parent",
    "ParentSet",
    "PayloadSubject",
    "PlainDigest",
    "Predicate",
    "Receipt",
    "Statement",
    "Strict",
    "Weights",
    "build",
    "in_order",
    "parse",
    "parse_parents",
    "read_payload",
    "split_parents",
    "unknown_kind",
    "validated",
    "word_for",
    "wrong_subject",
]

TYPE: Final = "https://in-toto.io/Statement/v1"
HANDOFF: Final = "urn:counterfoil:handoff:v1"
RECEIPT: Final = "urn:counterfoil:receipt:v1"
BINDING: Final = "urn:counterfoil:binding:v1"
ARCHIVE: Final = "urn:counterfoil:archive:v1"
WEIGHTS: Final = "urn:counterfoil:weights:v1"

MAX_STATEMENT: Final = 8 * 1024
MAX_DEPTH: Final = 16
P = TypeVar("P", bound=Strict)
S = TypeVar("S", bound=Strict)

_PREDICATES: Final[dict[str, tuple[type[Strict], type[Strict]]]] = {
    HANDOFF: (Handoff, PayloadSubject),
    RECEIPT: (Receipt, HandoffSubject),
    BINDING: (Binding, NamedSubject),
    ARCHIVE: (Archive, NamedSubject),
    WEIGHTS: (Weights, NamedSubject),
}


_VALIDATORS: Final[dict[str, tuple[Any, Any]]] = {
    kind: (predicate.__pydantic_validator__.validate_python, subject.__pydantic_validator__.validate_python)
    for kind, (predicate, subject) in _PREDICATES.items()
}
"""What ``model_validate`` calls, without its wrapper."""


Predicate: TypeAlias = Handoff | Receipt | Binding | Archive | Weights


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement; ``digest`` is its identity."""

    digest: str
    kind: str
    subject: PayloadSubject | NamedSubject
    predicate: Predicate


def build(
    kind: str, subject: dict[str, Any], predicate: dict[str, Any], *, limit: int = MAX_STATEMENT
) -> bytes:
    """Payload bytes of a statement; raises StatementError (CF-STMT-001) when longer than 8 KiB (``limit`` bytes)."""
    payload = canonical.dumps(
        {"_type": TYPE, "predicate": predicate, "predicateType": kind, "subject": [subject]}
    )
    if len(payload) > limit:
        raise StatementError(
            f"a statement of {len(payload)} bytes exceeds {limit}",
            code="CF-STMT-001",
            hint="cite a parentSet",
        )
    return payload


def parse(payload: bytes) -> Statement:
    """Parse verified payload bytes; raises StatementError for anything outside the profile, known types only."""
    found = _parse_plain(payload)
    if found is None:
        value = read_payload(payload)
        models = _PREDICATES.get(value["predicateType"]) if type(value["predicateType"]) is str else None
        if models is None:
            raise unknown_kind()
        predicate, subject = validated(value, *models)
        found = Statement(sha256_hex(payload), value["predicateType"], subject, predicate)  # type: ignore[arg-type]
    if not _same_subject(found):
        raise wrong_subject()
    return found


def _parse_plain(payload: bytes) -> Statement | None:
    """The statement in a payload that is as it should be in every way; None where the slow way has to say.

    orjson may write a float as RFC 8785 does not, but the models take none: what they accept was compared rightly.
    """
    if len(payload) > MAX_STATEMENT or b"null" in payload or not canonical.fast_path_enabled():
        return None
    if payload.count(b"[") + payload.count(b"{") > MAX_DEPTH:
        return None
    try:
        value = orjson.loads(payload)
        if canonical.dumps_record(value) != payload or len(value) != 4 or value["_type"] != TYPE:
            return None
        kind = value["predicateType"]
        predicate, subject = _VALIDATORS[kind]
        listed = value["subject"]
        if type(listed) is not list or len(listed) != 1:
            return None
        return Statement(sha256_hex(payload), kind, subject(listed[0]), predicate(value["predicate"]))
    except (ValueError, KeyError, TypeError, CanonicalError):
        return None


def read_payload(payload: bytes, *, limit: int = MAX_STATEMENT) -> dict[str, Any]:
    """The four members of a statement of any kind; raises StatementError (CF-STMT-001 to 003, 006)."""
    if len(payload) > limit:
        raise StatementError(f"a statement is longer than {limit // 1024} KiB", code="CF-STMT-001")
    try:
        value, plain = canonical.loads_plain(payload, max_depth=MAX_DEPTH, max_bytes=limit)
    except CounterfoilError as exc:
        raise StatementError(f"a statement is not canonical: {exc.message}", code="CF-STMT-002") from exc
    if type(value) is not dict or value.keys() != {"_type", "predicate", "predicateType", "subject"}:
        raise StatementError("not an in-toto Statement v1", code="CF-STMT-003")
    if value["_type"] != TYPE:
        raise StatementError("not an in-toto Statement v1", code="CF-STMT-003")
    if not plain:
        raise StatementError("a statement holds a null or a float", code="CF-STMT-006")
    return value


def validated(value: dict[str, Any], predicate: type[P], subject: type[S]) -> tuple[P, S]:
    """Predicate and subject as their models; raises StatementError (CF-STMT-005)."""
    if type(value["subject"]) is not list or len(value["subject"]) != 1:
        raise StatementError("a statement has exactly one subject", code="CF-STMT-005")
    try:
        found = subject.model_validate(value["subject"][0])
        return predicate.model_validate(value["predicate"]), found
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        where = "/" + "/".join(map(str, first["loc"]))
        raise StatementError(
            f"a statement is malformed: {first['msg']}", code="CF-STMT-005", where=where
        ) from exc


def word_for(kind: str) -> str:
    """What a statement of this predicate type is called."""
    return kind.removeprefix("urn:counterfoil:").partition(":")[0]


def unknown_kind() -> StatementError:
    """The error for a predicate type that this version does not know."""
    return StatementError(
        "the predicate type is unknown",
        code="CF-STMT-004",
        hint="read this evidence with a newer Counterfoil",
    )


def wrong_subject() -> StatementError:
    """The error for a subject that every other in-toto tool would read as something else."""
    return StatementError(
        "the subject is not what the predicate is about", code="CF-STMT-005", where="/subject"
    )


def _same_subject(statement: Statement) -> bool:
    """Whether the subject, which every in-toto tool reads, says what the predicate says."""
    subject, predicate = statement.subject, statement.predicate
    if isinstance(subject, PayloadSubject):
        return isinstance(predicate, Handoff) and subject.digest.counterfoil_v1 == predicate.content.payload
    if isinstance(predicate, Receipt):
        return subject.digest.sha256 == predicate.handoff
    if isinstance(predicate, Archive):
        return subject.digest.sha256 == predicate.manifest.sha256 and subject.name == predicate.log.origin
    if isinstance(predicate, Weights):
        return subject.digest.sha256 == predicate.root and subject.name == predicate.name
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
