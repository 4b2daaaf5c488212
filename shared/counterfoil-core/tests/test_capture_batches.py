"""Long lists are written batch by batch: the same bytes as one by one, in the room and the time of their text."""

from __future__ import annotations

import base64
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785

from counterfoil import _jcs, values
from counterfoil._batches import BATCH, FEW
from counterfoil._direct import Direct
from counterfoil.capture import Capture
from counterfoil.digest import MEDIA_BYTES, MEDIA_JSON, MEDIA_TEXT, Reducer, sha256_hex


def one_by_one(value: Any) -> bytes:
    """Reduced form of a canonical value by the letter of the rule, without messages."""
    if type(value) is str and len(value.encode()) >= 256:
        return _ref(MEDIA_TEXT, value.encode())
    if type(value) is dict and value.keys() == {"$bytes"}:
        data = base64.b64decode(value["$bytes"])
        return rfc8785.dumps(value) if len(data) < 256 else _ref(MEDIA_BYTES, data)
    if type(value) is dict:
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        text = b"{" + b",".join(rfc8785.dumps(key) + b":" + one_by_one(value[key]) for key in keys) + b"}"
    elif type(value) is list:
        text = b"[" + b",".join(map(one_by_one, value)) + b"]"
    else:
        return rfc8785.dumps(value)
    return text if len(text) < 256 else _ref(MEDIA_JSON, text)


def _ref(media: str, data: bytes) -> bytes:
    return rfc8785.dumps({"$ref": {"media": media, "sha256": sha256_hex(data), "size": len(data)}})


ODD: list[Any] = [
    *(2**53, -(2**53), 2**53 - 1, 2.0**53, -(2.0**53), 1e16, 1e20, 1e21, 1e22, 5e-324, 1e-7, 1e-5, 123456789012345.6),
    *(float("nan"), float("inf"), float("-inf"), -0.0, 0.0, True, False, None, 1e300, 2.0**52 + 0.5, 1e15, 10**30),
    *("", "\ud800", "\u00e9", "\uffff\U00010000", "x" * 63, "x" * 255, "x" * 256, "\u00e9" * 127, "\u00e9" * 128),
    *("\U0001f600" * 63, "\U0001f600" * 64, "\u20ac" * 85, "\u20ac" * 86, "\x00\"\\\x1f", "$a"),
    *(b"", b"abc", b"z" * 255, b"z" * 256, (), (1, 2.5), [], {}, {"a": 1.5}, {"$x": 1}, {1: 2.0}, [[1e16]]),
]  # fmt: skip


def made(rng: random.Random, size: int) -> list[Any]:
    """A long list: numbers, or short texts, or both, with few odd elements or many."""
    plain: list[Callable[[], Any]] = [
        lambda: rng.uniform(-1e6, 1e6),
        lambda: rng.randrange(-(10**9), 10**9),
        lambda: rng.choice([float(rng.randrange(10**6)), rng.random() * 10.0 ** rng.randrange(-12, 25)]),
        lambda: "".join(rng.choices('ab\u00e9\u20ac\U0001f600\ue000"\\\n', k=rng.randrange(70))),
        lambda: rng.choice([None, True, False]),
    ]
    kinds = rng.sample(plain, rng.randrange(1, len(plain)))
    odd = rng.choice([0.0, 0.0, 0.002, 0.3])
    return [rng.choice(ODD) if rng.random() < odd else rng.choice(kinds)() for _ in range(size)]


SIZES = [0, 1, FEW - 1, FEW, FEW + 1, 100, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 3 * BATCH + 7]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", SIZES)
def test_long_lists_have_the_bytes_of_the_rule(seed: int, size: int) -> None:
    rng = random.Random(seed * 1000 + size)
    found = made(rng, size)
    named = {
        f"k{number:x}" if rng.random() < 0.999 else f"\ue000{number}": one for number, one in enumerate(found)
    }
    for value in (
        found,
        tuple(found),
        named,
        [found, found[:40]],
        {"a": found},
        [{"x": one} for one in found],
    ):
        expected = one_by_one(values.encode(value))
        assert Capture(lambda sha256, data: None).reduce(value) == expected
        assert Reducer().reduce(values.encode(value)) == expected


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("at", [0, BATCH - 1, BATCH, BATCH + 20])
def test_one_odd_element_among_many(odd: Any, at: int) -> None:
    for filler in (1.5, 7, "caf\u00e9", None):
        value: list[Any] = [filler] * (BATCH + 21)
        value[at] = odd
        expected = one_by_one(values.encode(value))
        assert Capture(lambda sha256, data: None).reduce(value) == expected
        assert Reducer().reduce(values.encode(value)) == expected


def test_the_same_without_the_fast_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    value = [*[1.5, "\u00e9", 3] * 300, 1e16, "\ud800"]
    expected = one_by_one(values.encode(value))
    monkeypatch.setattr(_jcs, "_enabled", False)
    assert Capture(lambda sha256, data: None).reduce(value) == expected
    assert Reducer().reduce(values.encode(value)) == expected


def test_plain_elements_are_not_visited_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = 0
    real = Direct.walk

    def walk(self: Direct, obj: object, depth: int) -> bytes:
        nonlocal visits
        visits += 1
        return real(self, obj, depth)

    monkeypatch.setattr(Direct, "walk", walk)
    capture = Capture(lambda sha256, data: None)
    for value in (
        [one / 7 for one in range(5000)],
        list(range(5000)),
        [f"\u00e9{one}" for one in range(5000)],
    ):
        visits = 0
        capture.reference(value)
        assert visits == 1
    visits = 0
    capture.reference([*[1.5] * 5000, 2**60])
    assert visits <= 1 + BATCH


LARGE = {
    "floats": "[one / 7 for one in range(1_000_000)]",
    "tuple": "tuple(one / 7 for one in range(300_000))",
    "texts": "[f'\\u00e9{one}' for one in range(300_000)]",
    "broken texts": "['\\ud800'] * 200_000",
    "integers": "list(range(1_000_000))",
    "objects": "[{'a': one, 'b': 'x', 'c': one / 7} for one in range(200_000)]",
    "pairs": "[[one, one / 7] for one in range(200_000)]",
    "members": "{f'k{one}': one / 7 for one in range(300_000)}",
    "bytes": "[b'abc'] * 100_000",
    "set": "{one / 7 for one in range(200_000)}",
    "a part too many": "[{} for _ in range(1_000_001)]",
}

CHILD = """
import resource
room = 600 << 20
resource.setrlimit(resource.RLIMIT_AS, (room, room))
from counterfoil.capture import Capture
stored = {}
capture = Capture(stored.__setitem__)
value = %s
reference = capture.reference(value)
print(len(stored) > 0, sum(map(len, stored.values())) < 40_000_000)
"""


@pytest.mark.parametrize("python", LARGE.values(), ids=LARGE)
def test_memory_stays_near_the_size_of_the_text(python: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD % python], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr[-400:]
