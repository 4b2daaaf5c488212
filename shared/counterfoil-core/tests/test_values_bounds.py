"""Depth, parts and bytes of a value are bounded; what exceeds a bound is a typed marker with its size, and counted."""

from __future__ import annotations

import array
import collections
import dataclasses
import hashlib
import sys
import types
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

import counterfoil
from counterfoil import _walk, canonical, values
from counterfoil.capture import Capture
from counterfoil.digest import Reducer
from counterfoil.values import encode


@dataclasses.dataclass
class Item:
    name: Any


class Model(pydantic.BaseModel):
    c: Any = None


def test_cycles_are_named_by_their_distance() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert encode(loop) == [{"$cycle": 1}]
    tree: dict[str, Any] = {"child": {}}
    tree["child"]["parent"] = tree
    assert encode(tree) == {"child": {"parent": {"$cycle": 2}}}
    item = Item("a")
    item.name = item
    assert encode(item)["fields"]["name"] == {"$cycle": 1}
    shared = [1]
    assert encode([shared, shared]) == [[1], [1]]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda one: [one],
        lambda one: {"a": one},
        lambda one: (one,),
        lambda one: {1: one},
        lambda one: Item(one),
        lambda one: frozenset([one]),
        lambda one: Model.model_construct(c=one),
        lambda one: {(one if isinstance(one, (int, tuple)) else 1,): one},
    ],
    ids=["list", "dict", "tuple", "map", "dataclass", "set", "model", "keys"],
)
def test_deep_values_are_cut_and_stay_readable(wrap: Any) -> None:
    value: Any = 1
    for _ in range(300):
        value = wrap(value)
    encoded = encode(value)
    text = canonical.dumps(encoded)
    assert b'"$deep"' in text
    assert canonical.loads(text, max_depth=128) == encoded
    assert values.inexact(encoded)


def test_a_list_of_five_thousand_levels_and_one_that_fits() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert b'{"$deep":"list","size":1}' in canonical.dumps(encode(deep))
    fits: Any = 1
    for _ in range(100):
        fits = [fits]
    assert not values.inexact(encode(fits))


def test_close_to_the_recursion_limit_the_value_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = {"a": [1, {"b": (2, {"c": [3]})}]}
    for _ in range(20):
        value = [value]
    expected = encode(value)
    fresh: list[bool] = []
    real = values.fresh_stack

    def seen(work: Any, *, otherwise: Any) -> Any:
        fresh.append(True)
        return real(work, otherwise=otherwise)

    monkeypatch.setattr(values, "fresh_stack", seen)

    def near(left: int) -> object:
        return encode(value) if left == 0 else near(left - 1)

    assert near(sys.getrecursionlimit() - _frames() - 60) == expected
    assert fresh == [True]


def _frames() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


def web(count: int, kind: Callable[[], Any], put: Callable[[Any, list[Any]], None]) -> Any:
    """Objects each of which holds all of them."""
    made = [kind() for _ in range(count)]
    for one in made:
        put(one, made)
    return made[0]


WEBS: list[Any] = [
    (list, list.extend),
    (dict, lambda one, made: one.update({str(number): other for number, other in enumerate(made)})),
    (dict, lambda one, made: one.update(enumerate(made))),
    (types.SimpleNamespace, lambda one, made: setattr(one, "others", list(made))),
    (lambda: Item(None), lambda one, made: setattr(one, "name", tuple(made))),
    (Model, lambda one, made: setattr(one, "c", {"all": list(made)})),
]


