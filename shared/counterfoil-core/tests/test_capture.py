"""The fast way to a reference gives what the written rule gives, and never cites bytes that were not handed over."""

from __future__ import annotations

import array
import random
import sys
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from busy import changing, together
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil import canonical, values
from counterfoil.capture import Capture
from counterfoil.digest import MEDIA_FOLD, Reducer, Reference, fold_nodes, references_in, sha256_hex

pytestmark = pytest.mark.usefixtures("forms")


class Message:
    """Stands for a framework's message: mutable, with an id that does not count."""

    def __init__(self, text: object, **more: object) -> None:
        self.text = text
        self.more = more


class Reply(Message):
    pass


def _form(message: Message, go: Callable[[object], object]) -> object:
    return {"$msg": {"more": go(message.more), "text": go(message.text), "type": type(message).__name__}}


def _key(message: Message) -> object:
    if type(message.text) is str and not message.more:
        return (type(message).__name__, message.text)
    return None


@pytest.fixture(autouse=True)
def _messages(forms: None) -> None:
    values.register(Message, _form, key=_key)


class Store(dict[str, bytes]):
    """A sink that checks every blob: under its digest, and what it cites must be there already."""

    def __call__(self, sha256: str, data: bytes) -> bool:
        assert sha256_hex(data) == sha256
        for ref in cited(data):
            assert ref.sha256 in self, "cited before it was stored"
            assert len(self[ref.sha256]) == ref.size
        self[sha256] = data
        return True


