"""The forms of classes: enums, models, dataclasses, exceptions, functions, types; and the choice of a type's form.

Fields are read where they are stored (``_types``): no property, ``__getattr__`` or validator of the class runs.
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from typing import Any, Final

from counterfoil import _arrays
from counterfoil._forms import KNOWN, OWN, Form, Go, items, sub_form
from counterfoil._scalars import text_form
from counterfoil._types import (
    MISSING,
    field,
    is_a,
    mro,
    name_of,
    namespace,
    of_type,
    published,
    state,
    type_name,
)
from counterfoil.decoding import Form as Kept
from counterfoil.decoding import height

_MAX_DEPTH: Final = 100


def opaque(obj: Any, walk: Go) -> object:
    """An object nothing more is told of than its type."""
    return {"$opaque": type_name(obj)}


def _declared(kind: type, name: str) -> Any:
    """What a class or the nearest class above it declares under a name."""
    return next((namespace(base)[name] for base in mro(kind) if name in namespace(base)), None)


def _fields(obj: Any, names: list[Any], walk: Go) -> object:
    held = state(obj)
    pairs = [(name, field(obj, name, held)) for name in names]
    return items([pair for pair in pairs if pair[1] is not MISSING], walk, 2, obj)


def _enum(obj: Any, walk: Go) -> object:
    held = state(obj)
    return {
        "$enum": type_name(obj),
        "name": walk.go(held.get("_name_")),
        "value": walk.go(field(obj, "_value_", held)),
    }


def _dataclass(obj: Any, walk: Go) -> object:
    declared = _declared(type(obj), "__dataclass_fields__")
    # ClassVar and InitVar stand there too, and are not stored.
    names = [name for name, one in declared.items() if one._field_type.name == "_FIELD"]
    return {"$dataclass": type_name(obj), "fields": _fields(obj, names, walk)}


def _attrs(obj: Any, walk: Go) -> object:
    names = [one.name for one in _declared(type(obj), "__attrs_attrs__")]
    return {"$attrs": type_name(obj), "fields": _fields(obj, names, walk)}


def _model(obj: Any, walk: Go) -> object:
    """pydantic v2: the fields as stored and unknown extras; no private attributes, no cached computed fields."""
    held = state(obj)
    declared = _declared(type(obj), "__pydantic_fields__")
    fields = {name: one for name, one in held.items() if declared is None or name in declared}
    extra = field(obj, "__pydantic_extra__", {})
    if type(extra) is dict:
        fields.update(extra)
    return {"$model": type_name(obj), "fields": items(list(fields.items()), walk, 2, obj)}


def _model_v1(obj: Any, walk: Go) -> object:
    return {"$model": type_name(obj), "fields": items(list(state(obj).items()), walk, 2, obj)}


def _secret(obj: Any, walk: Go) -> object:
    return {"$redacted": {"rule": "secret type", "type": type_name(obj)}}


def _url(obj: Any, walk: Go) -> object:
    return {"$url": walk.go(str(obj)), "type": type_name(obj)}


_EXTRA: Final = (
    (OSError, ("filename", "filename2")),
    (ImportError, ("name", "path")),
    (NameError, ("name",)),
    (AttributeError, ("name",)),
)
"""What exceptions of Python's own hold beside their arguments."""


def _exception(obj: Any, walk: Go) -> object:
    kind = type(obj)
    out: dict[str, object] = {"$exception": type_name(obj)}
    out["args"] = [walk.go(arg, 2) for arg in BaseException.args.__get__(obj)]  # type: ignore[attr-defined]
    for known, names in _EXTRA:
        if is_a(kind, known):
            held = {name: namespace(known)[name].__get__(obj) for name in names}
            more = [(name, one) for name, one in held.items() if one is not None]
            if more:
                out["more"] = items(more, walk, 2, obj)
    cause = namespace(BaseException)["__cause__"].__get__(obj)
    if cause is not None:
        out["cause"] = walk.go(cause)
    notes = state(obj).get("__notes__")
    if notes is not None:
        out["notes"] = walk.go(notes)
    return out


def _named(tag: str) -> Form:
    def form(obj: Any, walk: Go) -> object:
        module = getattr(obj, "__module__", None)
        qualname = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
        if type(qualname) is not str:
            return opaque(obj, walk)
        return {tag: text_form(f"{module}.{qualname}" if type(module) is str else qualname)}

    return form


def _type(obj: Any, walk: Go) -> object:
    name = name_of(obj)
    return {"$type": f"builtins.{name}" if of_type(obj, "__module__") == "builtins" else name}


