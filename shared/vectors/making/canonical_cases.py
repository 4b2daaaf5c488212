"""JSON texts, their RFC 8785 form, and texts the strict reader refuses."""

from __future__ import annotations

import json
import struct
from typing import Any

from making.formats import jcs, sha256


def read(name: str, text: str | bytes, **more: Any) -> dict[str, Any]:
    """A text that is read; Python's own reader tells its value, so it must not be one that readers differ on."""
    case = given(name, text, **more)
    form = jcs(json.loads(text))
    return {**case, "canonical": form.hex(), "sha256": sha256(form)}


def refused(name: str, text: str | bytes, code: str, **more: Any) -> dict[str, Any]:
    """A text that is refused."""
    return {**given(name, text, **more), "code": code}


def given(name: str, text: str | bytes, **more: Any) -> dict[str, Any]:
    """The text as it stands in the vectors: in hex where it is no text."""
    return {"name": name, **({"hex": text.hex()} if isinstance(text, bytes) else {"text": text}), **more}


def numbers() -> list[dict[str, str]]:
    """Doubles and how they are written."""
    listed = [
        0.0, -0.0, 1.0, -1.0, 1.5, 0.1, 0.2 + 0.1, 1 / 3, 4.35, 1e-5, 1e-6, 1e-7, 1.5e-10, 5e-324, -5e-324,
        2.2250738585072014e-308, 1.7976931348623157e308, 123456.789, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, 1e15, 1e16,
        123456789012345680000.0, 1e20, 999999999999999868928.0, 1e21, 1.5e21, 1e22, 1e23, 9.5e-7, 333333333.33333329,
        295147905179352830000.0,
    ]  # fmt: skip
    return [{"ieee754": struct.pack(">d", one).hex(), "text": jcs(one).decode()} for one in listed]


def reading() -> list[dict[str, Any]]:
    """What the strict reader makes of a text."""
    deep = "[" * 64 + "]" * 64
    return [
        read("white space and order", ' { "b" : [ 1 , true , null ] ,\n\t"a" : { } }\r\n'),
        read("a text on its own", '"a"'),
        read("escapes that need none", '"\\u0061\\/\\u00e9"'),
        read("escapes that stay", '"\\u0000\\u0008\\t\\n\\u000b\\f\\r\\u001f\\"\\\\\\u007f"'),
        read("line separators and noncharacters stay as they are", '"\\u2028\\u2029\\ufeff\\uffff\\ufdd0"'),
        read("a surrogate pair is one character", '"\\ud83d\\ude00"'),
        read("not normalised", '["\\u00e9","e\\u0301"]'),
        read("keys by UTF-16 code unit", '{"\\uffff":1,"\\ud800\\udc00":2,"z":3,"\\u00e9":4,"":5,"Z":6}'),
        read("keys by length", '{"aa":1,"a":2,"aaa":3,"b":4}'),
        read("one, three ways", "[1,1.0,1e0]"),
        read("zero, four ways", "[0,-0,0.0,-0.0]"),
        read("the largest integers", "[9007199254740991,-9007199254740991]"),
        read("doubles", "[1.5,0.1,1e21,1E-7,123456789e-3,1e-400]"),
        read("a double that prints as digits", "[1e16]"),
        read("empty containers", '[{},[],""]'),
        read("64 levels", deep),
        read("three levels where three are allowed", '{"a":[[]]}', max_depth=3),
        read("as many bytes as are allowed", "[1,2]", max_bytes=5),
        read("brackets in texts are no levels", '["[[[[","\\"[[[["]', max_depth=1),
        refused("not UTF-8", b'"\xff"', "CF-CANON-010"),
        refused("an overlong form", b'"\xc0\x80"', "CF-CANON-010"),
        refused("a surrogate in UTF-8", b'"\xed\xa0\x80"', "CF-CANON-010"),
        refused("a byte order mark", b"\xef\xbb\xbf[]", "CF-CANON-010"),
        refused("nothing", "", "CF-CANON-011"),
        refused("white space only", " ", "CF-CANON-011"),
        refused("cut", '{"a":', "CF-CANON-011"),
        refused("something behind the value", "[] []", "CF-CANON-011"),
        refused("a NUL behind the value", b"[]\x00", "CF-CANON-011"),
        refused("a comma too many", "[1,]", "CF-CANON-011"),
        refused("single quotes", "{'a':1}", "CF-CANON-011"),
        refused("a comment", "[1/*1*/]", "CF-CANON-011"),
        refused("a leading zero", "[01]", "CF-CANON-011"),
        refused("a plus sign", "[+1]", "CF-CANON-011"),
        refused("a control character in a text", b'"\x01"', "CF-CANON-011"),
        refused("an unknown escape", '"\\x41"', "CF-CANON-011"),
        refused("a key twice", '{"a":1,"a":1}', "CF-CANON-012"),
        refused("a key twice, escaped once", '{"a":1,"\\u0061":2}', "CF-CANON-012"),
        refused("NaN", "[NaN]", "CF-CANON-013"),
        refused("minus infinity", "[-Infinity]", "CF-CANON-013"),
        refused("beyond the doubles", "[1e309]", "CF-CANON-013"),
        refused("2^53", "[9007199254740992]", "CF-CANON-014"),
        refused("minus 2^53", "[-9007199254740992]", "CF-CANON-014"),
        refused("the digits of 1e16", "[10000000000000000]", "CF-CANON-014"),
        refused("a lone surrogate", '"\\ud800"', "CF-CANON-015"),
        refused("a lone surrogate in a key", '{"\\udfff":1}', "CF-CANON-015"),
        refused("surrogates in the wrong order", '"\\ude00\\ud83d"', "CF-CANON-015"),
        refused("65 levels", "[" + deep + "]", "CF-CANON-016"),
        refused("four levels where three are allowed", '{"a":[[{}]]}', "CF-CANON-016", max_depth=3),
        refused("one byte too many", "[1,2]", "CF-CANON-017", max_bytes=4),
    ]


def exact() -> list[dict[str, Any]]:
    """Texts that must be in RFC 8785 form, as entries and statements are."""
    wrong = [
        ("white space", "[1, 2]"),
        ("a newline at the end", "[1]\n"),
        ("keys out of order", '{"b":1,"a":2}'),
        ("keys by code point", '{"\uffff":1,"\U00010000":2}'),
        ("an escape that is not needed", '"\\u0061"'),
        ("an escape in capitals", '"\\u001F"'),
        ("an escaped slash", '"\\/"'),
        ("1.0", "[1.0]"),
        ("minus zero", "[-0]"),
        ("an exponent", "[1e2]"),
    ]
    right = ["[1,2]", '{"a":2,"b":1}', '{"\U00010000":2,"\uffff":1}', '"\\u001f\x7f/"', "[1.5,1e+21]"]
    cases: list[dict[str, Any]] = [{"name": "canonical", "text": text} for text in right]
    cases += [{"code": "CF-CANON-018", "name": name, "text": text} for name, text in wrong]
    return [*cases, {"code": "CF-CANON-012", "name": "a key twice", "text": '{"a":1,"a":1}'}]


def build() -> dict[str, Any]:
    """The file."""
    return {"exact": exact(), "numbers": numbers(), "reading": reading()}
