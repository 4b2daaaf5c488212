"""Every Python value has one canonical value: by the written rule, in every process, whatever the object does."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import threading
import types
import uuid
import zoneinfo
from collections.abc import Iterator
from typing import Any, NamedTuple

import pydantic
import pytest

from counterfoil import canonical, values
from counterfoil.digest import Reducer, digest_of
from counterfoil.values import encode

HERE = "test_values"


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = "r"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


class Bits(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Item:
    name: str
    price: float = 1.5


@dataclasses.dataclass(slots=True)
class Slim:
    n: int


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int
    b: list[str] = []
    _private: int = 7


class Account(pydantic.BaseModel):
    password: pydantic.SecretStr


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Mapping(dict[str, Any]):
    pass


class Plain:
    def __init__(self) -> None:
        self.secret = 1


def function() -> None: ...


EXACT: list[tuple[object, object]] = [
    (None, None),
    (True, True),
    (0, 0),
    (-1, -1),
    (2**53 - 1, 9007199254740991),
    (-(2**53) + 1, -9007199254740991),
    (2**53, {"$int": "0x20000000000000"}),
    (-(2**53), {"$int": "-0x20000000000000"}),
    (10**5000, {"$int": hex(10**5000)}),
    (1.5, 1.5),
    (-0.0, -0.0),
    (5e-324, 5e-324),
    (1e16, {"$num": "0x1.1c37937e08000p+53"}),
    (9007199254740993.0, {"$num": "0x1.0000000000000p+53"}),
    (9007199254740991.0, 9007199254740991.0),
    (1e21, 1e21),
    (1.7976931348623157e308, 1.7976931348623157e308),
    (math.nan, {"$num": "NaN"}),
    (math.inf, {"$num": "Infinity"}),
    (-math.inf, {"$num": "-Infinity"}),
    ("", ""),
    ("é\U0001f600", "é\U0001f600"),
    ("\ud800", {"$str": "7aCA"}),
    ("\ud83d\ude00", {"$str": "7aC97biA"}),
    (b"", {"$bytes": ""}),
    (b"\x00\xff", {"$bytes": "AP8="}),
    (bytearray(b"a"), {"$bytearray": {"$bytes": "YQ=="}}),
    (memoryview(b"abcd")[::2], {"$memoryview": {"$bytes": "YWM="}, "format": "B", "shape": [2]}),
    ([], []),
    ([1, [2]], [1, [2]]),
    ((), {"$tuple": []}),
    ((1, (2,)), {"$tuple": [1, {"$tuple": [2]}]}),
    (Point(1, 2), {"$namedtuple": f"{HERE}.Point", "fields": {"x": 1, "y": 2}}),
    ({}, {}),
    ({"a": 1}, {"a": 1}),
    ({"$a": 1}, {"$map": [["$a", 1]]}),
    ({1: "a", "1": "b"}, {"$map": [["1", "b"], [1, "a"]]}),
    ({None: 1, True: 2, (1,): 3}, {"$map": [[None, 1], [True, 2], [{"$tuple": [1]}, 3]]}),
    ({"\ud800": 1}, {"$map": [[{"$str": "7aCA"}, 1]]}),
    (Mapping(a=1), {"$sub": f"{HERE}.Mapping", "value": {"a": 1}}),
    (collections.OrderedDict(b=1, a=2), {"$ordereddict": [["b", 1], ["a", 2]]}),
    (types.MappingProxyType({"a": 1}), {"$mappingproxy": {"a": 1}}),
    (set(), {"$set": []}),
    ({"b", "a", 1}, {"$set": ["a", "b", 1]}),
    (frozenset({(2,), (1,)}), {"$frozenset": [{"$tuple": [1]}, {"$tuple": [2]}]}),
    (collections.deque([1, 2], maxlen=2), {"$deque": [1, 2], "maxlen": 2}),
    ({"a": 1}.keys(), {"$keys": ["a"]}),
    ({"a": 1}.values(), {"$values": [1]}),
    ({"a": 1}.items(), {"$items": [{"$tuple": ["a", 1]}]}),
    (range(1, 9, 2), {"$range": [1, 9, 2]}),
    (types.SimpleNamespace(a=[1]), {"$namespace": {"a": [1]}}),
    (1 + 2j, {"$complex": [1.0, 2.0]}),
    (decimal.Decimal("1.10"), {"$decimal": "1.10"}),
    (decimal.Decimal("NaN"), {"$decimal": "NaN"}),
    (fractions.Fraction(2, 6), {"$fraction": [1, 3]}),
    (uuid.UUID(int=255), {"$uuid": "000000000000000000000000000000ff"}),
    (dt.datetime(2026, 1, 2, 3, 4, 5, 6), {"$datetime": "2026-01-02T03:04:05.000006"}),
    (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), {"$datetime": "2026-01-02T00:00:00+00:00"}),
    (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
    (dt.time(1, 2), {"$time": "01:02:00"}),
    (dt.timedelta(days=-1, seconds=2, microseconds=3), {"$timedelta": [-1, 2, 3]}),
    (pathlib.PurePosixPath("/a/b"), {"$path": "/a/b", "type": "pathlib.PurePosixPath"}),
    (Colour.RED, {"$enum": f"{HERE}.Colour", "name": "RED", "value": "r"}),
    (Level.HIGH, {"$enum": f"{HERE}.Level", "name": "HIGH", "value": 3}),
    (Word.YES, {"$enum": f"{HERE}.Word", "name": "YES", "value": "yes"}),
    (Bits.A | Bits.B, {"$enum": f"{HERE}.Bits", "name": "A|B", "value": 3}),
    (Item("a"), {"$dataclass": f"{HERE}.Item", "fields": {"name": "a", "price": 1.5}}),
    (Slim(2), {"$dataclass": f"{HERE}.Slim", "fields": {"n": 2}}),
    (Model(a=1, c=2), {"$model": f"{HERE}.Model", "fields": {"a": 1, "b": [], "c": 2}}),
    (
        Account(password=pydantic.SecretStr("hidden")),
        {
            "$model": f"{HERE}.Account",
            "fields": {
                "password": {"$redacted": {"rule": "secret type", "type": "pydantic.types.SecretStr"}}
            },
        },
    ),
    (ValueError("bad", 1), {"$exception": "ValueError", "args": ["bad", 1]}),
    (
        ExceptionGroup("g", [KeyError("k")]),
        {
            "$exception": "ExceptionGroup",
            "args": ["g", [{"$exception": "KeyError", "args": ["k"]}]],
        },
    ),
    (Text("a"), {"$substr": f"{HERE}.Text", "value": "a"}),
    (Number(2), {"$subint": f"{HERE}.Number", "value": 2}),
    (Real(0.5), {"$subfloat": f"{HERE}.Real", "value": 0.5}),
    (int, {"$type": "builtins.int"}),
    (Item, {"$type": f"{HERE}.Item"}),
    (len, {"$callable": "builtins.len"}),
    (function, {"$callable": f"{HERE}.function"}),
    (Plain().__init__, {"$callable": f"{HERE}.Plain.__init__"}),  # type: ignore[misc]
    (math, {"$module": "math"}),
    (Plain(), {"$opaque": f"{HERE}.Plain"}),
    (threading.Lock(), {"$opaque": "_thread.lock"}),
    (object(), {"$opaque": "object"}),
    (..., {"$constant": "Ellipsis"}),
    (
        functools.partial(int, base=2),
        {"$partial": {"$type": "builtins.int"}, "args": [], "keywords": {"base": 2}},
    ),
]


@pytest.mark.parametrize(("value", "expected"), EXACT, ids=lambda one: type(one).__name__)
def test_the_rule(value: object, expected: object) -> None:
    encoded = encode(value)
    assert _named(encoded) == _named(expected)
    assert type(encoded) is type(expected)
    text = canonical.dumps(encoded)
    assert canonical.loads(text, max_depth=200) is not Ellipsis
    assert canonical.dumps(canonical.loads(text, max_depth=200)) == text


def _named(encoded: object) -> str:
    """As JSON text, in which 1, True and 1.0 differ; module names of this file without its package."""
    return json.dumps(encoded, sort_keys=True).replace(f"{__name__}.", f"{HERE}.")


def test_distinct_values_have_distinct_references() -> None:
    seen: dict[tuple[str, str], object] = {}
    for value in [one for one, form in EXACT if not values.inexact(form)]:
        reference = Reducer().reference(encode(value))
        key = (reference.sha256, reference.media)
        # What has one reference is equal for Python as well: 0 and -0.0, a dict and its subclass, bytes and bytearray.
        assert key not in seen or seen[key] == value, (seen[key], value)
        seen[key] = value


def test_a_fold_and_a_zone_are_told() -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    first = dt.datetime(2026, 10, 25, 2, 30, tzinfo=zone)
    second = first.replace(fold=1)
    assert encode(first) == {"$datetime": "2026-10-25T02:30:00+02:00", "zone": "Europe/Berlin"}
    assert encode(second) == {"$datetime": "2026-10-25T02:30:00+01:00", "zone": "Europe/Berlin", "fold": 1}
    assert encode(dt.datetime(2026, 10, 25, 2, 30, fold=1)) != encode(dt.datetime(2026, 10, 25, 2, 30))


def test_a_datetime_finer_than_microseconds_keeps_them() -> None:
    class Stamp(dt.datetime):
        nanosecond = 7

    assert encode(Stamp(2026, 1, 1))["value"] == {"$datetime": "2026-01-01T00:00:00", "nanosecond": 7}


def test_nothing_is_consumed() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        yield 2

    async def later() -> int:
        return 1

    made: list[Any] = [
        numbers(),
        iter([1, 2]),
        map(str, [1, 2]),
        zip([1], [2], strict=True),
        itertools.count(),
    ]
    before = [encode(one) for one in made]
    assert all(list(one) == ["$opaque"] for one in before)
    assert [next(one) for one in made] == [1, 1, "1", (1, 2), 0]
    coroutine = later()
    assert encode(coroutine) == {"$opaque": "coroutine"}
    assert asyncio.run(coroutine) == 1


def test_a_namedtuple_whose_fields_would_forge_a_reference() -> None:
    forged = type("Forged", (tuple,), {"_fields": ("$ref",)})([{"media": "m", "sha256": "0" * 64, "size": 1}])
    assert encode(forged)["fields"] == {"$map": [["$ref", {"media": "m", "sha256": "0" * 64, "size": 1}]]}


def test_user_keys_never_pass_for_forms() -> None:
    for form in ({"$bytes": "AA=="}, {"$msg": {}}, {"$ref": {"media": "m", "sha256": "0" * 64, "size": 1}}):
        assert list(encode(form)) == ["$map"]
        assert digest_of(encode(form)) != digest_of(form)


PROGRAM = """
import sys, json
sys.path.insert(0, sys.argv[1])
import importlib.util
spec = importlib.util.spec_from_file_location("test_values", sys.argv[2])
module = importlib.util.module_from_spec(spec)
sys.modules["test_values"] = module
spec.loader.exec_module(module)
from counterfoil import canonical
from counterfoil.digest import Reducer
from counterfoil.values import encode
many = {f"key {i}": {str(j) for j in range(20)} | {j for j in range(20)} for i in range(20)}
out = [Reducer().reference(encode(value)).sha256 for value, _ in module.EXACT]
print(json.dumps([*out, Reducer().reference(encode(many)).sha256]))
"""


def test_every_process_agrees() -> None:
    import counterfoil

    source = str(pathlib.Path(counterfoil.__file__).parents[1])
    answers = set()
    for seed in ("0", "1", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, source, __file__]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        answers.add(done.stdout)
    assert len(answers) == 1
    assert len(json.loads(answers.pop())) == len(EXACT) + 1


def test_an_adapter_s_form_counts_for_subclasses_and_comes_first(forms: None) -> None:
    class Base(dict[str, Any]):
        pass

    class Derived(Base):
        pass

    values.register(Base, lambda obj, go: {"$msg": {"text": go(dict(obj))}}, key=lambda obj: None)
    assert encode(Derived(a=1)) == {"$msg": {"text": {"a": 1}}}
    assert values.message_key(Derived) is not None
    assert values.message_key(dict) is None
    values.register(Derived, lambda obj, go: {"$derived": 1})
    assert encode(Derived()) == {"$derived": 1}
    assert values.message_key(Derived) is None
    assert values.message_key(Base) is not None


def test_an_adapter_s_form_that_fails_is_opaque(forms: None) -> None:
    class Broken:
        pass

    def fail(obj: object, go: Any) -> object:
        raise KeyError("field")

    values.register(Broken, fail)
    assert encode([Broken()]) == [{"$opaque": f"{__name__}.{Broken.__qualname__}"}]
