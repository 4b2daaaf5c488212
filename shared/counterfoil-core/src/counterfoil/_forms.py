"""The forms of Python's own and well-known types in canonical values; the rule is ``shared/spec/values.md``.

``values`` walks and registers, this module says what each type looks like.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import types
import uuid
from collections.abc import Callable
from typing import Any, Final, Protocol

from counterfoil import canonical

MAX_INT: Final = 2**53 - 1


# -- scalars ----------------------------------------------------------------------------------------------------------


def _str(text: Any) -> object:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"$str": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}
    return text


def _int(number: Any) -> object:
    if -MAX_INT <= number <= MAX_INT:
        return number
    return {"$int": hex(number)}  # hex: str() of a huge int is quadratic and limited by the interpreter


def _float(number: Any) -> object:
    if math.isfinite(number):
        if MAX_INT < abs(number) < 1e21 and number == int(number):
            # RFC 8785 prints these as plain digits, which a strict reader must refuse as an integer.
            return {"$num": float.hex(number)}
        return number
    return {"$num": "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"}


def _same(obj: Any) -> object:
    return obj


def _bytes(data: Any) -> object:
    return {"$bytes": base64.b64encode(bytes(data)).decode()}


# By identity of the type: a metaclass may have an __eq__ or __hash__ of its own.
_PLAIN: Final[dict[int, Callable[[Any], object]]] = {
    id(type(None)): _same,
    id(bool): _same,
    id(str): _str,
    id(int): _int,
    id(float): _float,
    id(bytes): _bytes,
}


# -- containers and known types ---------------------------------------------------------------------------------------


class Go(Protocol):
    """Encodes a part, ``levels`` JSON levels below the object it is a part of."""

    def __call__(self, obj: object, levels: int = 1, /) -> object: ...


_Inner = Callable[[Any, Go], object]


def _dict(obj: Any, go: Go) -> object:
    return _items(list(dict.items(obj)), go, 1)


def _items(items: list[tuple[Any, Any]], go: Go, levels: int) -> object:
    if all(type(key) is str and not key.startswith("$") for key, _ in items):
        if all(_well_formed(key) for key, _ in items):
            return {key: go(value, levels) for key, value in items}
    pairs = [[go(key, levels + 2), go(value, levels + 2)] for key, value in items]
    return {"$map": _sorted(pairs)}


def _well_formed(key: str) -> bool:
    return key.isascii() or type(_str(key)) is str


def _list(obj: Any, go: Go) -> object:
    return [go(value) for value in list.__iter__(obj)]


def _tuple(obj: Any, go: Go) -> object:
    fields = getattr(type(obj), "_fields", None)
    if type(obj) is not tuple and isinstance(fields, tuple):
        pairs = list(zip(map(str, fields), tuple.__iter__(obj), strict=True))
        return {"$namedtuple": type_name(obj), "fields": _items(pairs, go, 2)}
    return {"$tuple": [go(value, 2) for value in tuple.__iter__(obj)]}


def _set(obj: Any, go: Go) -> object:
    return {"$set": _sorted([go(value, 2) for value in obj])}


def _sorted(values: list[Any]) -> list[Any]:
    return sorted(values, key=canonical.dumps)


def _datetime(obj: Any, go: Go) -> object:
    out: dict[str, object] = {"$datetime": dt.datetime.isoformat(obj)}
    zone = getattr(obj.tzinfo, "key", None)
    if isinstance(zone, str):
        out["zone"] = zone
    if obj.fold:
        out["fold"] = 1
    finer = 0 if type(obj) is dt.datetime else getattr(obj, "nanosecond", 0)
    if type(finer) is int and finer:
        out["nanosecond"] = finer
    return out


def _exception(obj: Any, go: Go) -> object:
    return {"$exception": type_name(obj), "args": [go(arg, 2) for arg in obj.args]}


def _enum(obj: Any, go: Go) -> object:
    return {"$enum": type_name(obj), "name": go(getattr(obj, "_name_", None)), "value": go(obj._value_)}


def _dataclass(obj: Any, go: Go) -> object:
    pairs = [(field.name, getattr(obj, field.name, None)) for field in dataclasses.fields(obj)]
    return {"$dataclass": type_name(obj), "fields": _items(pairs, go, 2)}


def _attrs(obj: Any, go: Go) -> object:
    pairs = [(field.name, getattr(obj, field.name, None)) for field in type(obj).__attrs_attrs__]
    return {"$attrs": type_name(obj), "fields": _items(pairs, go, 2)}


def _model(obj: Any, go: Go) -> object:
    """pydantic v2 and v1 models: the fields as stored, unknown extras included, private attributes not."""
    fields = dict(obj.__dict__)
    fields.update(getattr(obj, "__pydantic_extra__", None) or {})
    return {"$model": type_name(obj), "fields": _items(list(fields.items()), go, 2)}


def _secret(obj: Any, go: Go) -> object:
    return {"$redacted": {"rule": "secret type", "type": type_name(obj)}}


def _named(tag: str) -> _Inner:
    def encoder(obj: Any, go: Go) -> object:
        module = getattr(obj, "__module__", None)
        qualname = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
        if not isinstance(qualname, str):
            return {"$opaque": type_name(obj)}
        return {tag: _str(f"{module}.{qualname}" if isinstance(module, str) else qualname)}

    return encoder


def _opaque(obj: Any, go: Go) -> object:
    return {"$opaque": type_name(obj)}


def _subclass(tag: str, plain: _Inner) -> _Inner:
    """A user's subclass of a JSON type keeps its type name, since its value alone would equal the base's."""

    def encoder(obj: Any, go: Go) -> object:
        return {tag: type_name(obj), "value": plain(obj, go)}

    return encoder


_KNOWN: Final[list[tuple[type, _Inner]]] = [
    (enum.Enum, _enum),
    (bool, lambda obj, go: obj),
    (str, _subclass("$substr", lambda obj, go: _str(str.__str__(obj)))),
    (int, _subclass("$subint", lambda obj, go: _int(int.__int__(obj)))),
    (float, _subclass("$subfloat", lambda obj, go: _float(float.__float__(obj)))),
    (bytes, lambda obj, go: _bytes(obj)),
    (bytearray, lambda obj, go: _bytes(obj)),
    (memoryview, lambda obj, go: _bytes(obj.tobytes())),
    (complex, lambda obj, go: {"$complex": [go(obj.real, 2), go(obj.imag, 2)]}),
    (decimal.Decimal, lambda obj, go: {"$decimal": decimal.Decimal.__str__(obj)}),
    (fractions.Fraction, lambda obj, go: {"$fraction": [go(obj.numerator, 2), go(obj.denominator, 2)]}),
    (uuid.UUID, lambda obj, go: {"$uuid": f"{obj.int:032x}"}),
    (dt.datetime, _datetime),
    (dt.date, lambda obj, go: {"$date": dt.date.isoformat(obj)}),
    (dt.time, lambda obj, go: {"$time": dt.time.isoformat(obj)}),
    (dt.timedelta, lambda obj, go: {"$timedelta": [obj.days, obj.seconds, obj.microseconds]}),
    (pathlib.PurePath, lambda obj, go: {"$path": go(str(obj)), "type": type_name(obj)}),
    (dict, _dict),
    (list, _list),
    (tuple, _tuple),
    (set, _set),
    (frozenset, _set),
    (
        collections.deque,
        lambda obj, go: {"$deque": [go(value, 2) for value in collections.deque.__iter__(obj)]},
    ),
    (types.MappingProxyType, lambda obj, go: _items(list(obj.items()), go, 1)),
    (type({}.keys()), lambda obj, go: {"$keys": [go(value, 2) for value in obj]}),
    (type({}.values()), lambda obj, go: {"$values": [go(value, 2) for value in obj]}),
    (type({}.items()), lambda obj, go: {"$items": [go(value, 2) for value in obj]}),
    (range, lambda obj, go: {"$range": [go(obj.start, 2), go(obj.stop, 2), go(obj.step, 2)]}),
    (types.SimpleNamespace, lambda obj, go: {"$namespace": _items(list(obj.__dict__.items()), go, 2)}),
    (BaseException, _exception),
    (type, _named("$type")),
    (types.FunctionType, _named("$callable")),
    (types.BuiltinFunctionType, _named("$callable")),
    (types.MethodType, _named("$callable")),
    (types.ModuleType, _named("$module")),
]


def _numpy(obj: Any, go: Go) -> object:
    if obj.dtype.hasobject:
        return {"$ndarray": obj.dtype.str, "shape": list(obj.shape), "items": go(obj.tolist())}
    data = base64.b64encode(obj.tobytes()).decode()
    return {"$ndarray": obj.dtype.str, "shape": list(obj.shape), "data": {"$bytes": data}}


def type_name(obj: object) -> str:
    """``module.qualname`` of the object's type (never ``obj.__class__``, which an object may forge)."""
    return _name(type(obj))


