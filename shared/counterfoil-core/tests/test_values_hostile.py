"""Objects that raise, lie, change, act or never end: none of their code runs where it can be helped."""

from __future__ import annotations

import array
import asyncio
import collections
import dataclasses
import datetime as dt
import enum
import gc
import io
import pathlib
import socket
import tempfile
import threading
import types
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pydantic
import pydantic.v1
import pytest
from busy import changing

from counterfoil import canonical
from counterfoil.capture import Capture
from counterfoil.values import encode


class Meta(type):
    """A metaclass that answers wrongly whenever it is asked."""

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("asked __eq__")

    __hash__ = None  # type: ignore[assignment]

    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(f"asked {name}")

    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError("asked __instancecheck__")


class Equal(type):
    """A metaclass whose classes claim to be any other class."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(str)


class Hostile:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"asked {name}")

    def __repr__(self) -> str:
        raise RuntimeError("asked __repr__")

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("asked __eq__")

    def __hash__(self) -> int:
        raise RuntimeError("asked __hash__")

    def __len__(self) -> int:
        raise RuntimeError("asked __len__")

    def __bool__(self) -> bool:
        raise RuntimeError("asked __bool__")

    def __iter__(self) -> Iterator[int]:
        raise RuntimeError("asked __iter__")


class Liar:
    """Says that it is a str, with fields of a dataclass and a model."""

    __class__ = str  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "'text'"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("text")

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: "text"


@dataclasses.dataclass
class Wrong:
    a: int

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("asked")


def test_hostile_objects_are_told_by_their_type_alone() -> None:
    meta = Meta("Odd", (), {})
    equal = Equal("Odd", (), {})
    assert encode(Hostile()) == {"$opaque": f"{__name__}.Hostile"}
    assert encode(Liar()) == {"$opaque": f"{__name__}.Liar"}
    assert encode(meta()) == {"$opaque": f"{__name__}.Odd"}
    assert encode(equal()) == {"$opaque": f"{__name__}.Odd"}
    assert encode([meta(), {"a": equal()}, Wrong(1)]) == [
        {"$opaque": f"{__name__}.Odd"},
        {"a": {"$opaque": f"{__name__}.Odd"}},
        {"$dataclass": f"{__name__}.Wrong", "fields": {"a": 1}},
    ]
    assert encode(meta) == {"$type": f"{__name__}.Odd"}


class Lied(Exception):
    """Code of an object ran that should not have run."""


def refuse(self: object, *args: object, **kwargs: object) -> Any:
    raise Lied


NAMES = """
    __repr__ __str__ __eq__ __ne__ __lt__ __hash__ __getattr__ __getattribute__ __iter__ __len__ __bool__ __getitem__
    __contains__ __reversed__ __next__ __call__ __int__ __float__ __index__ __bytes__ __format__ __dir__ __reduce__
    __reduce_ex__ __getstate__ __copy__ __deepcopy__ __enter__ __await__ __array__ __fspath__ __get__
    items keys values copy isoformat model_dump dict json tobytes tolist
