"""The forms of Python's texts, numbers, times and patterns in canonical values (``shared/spec/values.md``)."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import zoneinfo
from typing import Any, Final

from counterfoil._types import is_a, name_of, type_name

MAX_INT: Final = 2**53 - 1


def text_form(text: Any) -> object:
    """A text itself, or its bytes where it is not well-formed."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"$str": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}
    return text


def int_form(number: Any) -> object:
    """An integer, or its hexadecimal digits where a double cannot hold it."""
    if -MAX_INT <= number <= MAX_INT:
        return number
    return {"$int": hex(number)}  # hex: str() of a huge int is quadratic and limited by the interpreter


def float_form(number: Any) -> object:
    """A double, or a name for what JSON has no number for."""
    if math.isfinite(number):
        if MAX_INT < abs(number) < 1e21 and number == int(number):
            # RFC 8785 prints these as plain digits, which a strict reader must refuse as an integer.
            return {"$num": float.hex(number)}
        return number
    return {"$num": "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"}


def data_form(data: Any) -> object:
    """A byte string in base64."""
    return {"$bytes": base64.b64encode(data).decode()}


def decimal_form(obj: Any, walk: Any) -> object:
    text = decimal.Decimal.__str__(obj)
    # The letter of an exponent follows the thread's context.
    return {"$decimal": text.replace("e", "E") if decimal.Decimal.is_finite(obj) else text}


def _zone(tzinfo: Any, out: dict[str, object]) -> dict[str, object]:
    """What the offset does not say about a time zone."""
    kind = type(tzinfo)
    if tzinfo is None or tzinfo is dt.UTC:
        return out
    if kind is dt.timezone:
        given = dt.timezone.__getinitargs__(tzinfo)  # type: ignore[attr-defined]
        return {**out, "name": text_form(given[1])} if len(given) > 1 else out
    key = getattr(tzinfo, "key", None) if is_a(kind, zoneinfo.ZoneInfo) else getattr(tzinfo, "zone", None)
    if type(key) is str:
        out["zone"] = text_form(key)
    if kind is not zoneinfo.ZoneInfo or type(key) is not str:  # without a key nothing tells which zone it is
        out["tz"] = name_of(kind)
    return out


def datetime_form(obj: Any, walk: Any) -> object:
    out = _zone(obj.tzinfo, {"$datetime": dt.datetime.isoformat(obj)})
    if obj.fold:
        out["fold"] = 1
    finer = 0 if type(obj) is dt.datetime else getattr(obj, "nanosecond", 0)
    if type(finer) is int and finer:
        out["nanosecond"] = finer
    return out


def time_form(obj: Any, walk: Any) -> object:
    out = _zone(obj.tzinfo, {"$time": dt.time.isoformat(obj)})
    if "tz" in out and "zone" not in out and obj.utcoffset() is None:
        out["tz"] = {"$opaque": out["tz"]}  # neither key nor offset: nothing tells which zone it is
    return {**out, "fold": 1} if obj.fold else out


def timedelta_form(obj: Any, walk: Any) -> object:
    out: dict[str, object] = {"$timedelta": [obj.days, obj.seconds, obj.microseconds]}
    finer = 0 if type(obj) is dt.timedelta else getattr(obj, "nanoseconds", 0)
    return {**out, "nanosecond": finer} if type(finer) is int and finer else out


def timezone_form(obj: Any, walk: Any) -> object:
    offset, *name = dt.timezone.__getinitargs__(obj)  # type: ignore[attr-defined]
    out = {"$timezone": [offset.days, offset.seconds, offset.microseconds]}
    return {**out, "name": text_form(name[0])} if name else out


def zoneinfo_form(obj: Any, walk: Any) -> object:
    return {"$zoneinfo": text_form(obj.key)} if type(obj.key) is str else {"$opaque": type_name(obj)}


def pattern_form(obj: Any, walk: Any) -> object:
    return {"$pattern": walk.go(obj.pattern), "flags": obj.flags}