def _mro(kind: type) -> tuple[type, ...]:
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return found


def _of_type(kind: type, name: str) -> str:
    """``__module__`` or ``__name__`` of a class, past whatever its metaclass does."""
    try:
        found = type.__dict__[name].__get__(kind)
    except AttributeError:
        return "?"
    return found if type(found) is str else "?"


def _name(kind: type) -> str:
    module, name = _of_type(kind, "__module__"), _of_type(kind, "__qualname__")
    if module == "pathlib._local":  # where Python 3.13 keeps the classes of pathlib
        module = "pathlib"
    text = name if module == "builtins" else f"{module}.{name}"
    return text if type(_str(text)) is str else "?"


_SECRETS: Final = (
    ("pydantic.types", "_SecretBase"),
    ("pydantic.types", "SecretStr"),
    ("pydantic.types", "SecretBytes"),
    ("pydantic.v1.types", "SecretStr"),
    ("pydantic.v1.types", "SecretBytes"),
)


def known_form(kind: type) -> _Inner:
    """The encoder of a type no adapter registered."""
    mro = _mro(kind)
    names = {(_of_type(base, "__module__"), _of_type(base, "__name__")) for base in mro}
    if not names.isdisjoint(_SECRETS):
        return _secret
    for known, encoder in _KNOWN:
        if any(base is known for base in mro):
            return encoder
    if ("pydantic.main", "BaseModel") in names or ("pydantic.v1.main", "BaseModel") in names:
        return _model
    held = {name for base in mro for name in type.__dict__["__dict__"].__get__(base)}
    if "__dataclass_fields__" in held:
        return _dataclass
    if "__attrs_attrs__" in held:
        return _attrs
    if any(module == "numpy" and name in ("ndarray", "generic") for module, name in names):
        return _numpy
    return _opaque
