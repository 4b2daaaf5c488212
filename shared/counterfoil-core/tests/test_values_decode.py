"""Canonical values are decoded back where they hold all; distinct values have distinct forms, in every process."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import fractions
import ipaddress
import math
import os
import pathlib
import re
import subprocess
import sys
import types
import uuid
import zoneinfo
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil import canonical
from counterfoil.digest import Reducer, digest_of
from counterfoil.values import Form, decode, encode

# -- the written rule, a second time: a key that is equal exactly for values that the rule makes equal ----------------


class Words(dict[str, Any]):
    """A dict with a type of its own."""


class Numbers(list[Any]):
    """A list with a type of its own."""


class Name(str):
    """A text with a type of its own."""

    __slots__ = ()


def key_of(value: Any) -> Any:
    """Hashable; written from ``shared/spec/values.md`` and Python's own equality, not from the encoder."""
    kind = type(value)
    if kind in (bool, type(None)):
        return ("literal", value)
    if kind in (int, float):
        return ("number", "nan") if value != value else ("number", value + 0)
    if kind is memoryview:
        return (kind, value.tobytes(), value.format, value.shape)
    if kind in (str, bytes):
        return (kind, value)
    if kind is bytearray:
        return (kind, bytes(value))
    if kind in (dict, Words, types.MappingProxyType):
        return (kind, frozenset((key_of(one), key_of(other)) for one, other in value.items()))
    if kind is collections.OrderedDict:
        return (kind, tuple((key_of(one), key_of(other)) for one, other in value.items()))
    if kind in (list, tuple, Numbers):
        return (kind, tuple(key_of(one) for one in value))
    if kind is collections.deque:
        return (kind, tuple(key_of(one) for one in value), value.maxlen)
    if kind in (set, frozenset):
        return (kind, frozenset(key_of(one) for one in value))
    if kind in (decimal.Decimal, Name):
        return (kind, str(value))
    if kind is complex:
        return (kind, key_of(value.real), key_of(value.imag))
    if kind in (dt.datetime, dt.time):
        return (kind, value.isoformat(), value.fold, str(getattr(value.tzinfo, "key", None)))
    if kind is slice:
        return (kind, key_of((value.start, value.stop, value.step)))
    if kind is range:
        return (kind, value.start, value.stop, value.step)
    if kind is re.Pattern:
        return (kind, value.pattern, value.flags)
    return (kind, value)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e16, 2.0**53, 1e21, 1e22]),
    st.text(st.characters(codec=None), max_size=3),
    st.sampled_from(["", "a", "$a", "1", "0x1", "NaN", "\ud800", "$tuple"]),
    st.text(max_size=2).map(Name),
    st.binary(max_size=2),
    st.binary(max_size=2).map(bytearray),
    st.binary(max_size=2).map(memoryview),
    st.complex_numbers(),
    st.decimals(),
    st.sampled_from(
        [decimal.Decimal(text) for text in ("1", "1.0", "1E+5", "100000", "-0", "0", "sNaN", "NaN123")]
    ),
    st.fractions(max_denominator=9),
    st.uuids(),
    st.datetimes(
        timezones=st.sampled_from(
            [None, dt.UTC, zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("UTC")]
        )
    ),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.ip_addresses(),
    st.builds(range, st.integers(0, 3), st.integers(0, 3), st.integers(1, 2)),
    st.builds(slice, st.none() | st.integers(0, 2), st.none() | st.integers(0, 2)),
    st.sampled_from([..., NotImplemented, re.compile("a"), re.compile("a", re.IGNORECASE), re.compile(b"a")]),
    st.sampled_from([pathlib.PurePosixPath("a"), pathlib.PureWindowsPath("a"), pathlib.PurePosixPath("a/b")]),
    st.sampled_from([ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("10.0.0.0/8")]),
    st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=1)), zoneinfo.ZoneInfo("UTC")]),
)
HASHABLE = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.text(max_size=2)
    | st.binary(max_size=1)
    | st.sampled_from(["$a", 1.5, (), (1,), "\ud800"])
)


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.dictionaries(HASHABLE, inner, max_size=3)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(Numbers),
        st.builds(collections.deque, st.lists(inner, max_size=2), st.none() | st.just(3)),
        pairs,
        pairs.map(Words),
        pairs.map(collections.OrderedDict),
        pairs.map(types.MappingProxyType),
        st.frozensets(HASHABLE, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(st.frozensets(st.integers(0, 2), max_size=2), max_size=2),
    )


VALUES = st.recursive(SCALARS, _extend, max_leaves=8)


def tried(count: int) -> Any:
    return settings(
        max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )


FEW, MANY = tried(100), tried(5000)


@FEW
@given(st.lists(VALUES, min_size=2, max_size=12))
def test_values_are_equal_by_the_rule_exactly_when_their_references_are(listed: list[Any]) -> None:
    _distinct(listed)


def _distinct(listed: list[Any]) -> None:
    forms = [encode(one) for one in listed]
    keys = {key_of(one) for one in listed}
    texts = {canonical.dumps(one) for one in forms}
    assert len(keys) == len(texts)
    references = {Reducer().reference(one) for one in forms}
    assert len(references) == len(texts)


@FEW
@given(VALUES)
def test_what_is_decoded_encodes_as_it_was_and_is_what_it_was(value: Any) -> None:
    _decoded(value)


