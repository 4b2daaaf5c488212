"""The forms of Python's own types in canonical values; the rule is ``shared/spec/values.md``.

``_walk`` traverses, this module says what each type looks like; ``_classes`` those that classes of an application
have, ``_arrays`` those of numpy, pandas and Pillow.
"""

from __future__ import annotations

import array
import collections
import contextlib
import datetime as dt
import decimal
import fractions
import gc
import ipaddress
import pathlib
import re
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, Protocol

from counterfoil import canonical
from counterfoil._scalars import (
    data_form,
    datetime_form,
    decimal_form,
    float_form,
    pattern_form,
    text_form,
    time_form,
    timedelta_form,
    timezone_form,
    zoneinfo_form,
)
from counterfoil._types import name_of, namespace, state, type_name

_WIDE: Final = 4096
_STEP: Final = 1 << 17
"""Elements that are copied at once where an array is only hashed."""


# -- containers -------------------------------------------------------------------------------------------------------


class Go(Protocol):
    """One traversal as a form sees it."""

    cuts: int
    depth: int
    hashes: int
    ordered: bool
    short: int

    def go(self, obj: object, levels: int = 1, /) -> object:
        """Encode a part, ``levels`` JSON levels below the object it is a part of."""

    def room(self, size: int, /) -> bool:
        """Whether so many bytes more are kept."""

    def holds(self, values: Collection[Any], /) -> bool:
        """Whether there is room for so many elements; ends the form if there are too many for its parts."""

    def large(
        self, obj: object, size: int | None = None, data: Iterable[Any] = (), head: bytes = b"", /
    ) -> object:
        """The marker in the place of what is too much; ``data`` are its bytes, hashed behind ``head``."""


Form = Callable[[Any, Go], object]


@contextlib.contextmanager
def _unhashed(walk: Go) -> Iterator[None]:
    """Hash nothing in what is cut whole if anything in it is cut: how far the bound reaches depends on an order."""
    left, walk.hashes = walk.hashes, -1
    try:
        yield
    finally:
        walk.hashes = left


def items(pairs: list[tuple[Any, Any]], walk: Go, levels: int, whole: object) -> object:
    """Pairs of a dict or of fields, as an object or, with keys that an object cannot have, as ``$map``."""
    go = walk.go
    if all(type(key) is str and key[:1] != "$" and type(text_form(key)) is str for key, _ in pairs):
        if walk.ordered:
            pairs = sorted(pairs, key=lambda pair: pair[0])
        return {key: go(value, levels) for key, value in pairs}
    short, cuts = walk.short, walk.cuts
    with _unhashed(walk):
        listed = [[go(key, levels + 2), go(value, levels + 2)] for key, value in pairs]
    # Cut somewhere inside: where depends on the order, which is not a part of the value.
    if walk.short == short:
        return {"$map": _sorted(listed)}
    walk.cuts = cuts
    return walk.large(whole)


def _dict(obj: Any, walk: Go) -> object:
    if dict.__len__(obj) >= _WIDE and not walk.holds(list(dict.values(obj))):
        return walk.large(obj)
    return items(_pairs(obj), walk, 1, obj)


def _pairs(obj: Any) -> list[tuple[Any, Any]]:
    try:
        return list(dict.items(obj))
    except RuntimeError:  # another thread changes it
        return list(dict.copy(obj).items())


def _listed(tag: str | None, read: Callable[[Any], list[Any]]) -> Form:
    """A container whose elements stand in their order."""

    def form(obj: Any, walk: Go) -> object:
        values, go = read(obj), walk.go
        if len(values) >= _WIDE and not walk.holds(values):
            return walk.large(obj, len(values))
        if tag is None:
            return [go(value) for value in values]
        return {tag: [go(value, 2) for value in values]}

    return form


def _set(tag: str, kind: Any) -> Form:
    def form(obj: Any, walk: Go) -> object:
        go, short, cuts = walk.go, walk.short, walk.cuts
        try:
            values = list(kind.__iter__(obj))
        except RuntimeError:  # another thread changes it
            values = list(kind.__iter__(kind.copy(obj)))
        if len(values) >= _WIDE and not walk.holds(values):
            return walk.large(obj, len(values))
        with _unhashed(walk):
            listed = [go(value, 2) for value in values]
        if walk.short == short:
            return {tag: _sorted(listed)}
        walk.cuts = cuts
        return walk.large(obj)

    return form