@pytest.mark.parametrize(("kind", "put"), WEBS)
@pytest.mark.parametrize("count", [2, 12, 40])
def test_a_web_of_objects_is_told_in_bounds(kind: Any, put: Any, count: int) -> None:
    value = {"web": web(count, kind, put), "rest": [1, {"a": (2,)}]}
    found = values.encode_counted(value)
    size = _size(found.value)
    assert size < 200_000
    assert found.value["rest"] == [1, {"a": {"$tuple": [2]}}]
    assert values.encode_counted(value).value == found.value
    assert (found.cuts > 0) == (count > 2)
    assert found.cuts == canonical.dumps(found.value).count(b'{"$large"') + _deep(found.value)
    capture = Capture(lambda sha256, data: True)
    reference = capture.reference(value)
    assert reference == Reducer().reference(found.value)
    assert capture.cuts.get(reference.sha256, 0) == found.cuts


def _size(value: object) -> int:
    stack, count = [value], 0
    while stack:
        node = stack.pop()
        count += 1
        stack.extend(node.values() if type(node) is dict else node if type(node) is list else ())
    return count


def _deep(value: object) -> int:
    return canonical.dumps(value).count(b'{"$deep"')


@pytest.mark.parametrize(
    "wrap", [lambda one: [one, one], lambda one: {"a": one, "b": one}, lambda one: (one, one)]
)
def test_a_value_with_more_paths_than_parts_ends(wrap: Any) -> None:
    shared: Any = [1]
    for _ in range(45):
        shared = wrap(shared)
    found = values.encode_counted({"before": [1], "shared": shared})
    assert found.cuts > 0
    assert found.value["before"] == [1]
    assert _size(found.value) <= 3 * values.MAX_NODES


