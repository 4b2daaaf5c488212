"""Reduced forms: one reference per value, what is small stands inline, what is long stands apart."""

from __future__ import annotations

import base64
import hashlib
import tracemalloc
from typing import Any

import pytest

from counterfoil import canonical
from counterfoil.digest import (
    INLINE,
    MEDIA_BYTES,
    MEDIA_FOLD,
    MEDIA_JSON,
    MEDIA_TEXT,
    Reducer,
    Reference,
    digest_of,
    is_reference,
    references_in,
)
from counterfoil.errors import CanonicalError


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def ref(data: bytes, media: str) -> dict[str, Any]:
    return {"$ref": {"media": media, "sha256": sha(data), "size": len(data)}}


@pytest.mark.parametrize("text", ["x" * 255, "é" * 127 + "x", "\U0001f600" * 63 + "abc"])
def test_a_short_string_stands_inline(text: str) -> None:
    assert len(text.encode()) == INLINE - 1
    assert Reducer().reduce(text) == canonical.dumps(text)


@pytest.mark.parametrize("text", ["x" * 256, "é" * 128, "\U0001f600" * 64])
def test_a_long_string_stands_apart_as_its_bytes(text: str) -> None:
    given: dict[str, bytes] = {}
    reduced = Reducer(given.__setitem__).reduce(text)
    assert canonical.loads(reduced) == ref(text.encode(), MEDIA_TEXT)
    assert given == {sha(text.encode()): text.encode()}


def test_sha256sum_of_a_file_is_the_digest_of_its_text_and_bytes() -> None:
    assert digest_of("prompt\n") == sha(b"prompt\n")
    assert digest_of("") == sha(b"")
    assert digest_of({"$bytes": base64.b64encode(b"\xff").decode()}) == sha(b"\xff")
    assert Reducer().reference("x") != Reducer().reference({"$bytes": "eA=="})


def test_bytes_are_counted_before_base64() -> None:
    for size, apart in ((INLINE - 1, False), (INLINE, True)):
        value = {"$bytes": base64.b64encode(bytes(size)).decode()}
        expected = ref(bytes(size), MEDIA_BYTES) if apart else value
        assert canonical.loads(Reducer().reduce(value)) == expected


def test_composites_stand_apart_by_their_reduced_size() -> None:
    small = {"a": "x" * (INLINE - 1 - len(b'{"a":""}'))}
    assert len(canonical.dumps(small)) == INLINE - 1
    assert Reducer().reduce(small) == canonical.dumps(small)
    big = {"a": small["a"] + "x"}
    assert canonical.loads(Reducer().reduce(big)) == ref(canonical.dumps(big), MEDIA_JSON)
    # What counts is the reduced text: with a long string inside it is short again.
    long = {"a": "x" * 1000}
    reduced = canonical.loads(Reducer().reduce(long))
    assert reduced == {"a": ref(b"x" * 1000, MEDIA_TEXT)}
    assert Reducer().reference(long).media == MEDIA_JSON


def test_a_reference_inside_is_left_as_it_is() -> None:
    inner = ref(b"x" * 300, MEDIA_TEXT)
    assert Reducer().reduce(inner) == canonical.dumps(inner)
    assert Reducer().reference(inner) == Reference(sha(b"x" * 300), 300, MEDIA_TEXT)


def test_folds_are_of_messages_only() -> None:
    messages = [{"$msg": {"text": str(number)}} for number in range(3)]
    assert Reducer().reference(messages).media == MEDIA_FOLD
    for other in ([], [*messages, 1], [{"$msg": 1, "more": 2}], {"a": 1}):
        assert Reducer().reference(other).media == MEDIA_JSON
    parent = ""
    for number, message in enumerate(messages, 1):
        parent = sha(canonical.dumps({"add": message, "n": number, "parent": parent}))
    assert Reducer().reference(messages).sha256 == parent
    assert Reducer().reference(messages[:2]) != Reducer().reference(messages)


def test_keys_in_the_order_of_rfc_8785() -> None:
    value = {"\U00010000": 1, "\uffff": 2, "a": 3}
    assert Reducer().reduce(value) == canonical.dumps(value)


def test_numbers_and_literals() -> None:
    for value in (None, True, False, 0, -1, 1.5, 1e21, 5e-324):
        assert Reducer().reduce(value) == canonical.dumps(value)
        assert Reducer().reference(value).media == MEDIA_JSON
    assert Reducer().reference(1) == Reducer().reference(1.0)
    assert Reducer().reference(True) != Reducer().reference(1)


def _deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


BAD: list[tuple[Any, str]] = [
    ("\ud800" * 300, "CF-CANON-021"),
    ({"\ud800": 1}, "CF-CANON-023"),
    ({1: 2}, "CF-CANON-023"),
    ({"$bytes": 5}, "CF-CANON-024"),
    ({"$bytes": "A"}, "CF-CANON-024"),
    ({"$bytes": "AB=="}, "CF-CANON-024"),
    ({"$bytes": "AAA=\n"}, "CF-CANON-024"),
    (_deep(), "CF-CANON-022"),
    (2**53, "CF-CANON-002"),
    (float("nan"), "CF-CANON-003"),
    ("\ud800", "CF-CANON-021"),
    (object(), "CF-CANON-001"),
]


@pytest.mark.parametrize(
    ("value", "code"), BAD, ids=[code + str(number) for number, (_, code) in enumerate(BAD)]
)
def test_what_is_no_canonical_value(value: Any, code: str) -> None:
    for wrapped in (value, [value], {"a": value}):
        with pytest.raises(CanonicalError) as caught:
            Reducer().reduce(wrapped)
        assert caught.value.code == code


def test_references() -> None:
    good = {"media": "m", "sha256": "a" * 64, "size": 0}
    assert is_reference(good)
    assert Reference.from_dict(good).to_dict() == good
    for bad in (
        None,
        [],
        "x",
        {},
        good | {"more": 1},
        good | {"size": -1},
        good | {"size": True},
        good | {"size": 1.0},
        good | {"sha256": "A" * 64},
        good | {"sha256": "a" * 63},
        good | {"sha256": "a" * 64 + "\n"},
        good | {"media": None},
        {"sha256": "a" * 64, "size": 0},
    ):
        assert not is_reference(bad)
        with pytest.raises(CanonicalError) as caught:
            Reference.from_dict(bad)
        assert caught.value.code == "CF-CANON-020"
    nested = {"a": [good, {"b": good | {"size": 1}}], "c": {"$ref": good}, "d": {"media": "m"}}
    assert sorted(one.size for one in references_in(nested)) == [0, 0, 1]
    assert list(references_in(good)) == [Reference("a" * 64, 0, "m")]


@pytest.mark.parametrize("length", [1, 60, 85, 86, 255, 256, 300, 5000])
def test_a_lone_surrogate_has_one_code_wherever_it_stands(length: int) -> None:
    text = "a" * (length - 1) + "\ud800"
    for value in (text, [text], {"a": {"b": text}}, {"$msg": {"a": [text]}}):
        for work in (Reducer().reduce, Reducer().reference):
            with pytest.raises(CanonicalError) as caught:
                work(value)
            assert caught.value.code == "CF-CANON-021"


def test_a_million_short_parts_are_held_in_little_memory() -> None:
    value = [list(range(1000, 1300)), ["text"] * 300, [True, None] * 150] * 20
    tracemalloc.start()
    try:
        Reducer().reduce(value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300_000  # 300 parts at a time, each in a block of its size