def _sorted(values: list[Any]) -> list[Any]:
    return sorted(values, key=_text)


_LEAVES: Final = frozenset((str, int, bool, type(None)))


def _text(value: Any) -> str:
    # UTF-8 sorts as code points do; the bytes themselves stand in blocks of a kilobyte each.
    kind = type(value)
    if kind is int:
        return str(value)
    if kind in _LEAVES or (kind is list and len(value) == 2 and {type(one) for one in value} <= _LEAVES):
        return canonical.dumps_record(value).decode()
    return canonical.dumps(value).decode()


def _tuple(obj: Any, walk: Go) -> object:
    kind = type(obj)
    if kind is tuple:
        return _plain_tuple(obj, walk)
    fields = next((namespace(base)["_fields"] for base in kind.__mro__ if "_fields" in namespace(base)), None)
    values = list(tuple.__iter__(obj))
    if type(fields) is tuple and len(fields) == len(values) and all(type(name) is str for name in fields):
        pairs = list(zip(fields, values, strict=True))
        return {"$namedtuple": type_name(obj), "fields": items(pairs, walk, 2, obj)}
    out: dict[str, object] = {
        "$sub": type_name(obj),
        "value": {"$tuple": [walk.go(value, 3) for value in values]},
    }
    if "n_sequence_fields" in namespace(kind):  # a row of the system, as time.localtime() gives
        _, (_, hidden) = obj.__reduce__()
        if hidden:
            out["more"] = items(list(hidden.items()), walk, 2, obj)
    return out


_plain_tuple = _listed("$tuple", lambda obj: list(tuple.__iter__(obj)))


def _deque(obj: Any, walk: Go) -> object:
    out = _plain_deque(obj, walk)
    limit = collections.deque.maxlen.__get__(obj)
    return out if limit is None or "$deque" not in out else {**out, "maxlen": limit}  # type: ignore[operator,dict-item]


_plain_deque = _listed("$deque", lambda obj: list(collections.deque.__iter__(obj)))


def _ordered_dict(obj: Any, walk: Go) -> object:
    held = {id(key): (key, value) for key, value in _pairs(obj)}
    keys = list(collections.OrderedDict.__iter__(obj))
    if len(keys) >= _WIDE and not walk.room(16 * len(keys)):
        return walk.large(obj)
    return {"$ordereddict": [[walk.go(one, 3) for one in held[id(key)]] for key in keys]}


def _default_dict(obj: Any, walk: Go) -> object:
    made = namespace(collections.defaultdict)["default_factory"].__get__(obj)
    return {"$defaultdict": items(_pairs(obj), walk, 2, obj), "factory": walk.go(made)}


def _user(obj: Any, walk: Go) -> object:
    """UserDict, UserList, UserString: what they wrap."""
    return {"$user": walk.go(state(obj)["data"])}


def _memory(obj: Any, walk: Go) -> object:
    size, shape = obj.nbytes, list(obj.shape)
    if not walk.room(size):
        if obj.ndim != 1:
            return walk.large(obj, size)
        pieces = (obj[start : start + _STEP].tobytes() for start in range(0, shape[0], _STEP))
        return walk.large(obj, size, pieces, canonical.dumps({"format": obj.format, "shape": shape}))
    return {"$memoryview": data_form(obj.tobytes()), "format": obj.format, "shape": shape}


def _bytearray(obj: Any, walk: Go) -> object:
    size, take = bytearray.__len__(obj), bytearray.__getitem__
    if not walk.room(size):
        return walk.large(obj, size, (take(obj, slice(at, at + _STEP)) for at in range(0, size, _STEP)))
    return {"$bytearray": data_form(take(obj, slice(None)))}


def _array(obj: Any, walk: Go) -> object:
    code, width = array.array.typecode.__get__(obj), array.array.itemsize.__get__(obj)
    count = array.array.__len__(obj)
    if not walk.room(count * width):
        head = canonical.dumps({"$array": code, "width": width})
        pieces = (_low_first(obj, slice(start, start + _STEP)) for start in range(0, count, _STEP))
        return walk.large(obj, count * width, pieces, head)
    return {"$array": code, "data": data_form(_low_first(obj, slice(None))), "width": width}