def test_what_is_shared_is_told_as_often_as_it_is_met() -> None:
    shared = {"a": [1, 2]}
    many = [shared] * 60_000
    found = values.encode_counted(many)
    assert found.cuts == 0
    assert found.value == [{"a": [1, 2]}] * 60_000
    assert found.nodes == 120_001


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds a test can reach."""
    for name, bound in {"MAX_NODES": 1000, "MAX_TEXT": 300_000, "MAX_VOLUME": 900_000}.items():
        monkeypatch.setattr(f"counterfoil._walk.{name}", bound)
    monkeypatch.setattr("counterfoil._direct._WALK_NODES", 250)
    monkeypatch.setattr("counterfoil._direct._WALK_VOLUME", 300_000)


def cut(kind: str, data: bytes, head: bytes = b"", size: int | None = None) -> dict[str, Any]:
    """The marker of bytes that are not kept."""
    sha256 = hashlib.sha256(head + data).hexdigest()
    return {"$large": kind, "sha256": sha256, "size": len(data) if size is None else size}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("value", "expected", "cuts"),
    [
        ("a" * 300_000, "a" * 300_000, 0),
        ("a" * 300_001, cut("str", b"a" * 300_001), 1),
        ("\u00e9" * 150_001, cut("str", "\u00e9".encode() * 150_001), 1),
        ("\ud800" * 110_000, cut("str", b"\xed\xa0\x80" * 110_000), 1),
        (bytes(300_001), cut("bytes", bytes(300_001)), 1),
        (bytearray(300_001), cut("bytearray", bytes(300_001)), 1),
        (
            memoryview(bytes(300_001)),
            cut("memoryview", bytes(300_001), b'{"format":"B","shape":[300001]}'),
            1,
        ),
        (16**300_001, cut("int", b"0x1" + b"0" * 300_001, size=300_001), 1),
        (
            ["a" * 280_000] * 3 + ["b" * 280_000],
            ["a" * 280_000] * 3 + [cut("str", b"b" * 280_000)],
            1,
        ),
        ([0] * 20_000, {"$large": "list", "size": 20_000}, 1),
        ({"x": dict.fromkeys(range(20_000)), "y": 1}, {"x": {"$large": "dict", "size": 20_000}, "y": 1}, 1),
        ({"x": set(range(20_000)), "y": 1}, {"x": {"$large": "set", "size": 20_000}, "y": 1}, 1),
        ([[0]] * 1000, {"$large": "list", "size": 1000}, 1),
        ({"a": [[0]] * 997, "b": [1]}, {"a": [[0]] * 997, "b": [1]}, 0),
        ({"a": [[0]] * 999, "b": [[1]]}, {"a": {"$large": "list", "size": 999}, "b": [[1]]}, 1),
        ({"a": {(one,) for one in range(999)}, "b": 1}, {"a": {"$large": "set", "size": 999}, "b": 1}, 1),
        ({"a": {(one,): 1 for one in range(999)}, "b": 1}, {"a": {"$large": "dict", "size": 999}, "b": 1}, 1),
        ({"a": {"b" * 300_001}, "c": 1}, {"a": {"$large": "set", "size": 1}, "c": 1}, 1),
    ],
    ids=range(18),
)
def test_what_exceeds_a_bound_is_a_marker_with_its_size(value: Any, expected: Any, cuts: int) -> None:
    found = values.encode_counted(value)
    assert found.value == expected
    assert canonical.dumps(found.value).count(b'{"$large":') == cuts
    capture = Capture(lambda sha256, data: True)
    reference = capture.reference({"in": value})
    whole = values.encode_counted({"in": value})
    assert reference == Reducer().reference(whole.value)
    assert capture.cuts.get(reference.sha256, 0) == whole.cuts
    assert values.inexact(found.value) == (cuts > 0)


def noise(seed: int, size: int = 300_040) -> bytes:
    return hashlib.shake_128(b"%d" % seed).digest(size)


DISTINCT: list[Any] = [
    lambda one: noise(one).decode("latin-1"),
    lambda one: noise(one).decode("utf-16-le", "surrogatepass"),
    lambda one: "x" * 2_000_000 + str(one),
    lambda one: noise(one),
    lambda one: bytearray(noise(one)),
    lambda one: memoryview(noise(one))[::1],
    lambda one: memoryview(noise(one, 700_000))[::2],
    lambda one: memoryview(noise(1)).cast("I" if one == 1 else "i"),
    lambda one: array.array("i" if one == 1 else "I", noise(1)),
    lambda one: array.array("d", noise(one)),
    lambda one: 16**300_040 + one,
    lambda one: [1, {"a": (noise(one),)}],
    lambda one: collections.deque([noise(one)]),
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("make", DISTINCT, ids=range(len(DISTINCT)))
def test_what_is_cut_with_its_bytes_at_hand_stays_distinct(make: Callable[[int], Any]) -> None:
    first, again, other = (values.encode_counted(make(one)) for one in (1, 1, 2))
    assert first.cuts == other.cuts == 1
    assert canonical.dumps(first.value) == canonical.dumps(again.value) != canonical.dumps(other.value)
    assert b'"sha256"' in canonical.dumps(first.value)


@pytest.mark.usefixtures("small")
def test_a_view_is_cut_as_its_copy_is() -> None:
    data = noise(1, 700_000)
    assert encode(memoryview(data)[::2]) == encode(memoryview(bytes(memoryview(data)[::2])))
    assert "sha256" not in encode(memoryview(data).cast("B", (1000, 700)))


@pytest.mark.usefixtures("small")
def test_what_is_hashed_of_one_value_is_bounded_and_does_not_depend_on_an_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("counterfoil._walk.MAX_HASHED", 700_000)
    found = encode([noise(1), noise(2), noise(3), bytes(99)])
    assert ["sha256" in one for one in found] == [True, True, False, False]
    for wrap in (lambda one: {one}, lambda one: {1: one}, lambda one: frozenset([one])):
        found = encode([wrap(noise(1)), noise(2), noise(3)])
        assert [one.get("size") for one in found] == [1, 300_040, 300_040]
        assert ["sha256" in one for one in found] == [False, True, True]


def test_a_container_of_too_many_parts_is_cut_before_they_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    visits: list[object] = []
    real = _walk._Walk._encoded

    def encoded(self: Any, obj: object, mark: int, depth: int) -> object:
        visits.append(type(obj))
        return real(self, obj, mark, depth)

    monkeypatch.setattr(_walk._Walk, "_encoded", encoded)
    sunk: list[str] = []
    capture = Capture(lambda sha256, data: sunk.append(sha256))
    parts = [{}] * (values.MAX_NODES + 1)
    for value in (parts, dict(enumerate(parts)), tuple(parts), {"a": parts}):
        visits.clear()
        sunk.clear()
        reference = capture.reference(value)
        assert capture.cuts[reference.sha256] == 1
        assert len(visits) <= 4
        assert len(sunk) == 1


@pytest.mark.usefixtures("small")
def test_a_walk_that_must_be_done_again_ends_where_it_was_cut() -> None:
    count = 0

    def form(item: Item, go: Callable[[object], object]) -> object:
        nonlocal count
        count += 1
        return {"$item": go(item.name)}

    before = dict(_walk.registered)
    values.register(Item, form)
    try:
        found = values.encode_counted(["x" * 300_001, [Item(one) for one in range(10)]])
    finally:
        _walk.registered.clear()
        _walk.registered.update(before)
        _walk.dispatch.clear()
        values._messages.clear()
    assert found.cuts == 1
    assert count == 10


@pytest.mark.usefixtures("small")
def test_equal_values_are_cut_alike_in_whatever_order_they_were_made() -> None:
    parts = {name: [[0]] * 400 for name in "abc"} | {name: "x" * 280_000 for name in "defg"}
    names = list(parts)
    first = encode(parts)
    assert b'"$large"' in canonical.dumps(first)
    for turn in range(1, len(names)):
        again = {name: parts[name] for name in names[turn:] + names[:turn]}
        assert canonical.dumps(encode(again)) == canonical.dumps(first)


def test_a_composed_value_counts_the_cuts_of_its_parts() -> None:
    deep: Any = []
    for _ in range(120):
        deep = [deep]
    capture = Capture(lambda sha256, data: True)
    parts = {
        "long": capture.reduce({"deep": deep, "text": "a" * 300}),
        "short": capture.reduce(deep),
        "n": b"1",
    }
    composed = capture.composed(parts)
    assert capture.cuts[composed.sha256] == 2
    told = capture.composed({"text": capture.reduce('{"$deep":1}')})
    assert told.sha256 not in capture.cuts


def test_a_form_of_an_application_is_bounded_too() -> None:
    inner: Any = {"$opaque": "x"}
    for _ in range(200):
        inner = {"$tuple": [inner]}
    assert set(encode(values.Form(inner))) == {"$opaque"}
    forged = values.Form({"$sub": "x", "value": {"$ref": {"media": "m", "sha256": "0" * 64, "size": 1}}})
    assert set(encode([forged])[0]) == {"$opaque"}


def test_what_was_cut_is_counted_in_the_record(lab: Any) -> None:
    deep: Any = []
    for _ in range(120):
        deep = [deep]
    recorder = lab.recorder()
    root = recorder.start("chain", "app", actor=("app",), request=recorder.value({"a": deep, "b": [deep]}))
    recorder.end(root, response=recorder.value([1]))
    recorder.close()
    reader = counterfoil.read(lab.evidence)
    told = {
        entry.body["content"]["phase"]: entry.body["context"].get("cut")
        for entry in reader.records()
        if entry.body["content"]["op"] == "chain"
    }
    assert told == {"start": 2, "end": 2}  # the end repeats the request
    assert lab.verify().verdict == "intact"
    (call,) = [call for call in reader.calls() if call.op == "chain"]
    assert values.inexact(reader.value(call.request))


def test_fifty_megabytes_of_text() -> None:
    """It is one scalar, kept whole, under a digest of its own."""
    text = "Seite 1\n" + "ä" * 25_000_000
    assert encode(text) == text
    assert Reducer().reference(text) != Reducer().reference(text[:-1] + "b")
