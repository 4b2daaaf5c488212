"""Documents and texts made to tell writers and readers of canonical JSON apart; everything follows from the seed."""

from __future__ import annotations

import collections
import enum
import json
import random
import struct
import uuid
from typing import Any, NamedTuple

import orjson


class Text(str):
    """A str of another type; two of them with one text are two keys."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Whole(int):
    """An int of another type."""


class Real(float):
    """A float of another type."""


class Table(dict):  # type: ignore[type-arg]
    """A dict of another type."""


class Row(list):  # type: ignore[type-arg]
    """A list of another type."""


class Pair(NamedTuple):
    """A tuple of another type."""

    left: Any
    right: Any


class Colour(str, enum.Enum):  # noqa: UP042 - the older spelling is the hazard
    """A str that is a member."""

    RED = "red"


class Number(enum.IntEnum):
    """An int that is a member."""

    ONE = 1


class Shy(dict):  # type: ignore[type-arg]
    """A dict that does not tell its members when they are asked for, but does when it is copied."""

    def values(self) -> Any:
        raise KeyError("shy")

    items = values


class Trap(dict):  # type: ignore[type-arg]
    """A dict that cannot be copied."""

    def keys(self) -> Any:
        raise LookupError("trap")

    __iter__ = keys


FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.1, 0.3, 1e14, 1e15, 1e16, 123456789012345680.0, 1e20, 1e21, 1.5e21, 1e22),
    *(1e-4, 1e-5, 9.999999999999999e-6, 9.5e-6, 1e-6, 9.9e-7, 1e-7, 5e-324, 2.2250738585072014e-308),
    *(
        1.7976931348623157e308,
        2.0**53,
        2.0**53 - 1,
        2.0**53 + 2,
        2.0**63,
        2.0**64,
        0.1 + 0.2,
        1 / 3,
        4.35,
        1e23,
    ),
)
NO_NUMBERS = (float("nan"), float("inf"), float("-inf"))
INTEGERS = (0, 1, -1, 2**31, 2**53 - 1, 1 - 2**53, 2**53, -(2**53), 2**53 + 1, 2**63, 2**64, -(2**63), 10**30)
CHARACTERS = (
    *("a", "Z", "0", '"', "\\", "/", "\b", "\f", "\n", "\r", "\t", "\x00", "\x0b", "\x1f", "\x7f", "<", "&"),
    *(
        "\x80",
        "\u00e9",
        "\u05d0",
        "\u2028",
        "\u2029",
        "\ud7ff",
        "\ue000",
        "\ufb33",
        "\ufeff",
        "\ufffd",
        "\uffff",
    ),
    *(
        "\U00010000",
        "\U0001f600",
        "\U0002f800",
        "\U000e0001",
        "\U000fffff",
        "\U0010ffff",
        "e\u0301",
        "\u212b",
    ),
)
SURROGATES = ("\ud800", "\udbff", "\udc00", "\udfff", "\ude00\ud83d", "\ud83d\ude00")


def text(rng: random.Random) -> str:
    """Characters of every plane, escapes, now and then a surrogate."""
    made = "".join(rng.choices(CHARACTERS, k=rng.randrange(5)))
    kind = rng.random()
    if kind < 0.01:
        made += rng.choice(SURROGATES)
    elif kind < 0.1:
        made += chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))))
    elif kind < 0.12:
        made *= 40
    return made


def real(rng: random.Random) -> float:
    """Floats of every layout, and any bits at all."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(FLOATS)
    if kind == 1:
        made = float(struct.unpack(">d", rng.randbytes(8))[0])
        return made if made - made == 0 else 0.5
    if kind == 2:
        return rng.uniform(-1, 1) * 10.0 ** rng.randrange(-8, 23)
    if kind == 3:
        return rng.randrange(-(2**53), 2**53) / 2.0 ** rng.randrange(60)
    return round(rng.uniform(-1e4, 1e4), rng.randrange(8))


def scalar(rng: random.Random) -> Any:
    """A leaf: mostly plain, sometimes of an odd type."""
    kind = rng.random()
    if kind < 0.42:
        return text(rng)
    if kind < 0.6:
        return rng.choice(INTEGERS[:6]) if rng.random() < 0.98 else rng.choice(INTEGERS)
    if kind < 0.7:
        return rng.choice([True, False, None])
    if kind < 0.988:
        return real(rng)
    odd = [
        *(
            Text("t"),
            Whole(7),
            Whole(2**60),
            Real(1.5),
            Colour.RED,
            Number.ONE,
            uuid.UUID(int=5),
            b"b",
            {1},
            1j,
        ),
        *(
            object,
            Ellipsis,
            orjson.Fragment(b"1.0"),
            Table(),
            Row([1.0]),
            Pair(1, "a"),
            Trap(a=1),
            Shy(a=1),
            *NO_NUMBERS,
        ),
        *(collections.OrderedDict(b=1, a=2.5), collections.deque(), range(3), bytearray(b"x"), 10**5000),
    ]
    return rng.choice(odd) if rng.random() < 0.4 else text(rng)


