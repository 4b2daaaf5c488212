"""What other canonicalisers of agent logs get wrong, each defect by its name: a value has one text, two have two.

Where Python's plain sorted JSON has the defect too, the test says so: it shows that the case is a case.
"""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

import pytest

from counterfoil import canonical, values
from counterfoil.errors import CanonicalError


def plain(value: Any) -> bytes:
    """What most of them do: ``json.dumps`` with sorted keys, no more."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def refused(value: Any) -> str:
    with pytest.raises(CanonicalError) as caught:
        canonical.dumps(value)
    return caught.value.code


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, b"1"),
        (-0.0, b"0"),
        (1e-6, b"0.000001"),
        (1e-7, b"1e-7"),
        (1.5e-5, b"0.000015"),
        (1e16, b"10000000000000000"),
        (123456789012345680.0, b"123456789012345680"),
        (1e20, b"100000000000000000000"),
        (1e21, b"1e+21"),
        (5e-324, b"5e-324"),
        (1.7976931348623157e308, b"1.7976931348623157e+308"),
        (333333333.33333329, b"333333333.3333333"),
    ],
)
@pytest.mark.parametrize("around", [b"%b", b"[%b]", b'{"a":{"b":[%b]}}'])
def test_floats_are_written_as_ecmascript_prints_them(number: float, text: bytes, around: bytes) -> None:
    document = json.loads(around % b'"@"')

    def filled(node: Any) -> Any:
        if node == "@":
            return number
        if type(node) is list:
            return [filled(one) for one in node]
        return {key: filled(one) for key, one in node.items()}

    assert canonical.dumps(filled(document)) == around % text


def test_python_prints_most_of_those_floats_otherwise() -> None:
    numbers = [1.0, -0.0, 1e-6, 1e-7, 1.5e-5, 1e16, 123456789012345680.0, 1e20]
    assert all(plain(number) != canonical.dumps(number) for number in numbers)


def test_floats_are_neither_refused_nor_turned_into_strings() -> None:
    assert canonical.dumps({"score": 0.5}) == b'{"score":0.5}'
    assert canonical.dumps(values.encode({"score": 0.5})) == b'{"score":0.5}'
    assert canonical.dumps(0.5) != canonical.dumps("0.5")


@pytest.mark.parametrize("high", ["\ue000", "\ufb33", "\uff5e", "\uffff"])
@pytest.mark.parametrize("astral", ["\U00010000", "\U0001f600", "\U0010ffff"])
def test_keys_are_sorted_by_utf16_unit_and_not_by_code_point(high: str, astral: str) -> None:
    expected = f'{{"{astral}":1,"{high}":2}}'.encode()
    for document in ({high: 2, astral: 1}, {astral: 1, high: 2}):
        assert canonical.dumps(document) == expected
        assert canonical.dumps([{"k": document}]) == b'[{"k":%b}]' % expected
    assert canonical.loads_canonical(expected) == {high: 2, astral: 1}
    by_code_point = f'{{"{high}":2,"{astral}":1}}'.encode()
    assert json.dumps(
        {high: 2, astral: 1}, sort_keys=True, ensure_ascii=False, separators=(",", ":")
    ).encode() == (by_code_point)
    with pytest.raises(CanonicalError, match="not in RFC 8785 form"):
        canonical.loads_canonical(by_code_point)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**53, 2**64, 10**30])
def test_integers_beyond_2_53_are_not_rounded_kept_as_digits_or_made_strings(number: int) -> None:
    assert refused(number) == refused({"a": [number]}) == "CF-CANON-002"
    with pytest.raises(CanonicalError) as caught:
        canonical.loads(str(number))
    assert caught.value.code == "CF-CANON-014"
    assert plain(number) == str(number).encode()
    # As any Python value it has a form of its own, which no other integer and no string has.
    texts = {canonical.dumps(values.encode(each)) for each in (number, number - 1, number + 1, str(number))}
    assert len(texts) == 4


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinities_are_neither_written_nor_read(number: float) -> None:
    assert refused(number) == refused({"a": [1.5, number]}) == "CF-CANON-003"
    with pytest.raises(CanonicalError) as caught:
        canonical.loads(plain({"a": number}))
    assert caught.value.code == "CF-CANON-013"


@pytest.mark.parametrize(("first", "second"), [("\u00e9", "e\u0301"), ("\u212b", "\u00c5"), ("\ufb01", "fi")])
def test_two_spellings_of_one_text_are_two_values(first: str, second: str) -> None:
    assert unicodedata.normalize("NFKC", first) == unicodedata.normalize("NFKC", second)
    assert canonical.dumps(first) != canonical.dumps(second)
    both = {first: 1, second: 2}
    assert canonical.loads_canonical(canonical.dumps(both)) == both
    assert canonical.dumps(first) == f'"{first}"'.encode()


@pytest.mark.parametrize("text", ["\u00e9", "\u4f60\u597d", "\U0001f600", "\u2028\u2029", "\x7f", "\ufeff"])
def test_nothing_but_controls_quotes_and_backslashes_is_escaped(text: str) -> None:
    assert canonical.dumps({text: text}) == f'{{"{text}":"{text}"}}'.encode()
    if text != "\x7f":
        assert b"\\u" in plain({text: text})
    assert canonical.dumps("<script>&/") == b'"<script>&/"'


def test_surrogates_in_the_wrong_order_are_refused_and_not_replaced() -> None:
    assert refused("\ude00\ud83d") == refused({"\ude00\ud83d": 1}) == "CF-CANON-004"
    with pytest.raises(CanonicalError) as caught:
        canonical.loads(b'["\\ude00\\ud83d"]')
    assert caught.value.code == "CF-CANON-015"
    assert canonical.dumps("\ufffd") == '"\ufffd"'.encode()


def test_keys_that_are_no_strings_are_not_turned_into_strings() -> None:
    for document in ({1: "a"}, {True: "a"}, {None: "a"}, {1.5: "a"}):
        assert refused(document) == "CF-CANON-006"
    # json.dumps makes one object of these.
    assert plain({1: "a"}) == plain({"1": "a"})
    texts = {canonical.dumps(values.encode({key: "a"})) for key in (1, "1", True, "true", None, "null")}
    assert len(texts) == 6


def test_two_equal_keys_are_refused_and_neither_wins() -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical.loads('{"approved":false,"approved":true}')
    assert caught.value.code == "CF-CANON-012"
    assert json.loads('{"approved":false,"approved":true}') == {"approved": True}
