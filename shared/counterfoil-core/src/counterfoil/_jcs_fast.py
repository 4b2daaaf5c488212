"""The fast way to RFC 8785 bytes: one look at every value, then orjson, then a look at the key order.

Used only where its bytes are provably those of ``rfc8785``, and only while the installed orjson gives every known
answer at the foot of this module. Whatever is not known here is declined, and ``rfc8785`` decides.

orjson writes text, integers, key escapes and most floats as RFC 8785 does. Where it does not, it is not asked: whole
floats go to it as integers, floats that need an exponent somewhere as finished text, and keys in UTF-16 order.

Source: RFC 8785 sections 3.2.2 and 3.2.3; ECMA-262 section 6.1.6.1.20 (Number::toString).
"""

from __future__ import annotations

import uuid
from enum import Enum
from typing import Any, Final

import orjson

__all__ = ["MAX_DEPTH_WRITE", "OPTIONS", "fast", "float_text", "order_may_differ", "self_test"]

MAX_DEPTH_WRITE: Final = 128
"""Containers within containers that ``dumps`` accepts."""

OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_AS_ORDERED: Final = OPTIONS & ~orjson.OPT_SORT_KEYS
_LEAVES: Final = frozenset((str, int, bool, type(None)))
_NUMBERS_TOO: Final = _LEAVES | {float}
_LEVEL: Final = 4096
_INFINITY: Final = float("inf")


def fast(value: object, *, below: float = _INFINITY) -> bytes | None:
    """RFC 8785 bytes, or None where they are not known here: a float of magnitude ``below`` or more is one case."""
    # Any exception means: not known here. A container may change under the walk, an odd key may run code of its own.
    try:
        floats = _survey(value)
        if floats is None:
            return None
        data = orjson.dumps(_prepared(value, below) if floats else value, option=OPTIONS)
        if data.isascii() or not order_may_differ(data):
            return data
        return orjson.dumps(_prepared(value, below, order=True), option=_AS_ORDERED)
    except Exception:
        return None


def order_may_differ(data: bytes) -> bool:
    """Whether keys of this text might stand in another order by UTF-16 unit than by code point, as orjson sorts.

    The two part only where a supplementary character (first byte F0-F4) meets one of U+E000-U+FFFF (EE or EF).
    """
    return (0xEF in data or 0xEE in data) and any(byte in data for byte in (0xF0, 0xF1, 0xF2, 0xF3, 0xF4))


def float_text(number: float) -> str:
    """ECMAScript's text of a finite float, made from Python's: both have the shortest digits, closest first."""
    sign, text = ("-", repr(-number)) if number < 0 else ("", repr(number))
    mantissa, _, power = text.partition("e")
    if not power:
        mantissa = mantissa.removesuffix(".0")
        return "0" if mantissa == "-0" else sign + mantissa
    exponent = int(power)
    digits = mantissa.replace(".", "")
    if 0 < exponent < 21:
        return sign + digits + "0" * (exponent + 1 - len(digits))
    if -7 < exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{sign}{mantissa}e{exponent:+d}"


def _survey(value: object) -> bool | None:
    """Whether there are floats among values that are all exactly of the types known here; None if they are not.

    Keys are left to orjson, which refuses all but exact ``str`` (checked by the self-test).
    """
    leaves = _LEAVES
    if type(value) in leaves:
        return False
    floats = False
    level: list[Any] = [value]
    for depth in range(1, MAX_DEPTH_WRITE + 1):
        below: list[Any] = []
        push = below.append
        for item in level:
            kind = type(item)
            if kind is dict:
                for child in item.values():
                    if type(child) is not str and type(child) not in leaves:
                        push(child)
            elif kind is list or kind is tuple:
                if len(item) > 8 and (kinds := set(map(type, item))) <= _NUMBERS_TOO:
                    floats = floats or float in kinds
                    continue
                for child in item:
                    if type(child) is not str and type(child) not in leaves:
                        push(child)
            elif kind is float:
                floats = True
            else:
                return None
        if not below:
            return floats
        if len(below) > _LEVEL:
            rest = _survey_rest(below, depth + 1)
            return None if rest is None else floats or rest
        level = below
    # Only a float may stand below the last level: it is no container.
    return True if set(map(type, level)) == {float} else None


def _survey_rest(level: list[Any], depth: int) -> bool | None:
    """As ``_survey``, depth first: slower, but a cycle meets the depth limit before it fills the memory."""
    leaves = _LEAVES
    floats = False
    stack = [(item, depth) for item in level]
    pop, push = stack.pop, stack.append
    while stack:
        item, at = pop()
        kind = type(item)
        if kind is float:
            floats = True
            continue
        if kind is dict:
            item = item.values()
        elif kind is not list and kind is not tuple:
            return None
        if at > MAX_DEPTH_WRITE:
            return None
        for child in item:
            if type(child) not in leaves:
                push((child, at + 1))
    return floats


