"""Every Python value has one canonical value by a written rule, so that nothing is dropped, clipped or hashed by
``repr``.

The rule is ``shared/spec/values.md``. JSON types stand for themselves; everything else is an object whose keys start
with ``$``; a dict that has such a key itself, or a key that is no ``str``, becomes ``{"$map": [[key, value], ...]}``.
Adapters add exact forms for their framework's types with :func:`register`.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import sys
import threading
import types
import uuid
from collections.abc import Callable
from typing import Any, Final, Protocol

from counterfoil import canonical

__all__ = ["MAX_DEPTH", "MAX_INT", "encode", "message_key", "message_writer", "register", "type_name"]

MAX_INT: Final = 2**53 - 1
MAX_DEPTH: Final = 100
"""Levels of nesting kept; what lies deeper becomes ``{"$deep": type name}``."""

Encoder = Callable[[Any, Callable[[object], object]], object]
"""``encoder(obj, go)`` returns a canonical value, calling ``go`` on every part."""

MemoKey = Callable[[Any], object]
"""Returns a hashable key equal only for equal canonical values, or None when there is no cheap one."""


class Parts(Protocol):
    """What a message writer may ask of the capture: reduced forms of its parts, blobs stored on the way."""

    def text(self, text: str, /) -> bytes:
        """Reduced form of a string."""

    def composite(self, data: bytes, /) -> bytes:
        """Reduced form of an array or object given as the RFC 8785 text of its reduced parts."""


MessageWriter = Callable[[Any, Parts], bytes | None]
"""Writes the reduced form of a plain message directly, or returns None: the encoder takes over."""

_registered: dict[type, tuple[Encoder, MemoKey | None, MessageWriter | None]] = {}


def register(
    kind: type, encoder: Encoder, *, key: MemoKey | None = None, writer: MessageWriter | None = None
) -> None:
    """Give ``kind`` and its subclasses an exact form; for adapters, so that the core knows no framework.

    With ``key`` the form is a message: ``encoder`` returns ``{"$msg": ...}`` and is called once per key; ``writer``
    must give the same bytes as the encoder's value reduced.
    """
    _registered[kind] = (encoder, key, writer)
    _dispatch.clear()
    _messages.clear()


def message_key(kind: type) -> MemoKey | None:
    """The memo key function of a message type, None for every other type."""
    return (_messages.get(kind) or _message(kind))[0]


def message_writer(kind: type) -> MessageWriter | None:
    """The direct writer of a message type, if its adapter brought one."""
    return (_messages.get(kind) or _message(kind))[1]


def _message(kind: type) -> tuple[MemoKey | None, MessageWriter | None]:
    bases = type.__dict__["__mro__"].__get__(kind)
    found = next((_registered[base][1:] for base in bases if base in _registered), (None, None))
    if len(_messages) < 10_000:
        _messages[kind] = found
    return found


_messages: dict[type, tuple[MemoKey | None, MessageWriter | None]] = {}


def encode(obj: object, *, depth: int = 0) -> Any:
    """Canonical value of any Python object; never raises, never calls the object's own ``__repr__`` or ``__eq__``.

    Generators and coroutines are never consumed. A value nested deeper than MAX_DEPTH ends in ``$deep``;
    ``depth`` tells how many levels stand above ``obj`` already.
    """
    try:
        return _Walk(depth).go(obj)
    except RecursionError:
        # The application is close to its own recursion limit; a new thread starts with an empty stack.
        return _in_fresh_thread(obj, depth)


def type_name(obj: object) -> str:
    """``module.qualname`` of the object's type (never ``obj.__class__``, which an object may forge)."""
    return _name(type(obj))