def _decoded(value: Any) -> None:
    form = encode(value)
    back = decode(form)
    assert canonical.dumps(encode(back)) == canonical.dumps(form)
    if b'{"$sub' not in canonical.dumps(form):
        # A set in the place of an element, or a key, may be one that Python cannot hash.
        assert key_of(back) == key_of(value)
        assert not isinstance(back, Form)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=3)
    | st.sampled_from(["0x1", "AA==", "NaN", "1E+5"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "a value type $int $num $str $map $bytes $tuple $set $frozenset $decimal $datetime $fraction "
                "$uuid $range $slice $path zone fold $deque maxlen $ordereddict $pattern flags $constant $memoryview "
                "format shape $timedelta $timezone name $zoneinfo $complex $time $date $namespace $ipaddress "
                "$bytearray $msg".split()
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@FEW
@given(JSON)
def test_decoding_never_fails_whatever_the_value_says(value: Any) -> None:
    back = decode(value)
    encode(back)


@pytest.mark.long
@MANY
@given(st.lists(VALUES, min_size=2, max_size=12))
def test_many_values_are_equal_by_the_rule_exactly_when_their_references_are(listed: list[Any]) -> None:
    _distinct(listed)


@pytest.mark.long
@MANY
@given(VALUES)
def test_many_values_are_decoded(value: Any) -> None:
    _decoded(value)


def test_what_names_a_class_of_an_application_stays_a_form() -> None:
    for form in (
        {"$dataclass": "os.system", "fields": {"a": 1}},
        {"$model": "x.Y", "fields": {}},
        {"$enum": "x.Y", "name": "A", "value": 1},
        {"$callable": "os.system"},
        {"$type": "builtins.int"},
        {"$module": "os"},
        {"$msg": {"content": [], "type": "human"}},
        {"$opaque": "x"},
        {"$int": "0x1"},
        {"$num": "1.5"},
        {"$decimal": "1e5"},
        {"$set": [1, 1]},
        {"$map": [[1, 2], [1, 3]]},
        {"$namedtuple": "x.Y", "fields": {"a": 1}},
    ):
        made = decode(form)
        assert type(made) is Form
        assert made.value == form
        assert made == decode(dict(form))
        assert hash(made) == hash(decode(dict(form)))
        assert encode([made]) == [form]


@pytest.mark.parametrize("letter", ["a", b"a"])
def test_a_long_pattern_is_not_compiled(letter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence is somebody else's: a few kilobytes of it would keep the compiler busy for minutes."""
    last, longer = re.compile(letter * 256), re.compile(letter * 257)
    form = encode(longer)
    assert decode(encode(last)) == last
    compiled: list[object] = []
    monkeypatch.setattr(re, "compile", lambda *arguments: compiled.append(arguments))
    assert decode(form) == Form(form)
    assert encode(decode(form)) == form
    assert compiled == []


def test_numbers_that_are_one() -> None:
    assert digest_of(encode(1)) == digest_of(encode(1.0))
    assert digest_of(encode(0)) == digest_of(encode(-0.0)) == digest_of(encode(0.0))
    assert digest_of(encode(True)) != digest_of(encode(1))
    assert digest_of(encode(math.nan)) == digest_of(encode(-math.nan))


def test_an_exponent_does_not_follow_the_context() -> None:
    value = decimal.Decimal("1e5")
    with decimal.localcontext() as context:
        context.capitals = 0
        assert encode(value) == {"$decimal": "1E+5"}
    assert encode(value) == {"$decimal": "1E+5"}


PROGRAM = r"""
import collections, datetime, decimal, enum, fractions, hashlib, ipaddress, pathlib, re, sys, types, uuid, zoneinfo
import random, dataclasses, typing
sys.path.insert(0, sys.argv[1])
from counterfoil import canonical
from counterfoil.values import encode
class Shade(enum.Flag):
    A = 1
    B = 2
    C = 4
@dataclasses.dataclass
class Item:
    a: object
rng = random.Random(7)
words = [f"word {n}" for n in range(40)]
def some():
    return rng.sample(words, rng.randrange(1, 9))
makers = [
    lambda: set(some()), lambda: frozenset(some()), lambda: dict.fromkeys(some(), frozenset(some())),
    lambda: {(one, frozenset(some())): one for one in some()}, lambda: Item(set(some())),
    lambda: {frozenset(some()) for _ in range(4)}, lambda: types.SimpleNamespace(**{"a": set(some())}),
    lambda: Shade.A | Shade.C, lambda: ValueError(set(some())), lambda: pathlib.PurePosixPath("/".join(some())),
    lambda: (re.compile("a|b", re.I), uuid.UUID(int=rng.getrandbits(128)), decimal.Decimal(rng.random())),
    lambda: [datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")), datetime.timedelta(rng.random())],
    lambda: typing.Union[int, str, None, float], lambda: dict[str, list[int]], lambda: {object(), Item(1).__class__},
    lambda: fractions.Fraction(rng.randrange(99), 7), lambda: ipaddress.ip_address(rng.getrandbits(32)),
    lambda: pathlib.Path("x"), lambda: len, lambda: {b: (b, [b]) for b in map(str.encode, some())},
]
for number in range(200):
    print(hashlib.sha256(canonical.dumps(encode(makers[number % len(makers)]()))).hexdigest())
"""


@pytest.mark.parametrize("seeds", [("0", "1", "2", "4711", "99999")])
def test_two_hundred_values_are_the_same_in_every_process(seeds: tuple[str, ...]) -> None:
    import counterfoil

    source = str(pathlib.Path(counterfoil.__file__).parents[1])
    answers = set()
    for seed in seeds:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, source]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        answers.add(done.stdout)
    assert len(answers) == 1
    assert len(answers.pop().split()) == 200


def test_fractions_and_identifiers_are_what_they_were() -> None:
    for value in (fractions.Fraction(1, 3), uuid.UUID(int=5)):
        assert decode(encode(value)) == value