def value(rng: random.Random, depth: int = 0) -> Any:
    """A document with a hostile part somewhere, more often than not."""
    kind = rng.random()
    if depth > 4 or kind < 0.36:
        return scalar(rng)
    size = rng.randrange(5) if kind < 0.95 else rng.randrange(9, 14)
    if kind < 0.6:
        items = [value(rng, depth + 1) for _ in range(size)]
        other = rng.random()
        return tuple(items) if other < 0.2 else Row(items) if other < 0.22 else items
    keys: list[Any] = [text(rng) for _ in range(size)]
    if size and rng.random() < 0.015:
        keys[0] = rng.choice([1, None, True, 1.5, b"k", Text("k"), Colour.RED, ("t",), Number.ONE])
    if size > 1 and rng.random() < 0.005:
        keys[:2] = [Text("same"), Text("same")]
    made = {key: value(rng, depth + 1) for key in keys}
    return Table(made) if rng.random() < 0.02 else made


def document(seed: int) -> Any:
    """The document of this number; one in three hundred is deep, cyclic or wide."""
    rng = random.Random(seed)
    made = value(rng)
    kind = rng.random()
    if kind < 0.0015:
        for _ in range(rng.choice((60, 120, 127, 128, 129, 300, 2000))):
            made = [made] if rng.random() < 0.5 else {text(rng): made}
    elif kind < 0.003:
        loop: list[Any] = [made]
        loop.append({"again": loop, "more": [loop, loop]})
        return loop
    elif kind < 0.0032:
        made = [[at % 7, made] if at % 50 == 0 else [at] for at in range(5000)]
    return made


# -- texts ------------------------------------------------------------------------------------------------------------

PIECES = (
    *'[]{}:,"\\',
    *"0123456789-+.eE",
    *("true", "null", "NaN", "-Infinity", " ", "\n", "\t", "\r", "\x0b", "\xa0", "\ufeff", "\x00", "\x7f"),
    *(
        '"a"',
        '"b":',
        '"a":',
        "\\u0061",
        "\\ud83d",
        "\\ude00",
        "\\u00E9",
        "\\/",
        "\\x",
        "\\u12",
        "//",
        "/**/",
        "'",
    ),
    *(
        "\u00e9",
        "e\u0301",
        "\U0001f600",
        "\uffff",
        "\ud800",
        "9007199254740991",
        "9007199254740992",
        "1e20",
        "1.0",
    ),
    *(
        "100000000000000000000",
        "18446744073709551616",
        "9223372036854775808",
        "1e400",
        "-0",
        "00",
        "0.0",
        "1e-999",
    ),
    *("9007199254740993.0", "1E5", "0.1e1", "[" * 62, "[" * 70, "]" * 66, '{"a":' * 64),
)


def json_value(rng: random.Random, depth: int = 0) -> Any:
    """A plain document that the strict reader accepts, but for integers of large floats."""
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return rng.choice([0, -1, 2**53 - 1, 1 - 2**53, rng.randrange(-(10**9), 10**9)])
    if kind == 1:
        return rng.choice([None, True, False])
    if kind == 2:
        return real(rng)
    if kind < 6:
        return "".join(rng.choices(CHARACTERS, k=rng.randrange(6)))
    if kind == 6:
        return [json_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {"".join(rng.choices("ab\u00e9\ufb33\uffff\U0001f602", k=rng.randrange(3))): json_value(rng, depth + 1)
            for _ in range(rng.randrange(4))}  # fmt: skip


def spelled(rng: random.Random, made: Any, canonical: bytes) -> bytes:
    """A text of a document: canonical, or in one of the spellings of Python's own writer."""
    if rng.random() < 0.6:
        return canonical
    space = rng.choice([(",", ":"), (", ", ": "), (" , ", " :\n")])
    told = json.dumps(made, ensure_ascii=rng.random() < 0.5, sort_keys=rng.random() < 0.5, separators=space)
    return told.encode("utf-8", "surrogatepass")


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A text with up to three changes."""
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        piece = rng.choice(PIECES).encode("utf-8", "surrogatepass")
        if rng.random() < 0.15:
            piece = bytes([rng.randrange(256)])
        data = data[:at] + piece + data[at + rng.choice((0, 0, 1, 3)) :]
    return data