def cited(data: bytes) -> list[Reference]:
    """References in a stored text that is a composite; texts of strings and bytes cite nothing."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return []
    found = list(references_in(value)) if type(value) in (dict, list) else []
    if type(value) is dict and value.keys() == {"add", "n", "parent"} and value["parent"]:
        found.append(Reference(value["parent"], -1, MEDIA_FOLD))
    return [ref for ref in found if ref.size >= 0]


def expected(obj: object) -> Reference:
    return Reducer().reference(values.encode(obj))


def check(obj: object, capture: Capture | None = None, store: Store | None = None) -> None:
    store = Store() if store is None else store
    capture = Capture(store) if capture is None else capture
    reference = capture.reference(obj)
    assert reference == expected(obj)
    assert reference.sha256 in store
    assert capture.reduce(obj) == Reducer().reduce(values.encode(obj))


LONG = "long text with \u00e9 and \U0001f600, " * 20

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.sampled_from([1e16, -1e16, 1e21, 5e-324, -0.0, 0.0]),
    st.text(st.characters(codec=None), max_size=8),
    st.sampled_from(
        ["", "$a", LONG, LONG + "x", "y" * 85, "y" * 86, "y" * 255, "y" * 256, "é" * 127, "é" * 128, "\ud800"]
    ),
    st.binary(max_size=8),
    st.sampled_from([b"z" * 191, b"z" * 255, b"z" * 256, b"z" * 300]),
)
KEYS = st.one_of(
    st.sampled_from(["a", "b", "messages", "$ref", "$msg", "é", "\uffff", "\U00010000"]),
    st.integers(0, 2),
    st.none(),
)


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.tuples(inner, inner),
        st.builds(Message, inner),
        st.builds(Reply, inner, extra=inner),
        st.lists(st.builds(Message, inner), min_size=1, max_size=4),
        st.frozensets(st.integers(0, 5), max_size=3),
    )


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.recursive(SCALARS, _extend, max_leaves=30))
def test_the_fast_way_equals_the_rule(value: Any) -> None:
    check(value)


def _random(rng: random.Random, depth: int, pool: list[Any]) -> Any:
    kind = rng.randrange(12 if depth else 6)
    match kind:
        case 0:
            return rng.choice([None, True, 0, -1, 2**53, 1.5, 1e17, float("inf")])
        case 1:
            return rng.choice(
                ["", "short", LONG, LONG[: rng.randrange(len(LONG))], "\ud800" * rng.randrange(3)]
            )
        case 2:
            return rng.randbytes(rng.choice([0, 3, 255, 256, 1000]))
        case 3 if pool:
            return rng.choice(pool)
        case 3 | 4 | 5:
            return rng.randrange(-5, 5)
        case 6 | 7:
            made: Any = {}
            pool.append(made)
            for _ in range(rng.randrange(5)):
                made[rng.choice(["a", "b", "c", "$d", "é", 7])] = _random(rng, depth - 1, pool)
        case 8 | 9:
            made = []
            pool.append(made)
            made.extend(_random(rng, depth - 1, pool) for _ in range(rng.randrange(5)))
        case 10:
            made = Message(None)
            pool.append(made)
            made.text = _random(rng, depth - 1, pool)
        case _:
            made = [Message(LONG[: rng.randrange(len(LONG))]) for _ in range(rng.randrange(1, 5))]
            pool.append(made)
    return made


def test_shared_and_cyclic_objects_of_one_capture() -> None:
    store = Store()
    capture = Capture(store)
    for seed in range(600):
        check(_random(random.Random(seed), 5, []), capture, store)


@pytest.mark.parametrize("depth", [1, 58, 59, 60, 61, 62, 98, 99, 100, 101, 102, 160, 5000])
@pytest.mark.parametrize(
    "leaf",
    [1, LONG, (1, (2,)), [Message("a")], {1: {2: 3}}, Message([[1]])],
    ids=lambda one: type(one).__name__,
)
def test_every_depth(depth: int, leaf: object) -> None:
    for wrap in (lambda one: [one], lambda one: {"a": one}, lambda one: [{"a": one}]):
        value = leaf
        for _ in range(depth):
            value = wrap(value)
        check(value)


def test_a_message_seen_at_the_top_and_again_far_down() -> None:
    deep: Any = "end"
    for _ in range(80):
        deep = [deep]
    values.register(Message, _form, key=lambda message: id(message))
    message = Message(deep)
    store = Store()
    capture = Capture(store)
    check([message], capture, store)
    nested: Any = [message]
    for _ in range(14):
        nested = [nested]
    check(nested, capture, store)
    for _ in range(30):
        nested = [nested]
    check(nested, capture, store)


def test_more_paths_than_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil._walk.MAX_NODES", 2000)
    monkeypatch.setattr("counterfoil._direct._WALK_NODES", 1000)
    shared: Any = [1]
    for _ in range(40):
        shared = [shared, shared]
    check(shared)
    check({"a": shared, "b": (shared,)})
    check([[number] for number in range(1500)])


def test_one_history_has_one_reference_however_it_was_reached() -> None:
    texts = [f"message {number} " * (number % 40) for number in range(30)]
    at_once = Capture(Store()).reference([Message(text) for text in texts])

    store = Store()
    appended = Capture(store)
    history: list[Message] = []
    for text in texts:
        history.append(Message(text))
        last = appended.reference(history)
    assert last == at_once

    trimmed = Capture(Store())
    trimmed.reference([Message("older"), *[Message(text) for text in texts]])
    assert trimmed.reference([Message(text) for text in texts]) == at_once
    assert at_once.media == MEDIA_FOLD

    elements = [Reducer().reduce(values.encode(Message(text))) for text in texts]
    *_, (sha256, node) = fold_nodes(elements, 1, "")
    assert (at_once.sha256, at_once.size) == (sha256, len(node))
    assert Reducer().fold_from(elements[20:], 21, list(fold_nodes(elements, 1, ""))[19][0]) == at_once


def test_a_growing_history_stores_each_message_once() -> None:
    given: list[str] = []
    capture = Capture(lambda sha256, data: given.append(sha256))
    history = []
    for number in range(50):
        history.append(Message(f"{number} " * 200))
        capture.reference(history)
    # For each: the text, the object in the message, the message and its node.
    assert len(given) <= 4 * 50
    assert len(given) == len(set(given))


def test_a_message_that_changed_is_read_again() -> None:
    message = Message("first")
    capture = Capture(Store())
    before = capture.reference([message])
    message.text = "second"
    after = capture.reference([message])
    assert before != after
    assert after == expected([message])


def test_an_empty_list_and_a_mixed_list_are_no_folds() -> None:
    for value in ([], [Message("a"), 1], [Message("a"), [Message("b")]], (Message("a"),)):
        check(value)
        assert expected(value).media != MEDIA_FOLD


def test_close_to_the_recursion_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = {"a": [1, {"b": [LONG, (2, {"c": Message([3])})]}]}
    for _ in range(30):
        value = [value]

    def near(left: int) -> None:
        if left:
            near(left - 1)
        else:
            assert Capture(lambda sha256, data: None).reference(value) == wanted

    wanted = expected(value)
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    for room in (40, 60, 80, 100, 150):
        near(sys.getrecursionlimit() - depth - room)


# -- refused blobs ----------------------------------------------------------------------------------------------------


class Gate:
    """A sink that can be shut, as the recorder's is while no log is open."""

    def __init__(self) -> None:
        self.store: dict[str, bytes] = {}
        self.open = True
        self.capture = Capture(self.take, self.has)

    def take(self, sha256: str, data: bytes) -> bool:
        if self.open:
            self.store[sha256] = data
        else:
            self.capture.forget()
        return self.open

    def has(self, sha256: str) -> bool:
        return sha256 in self.store

    def whole(self, ref: Reference) -> bool:
        """Whether everything under a reference is stored."""
        if ref.sha256 not in self.store:
            return False
        return all(self.whole(one) for one in cited(self.store[ref.sha256]))

    def trusted(self, ref: Reference) -> bool:
        """What the recorder asks before it cites a reference."""
        return self.has(ref.sha256) and ref.sha256 not in self.capture.hollow


def test_what_was_refused_is_given_again() -> None:
    gate = Gate()
    value = {"a": LONG, "b": [Message(LONG), Message("c" * 300)]}
    gate.open = False
    reference = gate.capture.reference(value)
    assert not gate.trusted(reference)
    gate.open = True
    assert gate.capture.reference(value) == reference
    assert gate.trusted(reference)
    assert gate.whole(reference)