def _prepared(value: Any, below: float, *, order: bool = False) -> Any:
    """A copy for orjson: floats as it must write them, and with ``order`` every object's members as RFC 8785 sorts."""
    kind = type(value)
    if kind is float:
        return _number(value, below)
    leaves = _LEAVES
    if kind is dict:
        return {
            key: child if type(child) in leaves else _prepared(child, below, order=order)
            for key, child in (_ordered(value) if order else value.items())
        }
    if kind is list or kind is tuple:
        return [
            child
            if type(child) in leaves
            else _number(child, below)
            if type(child) is float
            else _prepared(child, below, order=order)
            for child in value
        ]
    return value


def _number(number: float, below: float) -> Any:
    if not -below < number < below:
        raise ValueError
    if -1e15 < number < 1e15:
        whole = int(number)
        if whole == number:
            return whole
        if number >= 1e-5 or number <= -1e-5:
            return number
    return orjson.Fragment(float_text(number))


def _ordered(item: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(item.items(), key=lambda member: member[0].encode("utf-16-be"))


class _Text(str):
    __slots__ = ()


class _Choice(str, Enum):  # noqa: UP042 - the older spelling is the hazard under test
    A = "a"


_MAX: Final = 2**53 - 1
KNOWN_ANSWERS: Final[tuple[tuple[Any, bytes | None], ...]] = (
    # What the fast path must write, byte for byte.
    (None, b"null"),
    ([True, False, 0, -1], b"[true,false,0,-1]"),
    ([_MAX, -_MAX], b"[9007199254740991,-9007199254740991]"),
    ({}, b"{}"),
    ((), b"[]"),
    ({"b": [], "a": ({},)}, b'{"a":[{}],"b":[]}'),
    ("\x00\b\t\n\x0b\f\r\x1f", b'"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f"'),
    ('"\\/\x7f<>&', b'"\\"\\\\/\x7f<>&"'),
    ("\u00e9\u2028\u2029\ufeff\uffff", b'"\xc3\xa9\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\xef\xbf\xbf"'),
    ("\U0001f600", b'"\xf0\x9f\x98\x80"'),
    ({"\u00e9": 1, "z": 2, "e\u0301": 3, "": 4, "Z": 5}, b'{"":4,"Z":5,"e\xcc\x81":3,"z":2,"\xc3\xa9":1}'),
    ({"a" * 40 + "b": 1, "a" * 40 + "a": 2}, b'{"' + b"a" * 41 + b'":2,"' + b"a" * 40 + b'b":1}'),
    ({"\uffff": 2, "\U00010000": 1.0, "z": 3}, b'{"z":3,"\xf0\x90\x80\x80":1,"\xef\xbf\xbf":2}'),
    # Floats: whole ones, the borders of ECMAScript's layouts, and digits where two shortest texts are close.
    ([0.0, -0.0, 1.0, -1.0, 1e14, 1e15, 1e16], b"[0,0,1,-1,100000000000000,1000000000000000,10000000000000000]"),
    ([2.0**53, 1e20, 1e21, -1.5e21], b"[9007199254740992,100000000000000000000,1e+21,-1.5e+21]"),
    ([1e-5, 9.5e-6, 1e-6, 1.5e-6, 9.9e-7, 1e-7], b"[0.00001,0.0000095,0.000001,0.0000015,9.9e-7,1e-7]"),
    ([0.1, 0.5, 1.5, -2.75, 0.0001, 0.00012, 99.99], b"[0.1,0.5,1.5,-2.75,0.0001,0.00012,99.99]"),
    ([0.1 + 0.2, 1 / 3, 100 / 3], b"[0.30000000000000004,0.3333333333333333,33.333333333333336]"),
    ([123456789012345.6, 0.000012345678901234567], b"[123456789012345.6,0.000012345678901234568]"),
    ([999999999999999.9, 562949953421312.1], b"[999999999999999.9,562949953421312.1]"),
    ([5e-324, 1.7976931348623157e308, 9007199254740993.5], b"[5e-324,1.7976931348623157e+308,9007199254740994]"),
    # What it must decline.
    (2**53, None),
    (-(2**53), None),
    (float("nan"), None),
    ([float("-inf")], None),
    ("\ud800", None),
    ({"\udfff": 1.5}, None),
    ({1: 2}, None),
    ({1: 2.5}, None),
    ({_Text("a"): 1}, None),
    ([_Text("a")], None),
    ({_Choice.A: 1}, None),
    ([_Choice.A], None),
    ([uuid.UUID(int=0)], None),
    ([orjson.Fragment(b"1.0")], None),
    ([b"a"], None),
)  # fmt: skip


def self_test() -> bool:
    """Whether the installed orjson gives every known answer."""
    try:
        return all(fast(value) == expected for value, expected in KNOWN_ANSWERS)
    except Exception:
        return False
