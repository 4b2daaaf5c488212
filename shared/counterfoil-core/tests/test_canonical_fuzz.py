"""The fast path against its definition, on documents made to tell them apart."""

from __future__ import annotations

import enum
import random
import uuid
from typing import Any

import orjson
import pytest
import rfc8785

from counterfoil import _jcs_fast, canonical
from counterfoil.errors import CanonicalError


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Table(dict):  # type: ignore[type-arg]
    pass


class Row(list):  # type: ignore[type-arg]
    pass


class Colour(str, enum.Enum):  # noqa: UP042 - the older spelling is the hazard
    RED = "red"


FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.1, 1e15, 1e16, 123456789012345680.0, 1e20, 1e21, 1.5e21),
    *(1e-5, 9.5e-6, 1e-6, 9.9e-7, 1e-7, 5e-324, 1.7976931348623157e308, 2.0**53, 2.0**63),
    *(float("nan"), float("inf"), float("-inf")),
)
INTEGERS = (0, 1, -1, 2**31, 2**53 - 1, 2**53, 1 - 2**53, -(2**53), 2**63, 2**64, -(2**63), 10**30)
CHARACTERS = (
    *("a", "Z", "0", '"', "\\", "/", "\b", "\f", "\n", "\r", "\t", "\x00", "\x0b", "\x1f", "\x7f"),
    *("\x80", "\u00e9", "\u05d0", "\u2028", "\u2029", "\ud7ff", "\ue000", "\ufb33", "\ufeff", "\uffff"),
    *("\U00010000", "\U0001f600", "\U000e0001", "\U0010ffff", "e\u0301"),
)


def text(rng: random.Random) -> str:
    made = "".join(rng.choices(CHARACTERS, k=rng.randrange(5)))
    if rng.random() < 0.01:
        made += rng.choice(["\ud800", "\udbff", "\udc00", "\udfff", "\ude00\ud83d"])
    return made


def scalar(rng: random.Random) -> Any:
    kind = rng.random()
    if kind < 0.45:
        return text(rng)
    if kind < 0.65:
        return rng.choice(INTEGERS[:5]) if rng.random() < 0.9 else rng.choice(INTEGERS)
    if kind < 0.8:
        return rng.choice([True, False, None])
    if kind < 0.93:
        return rng.uniform(-1e6, 1e6) if rng.random() < 0.5 else rng.choice(FLOATS[:-3])
    odd = [
        *(Text("t"), Whole(7), Colour.RED, uuid.UUID(int=5), b"b", {1}, 1j, object, float("nan")),
        *(orjson.Fragment(b"1.0"), Table(), Row(), Ellipsis),
    ]
    return rng.choice(odd) if rng.random() < 0.3 else text(rng)


def value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth > 5 or kind < 0.35:
        return scalar(rng)
    size = rng.randrange(5)
    if kind < 0.6:
        items = [value(rng, depth + 1) for _ in range(size)]
        return tuple(items) if rng.random() < 0.2 else Row(items) if rng.random() < 0.02 else items
    keys: list[Any] = [text(rng) for _ in range(size)]
    if size and rng.random() < 0.02:
        keys[0] = rng.choice([1, None, True, 1.5, b"k", Text("k"), Colour.RED, ("t",)])
    made = {key: value(rng, depth + 1) for key in keys}
    return Table(made) if rng.random() < 0.02 else made


def defined(document: Any) -> bytes | None:
    try:
        return rfc8785.dumps(document)
    except (ValueError, TypeError, RecursionError):
        return None


def written(document: Any) -> bytes | None:
    try:
        return canonical.dumps(document)
    except CanonicalError:
        return None


def test_every_document_gets_the_bytes_of_the_definition_or_is_refused_by_both() -> None:
    rng = random.Random(1)
    fast = refused = 0
    for _ in range(20_000):
        document = value(rng)
        expected = defined(document)
        assert written(document) == expected
        refused += expected is None
        quick = _jcs_fast.fast(document)
        fast += quick is not None
        assert quick is None or quick == expected
    # The generator must keep reaching all three outcomes.
    assert fast > 5_000
    assert refused > 300
    assert 20_000 - fast - refused > 3_000


def test_the_generator_finds_what_a_bare_orjson_gets_wrong() -> None:
    rng = random.Random(2)
    wrong = 0
    for _ in range(3_000):
        document = value(rng)
        try:
            bare: bytes | None = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            bare = None
        wrong += bare != defined(document)
    assert wrong > 300


@pytest.mark.parametrize(
    "pair", [("\U00010000", "\ue000"), ("\U0010ffff", "\uffff"), ("\U0001f600", "\ufb33")]
)
@pytest.mark.parametrize("wrap", ["{}", "a{}", "{}a"])
def test_keys_where_code_point_and_utf16_order_part(pair: tuple[str, str], wrap: str) -> None:
    document = {wrap.format(key): key for key in pair}
    assert canonical.dumps(document) == rfc8785.dumps(document)
    assert canonical.dumps_record(document) == rfc8785.dumps(document)
    assert _jcs_fast.fast(document) is None
