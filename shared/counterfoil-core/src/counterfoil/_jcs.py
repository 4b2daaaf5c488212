"""The writer behind ``counterfoil.canonical``: RFC 8785 bytes through ``rfc8785``, or faster through orjson.

The fast path is used only where its bytes are provably those of ``rfc8785``, and only while the installed
orjson gives every known answer at the foot of this module.
"""

from __future__ import annotations

import uuid
from enum import Enum
from typing import Any, Final, NoReturn

import orjson
import rfc8785

from counterfoil.errors import CanonicalError

MAX_DEPTH_WRITE: Final = 128
"""Containers within containers that ``dumps`` accepts."""
MAX_INTEGER: Final = 2**53 - 1
"""Largest magnitude of an integer that every JSON reader keeps exactly (RFC 7493 section 2.2)."""

_OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_LEAVES: Final = frozenset((str, int, bool, type(None)))
_ENCODE: Final = "use counterfoil.values.encode"


def dumps(value: object) -> bytes:
    """RFC 8785 bytes of a value made of str, int, float, bool, None, dict, list and tuple.

    Raises:
        CanonicalError: CF-CANON-001 to 006: no RFC 8785 form (type, integer, float, surrogate, depth, keys).
    """
    if _enabled:
        data = fast(value)
        if data is not None:
            return data
    return _slow(value)


def dumps_record(obj: object) -> bytes:
    """RFC 8785 bytes without looking at every value: for objects this library builds itself.

    The caller vouches that keys are ASCII literals and values exactly str, int, bool, None, list or dict: a
    float, UUID or Enum inside would pass unseen in orjson's own form. The rest goes the way of ``dumps``.

    Raises:
        CanonicalError: as ``dumps``.
    """
    if _enabled:
        try:
            data = orjson.dumps(obj, option=_OPTIONS)
        except TypeError:
            return dumps(obj)
        if data.isascii() or not _order_may_differ(data):
            return data
    return dumps(obj)


def fast_path_enabled() -> bool:
    """Whether the installed orjson gave every known answer when this module was imported."""
    return _enabled


def fast(value: object) -> bytes | None:
    """RFC 8785 bytes, or None where orjson is not known to write them."""
    if not _plain(value):
        return None
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return None
    if data.isascii() or not _order_may_differ(data):
        return data
    return None


def _plain(value: object) -> bool:
    """Whether every value is exactly one of the types orjson writes as RFC 8785 does.

    Keys are left to orjson, which refuses all but exact ``str`` (checked by the self-test). Depth first, so
    that a cycle meets the depth limit before it fills the memory.
    """
    leaves = _LEAVES
    if type(value) in leaves:
        return True
    stack: list[tuple[Any, int]] = [(value, 1)]
    pop, push = stack.pop, stack.append
    while stack:
        item, depth = pop()
        kind = type(item)
        if kind is dict:
            item = item.values()
        elif kind is not list and kind is not tuple:
            return False
        if depth > MAX_DEPTH_WRITE:
            return False
        for child in item:
            if type(child) not in leaves:
                push((child, depth + 1))
    return True


def _order_may_differ(data: bytes) -> bool:
    # orjson sorts keys by code point, RFC 8785 by UTF-16 unit. The two orders part only where a supplementary
    # character (first byte F0-F4) meets one of U+E000-U+FFFF (first byte EE or EF).
    return (0xEF in data or 0xEE in data) and any(byte in data for byte in (0xF0, 0xF1, 0xF2, 0xF3, 0xF4))


def _slow(value: object) -> bytes:
    try:
        _check_shape(value)
        return rfc8785.dumps(value)  # type: ignore[arg-type]
    except CanonicalError:
        raise
    except rfc8785.FloatDomainError:
        refuse("003", "NaN and infinities have no RFC 8785 form", hint=_ENCODE)
    except UnicodeEncodeError:
        refuse("004", "a string holds a lone surrogate", hint=_ENCODE)
    except rfc8785.CanonicalizationError as exc:
        if isinstance(exc.__cause__, UnicodeEncodeError):
            refuse("004", "a string holds a lone surrogate", hint=_ENCODE)
        if isinstance(exc, rfc8785.IntegerDomainError):
            _refuse_integer()
        refuse("001", "a value has no RFC 8785 form", hint=_ENCODE)
    except RecursionError:
        refuse("005", "the call stack is too deep to write the value", hint="call from a shallower stack")
    except ValueError:
        # Python refuses to print integers of more than 4,300 digits, also for the message of rfc8785's error.
        _refuse_integer()
    except Exception as exc:
        # Subclasses of dict, list, int and str may run code of their own.
        refuse("001", f"a value could not be read ({type(exc).__name__})", hint=_ENCODE)