@pytest.mark.parametrize("refused", range(8))
def test_whatever_was_refused_in_between_no_hollow_reference_is_trusted(refused: int) -> None:
    gate = Gate()
    value = {"a": LONG, "b": [Message(LONG * 2), Message("c" * 300)], "c": [LONG * 3]}
    seen = 0
    real = gate.take

    def take(sha256: str, data: bytes) -> bool:
        nonlocal seen
        gate.open = seen % 8 != refused
        seen += 1
        return real(sha256, data)

    gate.capture._sink = take
    gate.capture._reducer._sink = take
    for _ in range(4):
        reference = gate.capture.reference(value)
        assert not gate.trusted(reference) or gate.whole(reference)
    gate.capture._sink = gate.capture._reducer._sink = real
    gate.open = True
    reference = gate.capture.reference(value)
    assert gate.trusted(reference)
    assert gate.whole(reference)


def test_parts_of_another_log_make_a_composed_value_hollow() -> None:
    gate = Gate()
    part = gate.capture.reduce([Message(LONG)])
    assert gate.trusted(gate.capture.composed({"messages": part}))
    gate.store.clear()
    gate.capture.forget()
    composed = gate.capture.composed({"messages": part})
    assert gate.has(composed.sha256)
    assert not gate.trusted(composed)
    assert gate.trusted(gate.capture.composed({"messages": gate.capture.reduce([Message(LONG)])}))


def test_a_log_opened_in_the_middle_gets_everything() -> None:
    gate = Gate()
    gate.open = False
    real = gate.take
    calls = 0

    def take(sha256: str, data: bytes) -> bool:
        nonlocal calls
        calls += 1
        if calls == 3:
            gate.open = True
            gate.capture.forget()
        return real(sha256, data)

    gate.capture._sink = gate.capture._reducer._sink = take
    reference = gate.capture.reference({"a": LONG, "b": LONG * 2, "c": LONG * 3, "d": LONG * 4})
    assert gate.whole(reference)
    assert gate.trusted(reference)


# -- content memos ----------------------------------------------------------------------------------------------------


def test_cached_settings_are_told_apart() -> None:
    capture = Capture(Store())
    made: list[Any] = [
        {"a": 1},
        {"a": True},
        {"a": 1.0},
        {"a": b"\x01"},
        {"a": bytearray(b"\x01")},
        {"a": array.array("b", [1])},
        {"a": array.array("B", [1])},
        {"a": (1,)},
        {"a": [1]},
        {"a": {1}},
        {"a": "1"},
        {1: "a"},
        {"a": Message("x")},
        {"a": None},
        {"a": "\ud800"},
        {"a": 2**70},
    ]
    for _ in range(3):
        for value in made:
            assert capture.cached(value) == Reducer().reduce(values.encode(value)), value


def test_a_message_key_never_meets_cached_bytes() -> None:
    import marshal

    values.register(Message, _form, key=lambda message: marshal.dumps({"a": 1}, 2))
    capture = Capture(Store())
    assert capture.cached({"a": 1}) == b'{"a":1}'
    assert capture.reduce([Message("x")]) == Reducer().reduce(values.encode([Message("x")]))


def test_composed_equals_the_whole() -> None:
    capture = Capture(Store())
    whole = {"messages": [Message(LONG)], "model": "m", "tools": [{"name": "t" * 300}]}
    parts = {name: capture.reduce(part) for name, part in whole.items()}
    assert capture.composed(parts) == expected(whole)


def test_the_memos_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.capture._MEMO_BYTES", 10_000)
    capture = Capture(Store())
    for number in range(200):
        capture.reference([Message(f"{number} " * 100)])
        capture.cached({"a": f"{number} " * 100})
        assert capture._spent <= 12_000
        assert len(capture._elements) + len(capture._texts) + len(capture._cached) < 100


# -- threads ----------------------------------------------------------------------------------------------------------


def test_threads_that_share_a_capture_agree() -> None:
    store: dict[str, bytes] = {}
    capture = Capture(lambda sha256, data: store.__setitem__(sha256, data))
    history = [Message(f"{number} " * 150) for number in range(60)]
    wanted = [expected(history[:end]) for end in range(1, 60)]
    wrong: list[int] = []

    def work() -> None:
        for end in range(1, 60):
            reference = capture.reference(history[:end])
            if reference != wanted[end - 1] or reference.sha256 not in store:
                wrong.append(end)

    together(work, 8)
    assert wrong == []


def test_a_dict_that_another_thread_changes_is_read_without_an_error() -> None:
    capture = Capture(lambda sha256, data: None)
    state: dict[str, Any] = {str(number): number for number in range(300)}
    with changing(state):
        for _ in range(300):
            assert canonical.loads(capture.reduce({"state": dict(state)}), max_depth=9)
            capture.reference(state)
