"""The short ways through entries and statements say what the long ways say, about every text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from twisting import texts

from counterfoil import canonical, records, statements
from counterfoil.entries import MAX_ENTRY, read_entry
from counterfoil.errors import CounterfoilError

REFERENCE = {"media": "text/plain;charset=utf-8", "sha256": "a" * 64, "size": 5}
ENTRY: dict[str, Any] = {
    "body": {"content": {"op": "custom", "request": REFERENCE}, "context": {"at": 1}, "v": 1},
    "i": 0,
    "prev": "0" * 64,
}
HANDOFF: dict[str, Any] = {
    "content": {"basis": "sealed", "from": ["a"], "kind": "edge", "payload": "0" * 64, "to": "b"},
    "exact": True,
    "issued": 1,
    "parents": [{"digest": "1" * 64, "rel": "data"}],
    "payload": {"media": "m", "size": 1},
    "proof": "recorded",
    "sender": {"actor": "a", "key": "2" * 64},
}
STATEMENT: dict[str, Any] = {
    "_type": statements.TYPE,
    "predicate": HANDOFF,
    "predicateType": statements.HANDOFF,
    "subject": [{"digest": {"counterfoil-v1": "0" * 64}, "name": "payload"}],
}


def _outcome(work: Any, *given: Any) -> Any:
    try:
        return work(*given)
    except CounterfoilError as exc:
        return exc.code, exc.message, exc.where


def _long_way(data: bytes) -> Any:
    value = canonical.loads_canonical(data, max_bytes=MAX_ENTRY)
    cited, nulls, floats = records.look(value)
    return value, cited, not (nulls or floats)


@given(texts(ENTRY))
@example(canonical.dumps(ENTRY))
@example(canonical.dumps({"a": REFERENCE, "b": REFERENCE | {"size": 6}, "c": REFERENCE}))
@example(b'{"a":1e21}')
@example(b'{"a":1.5}')
@example(b'{"a":[1e21]}')
@example(b'{"a":":n"}')
def test_an_entry_reads_alike_the_short_way_and_the_long_way(data: bytes) -> None:
    assert _outcome(read_entry, data) == _outcome(_long_way, data)


def test_the_short_way_is_taken_for_a_plain_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "look", lambda value: pytest.fail("walked"))
    _, cited, plain = read_entry(canonical.dumps(ENTRY))
    assert (cited, plain) == ([("a" * 64, 5, REFERENCE["media"])], True)


@given(texts(STATEMENT))
@example(canonical.dumps(STATEMENT))
@example(canonical.dumps(STATEMENT | {"predicate": HANDOFF | {"run": None}}))
@example(canonical.dumps(STATEMENT | {"predicate": HANDOFF | {"issued": 1.5}}))
@example(canonical.dumps(STATEMENT).replace(b'"issued":1', b'"issued":1e21'))
@example(canonical.dumps(STATEMENT | {"subject": []}))
@example(canonical.dumps(STATEMENT | {"predicateType": []}))
@example(canonical.dumps(STATEMENT | {"predicateType": "urn:counterfoil:handoff:v9"}))
def test_a_statement_reads_alike_the_short_way_and_by_its_model(payload: bytes) -> None:
    short = _outcome(statements.parse, payload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "_parse_plain", lambda payload: None)
        assert _outcome(statements.parse, payload) == short


def test_the_short_way_is_taken_for_a_plain_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "read_payload", lambda payload: pytest.fail("read at length"))
    assert statements.parse(canonical.dumps(STATEMENT)).kind == statements.HANDOFF