def _low_first(obj: Any, part: slice) -> bytes:
    copy = array.array(array.array.typecode.__get__(obj), array.array.__getitem__(obj, part))
    if sys.byteorder == "big":
        copy.byteswap()
    data: bytes = copy.tobytes()
    return data


# -- the table -------------------------------------------------------------------------------------------------------


def _subclass(tag: str, base: Any) -> Form:
    """A user's subclass of a JSON type keeps its type name, since its value alone would equal the base's."""
    return lambda obj, walk: {tag: type_name(obj), "value": walk.go(base(obj))}


def _proxy(obj: Any, walk: Go) -> object:
    (inner,) = gc.get_referents(obj)  # its own methods would call those of the mapping behind it
    return {"$mappingproxy": walk.go(inner)}


OWN: Final[list[tuple[type, Form]]] = [
    (str, _subclass("$substr", str.__str__)),
    (int, _subclass("$subint", int.__int__)),
    (float, _subclass("$subfloat", float.__float__)),
    (tuple, _tuple),
    (
        pathlib.PurePath,
        lambda obj, walk: {"$path": walk.go(pathlib.PurePath.__str__(obj)), "type": type_name(obj)},
    ),
]
"""Forms that tell the type themselves."""

KNOWN: Final[list[tuple[type, Form]]] = [
    (bytes, lambda obj, walk: walk.go(bytes.__getitem__(obj, slice(None)))),
    (bytearray, _bytearray),
    (memoryview, _memory),
    (array.array, _array),
    (complex, lambda obj, walk: {"$complex": [float_form(obj.real), float_form(obj.imag)]}),
    (decimal.Decimal, decimal_form),
    (fractions.Fraction, lambda obj, walk: {"$fraction": [walk.go(obj.numerator), walk.go(obj.denominator)]}),
    (uuid.UUID, lambda obj, walk: {"$uuid": f"{obj.int:032x}"}),
    (dt.datetime, datetime_form),
    (dt.date, lambda obj, walk: {"$date": dt.date.isoformat(obj)}),
    (dt.time, time_form),
    (dt.timedelta, timedelta_form),
    (dt.timezone, timezone_form),
    (zoneinfo.ZoneInfo, zoneinfo_form),
    (collections.OrderedDict, _ordered_dict),
    (collections.defaultdict, _default_dict),
    (dict, _dict),
    (list, _listed(None, list.copy)),
    (set, _set("$set", set)),
    (frozenset, _set("$frozenset", frozenset)),
    (collections.deque, _deque),
    (collections.UserDict, _user),
    (collections.UserList, _user),
    (collections.UserString, _user),
    (collections.ChainMap, lambda obj, walk: {"$chainmap": walk.go(state(obj)["maps"])}),
    (types.MappingProxyType, _proxy),
    (type({}.keys()), _listed("$keys", list)),
    (type({}.values()), _listed("$values", list)),
    (type({}.items()), _listed("$items", list)),
    (range, lambda obj, walk: {"$range": [walk.go(one) for one in (obj.start, obj.stop, obj.step)]}),
    (slice, lambda obj, walk: {"$slice": [walk.go(one, 2) for one in (obj.start, obj.stop, obj.step)]}),
    (re.Pattern, pattern_form),
    *(
        (kind, lambda obj, walk, tag=tag: {tag: str(obj)})
        for tag, kinds in {
            "$ipinterface": (ipaddress.IPv4Interface, ipaddress.IPv6Interface),
            "$ipaddress": (ipaddress.IPv4Address, ipaddress.IPv6Address),
            "$ipnetwork": (ipaddress.IPv4Network, ipaddress.IPv6Network),
        }.items()
        for kind in kinds
    ),
    (type(...), lambda obj, walk: {"$constant": "Ellipsis"}),
    (type(NotImplemented), lambda obj, walk: {"$constant": "NotImplemented"}),
    (types.SimpleNamespace, lambda obj, walk: {"$namespace": items(list(state(obj).items()), walk, 2, obj)}),
]
"""Forms that do not tell the type: a subclass stands in ``{"$sub": type, "value": form}``."""


def sub_form(kind: type, known: type, form: Form) -> Form:
    """The form of a class, which may derive from the one that the form is for."""
    if kind is known:
        return form

    def wrapped(obj: Any, walk: Go) -> object:
        walk.depth += 1
        try:
            return {"$sub": name_of(kind), "value": form(obj, walk)}
        finally:
            walk.depth -= 1

    return wrapped