def _check_shape(value: object) -> None:
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, dict):
            _check_keys(item)
            children: Any = item.values()
        elif isinstance(item, (list, tuple)):
            children = item
        elif item is None or isinstance(item, (str, int, float)):
            continue
        else:
            refuse("001", f"a value of type {type(item).__name__} has no RFC 8785 form", hint=_ENCODE)
        if depth > MAX_DEPTH_WRITE:
            refuse(
                "005",
                f"the value is nested more than {MAX_DEPTH_WRITE} levels deep, or contains itself",
                hint="flatten it, or use counterfoil.values.encode",
            )
        stack.extend((child, depth + 1) for child in children)


def _check_keys(item: dict[Any, Any]) -> None:
    exact = True
    for key in item:
        if type(key) is not str:
            exact = False
            if not isinstance(key, str):
                refuse("006", f"an object key is of type {type(key).__name__}", hint=_ENCODE)
    # Two str subclasses (members of a str Enum) can be different keys of one dict and yet hold the same text.
    if not exact and len({str.__str__(key) for key in item}) != len(item):
        refuse("006", "two keys of one object hold the same text", hint="make the keys plain strings")


def refuse(number: str, message: str, *, hint: str, where: str | None = None) -> NoReturn:
    """Raises the CanonicalError ``CF-CANON-<number>``."""
    # No cause is chained: what the parsers say may quote the text, and the text may be confidential.
    raise CanonicalError(message, code=f"CF-CANON-{number}", where=where, hint=hint) from None


def _refuse_integer() -> NoReturn:
    refuse("002", "an integer is beyond 2^53-1", hint=_ENCODE)


class _Text(str):
    __slots__ = ()


class _Choice(str, Enum):  # noqa: UP042 - the older spelling is the hazard under test
    A = "a"


_KNOWN_ANSWERS: Final[tuple[tuple[Any, bytes | None], ...]] = (
    # What the fast path must write, byte for byte.
    (None, b"null"),
    ([True, False, 0, -1], b"[true,false,0,-1]"),
    ([MAX_INTEGER, -MAX_INTEGER], b"[9007199254740991,-9007199254740991]"),
    ({}, b"{}"),
    ((), b"[]"),
    ({"b": [], "a": ({},)}, b'{"a":[{}],"b":[]}'),
    ("\x00\b\t\n\x0b\f\r\x1f", b'"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f"'),
    ('"\\/\x7f<>&', b'"\\"\\\\/\x7f<>&"'),
    ("\u00e9\u2028\u2029\ufeff\uffff", b'"\xc3\xa9\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\xef\xbf\xbf"'),
    ("\U0001f600", b'"\xf0\x9f\x98\x80"'),
    ({"\u00e9": 1, "z": 2, "e\u0301": 3, "": 4, "Z": 5}, b'{"":4,"Z":5,"e\xcc\x81":3,"z":2,"\xc3\xa9":1}'),
    ({"a" * 40 + "b": 1, "a" * 40 + "a": 2}, b'{"' + b"a" * 41 + b'":2,"' + b"a" * 40 + b'b":1}'),
    # What it must decline.
    ({"\U00010000": 1, "\uffff": 2}, None),
    (2**53, None),
    (-(2**53), None),
    (1.0, None),
    ([float("nan")], None),
    ("\ud800", None),
    ({"\udfff": 1}, None),
    ({1: 2}, None),
    ({_Text("a"): 1}, None),
    ([_Text("a")], None),
    ({_Choice.A: 1}, None),
    ([_Choice.A], None),
    ([uuid.UUID(int=0)], None),
    ([b"a"], None),
)


def _self_test() -> bool:
    try:
        return all(fast(value) == expected for value, expected in _KNOWN_ANSWERS)
    except Exception:
        return False


_enabled = _self_test()