class _Walk:
    """One traversal: remembers the containers on the path, so that cycles are named and not followed."""

    __slots__ = ("depth", "path")

    def __init__(self, depth: int) -> None:
        self.path: list[int] = []
        self.depth = depth

    def go(self, obj: object) -> object:
        kind = type(obj)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(obj)
        if self.depth >= MAX_DEPTH:
            return {"$deep": type_name(obj)}
        mark = id(obj)
        if mark in self.path:
            return {"$cycle": len(self.path) - self.path.index(mark)}
        self.path.append(mark)
        self.depth += 1
        try:
            return _encoder_for(kind)(obj, self.go)
        except RecursionError:
            raise
        except Exception:
            # A foreign object's attribute or iteration failed: its type is still told.
            return {"$opaque": type_name(obj)}
        finally:
            self.path.pop()
            self.depth -= 1


def _in_fresh_thread(obj: object, depth: int) -> Any:
    out: list[object] = []

    def work() -> None:
        try:
            out.append(_Walk(depth).go(obj))
        except RecursionError:
            out.append({"$deep": type_name(obj)})

    thread = threading.Thread(target=work, name="counterfoil-encode")
    thread.start()
    thread.join()
    return out[0] if out else {"$opaque": type_name(obj)}


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


_PLAIN: Final[dict[type, Callable[[Any], object]]] = {
    type(None): _same,
    bool: _same,
    str: _str,
    int: _int,
    float: _float,
    bytes: _bytes,
}


# -- containers and known types ---------------------------------------------------------------------------------------

Go = Callable[[object], object]


def _dict(obj: Any, go: Go) -> object:
    items = list(dict.items(obj))
    if all(type(key) is str and not key.startswith("$") for key, _ in items):
        if all(_well_formed(key) for key, _ in items):
            return {key: go(value) for key, value in items}
    return {"$map": _sorted([[go(key), go(value)] for key, value in items], lambda pair: pair[0])}


def _well_formed(key: str) -> bool:
    return key.isascii() or type(_str(key)) is str


def _list(obj: Any, go: Go) -> object:
    return [go(value) for value in list.__iter__(obj)]


def _tuple(obj: Any, go: Go) -> object:
    fields = getattr(type(obj), "_fields", None)
    if type(obj) is not tuple and isinstance(fields, tuple):
        return {
            "$namedtuple": type_name(obj),
            "fields": {str(k): go(v) for k, v in zip(fields, tuple.__iter__(obj), strict=True)},
        }
    return {"$tuple": [go(value) for value in tuple.__iter__(obj)]}


def _set(obj: Any, go: Go) -> object:
    return {"$set": _sorted([go(value) for value in obj], lambda value: value)}


def _sorted(values: list[Any], key: Callable[[Any], object]) -> list[Any]:
    return sorted(values, key=lambda value: canonical.dumps(key(value)))


def _datetime(obj: Any, go: Go) -> object:
    out: dict[str, object] = {"$datetime": dt.datetime.isoformat(obj)}
    zone = getattr(obj.tzinfo, "key", None)
    if isinstance(zone, str):
        out["zone"] = zone
    if obj.fold:
        out["fold"] = 1
    return out


def _exception(obj: Any, go: Go) -> object:
    return {"$exception": type_name(obj), "args": [go(arg) for arg in obj.args]}


def _enum(obj: Any, go: Go) -> object:
    return {"$enum": type_name(obj), "name": go(getattr(obj, "_name_", None)), "value": go(obj._value_)}


def _dataclass(obj: Any, go: Go) -> object:
    fields = {field.name: go(getattr(obj, field.name, None)) for field in dataclasses.fields(obj)}
    return {"$dataclass": type_name(obj), "fields": fields}


def _model(obj: Any, go: Go) -> object:
    """pydantic v2 and v1 models: the fields as stored, unknown extras included, private attributes not."""
    fields = dict(obj.__dict__)
    fields.update(getattr(obj, "__pydantic_extra__", None) or {})
    return {"$model": type_name(obj), "fields": go(fields)}


def _secret(obj: Any, go: Go) -> object:
    return {"$redacted": {"rule": "secret type", "type": type_name(obj)}}


def _named(tag: str) -> Encoder:
    def encoder(obj: Any, go: Go) -> object:
        module = getattr(obj, "__module__", None)
        qualname = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
        if not isinstance(qualname, str):
            return {"$opaque": type_name(obj)}
        return {tag: _str(f"{module}.{qualname}" if isinstance(module, str) else qualname)}

    return encoder


