"""The documents of ``canonical_speed.py``: what agents hash, and what is hard to write canonically."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

WORDS = "the agent reads a page and answers with what it found in the table of results".split()


def _prose(rng: random.Random, size: int) -> str:
    return " ".join(rng.choices(WORDS, k=size // 5))[:size]


def _hex(rng: random.Random, size: int) -> str:
    return rng.randbytes(size).hex()


def _message(rng: random.Random, size: int, number: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": ("human", "ai", "tool")[number % 3], "content": _prose(rng, size)}
    if made["type"] == "ai":
        call = {"name": "search", "args": {"query": _prose(rng, 40), "limit": 5}, "id": _hex(rng, 12)}
        made |= {"tool_calls": [call], "usage": {"input_tokens": 900 + number, "output_tokens": 80}}
    return made


def records() -> list[Any]:
    """100 records as the log holds them, each by itself."""
    rng = random.Random(1)
    return [
        {
            "content": {
                "actor": "team/writer",
                "address": f"invoke_workflow:team/step:writer@{at}/chat:small-1@{_hex(rng, 8)}",
                "name": "small-1",
                "op": "chat",
                "parents": [{"address": f"invoke_workflow:team/step:reader@{at}", "rel": "control"}],
                "phase": "start",
                "request": {
                    "media": "application/vnd.counterfoil.value+json",
                    "sha256": _hex(rng, 32),
                    "size": 4000 + at,
                },
            },
            "context": {
                "at": 1_790_000_000_000_000 + at,
                "call": _hex(rng, 16),
                "parent": _hex(rng, 16),
                "run": _hex(rng, 16),
            },
            "v": 1,
        }
        for at in range(100)
    ]


def history() -> list[Any]:
    """50 messages of 4 KB, with tool calls, without floats."""
    rng = random.Random(2)
    return [[_message(rng, 4096, number) for number in range(50)]]


def short_history() -> list[Any]:
    """20 messages of 400 characters, with tool calls, without floats."""
    rng = random.Random(3)
    return [[_message(rng, 400, number) for number in range(20)]]


def history_with_floats() -> list[Any]:
    """20 messages of 1 KB, with a temperature, scores and times."""
    rng = random.Random(4)
    made = [_message(rng, 1024, number) for number in range(20)]
    for each in made:
        each["response_metadata"] = {"temperature": 0.7, "top_p": 1.0, "took": rng.random() * 3}
        each["scores"] = [rng.random() for _ in range(10)]
    return [made]


def tool_schemas() -> list[Any]:
    """30 JSON schemas of tools."""
    rng = random.Random(5)
    fields = {
        f"field_{at}": {"type": "string", "description": _prose(rng, 60), "minLength": at} for at in range(8)
    }
    schema = {
        "type": "object",
        "properties": fields,
        "required": sorted(fields),
        "additionalProperties": False,
    }
    tools = [
        {
            "type": "function",
            "function": {"name": f"tool_{at}", "description": _prose(rng, 120), "parameters": schema},
        }
        for at in range(30)
    ]
    return [tools]


def embeddings() -> list[Any]:
    """4 vectors of 1,536 floats."""
    rng = random.Random(6)
    return [[[rng.gauss(0, 0.02) for _ in range(1536)] for _ in range(4)]]


def measurements() -> list[Any]:
    """Floats of every size: whole, tiny, huge, negative zero."""
    rng = random.Random(7)
    kinds: tuple[Callable[[], float], ...] = (
        lambda: float(rng.randrange(1000)),
        lambda: rng.random() * 1e-6,
        lambda: rng.random() * 1e-300,
        lambda: rng.random() * 1e18,
        lambda: rng.random() * 1e300,
        lambda: round(rng.random() * 100, 2),
        lambda: -0.0,
    )
    return [[{"at": number, "value": kinds[number % len(kinds)]()} for number in range(700)]]


def small_objects() -> list[Any]:
    """1,000 objects of three members."""
    return [[{"id": number, "name": f"row {number}", "ok": number % 2 == 0} for number in range(1000)]]


def small_object() -> list[Any]:
    """One object of three members."""
    return [{"id": 7, "name": "row", "ok": True}]


def deep() -> list[Any]:
    """Objects and arrays within each other, 100 levels."""
    made: Any = {"leaf": "x"}
    for number in range(49):
        made = {"child": [made], "n": number}
    return [made]


def other_scripts() -> list[Any]:
    """20 messages of 1 KB in other scripts, with emoji."""
    rng = random.Random(8)
    letters = "абвгдежзийклмнопрстуфхцчшщъыьэюя 你好世界漢字かなカナ한국어 ελληνικά שלום 😀🚀"
    return [[{"type": "human", "content": "".join(rng.choices(letters, k=1024))} for _ in range(20)]]


def astral_keys() -> list[Any]:
    """200 objects whose keys UTF-16 sorts otherwise than code points do."""
    return [
        [{"\U0001f600": at, "\uff5e": at, "\U00020000x": "a", "\ufb01": "b", "z": 0} for at in range(200)]
    ]


def integers() -> list[Any]:
    """10,000 integers."""
    rng = random.Random(9)
    return [[rng.randrange(-(2**53) + 1, 2**53) for _ in range(10_000)]]


def escapes() -> list[Any]:
    """20 texts full of quotes, newlines and control characters: JSON and code within JSON."""
    inner = json.dumps({"code": 'print("a\\tb")\n' * 40, "bell": "\x07\x1b[0m" * 10})
    return [[{"type": "tool", "content": inner, "n": number} for number in range(20)]]


DOCUMENTS: dict[str, Callable[[], list[Any]]] = {
    made.__name__: made
    for made in (
        *(records, history, short_history, history_with_floats, tool_schemas, embeddings, measurements),
        *(small_objects, small_object, deep, other_scripts, astral_keys, integers, escapes),
    )
}
"""name -> maker of documents; each document is written by a call of its own."""