def _module(obj: Any, walk: Go) -> object:
    name = state(obj).get("__name__")
    return {"$module": text_form(name)} if type(name) is str else opaque(obj, walk)


def _partial(obj: Any, walk: Go) -> object:
    own = namespace(functools.partial)
    func, args, keywords = (own[name].__get__(obj) for name in ("func", "args", "keywords"))
    return {
        "$partial": walk.go(func),
        "args": [walk.go(one, 2) for one in tuple.__iter__(args)],
        "keywords": items(list(dict.items(keywords)), walk, 2, obj),
    }


_ALIAS: Final = getattr(typing, "_GenericAlias", None)


def _generic(obj: Any, walk: Go) -> object:
    """``list[int]``, ``Literal["a"]``, ``Annotated[int, ...]``: what they are made of."""
    origin, args = obj.__origin__, obj.__args__
    if origin is typing.Union:
        return _union(obj, walk)
    out: dict[str, object] = {"$generic": walk.go(origin)}
    if type(obj) is _ALIAS and type(obj._name) is str:
        out["name"] = f"typing.{obj._name}"
    out["args"] = [walk.go(one, 2) for one in args]
    more = getattr(obj, "__metadata__", None)
    return out if more is None else {**out, "metadata": [walk.go(one, 2) for one in more]}


def _union(obj: Any, walk: Go) -> object:
    found = walk.go(set(obj.__args__))
    return {"$union": found["$set"]} if type(found) is dict and "$set" in found else found


def _special(obj: Any, walk: Go) -> object:
    return {"$constant": f"typing.{obj._name}"}


def _kept(obj: Any, walk: Go) -> object:
    """What was decoded from a value; nothing that an application makes may pass for a reference to stored bytes."""
    levels = height(obj.value)
    if levels is None or walk.depth + levels > _MAX_DEPTH:
        return opaque(obj, walk)
    return obj.value


_METHODS: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    type(functools.lru_cache(lambda: None)),
)
_GENERICS: Final[list[tuple[Any, Form]]] = [
    (types.GenericAlias, _generic),
    (types.UnionType, _union),
    (_ALIAS, _generic),
    (getattr(typing, "_SpecialForm", None), _special),
    (typing.TypeVar, lambda obj, walk: {"$typevar": text_form(obj.__name__)}),
    (typing.ForwardRef, lambda obj, walk: {"$forward": walk.go(obj.__forward_arg__)}),
]
_LATE: Final[list[tuple[type, Form]]] = [
    (BaseException, _exception),
    (type, _type),
    *((kind, _named("$callable")) for kind in _METHODS),
    (types.ModuleType, _module),
]

_SECRETS: Final = (
    ("pydantic.types", "_SecretBase"),
    ("pydantic.types", "SecretStr"),
    ("pydantic.types", "SecretBytes"),
    ("pydantic.v1.types", "SecretStr"),
    ("pydantic.v1.types", "SecretBytes"),
)
_URLS: Final = (
    ("pydantic.networks", "_BaseUrl"),
    ("pydantic.networks", "_BaseMultiHostUrl"),
    ("pydantic_core._pydantic_core", "Url"),
    ("pydantic_core._pydantic_core", "MultiHostUrl"),
)


def known_form(kind: type) -> Form:
    """The encoder of a type no adapter registered."""
    classes = mro(kind)
    names = {(of_type(base, "__module__"), of_type(base, "__name__")) for base in classes}
    if not names.isdisjoint(_SECRETS):
        return _secret
    if is_a(kind, enum.Enum):
        return _enum
    found = _arrays.form(kind)
    if found is not None:
        return found
    for known, form in OWN:
        if is_a(kind, known):
            return form
    for known, form in (*KNOWN, (functools.partial, _partial)):
        if is_a(kind, known):
            return sub_form(kind, known, form)
    for known, form in (*_LATE, (Kept, _kept)):
        if is_a(kind, known):
            return form
    for known, form in _GENERICS:
        if known is not None and is_a(kind, known):
            return form
    if not names.isdisjoint(_URLS):
        return _url
    for base in classes:
        if _is(base, "pydantic.main", "BaseModel"):
            return _model
        if _is(base, "pydantic.v1.main", "BaseModel"):
            return _model_v1
    held = {name for base in classes for name in namespace(base)}
    if "__dataclass_fields__" in held:
        return _dataclass
    if "__attrs_attrs__" in held:
        return _attrs
    return opaque


def _is(base: type, module: str, name: str) -> bool:
    return of_type(base, "__name__") == name and published(module, name) is base