def _opaque(obj: Any, go: Go) -> object:
    return {"$opaque": type_name(obj)}


def _subclass(tag: str, plain: Encoder) -> Encoder:
    """A user's subclass of a JSON type keeps its type name, since its value alone would equal the base's."""

    def encoder(obj: Any, go: Go) -> object:
        return {tag: type_name(obj), "value": plain(obj, go)}

    return encoder


_KNOWN: Final[list[tuple[type, Encoder]]] = [
    (enum.Enum, _enum),
    (bool, lambda obj, go: obj),
    (str, _subclass("$substr", lambda obj, go: _str(str.__str__(obj)))),
    (int, _subclass("$subint", lambda obj, go: _int(int.__int__(obj)))),
    (float, _subclass("$subfloat", lambda obj, go: _float(float.__float__(obj)))),
    (bytes, lambda obj, go: _bytes(obj)),
    (bytearray, lambda obj, go: _bytes(obj)),
    (memoryview, lambda obj, go: _bytes(obj.tobytes())),
    (complex, lambda obj, go: {"$complex": [go(obj.real), go(obj.imag)]}),
    (decimal.Decimal, lambda obj, go: {"$decimal": decimal.Decimal.__str__(obj)}),
    (fractions.Fraction, lambda obj, go: {"$fraction": [go(obj.numerator), go(obj.denominator)]}),
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
    (BaseException, _exception),
    (type, _named("$type")),
    (types.FunctionType, _named("$callable")),
    (types.BuiltinFunctionType, _named("$callable")),
    (types.MethodType, _named("$callable")),
    (types.ModuleType, _named("$module")),
]

_dispatch: dict[type, Encoder] = {}


def _encoder_for(kind: type) -> Encoder:
    found = _dispatch.get(kind)
    if found is None:
        found = _choose(kind)
        if len(_dispatch) < 10_000:
            _dispatch[kind] = found
    return found


def _choose(kind: type) -> Encoder:
    mro = type.mro(kind) if kind is type else type.__dict__["__mro__"].__get__(kind)
    for base in mro:
        if base in _registered:
            return _registered[base][0]
    names = {(getattr(base, "__module__", ""), base.__name__) for base in mro}
    if any(name in names for name in _SECRETS):
        return _secret
    for base, encoder in _KNOWN:
        if base in mro:
            return encoder
    if ("pydantic.main", "BaseModel") in names or ("pydantic.v1.main", "BaseModel") in names:
        return _model
    if "__dataclass_fields__" in {name for base in mro for name in vars(base)}:
        return _dataclass
    if any(module == "numpy" and name in ("ndarray", "generic") for module, name in names):
        return _numpy
    return _opaque


_SECRETS: Final = (
    ("pydantic.types", "_SecretBase"),
    ("pydantic.types", "SecretStr"),
    ("pydantic.types", "SecretBytes"),
    ("pydantic.v1.types", "SecretStr"),
    ("pydantic.v1.types", "SecretBytes"),
)


def _numpy(obj: Any, go: Go) -> object:
    if obj.dtype.hasobject:
        return {"$ndarray": obj.dtype.str, "shape": list(obj.shape), "items": go(obj.tolist())}
    data = base64.b64encode(obj.tobytes()).decode()
    return {"$ndarray": obj.dtype.str, "shape": list(obj.shape), "data": {"$bytes": data}}


def _name(kind: type) -> str:
    module = kind.__dict__.get("__module__") if "__module__" in kind.__dict__ else kind.__module__
    name = type.__dict__["__qualname__"].__get__(kind)
    text = f"{module}.{name}" if isinstance(module, str) and module != "builtins" else str(name)
    return text if type(_str(text)) is str else "?"


# Recursion of one container level takes four frames; the interpreter's default limit leaves room for MAX_DEPTH.
assert MAX_DEPTH * 6 < max(sys.getrecursionlimit(), 1000)