"""
ALL = {name: refuse for name in NAMES.split()} | {"__class__": property(refuse), "__dict__": property(refuse)}


def owned(base: Any, made: object) -> Any:
    """An object of a class that derives from ``base`` and refuses everything."""
    value = base.__new__(type("Own", (base,), {**ALL, "__module__": __name__}), made)
    base.__init__(value, *(() if base.__init__ is object.__init__ else (made,)))
    return value


@pytest.mark.parametrize(
    ("base", "made", "expected"),
    [
        (dict, {"a": 1}, {"a": 1}),
        (list, [1, 2], [1, 2]),
        (tuple, (1,), {"$tuple": [1]}),
        (set, {1}, {"$set": [1]}),
        (frozenset, {1}, {"$frozenset": [1]}),
        (bytes, b"ab", {"$bytes": "YWI="}),
        (bytearray, b"ab", {"$bytearray": {"$bytes": "YWI="}}),
        (collections.deque, [1], {"$deque": [1]}),
        (collections.OrderedDict, {"a": 1}, {"$ordereddict": [["a", 1]]}),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_derives_from_a_container_is_read_past_its_own_methods(
    base: Any, made: Any, expected: object
) -> None:
    assert encode([owned(base, made)]) == [{"$sub": f"{__name__}.Own", "value": expected}]


@pytest.mark.parametrize(
    ("base", "made", "tag"), [(str, "x", "$substr"), (int, 3, "$subint"), (float, 1.5, "$subfloat")]
)
def test_numbers_and_texts_are_read_past_their_own_methods(base: Any, made: Any, tag: str) -> None:
    assert encode(owned(base, made)) == {tag: f"{__name__}.Own", "value": made}


def test_fields_are_read_where_they_are_stored() -> None:
    asked: list[str] = []

    class Watching:
        def __getattribute__(self, name: str) -> Any:
            asked.append(name)
            return object.__getattribute__(self, name)

    @dataclasses.dataclass
    class Data(Watching):
        a: int
        b: int = 2
        made: dataclasses.InitVar[int] = 3

    @dataclasses.dataclass(frozen=True, slots=True)
    class Slim:
        a: int
        b: int = dataclasses.field(init=False)

    @attrs.define
    class Attrs:
        a: int
        _b: int = 2

    @dataclasses.dataclass
    class Late:
        a: int

    Late.a = property(refuse, lambda self, value: None)
    data, slim, late = Data(1), Slim(1), Late(1)
    asked.clear()
    name = f"{__name__}.{Data.__qualname__}".rpartition(".")[0]
    assert encode(data) == {"$dataclass": f"{name}.Data", "fields": {"a": 1, "b": 2}}
    assert encode(slim) == {"$dataclass": f"{name}.Slim", "fields": {"a": 1}}  # b is not set
    assert encode(Attrs(1)) == {"$attrs": f"{name}.Attrs", "fields": {"a": 1, "_b": 2}}
    assert encode(late) == {"$dataclass": f"{name}.Late", "fields": {"a": {"$opaque": "property"}}}
    assert asked == []
    object.__setattr__(slim, "b", None)
    assert encode(slim)["fields"] == {"a": 1, "b": None}


def test_models_run_no_validator_property_or_computed_field() -> None:
    class Computed(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        a: int
        secret: pydantic.SecretStr = pydantic.SecretStr("hidden")
        _private: int = 7

        @pydantic.computed_field  # type: ignore[prop-decorator]
        @property
        def twice(self) -> int:
            raise Lied

        @property
        def other(self) -> int:
            raise Lied

        def model_dump(self, **kwargs: Any) -> dict[str, Any]:
            raise Lied

    class Old(pydantic.v1.BaseModel):
        a: int
        secret: pydantic.v1.SecretStr = pydantic.v1.SecretStr("hidden")

        class Config:
            extra = "allow"

        def dict(self, **kwargs: Any) -> Any:
            raise Lied

    fields = encode(Computed(a=1, more=2))["fields"]
    assert fields["a"] == 1
    assert fields["more"] == 2
    assert set(fields) == {"a", "more", "secret"}
    assert "hidden" not in str(fields)
    old = encode(Old(a=1, more=2))
    assert old["$model"].endswith("Old")
    assert set(old["fields"]) == {"a", "more", "secret"}
    assert "hidden" not in str(old)


def test_a_cached_property_of_a_model_does_not_change_its_value() -> None:
    import functools

    class Cached(pydantic.BaseModel):
        a: int

        @pydantic.computed_field  # type: ignore[prop-decorator]
        @functools.cached_property
        def twice(self) -> int:
            return 2 * self.a

    model = Cached(a=1)
    before = encode(model)
    assert model.twice == 2
    assert encode(model) == before


class Endless(Mapping[str, int]):
    """A mapping without end."""

    def __getitem__(self, key: str) -> int:
        raise Lied

    def __iter__(self) -> Iterator[str]:
        raise Lied

    def __len__(self) -> int:
        raise Lied


class Row(Sequence[int]):
    """A sequence without end."""

    def __getitem__(self, index: Any) -> Any:
        raise Lied

    def __len__(self) -> int:
        raise Lied


@pytest.mark.parametrize(
    "made",
    [
        Endless,
        Row,
        lambda: weakref.WeakValueDictionary(),
        lambda: threading.Lock(),
        lambda: threading.RLock(),
        lambda: io.StringIO("text"),
        lambda: io.BytesIO(b"text"),
        lambda: socket.socket(),
        lambda: tempfile.TemporaryFile(),
        lambda: threading.Thread(),
        lambda: property(refuse),
        lambda: staticmethod(refuse),
        lambda: types.CodeType,
    ],
)
def test_objects_with_a_state_are_told_by_their_type(made: Callable[[], Any]) -> None:
    value = made()
    assert set(encode(value)) <= {"$opaque", "$type"}
    if hasattr(value, "close"):
        assert not getattr(value, "closed", False)
        if hasattr(value, "tell"):
            assert value.tell() == 0
        value.close()


def test_nothing_that_can_be_consumed_is() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    async def later() -> int:
        return 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = numbers()
        assert encode({"a": [made]}) == {"a": [{"$opaque": "async_generator"}]}
        assert asyncio.run(anext_of(made)) == 1
        waiting = later()
        assert encode(waiting) == {"$opaque": "coroutine"}
        assert Capture(lambda sha256, data: True).reference([waiting]).size > 0
        assert asyncio.run(waiting) == 1
        closed = later()
        encode(closed)
        closed.close()
        gc.collect()


async def anext_of(made: Any) -> Any:
    return await anext(made)


def test_a_weak_reference_is_not_followed() -> None:
    class Held:
        pass

    held = Held()
    for one in (weakref.ref(held), weakref.proxy(held)):
        assert set(encode(one)) == {"$opaque"}


@pytest.mark.parametrize(
    "raised", [ValueError, SystemExit, GeneratorExit, asyncio.CancelledError, RecursionError]
)
def test_whatever_an_object_raises_it_becomes_opaque_and_the_rest_is_kept(
    raised: type[BaseException],
) -> None:
    class Zone(dt.tzinfo):
        def utcoffset(self, when: object) -> Any:
            raise raised

    value = {"before": [1], "it": dt.datetime(2026, 1, 1, tzinfo=Zone()), "after": {"a": (2,)}}
    wanted = {"before": [1], "it": {"$opaque": "datetime.datetime"}, "after": {"a": {"$tuple": [2]}}}
    assert encode(value) == wanted


def test_only_an_interrupt_and_no_memory_pass() -> None:
    for raised in (KeyboardInterrupt, MemoryError):

        class Zone(dt.tzinfo):
            def utcoffset(self, when: object, raised: Any = raised) -> Any:
                raise raised

        with pytest.raises(raised):
            encode([dt.datetime(2026, 1, 1, tzinfo=Zone())])


def test_an_object_that_changes_while_it_is_read() -> None:
    held: list[Any] = []
    shared: dict[str, Any] = {"list": held}

    class Zone(dt.tzinfo):
        def utcoffset(self, when: object) -> Any:
            held.append(dt.datetime(2026, 1, 1, tzinfo=self))
            shared[f"k{len(held)}"] = 1
            return dt.timedelta(0)

    held.append(dt.datetime(2026, 1, 1, tzinfo=Zone()))
    assert len(encode(shared)["list"]) == 1
    assert len(held) == 2


def test_a_dict_that_another_thread_changes() -> None:
    shared = {str(number): number for number in range(2000)}
    with changing(shared):
        for _ in range(100):
            found = encode(shared)
            assert {key: found[key] for key in ("0", "1999")} == {"0": 0, "1999": 1999}


class Shade(enum.Enum):
    RED = 1
    CRIMSON = 1

    def __repr__(self) -> str:
        raise Lied

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise Lied


def test_an_alias_is_its_member() -> None:
    assert (
        encode(Shade.CRIMSON)
        == encode(Shade.RED)
        == {"$enum": f"{__name__}.Shade", "name": "RED", "value": 1}
    )


def test_exceptions_keep_cause_and_notes_and_what_python_s_own_hold() -> None:
    def made(note: str, cause: object, name: str) -> Any:
        error = OSError(2, "no such file", name)
        error.add_note(note)
        error.__cause__ = cause  # type: ignore[assignment]
        return encode(error)

    first = made("a", KeyError("k"), "f")
    assert first == {
        "$exception": "FileNotFoundError",
        "args": [2, "no such file"],
        "cause": {"$exception": "KeyError", "args": ["k"]},
        "more": {"filename": "f"},
        "notes": ["a"],
    }
    others = [made("b", KeyError("k"), "f"), made("a", None, "f"), made("a", KeyError("k"), "g")]
    assert len({canonical.dumps(one) for one in (first, *others)}) == 4
    loop = ValueError("x")
    loop.__cause__ = loop
    assert encode(loop)["cause"] == {"$cycle": 1}


def test_a_proxy_is_read_past_the_mapping_behind_it() -> None:
    assert encode(types.MappingProxyType(Endless())) == {"$mappingproxy": {"$opaque": f"{__name__}.Endless"}}
    assert encode(array.array("b", [1])) == {"$array": "b", "data": {"$bytes": "AQ=="}, "width": 1}
    assert encode(pathlib.PurePosixPath("a")) == {"$path": "a", "type": "pathlib.PurePosixPath"}
