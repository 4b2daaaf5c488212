"""From a canonical value back to Python objects, where the value holds all of one.

Nothing a value names is imported, looked up or run: a class of an application, a function, a model stays a
:class:`Form`, which encodes as it was. So ``encode(decode(v)) == v`` for every canonical value ``v``.
"""

from __future__ import annotations

import base64
import collections
import datetime as dt
import decimal
import fractions
import ipaddress
import math
import pathlib
import re
import types
import uuid
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from counterfoil import canonical

__all__ = ["Form", "decode", "height"]

_PATTERN: Final = 256
"""Characters of a pattern that is compiled: each five of them may cost twenty milliseconds, whatever they match."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A part of a canonical value that stands for no object of Python's own types; equal by its RFC 8785 text."""

    value: dict[str, Any]

    def __eq__(self, other: object) -> bool:
        return type(other) is Form and canonical.dumps(self.value) == canonical.dumps(other.value)

    def __hash__(self) -> int:
        return hash(canonical.dumps(self.value))


class _No(Exception):
    """The form is not the one that an object of its type has."""


def decode(value: Any) -> Any:
    """The Python object that a canonical value stands for, with :class:`Form` where that cannot be made.

    ``value`` is what :func:`counterfoil.values.encode` gives or a reader read; objects of messages, models,
    dataclasses, enums and of all that is opaque, cut or redacted stay as they are, and so does a pattern of more than
    256 characters.
    """
    kind = type(value)
    if kind is list:
        return [decode(one) for one in value]
    if kind is not dict:
        return value
    tag = next((key for key in value if key[:1] == "$"), None)
    if tag is None:
        return {key: decode(one) for key, one in value.items()}
    make = _MAKE.get(tag)
    if make is None:
        return Form(value)
    try:
        return make(value)
    except Exception:  # whatever the types of Python make of a value that is no form
        return Form(value)


