"""Seeded changes to well-formed inputs: of bytes, and of the JSON in them."""

from __future__ import annotations

import random
from typing import Any

import orjson
from dictionary import DICTIONARY

PIECES = (
    *(
        b"",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xc0\xaf",
        b"\n",
        b"\n\n",
        b" ",
        b"\r",
        b"\t",
        b"\x7f",
    ),
    *(
        b"[" * 300,
        b'{"a":' * 300,
        b"]" * 70,
        b"0" * 5000,
        b"9" * 5000,
        b"1e99999",
        b"-",
        b"=" * 40,
        b"\\" * 99,
    ),
    *(word.encode() for word in DICTIONARY),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**53 - 1,
        1 - 2**53,
        10**12,
        0.5,
        -1e300,
        1e-300,
        "",
        "a",
        "\0",
        "\u2028",
        "@0",
        "@1",
    ),
    *(
        "a" * 2000,
        "\U0001f600" * 99,
        "/",
        "..",
        "0" * 64,
        "g" * 64,
        "=" * 8,
        "AAAA",
        "\ufeff",
        "\x1b[2J",
        "\n\n",
    ),
    *(
        [],
        {},
        [[]],
        [{}],
        [None],
        {"": None},
        {"a": {"b": []}},
        ["a"] * 300,
        [0] * 300,
        {"$ref": 1},
        {"$msg": {}},
    ),
    *(
        {"media": "", "sha256": "0" * 64, "size": 0},
        {"$bytes": "!"},
        {"good": 1},
        [{"segment": 0}],
        [{"log": ""}],
    ),
)


def of_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to four changes of bytes: put in, taken out, overwritten, flipped, doubled, cut."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:at] + rng.choice(PIECES) + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + rng.choice((1, 2, 7, 60)) :]
        elif kind == 2:
            piece = rng.choice(PIECES)
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == 3 and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        elif kind == 4:
            to = rng.randrange(at, len(data) + 1)
            data = data[:to] + data[at:to] + data[to:]
        elif rng.random() < 0.2:
            data = data[:at]
    return data


def of_json(rng: random.Random, data: bytes) -> bytes:
    """One to three changes of values or members, in one line or in several, so that the text stays JSON."""
    lines = data.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        try:
            value = orjson.loads(lines[at])
            lines[at] = orjson.dumps(_changed(rng, value), option=orjson.OPT_SORT_KEYS)
        except (orjson.JSONDecodeError, TypeError):
            lines[at] = of_bytes(rng, lines[at])
        if rng.random() < 0.2:
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
        if rng.random() < 0.1 and len(lines) > 1:
            del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _changed(rng: random.Random, value: Any) -> Any:
    if type(value) is dict and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.08:
            return {name: one for name, one in value.items() if name != key}
        if kind < 0.16:
            return {**value, rng.choice(DICTIONARY): rng.choice(VALUES)}
        return {**value, key: _changed(rng, value[key])}
    if type(value) is list and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], _changed(rng, value[at]), *value[at + rng.randrange(3) :]]
    return rng.choice(VALUES)


def inputs(seed: int, seeds: list[bytes]) -> bytes:
    """One hostile input of this number."""
    rng = random.Random(seed)
    data = rng.choice(seeds)
    kind = rng.random()
    if kind < 0.45:
        return of_json(rng, data)
    if kind < 0.9:
        return of_bytes(rng, data)
    return (
        rng.randbytes(rng.randrange(40)) if kind < 0.95 else b"".join(rng.choices(PIECES, k=rng.randrange(9)))
    )
