"""What an object is and holds, asked past everything its class or metaclass may answer for it.

A foreign object's ``__class__``, ``__getattribute__``, properties and metaclass are somebody else's code: they can
lie, raise, change things or never return. Types, names and stored fields are read from where the interpreter keeps
them, and nothing of that code runs.
"""

from __future__ import annotations

import collections
import sys
import types
from typing import Any, Final

__all__ = [
    "MISSING",
    "extent",
    "field",
    "is_a",
    "mro",
    "name_of",
    "namespace",
    "of_type",
    "published",
    "state",
    "type_name",
]

MISSING: Final = object()
"""A field that is declared and not set."""

_LENGTHS: Final[tuple[tuple[type, Any], ...]] = tuple(
    (kind, kind.__len__)
    for kind in (str, bytes, bytearray, list, tuple, dict, set, frozenset, collections.deque)
)
_PUBLIC: Final = ("numpy", "pandas")
"""Packages that keep public classes in modules whose names change from version to version."""


def mro(kind: type) -> tuple[type, ...]:
    """The classes a class derives from, itself first."""
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return found


def namespace(kind: type) -> Any:
    """A class's own namespace."""
    return type.__dict__["__dict__"].__get__(kind)


def is_a(kind: type, base: type) -> bool:
    """Whether a class derives from another; ``issubclass`` would ask the metaclass."""
    return any(one is base for one in mro(kind))


def of_type(kind: type, name: str) -> str:
    """``__module__``, ``__name__`` or ``__qualname__`` of a class."""
    try:
        found = type.__dict__[name].__get__(kind)
    except AttributeError:
        return "?"
    return found if type(found) is str else "?"


def type_name(obj: object) -> str:
    """``module.qualname`` of the object's type (never ``obj.__class__``, which an object may forge)."""
    return name_of(type(obj))


def name_of(kind: type) -> str:
    """``module.qualname`` of a class, without ``builtins.``, as its package publishes it."""
    module, name = of_type(kind, "__module__"), of_type(kind, "__qualname__")
    if module == "builtins":
        module = ""
    elif module == "pathlib._local":  # where Python 3.13 keeps the classes of pathlib
        module = "pathlib"
    elif module.startswith(("numpy.", "pandas.")):
        package = module.partition(".")[0]
        if package in _PUBLIC and published(package, name) is kind:
            module = package
    text = f"{module}.{name}" if module else name
    try:
        text.encode()
    except UnicodeEncodeError:
        return "?"
    return text


def published(module: str, name: str) -> object:
    """What a module that is imported already has under a name; None when there is none."""
    found = sys.modules.get(module)
    return vars(found).get(name) if type(found) is types.ModuleType else None


def state(obj: object) -> dict[Any, Any]:
    """A copy of the instance's ``__dict__``; empty if it has none."""
    for base in mro(type(obj)):
        found = namespace(base).get("__dict__")
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            held = found.__get__(obj)
            return dict.copy(held) if is_a(type(held), dict) else {}
    return {}


def field(obj: object, name: str, held: dict[Any, Any]) -> object:
    """What is stored under a declared field; ``held`` is the object's ``state``.

    A slot that is not set is MISSING. Where a property or another descriptor stands in the field's place it is not
    asked: the descriptor itself is the answer (and becomes opaque).
    """
    if name in held:
        return held[name]
    for base in mro(type(obj)):
        found = namespace(base).get(name, MISSING)
        if found is MISSING:
            continue
        if type(found) is types.MemberDescriptorType:
            try:
                return found.__get__(obj)
            except AttributeError:
                return MISSING
        return found
    return MISSING


def extent(obj: object) -> int | None:
    """Length of a text, byte string or container of Python's own, past its ``__len__``; None for all else."""
    kind = type(obj)
    found = _lengths.get(id(kind))
    if found is None:
        length = next((length for known, length in _LENGTHS if is_a(kind, known)), None)
        found = (kind, length)
        if len(_lengths) < 10_000:
            _lengths[id(kind)] = found
    return None if found[1] is None else int(found[1](obj))


_lengths: dict[int, tuple[type, Any]] = {}