def height(value: object) -> int | None:
    """Containers within each other in a JSON value; None where a part of it is a reference."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        node, depth = stack.pop()
        children: Any = node.values() if type(node) is dict else node if type(node) is list else None
        if type(node) is dict and "$ref" in node:
            return None
        if children is not None:
            deepest = max(deepest, depth)
            stack.extend((one, depth + 1) for one in children)
    return deepest


def _only(value: dict[str, Any], *names: str, also: tuple[str, ...] = ()) -> Any:
    """The first member, when the object has exactly the members a form has."""
    if not set(names) <= value.keys() <= {*names, *also}:
        raise _No
    return value[names[0]]


def _same(made: Any, text: object, told: object) -> Any:
    """``made``, when it would be written as it was read."""
    if text != told or type(text) is not type(told):
        raise _No
    return made


def _data(value: Any) -> bytes:
    if type(value) is not dict:
        raise _No
    return base64.b64decode(_only(value, "$bytes"), validate=True)


def _map(value: dict[str, Any]) -> dict[Any, Any]:
    pairs = _only(value, "$map")
    made = {decode(key): decode(one) for key, one in pairs}
    if len(made) != len(pairs):
        raise _No
    return made


def _set(tag: str, kind: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Any]:
    def make(value: dict[str, Any]) -> Any:
        listed = _only(value, tag)
        made = kind(decode(one) for one in listed)
        return _same(made, len(made), len(listed))

    return make


def _int(value: dict[str, Any]) -> int:
    made = int(_only(value, "$int"), 16)
    if -(2**53) < made < 2**53:
        raise _No
    return _same(made, hex(made), value["$int"])  # type: ignore[no-any-return]


def _num(value: dict[str, Any]) -> float:
    text = _only(value, "$num")
    named = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if text in named:
        return named[text]
    made = float.fromhex(text)
    return _same(made, made.hex(), text)  # type: ignore[no-any-return]


def _memoryview(value: dict[str, Any]) -> memoryview:
    data = memoryview(_data(_only(value, "$memoryview", "format", "shape")))
    shape: Any = value["shape"]
    return data if value["format"] == "B" and len(shape) == 1 else data.cast(value["format"], shape)


def _datetime(value: dict[str, Any]) -> dt.datetime:
    text = _only(value, "$datetime", also=("zone", "fold"))
    made = dt.datetime.fromisoformat(text)
    if "zone" in value:
        made = made.replace(tzinfo=zoneinfo.ZoneInfo(value["zone"]))
    made = made.replace(fold=value.get("fold", 0))
    return _same(made, made.isoformat(), text)  # type: ignore[no-any-return]


def _time(value: dict[str, Any]) -> dt.time:
    made = dt.time.fromisoformat(_only(value, "$time", also=("fold",))).replace(fold=value.get("fold", 0))
    return _same(made, made.isoformat(), value["$time"])  # type: ignore[no-any-return]


def _path(value: dict[str, Any]) -> pathlib.PurePath:
    kinds = {
        f"pathlib.{kind.__name__}": kind
        for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))
    }
    made = kinds[_only(value, "type", "$path")](value["$path"])
    return _same(made, str(made), value["$path"])  # type: ignore[no-any-return]


def _timezone(value: dict[str, Any]) -> dt.timezone:
    offset = dt.timedelta(*_only(value, "$timezone", also=("name",)))
    return dt.timezone(offset, value["name"]) if "name" in value else dt.timezone(offset)


def _constant(value: dict[str, Any]) -> object:
    return {"Ellipsis": ..., "NotImplemented": NotImplemented}[_only(value, "$constant")]


def _fraction(value: dict[str, Any]) -> fractions.Fraction:
    top, bottom = (decode(one) for one in _only(value, "$fraction"))
    made = fractions.Fraction(top, bottom)
    return _same(made, made.denominator, bottom)  # type: ignore[no-any-return]


def _parsed(tag: str, make: Callable[[str], Any], write: Callable[[Any], str] = str) -> Callable[[Any], Any]:
    """A form that is one text."""

    def parse(value: dict[str, Any]) -> Any:
        made = make(_only(value, tag))
        return _same(made, write(made), value[tag])

    return parse


def _pattern(value: dict[str, Any]) -> re.Pattern[Any]:
    source = decode(_only(value, "$pattern", "flags"))
    if len(source) > _PATTERN:
        raise _No
    # A flag that the pattern itself sets, or that its type implies, is in the flags as well.
    made = re.compile(source, value["flags"])
    return _same(made, made.flags, value["flags"])  # type: ignore[no-any-return]


_MAKE: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "$str": lambda value: base64.b64decode(_only(value, "$str"), validate=True).decode(
        "utf-8", "surrogatepass"
    ),
    "$int": _int,
    "$num": _num,
    "$map": _map,
    "$bytes": _data,
    "$bytearray": lambda value: bytearray(_data(_only(value, "$bytearray"))),
    "$memoryview": _memoryview,
    "$tuple": lambda value: tuple(decode(one) for one in _only(value, "$tuple")),
    "$set": _set("$set", set),
    "$frozenset": _set("$frozenset", frozenset),
    "$deque": lambda value: collections.deque(
        (decode(one) for one in _only(value, "$deque", also=("maxlen",))), value.get("maxlen")
    ),
    "$ordereddict": lambda value: collections.OrderedDict(
        (decode(key), decode(one)) for key, one in _only(value, "$ordereddict")
    ),
    "$mappingproxy": lambda value: types.MappingProxyType(decode(_only(value, "$mappingproxy"))),
    "$namespace": lambda value: types.SimpleNamespace(**decode(_only(value, "$namespace"))),
    "$range": lambda value: range(*(decode(one) for one in _only(value, "$range"))),
    "$slice": lambda value: slice(*(decode(one) for one in _only(value, "$slice"))),
    "$complex": lambda value: complex(*(decode(one) for one in _only(value, "$complex"))),
    "$decimal": _parsed("$decimal", decimal.Decimal),
    "$fraction": _fraction,
    "$uuid": _parsed("$uuid", uuid.UUID, lambda made: f"{made.int:032x}"),
    "$datetime": _datetime,
    "$date": _parsed("$date", dt.date.fromisoformat, dt.date.isoformat),
    "$time": _time,
    "$timedelta": lambda value: dt.timedelta(*_only(value, "$timedelta")),
    "$timezone": _timezone,
    "$zoneinfo": _parsed("$zoneinfo", zoneinfo.ZoneInfo),
    "$path": _path,
    "$ipaddress": _parsed("$ipaddress", ipaddress.ip_address),
    "$ipinterface": _parsed("$ipinterface", ipaddress.ip_interface),
    "$ipnetwork": _parsed("$ipnetwork", ipaddress.ip_network),
    "$pattern": _pattern,
    "$constant": _constant,
}
