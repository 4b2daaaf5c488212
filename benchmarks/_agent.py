"""What a coding agent leaves in a log: 25 model calls with a growing history, each with a tool call, 101 events a run.

The shape of the study behind the aims: a system prompt of 4 KB, 30 tool schemas (31 KB), answers of 0.5 to 8 KB and
tool results of 1 to 50 KB, both log-uniform; four events a call (start and end of the call and of its tool) and one
that opens the run with 60 packages. A message list is a node that cites its parent and adds what is new, so that a
history is stored once; every value is a blob under its digest, the first event that cites it brings it. Texts are this
Python's own library: source, docstrings, and rows and log lines made of them, for they must compress as such texts do.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import math
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from counterfoil import canonical, digest, records, segments

Event = tuple[bytes, list[tuple[str, bytes]]]
"""A record, and the blobs it is the first to cite."""
CALLS = 25
INLINE = 256
"""Bytes below which arguments of a tool stand in the record itself, as in the study."""


@functools.cache
def _library() -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Lines of the library's modules, and its docstrings."""
    sources, prose = [], []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if len(text) < 3000:
            continue
        sources.append((path.name, text.splitlines()))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                told = ast.get_docstring(node)
                if told is not None and len(told) > 120:
                    prose.append(told)
    return sources, prose


class Run:
    """One run of the agent; ``events()`` yields them in order. ``known`` are digests stored by earlier runs."""

    def __init__(self, number: int, known: set[str], *, packed: bool) -> None:
        self._number, self._known, self._packed = number, known, packed
        self._random = random.Random(number)
        self._zstd = zstandard.ZstdCompressor(level=segments.LEVEL)
        self._new: list[tuple[str, bytes]] = []
        self._at = 1_790_000_000_000_000 + number * 1_000_000

    def events(self) -> Iterator[Event]:
        """All 101."""
        chance = self._random
        packages = [
            {
                "name": f"pkg-{at}",
                "sha256": f"{chance.getrandbits(256):064x}",
                "version": f"{chance.randrange(90)}.1",
            }
            for at in range(60)
        ]
        yield self._event("invoke_agent", "team", "start", request=self._ref({"packages": packages}))
        tools = self._ref([self._ref(self._schema(at)) for at in range(30)])
        history = [
            self._ref({"content": self._prose(4000), "role": "system"}),
            self._ref({"content": self._prose(self._size(512, 8192)), "role": "user"}),
        ]
        node, sent = None, 0
        for _ in range(CALLS):
            listed: dict[str, Any] = {"add": history[sent:], "n": len(history)}
            node = self._ref(listed if node is None else listed | {"parent": node})
            sent = len(history)
            yield self._event("chat", "small-1", "start", request=node, tools=tools)
            name, call = f"tool_{chance.randrange(30):02d}", f"call_{chance.getrandbits(96):024x}"
            asked = {
                "path": f"lib/module_{chance.randrange(400)}.py",
                "query": self._prose(chance.randrange(20, 200)),
            }
            answer = self._ref(
                {
                    "content": self._prose(self._size(512, 8192)),
                    "role": "assistant",
                    "tool_calls": [{"args": asked, "id": call, "name": name}],
                }
            )
            yield self._event("chat", "small-1", "end", response=answer)
            small = len(canonical.dumps(asked)) < INLINE
            yield self._event("execute_tool", name, "start", request=asked if small else self._ref(asked))
            result = self._ref(
                {"content": self._output(self._size(1024, 51200)), "role": "tool", "tool_call_id": call}
            )
            yield self._event("execute_tool", name, "end", response=result)
            history += [answer, result]

    def _event(self, op: str, name: str, phase: str, **values: Any) -> Event:
        self._at += 137
        address = f"invoke_agent:team/{op}:{name}#{self._at % 97}"
        content = {
            "actor": "team/coder",
            "address": address,
            "name": name,
            "op": op,
            "phase": phase,
            **values,
        }
        context = {
            "at": self._at,
            "call": f"{self._random.getrandbits(128):032x}",
            "run": f"{self._number:032x}",
        }
        new, self._new = self._new, []
        return records.build(content, context), new

    def _ref(self, value: Any) -> dict[str, Any]:
        """A reference to a value; its bytes go with the next event, if no earlier one brought them."""
        data = canonical.dumps(value)
        if self._packed:
            data = self._zstd.compress(data)
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in self._known:
            self._known.add(sha256)
            self._new.append((sha256, data))
        media = digest.MEDIA_BYTES if self._packed else digest.MEDIA_JSON
        return {"media": media, "sha256": sha256, "size": len(data)}

    def _size(self, least: int, most: int) -> int:
        return int(math.exp(self._random.uniform(math.log(least), math.log(most))))

    def _prose(self, size: int) -> str:
        texts, told = _library()[1], ""
        while len(told) < size:
            told += self._random.choice(texts) + "\n\n"
        return told[:size]

    def _output(self, size: int) -> str:
        """What a tool returns: a file's lines, places where something was found, rows, or a log."""
        chance, sources = self._random, _library()[0]
        kind, lines, length = chance.random(), [], 0
        name, source = chance.choice(sources)
        at = chance.randrange(len(source))
        while length < size:
            if kind < 0.5:
                line = f"{at + 1:>6}\t{source[at % len(source)]}"
            elif kind < 0.7:
                name, source = chance.choice(sources)
                at = chance.randrange(len(source))
                line = f"lib/{name}:{at + 1}:{source[at].strip()}"
            elif kind < 0.85:
                price = f"{chance.uniform(1, 900):.2f}"
                title = self._prose(60).replace("\n", " ")
                line = f'{{"id": {chance.randrange(10**9)}, "price": {price}, "title": "{title}"}},'
            else:
                level = chance.choice(("DEBUG", "ERROR", "INFO", "WARN"))
                told = self._prose(chance.randrange(40, 110)).splitlines()[0]
                line = f"2026-11-30T12:{at % 60:02d}:{chance.random() * 60:06.3f}Z {level} worker-{at % 8} {told}"
            lines.append(line)
            length, at = length + len(line) + 1, at + 1
        return "\n".join(lines)[:size]

    def _schema(self, number: int) -> dict[str, Any]:
        kinds = ("string", "integer", "boolean", "number")
        arguments = {
            f"arg_{at}": {
                "description": self._prose(self._random.randrange(40, 160)),
                "type": self._random.choice(kinds),
            }
            for at in range(self._random.randrange(2, 6))
        }
        return {
            "description": self._prose(self._random.randrange(150, 600)),
            "name": f"tool_{number:02d}",
            "parameters": {"properties": arguments, "type": "object"},
        }


def workload(count: int, *, packed: bool = False) -> list[Event]:
    """The first ``count`` events of as many runs as it takes; ``packed``: values are compressed one by one (zstd 3)."""
    known: set[str] = set()
    out: list[Event] = []
    number = 0
    while len(out) < count:
        out += Run(number, known, packed=packed).events()
        number += 1
    return out[:count]
