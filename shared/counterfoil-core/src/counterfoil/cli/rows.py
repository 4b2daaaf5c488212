"""One entry as one object: what ``log --json`` prints, and what the plain line is made of."""

from __future__ import annotations

import datetime as dt
from typing import Any

from counterfoil import records, statements
from counterfoil.digest import is_reference, sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.log import Entry

__all__ = ["STATEMENTS", "clock", "identity", "moment", "row", "statement_of"]

_KINDS = {
    statements.HANDOFF: "handoff",
    statements.RECEIPT: "receipt",
    statements.BINDING: "binding",
    statements.WEIGHTS: "weights",
}
STATEMENTS = frozenset(_KINDS.values())
"""Operations, as told here, of the statements that this version knows."""


def row(entry: Entry) -> dict[str, Any]:
    """The twelve members of ``log --json``; null where an entry has no such thing."""
    found: dict[str, Any] = dict.fromkeys(
        (
            "index",
            "log",
            "digest",
            "op",
            "phase",
            "call",
            "run",
            "actor",
            "address",
            "at",
            "request",
            "response",
        )
    )
    found |= {"index": entry.index, "log": entry.log, "digest": identity(entry)}
    if records.is_record(entry.body):
        content, context = entry.body["content"], entry.body["context"]
        found["op"] = entry.op
        for key in ("phase", "actor", "address"):
            found[key] = _text(content.get(key))
        for key in ("call", "run"):
            found[key] = _text(context.get(key))
        found["at"] = context.get("at") if type(context.get("at")) is int else None
        for key in ("request", "response"):
            found[key] = content[key]["sha256"] if is_reference(content.get(key)) else None
        return found
    found |= {"op": "statement", "phase": "point"}
    statement = statement_of(entry)
    if statement is not None:
        predicate = statement.predicate
        found["op"] = _KINDS.get(statement.kind, "statement")
        found["at"] = predicate.issued * 1000
        if isinstance(predicate, statements.Binding):
            found["actor"] = predicate.actor
        elif isinstance(predicate, statements.Handoff | statements.Receipt):
            found["actor"], found["run"] = predicate.sender.actor, predicate.run
        if isinstance(predicate, statements.Handoff):
            found["call"] = predicate.call
    return found


def identity(entry: Entry) -> str:
    """What statements and parents cite an entry by: SHA-256 of a record's bytes, of a statement's payload."""
    if records.is_record(entry.body):
        return sha256_hex(entry.body_bytes)
    try:
        return sha256_hex(Envelope.parse(entry.body).payload)
    except CounterfoilError:
        return sha256_hex(entry.body_bytes)


def statement_of(entry: Entry) -> statements.Statement | None:
    """The statement in an entry, None for a record and for a form this version does not know."""
    if records.is_record(entry.body):
        return None
    try:
        return statements.parse(Envelope.parse(entry.body).payload)
    except CounterfoilError:
        return None


def moment(at: object, *, utc: bool = False) -> dt.datetime | None:
    """Unix time in microseconds as local time, or UTC."""
    try:
        if type(at) is not int:
            return None
        found = dt.datetime.fromtimestamp(at // 1_000_000, dt.UTC).replace(microsecond=at % 1_000_000)
        return found if utc else found.astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def clock(at: object) -> str:
    """Local time of day to the millisecond; blanks when there is none."""
    found = moment(at)
    return found.strftime("%H:%M:%S.%f")[:12] if found else " " * 12


def _text(value: object) -> str | None:
    return value if type(value) is str else None
