"""Strict I-JSON reading: every refusal, and the shortcut that must not change an answer."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from documents import json_value

from counterfoil import _ijson, canonical
from counterfoil.errors import CanonicalError


def code_of(data: bytes | str, **limits: int) -> str | None:
    try:
        canonical.loads(data, **limits)
    except CanonicalError as exc:
        return exc.code if exc.hint else "without a hint"
    return None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a":1,"a":1}', "CF-CANON-012"),
        ('{"a":1,"\\u0061":2}', "CF-CANON-012"),
        ('[{"b":{"a":1,"c":2,"a":3}}]', "CF-CANON-012"),
        ("NaN", "CF-CANON-013"),
        ("[-Infinity]", "CF-CANON-013"),
        ("1e400", "CF-CANON-013"),
        ("-1e400", "CF-CANON-013"),
        ("9007199254740992", "CF-CANON-014"),
        ("-9007199254740992", "CF-CANON-014"),
        ("18446744073709551616", "CF-CANON-014"),
        ("100000000000000000000", "CF-CANON-014"),
        pytest.param("1" * 100_000, "CF-CANON-014", id="100,000 digits"),
        ('"\\ud800"', "CF-CANON-015"),
        ('{"\\udc00":1}', "CF-CANON-015"),
        ('["\\ude00\\ud83d"]', "CF-CANON-015"),
        ("\ud800", "CF-CANON-015"),
        ("\ufeff1", "CF-CANON-010"),
        (b"\xff\xfe1\x00", "CF-CANON-010"),
        (b'"\xed\xa0\x80"', "CF-CANON-010"),
        (b'"\xc0\xaf"', "CF-CANON-010"),
        ("", "CF-CANON-011"),
        ("1 2", "CF-CANON-011"),
        ('{"a":1}\x00', "CF-CANON-011"),
        ("[1,]", "CF-CANON-011"),
        ('"\t"', "CF-CANON-011"),
        ("\u00a01", "CF-CANON-011"),
        ("\u0661", "CF-CANON-011"),
        ("'a'", "CF-CANON-011"),
        ("01", "CF-CANON-011"),
        pytest.param("[" * 100_000, "CF-CANON-016", id="unclosed"),
        pytest.param("[" * 65 + "]" * 65, "CF-CANON-016", id="arrays"),
        pytest.param('{"a":' * 65 + "1" + "}" * 65, "CF-CANON-016", id="objects"),
        pytest.param('"\\\\"' + "[" * 100_000, "CF-CANON-016", id="behind a string"),
        pytest.param("[[]," * 100_000, "CF-CANON-016", id="unclosed with leaves"),
    ],
)
def test_refusals(text: bytes | str, code: str) -> None:
    assert code_of(text) == code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" \t\r\n[1 , 2]\n", [1, 2]),
        ("9007199254740991", 2**53 - 1),
        ("-0", 0),
        ("1.0", 1.0),
        ("1E2", 100.0),
        ("1e-999", 0.0),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\uffff\\ufdd0"', "\uffff\ufdd0"),
        ('"\uffff\U0010ffff"', "\uffff\U0010ffff"),
        ('"\\u0000"', "\x00"),
        ('{"":{}}', {"": {}}),
        ('"[[[[\\"[[[["', '[[[["[[[['),
        pytest.param("[" * 64 + "]" * 64, None, id="64 levels"),
        pytest.param('["' + "[" * 1000 + '"]', ["[" * 1000], id="brackets in a string"),
        pytest.param('"\\"' + "{" * 100 + '\\""', '"' + "{" * 100 + '"', id="braces between escaped quotes"),
        pytest.param('"\\\\' + "{" * 100 + '"', "\\" + "{" * 100, id="braces behind a backslash"),
    ],
)
def test_what_is_read(text: str, value: Any) -> None:
    read = canonical.loads(text)
    assert value is None or (read == value and type(read) is type(value))
    assert canonical.loads(text.encode()) == read


def test_limits() -> None:
    assert code_of("[[1]]", max_depth=1) == "CF-CANON-016"
    assert code_of("[[1]]", max_depth=2) is None
    assert code_of("1", max_depth=0) is None
    assert code_of("[]", max_depth=0) == "CF-CANON-016"
    assert code_of("[1,2]", max_bytes=5) is None
    assert code_of("[1,2]", max_bytes=4) == "CF-CANON-017"
    assert code_of('"\u00e9\u00e9"', max_bytes=5) == "CF-CANON-017"
    assert code_of(bytearray(b"[1]")) is None
    assert code_of(memoryview(b"[1]")) is None
    assert code_of(1) == "CF-CANON-010"  # type: ignore[arg-type]
    # Deeper than the interpreter goes by itself: still one clear error.
    assert code_of("[" * 50_000 + "]" * 50_000, max_depth=100_000) == "CF-CANON-016"


def test_the_text_does_not_stand_in_an_error() -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical.loads('{"password":"hunter2",}')
    assert "hunter2" not in str(caught.value)
    assert str(caught.value.where).startswith("line 1 column ")


@pytest.mark.parametrize(
    "text",
    [b'{"b":1,"a":2}', b"[1, 2]", b"1.0", b"-0", b'"\\u0041"', b'"\\/"', b" 1", b"1\n", b"1e2", b'"\\u000A"'],
)
def test_canonical_reading_refuses_other_spellings(text: bytes) -> None:
    canonical.loads(text)
    with pytest.raises(CanonicalError) as caught:
        canonical.loads_canonical(text)
    assert caught.value.code == "CF-CANON-018"


@pytest.mark.parametrize("value", [1.5, {"a": [0.1, 1e21]}, {"\uffff": 1, "\U00010000": 2}, [], "", None, -1])
def test_canonical_reading_takes_what_is_written(value: Any) -> None:
    assert canonical.loads_canonical(canonical.dumps(value)) == value


def test_a_large_double_writes_an_integer_that_the_reader_refuses() -> None:
    assert code_of(canonical.dumps(1e16)) == "CF-CANON-014"
    with pytest.raises(CanonicalError):
        canonical.loads_canonical(canonical.dumps([1e20]))


# --- the shortcut ------------------------------------------------------------------------------------------

PIECES = (
    *'[]{}:,"\\',
    *"0123456789-+.eE",
    "true",
    "null",
    "NaN",
    " ",
    "\n",
    '"a"',
    '"b":',
    "\\u0061",
    "\\ud83d",
    "\\ude00",
    "\u00e9",
    "\U0001f600",
    "\uffff",
    "9007199254740991",
    "9007199254740992",
    "1e20",
    "100000000000000000000",
    "\x00",
)


def outcome(read: Any, data: bytes) -> tuple[str, Any]:
    try:
        return "value", json.dumps(read(data))
    except CanonicalError as exc:
        return "refused", exc.code


def strict(data: bytes) -> Any:
    return _ijson._strict(_ijson._bytes_within(data, canonical.MAX_DEPTH_READ, None))


def test_the_shortcut_never_changes_an_answer() -> None:
    rng = random.Random(8785)
    refused = shortcut = 0
    for _ in range(6_000):
        text = canonical.dumps(json_value(rng)).decode()
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(PIECES) + text[at + rng.randrange(2) :]
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.05 and data:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        expected = outcome(strict, data)
        assert outcome(canonical.loads, data) == expected
        refused += expected[0] == "refused"
        shortcut += _ijson._canonical_value(data)[0]
    assert refused > 1_500
    assert shortcut > 900


def test_canonical_reading_equals_strict_reading_and_writing_again() -> None:
    rng = random.Random(7493)
    for _ in range(3_000):
        value = json_value(rng)
        data = canonical.dumps(value)
        if rng.random() < 0.5:
            at = rng.randrange(len(data))
            data = data[:at] + rng.choice([b" ", b"0", b"\\u0061", b""]) + data[at + rng.randrange(2) :]
        first, again = outcome(strict, data), outcome(canonical.loads_canonical, data)
        if first[0] == "value":
            same = canonical.dumps(strict(data)) == data
            assert again == (first if same else ("refused", "CF-CANON-018"))
        else:
            assert again == first
