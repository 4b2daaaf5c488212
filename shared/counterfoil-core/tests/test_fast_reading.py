"""The short ways through entries and statements say what the long ways say, about every text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterfoil import canonical, records, statements
from counterfoil.entries import MAX_ENTRY, read_entry
from counterfoil.errors import CounterfoilError

REFERENCE = {"media": "text/plain;charset=utf-8", "sha256": "a" * 64, "size": 5}
ENTRY: dict[str, Any] = {
    "body": {"content": {"op": "custom", "request": REFERENCE}, "context": {"at": 1}, "v": 0},
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
RAW = (
    *("null", "true", "1.5", "-1.5", "1e21", "1e+21", "5e-324", "1E5", "-0", "1.0", "9007199254740992", "1e999"),
    *('""', '"n"', '"null"', '":n"', '":1e21"', '"\\":1.5"', '"a\\\\"', '"é"', '"\\u0041"', "[]", "[null]", "[1.5]"),
    *("{}", '{"":null}', '{"a":1.5}', "[[1e21]]", '{"a":1,"a":1}', '{"b":1,"a":1}', "[1,-2.5e-7]", '[",1.5"]'),
    *('{"media":"","sha256":"' + "b" * 64 + f'","size":{size}}}' for size in ("0", "-1", "01", "1e21", "null")),
    '{"media":"\\"","sha256":"' + "b" * 64 + '","size":1}',
    '{"media":"\u00e9","sha256":"' + "b" * 64 + '","size":1}',
    '{"media":"m","sha256":"' + "B" * 64 + '","size":1}',
    '{"a":1,"media":"m","sha256":"' + "b" * 64 + '","size":1}',
    '{"media":"m","sha256":"' + "b" * 64 + '","size":1,"z":1}',
    '[{"media":"m","sha256":"' + "b" * 64 + '","size":1},{"media":"m","sha256":"' + "c" * 64 + '","size":1}]',
)  # fmt: skip
"""Values as they may stand in a text, canonical or not."""


def _texts(value: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Texts of a value with one or two places replaced by something else, or dropped, or a byte changed."""
    text = canonical.dumps(value).decode()
    places = [at for at in range(len(text)) if text[at] == ":" and text[at - 1] == '"']

    def put(at: int, raw: str, far: int) -> str:
        return text[: at + 1] + raw + text[min(at + 1 + far, len(text)) :]

    def ends(at: int) -> int:
        depth, inside = 0, False
        for far, one in enumerate(text[at + 1 :]):
            inside ^= one == '"'
            if not inside:
                depth += (one in "{[") - (one in "}]")
                if depth < 0 or (depth == 0 and one == ","):
                    return far
        return 0

    whole = st.builds(lambda at, raw: put(at, raw, ends(at)), st.sampled_from(places), st.sampled_from(RAW))
    odd = st.builds(put, st.sampled_from(places), st.sampled_from(RAW), st.integers(0, 40))
    flipped = st.builds(
        lambda at, byte: text[:at] + byte + text[at + 1 :],
        st.integers(0, len(text) - 1),
        st.sampled_from('{}[]",:\\ n0e.-'),
    )
    return st.one_of(whole, odd, flipped, st.just(text)).map(str.encode)


def _outcome(work: Any, *given: Any) -> Any:
    try:
        return work(*given)
    except CounterfoilError as exc:
        return exc.code, exc.message, exc.where


def _long_way(data: bytes) -> Any:
    value = canonical.loads_canonical(data, max_bytes=MAX_ENTRY)
    cited, nulls, floats = records.look(value)
    return value, cited, not (nulls or floats)


@given(_texts(ENTRY))
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


@given(_texts(STATEMENT))
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
