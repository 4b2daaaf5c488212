"""The reader behind ``counterfoil.canonical``: strict I-JSON, since readers disagree on everything looser.

Canonical texts take a shortcut: what orjson reads, written again, gives the same bytes. All other texts go
through the standard library with a hook on every construct that is refused.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

import orjson

from counterfoil import _jcs
from counterfoil._jcs import MAX_INTEGER, refuse
from counterfoil._jcs_fast import fast
from counterfoil.errors import CanonicalError

MAX_DEPTH_READ: Final = 64
"""Default of ``loads``."""

_MAX_INTEGER_TEXT: Final = 17
_EXACT: Final = 2.0**53


def loads(data: bytes | str, *, max_depth: int = MAX_DEPTH_READ, max_bytes: int | None = None) -> Any:
    """Value of a strict I-JSON text, which need not be canonical.

    Refused: duplicate keys, NaN and infinities (also by overflow), integers beyond 2^53-1, lone surrogates
    (raw or escaped), a byte order mark, anything behind the value, more than ``max_depth`` levels or
    ``max_bytes`` bytes. Noncharacters are kept.

    Raises:
        CanonicalError: CF-CANON-010 to 017.
    """
    raw = _bytes_within(data, max_depth, max_bytes)
    if _jcs.fast_path_enabled():
        known, value = _canonical_value(raw)
        if known:
            return value
    return _strict(raw)


def loads_canonical(data: bytes, *, max_depth: int = MAX_DEPTH_READ, max_bytes: int | None = None) -> Any:
    """Value of a text that must be exactly the RFC 8785 form of that value.

    Raises:
        CanonicalError: CF-CANON-018 when the text is strict but not canonical, else as ``loads``.
    """
    raw = _bytes_within(data, max_depth, max_bytes)
    if _jcs.fast_path_enabled():
        known, value = _canonical_value(raw)
        if known:
            return value
    value = _strict(raw)
    if _jcs.dumps(value) != raw:
        refuse("018", "the text is not in RFC 8785 form", hint="the producer must write canonical bytes")
    return value


def loads_plain(
    data: bytes, *, max_depth: int = MAX_DEPTH_READ, max_bytes: int | None = None
) -> tuple[Any, bool]:
    """As ``loads_canonical``, and whether the value is without null and float.

    Raises:
        CanonicalError: as ``loads_canonical``.
    """
    raw = _bytes_within(data, max_depth, max_bytes)
    if _jcs.fast_path_enabled():
        try:
            value = orjson.loads(raw)
            nulls, floats = _nulls_and_floats(value)
            # Of a float orjson writes another form; what it read without one it writes canonically, but for key order.
            if not floats and _jcs.dumps_record(value) == raw:
                return value, not nulls
        except (ValueError, CanonicalError):
            pass
    value = loads_canonical(raw, max_depth=max_depth)
    return value, not any(_nulls_and_floats(value))


def _nulls_and_floats(value: object) -> tuple[bool, bool]:
    nulls, floats = value is None, type(value) is float
    stack: list[Any] = [value] if type(value) is dict or type(value) is list else []
    pop, push = stack.pop, stack.append
    while stack:
        node = pop()
        for child in node.values() if type(node) is dict else node:
            kind = type(child)
            if kind is str or kind is int:
                continue
            if kind is dict or kind is list:
                push(child)
            elif child is None:
                nulls = True
            elif kind is float:
                floats = True
    return nulls, floats


def _bytes_within(data: bytes | str, max_depth: int, max_bytes: int | None) -> bytes:
    if isinstance(data, str):
        if max_bytes is not None and len(data) > max_bytes:
            _refuse_size(max_bytes)
        try:
            raw = data.encode("utf-8")
        except UnicodeEncodeError:
            refuse("015", "the text holds a lone surrogate", hint="the text is not Unicode")
    elif isinstance(data, (bytes, bytearray, memoryview)):
        raw = bytes(data)
    else:
        refuse("010", f"expected bytes or str, got {type(data).__name__}", hint="read the text first")
    if max_bytes is not None and len(raw) > max_bytes:
        _refuse_size(max_bytes)
    if raw.startswith(b"\xef\xbb\xbf"):
        refuse("010", "the text starts with a byte order mark", hint="save it as UTF-8 without BOM")
    if raw.count(b"[") + raw.count(b"{") > max_depth:
        _check_depth(raw, max_depth)
    return raw


_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _check_depth(raw: bytes, max_depth: int) -> None:
    """Counts nesting without recursion: strings are cut out, then one layer of ``[]`` is peeled per round."""
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    nest = b"".join(bare.split(b'"')[::2]).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(max_depth):
        peeled = nest.replace(b"[]", b"")
        if len(peeled) == len(nest):
            break
        nest = peeled
    # What is left is deeper, or unbalanced: the parser may have the latter as long as it stays shallow.
    if b"[]" in nest or nest.count(b"[") > max_depth:
        refuse(
            "016", f"the text is nested more than {max_depth} levels deep", hint="raise max_depth if expected"
        )


def _canonical_value(raw: bytes) -> tuple[bool, Any]:
    """``(True, value)`` when the text is strict and canonical, as it equals what its value is written as.

    orjson reads integers beyond 2^64 as floats, and such a float is written as that integer again: floats from 2^53
    up are therefore left to the strict reader, which looks at the text of a number.
    """
    try:
        value = orjson.loads(raw)
    except ValueError:
        return False, None
    return (True, value) if fast(value, below=_EXACT) == raw else (False, None)


def _strict(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        refuse("010", "the text is not UTF-8", where=f"byte {exc.start}", hint="write it as UTF-8")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as exc:
        where = f"line {exc.lineno} column {exc.colno}"
        refuse("011", f"not a JSON text: {exc.msg}", where=where, hint="check the file for damage")
    except RecursionError:
        refuse("016", "the text is nested too deep", hint="read it with a smaller max_depth")
    if "\\u" in text:
        _check_surrogates(value)
    return value


def _check_surrogates(value: object) -> None:
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            try:
                item.encode("utf-8")
            except UnicodeEncodeError:
                refuse("015", "an escape stands for a lone surrogate", hint="the text is not I-JSON")
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse("012", "an object has the same key twice", hint="readers disagree on such texts")
    return found


def _integer(token: str) -> int:
    if len(token) <= _MAX_INTEGER_TEXT and -MAX_INTEGER <= (number := int(token)) <= MAX_INTEGER:
        return number
    refuse("014", "an integer is beyond 2^53-1", hint="carry it as a string")


def _float(token: str) -> float:
    number = float(token)
    if math.isinf(number):
        refuse("013", "a number is too large for a double", hint="carry it as a string")
    return number


def _constant(token: str) -> NoReturn:
    refuse("013", f"{token} is not JSON", hint="NaN and infinities have no JSON form")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def _refuse_size(max_bytes: int) -> NoReturn:
    refuse("017", f"the text has more than {max_bytes} bytes", hint="raise max_bytes if expected")
