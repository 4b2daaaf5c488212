"""A coding agent's session as plain JSON, and the same session run in LangChain with a scripted model.

30 tool schemas, a system prompt of 4 KB, then model calls that each see all that was before: an answer of 0.5 to 8 KB
that asks for one tool, whose result has 1 to 50 KB. Texts are this Python's own library, and rows and log lines made
of it, so that they compress as a tool's output does. The same seed gives the same session on the same Python.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import random
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODEL = "synthetic-1"


@functools.cache
def _library() -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Lines of the library's modules, and its docstrings."""
    sources, prose = [], []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if len(text) <= 3000:
            continue
        sources.append((path.name, text.splitlines()))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                told = ast.get_docstring(node)
                if told is not None and len(told) > 120:
                    prose.append(told)
    return sources, prose


def _size(chance: random.Random, least: int, most: int) -> int:
    return int(math.exp(chance.uniform(math.log(least), math.log(most))))


def _prose(chance: random.Random, size: int) -> str:
    texts, told = _library()[1], ""
    while len(told) < size:
        told += chance.choice(texts) + "\n\n"
    return told[:size]


def _line(chance: random.Random, least: int, most: int) -> str:
    return _prose(chance, chance.randrange(least, most)).replace("\n", " ")


def _output(chance: random.Random, size: int) -> str:
    """What a tool returns: a file's lines, places where something was found, rows of JSON, or a log."""
    sources, kind, lines, length = _library()[0], chance.random(), [], 0
    if kind < 0.5:
        _, source = chance.choice(sources)
        at = chance.randrange(max(1, len(source) - 50))
    while length < size:
        if kind < 0.5:
            line = f"{at + 1:>6}\t{source[at % len(source)]}"
            at += 1
        elif kind < 0.7:
            name, found = chance.choice(sources)
            hit = chance.randrange(len(found))
            line = f"lib/{name}:{hit + 1}:{found[hit].strip()}"
        elif kind < 0.85:
            line = _row(chance)
            length += 190 - len(line) - 1  # as many rows as of 190 bytes
        else:
            clock = f"{chance.randrange(60):02d}:{chance.randrange(60):02d}.{chance.randrange(999):03d}Z"
            level, worker = chance.choice(["INFO", "WARN", "DEBUG", "ERROR"]), chance.randrange(8)
            told = _prose(chance, chance.randrange(40, 110)).splitlines()[0]
            took = chance.randrange(9999)
            line = f"2026-11-30T12:{clock} {level} worker-{worker} {told} took={took}us"
        lines.append(line)
        length += len(line) + 1
    return (f"[{', '.join(lines)}]" if 0.7 <= kind < 0.85 else "\n".join(lines))[:size]


def _row(chance: random.Random) -> str:
    row = {
        "id": chance.randrange(10**9),
        "sku": f"SKU-{chance.randrange(99999):05d}",
        "price": round(chance.uniform(1, 900), 2),
        "in_stock": chance.random() < 0.7,
        "title": _prose(chance, 60).replace("\n", " "),
    }
    month, day, hour = chance.randrange(1, 9), chance.randrange(10, 28), chance.randrange(9)
    row["updated"] = f"2026-0{month}-{day}T0{hour}:{chance.randrange(10, 59)}:00Z"
    return json.dumps(row)


def _schema(chance: random.Random, number: int) -> dict[str, Any]:
    kinds = ["string", "integer", "boolean", "number"]
    arguments = {
        f"arg_{at}": {"type": chance.choice(kinds), "description": _line(chance, 40, 160)}
        for at in range(chance.randrange(2, 6))
    }
    function = {
        "name": f"tool_{number:02d}",
        "description": _line(chance, 150, 600),
        "parameters": {"type": "object", "properties": arguments, "required": sorted(arguments)[:2]},
    }
    return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Turn:
    """One model call: what it answers, the tool it asks for, what that returns, and what the provider counted."""

    content: str
    tool: str
    call: str
    arguments: dict[str, Any]
    output: str
    usage: dict[str, int]


@dataclass(frozen=True, slots=True)
class Session:
    """What is the same in every call, what a plain log tells of the machine, and the turns."""

    system: str
    question: str
    tools: list[dict[str, Any]]
    packages: list[dict[str, str]]
    turns: list[Turn] = field(repr=False)


def session(calls: int, *, seed: int = 1) -> Session:
    """A session of so many model calls."""
    chance = random.Random(seed)
    tools = [_schema(chance, number) for number in range(30)]
    system, question = _prose(chance, 4000), _prose(chance, _size(chance, 512, 8192))
    packages = [
        {
            "name": f"pkg-{number}",
            "version": f"{chance.randrange(9)}.{chance.randrange(30)}.{chance.randrange(9)}",
            "sha256": f"{chance.getrandbits(256):064x}",
        }
        for number in range(60)
    ]
    turns = []
    for number in range(calls):
        path, query = f"lib/mod_{chance.randrange(400)}.py", _line(chance, 20, 200)
        asked = {"path": path, "query": query, "limit": chance.randrange(100)}
        tool, call = f"tool_{chance.randrange(30):02d}", f"call_{chance.getrandbits(96):024x}"
        content = _prose(chance, _size(chance, 512, 8192))
        usage = {"input_tokens": 1000 + number * 300, "output_tokens": chance.randrange(900)}
        output = _output(chance, _size(chance, 1024, 51200))
        turns.append(Turn(content, tool, call, asked, output, usage))
    return Session(system, question, tools, packages, turns)


def naive(given: Session) -> Iterator[bytes]:
    """Every event with its whole payload, as a plain log of callbacks has it: one JSON text each."""
    number = 0

    def event(kind: str, **members: Any) -> bytes:
        nonlocal number
        number += 1
        head = {"v": 1, "run": "run-000001", "seq": number, "ts": 1_790_000_000_000_000 + number * 137}
        text = json.dumps({**head, "kind": kind, **members}, separators=(",", ":"), ensure_ascii=False)
        return text.encode()

    params = {"max_tokens": 4096, "model": MODEL, "seed": 1, "temperature": 0}
    history: list[dict[str, Any]] = [
        {"role": "system", "content": given.system},
        {"role": "user", "content": given.question},
    ]
    yield event("run_start", env={"packages": given.packages, "python": "3.11"})
    for turn in given.turns:
        yield event("llm_start", params=params, tools=given.tools, messages=history)
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        asked = {"id": turn.call, "type": "function", "function": function}
        answer = {"role": "assistant", "content": turn.content, "tool_calls": [asked]}
        yield event("llm_end", message=answer, usage=turn.usage)
        yield event("tool_start", name=turn.tool, call_id=turn.call, args=turn.arguments)
        yield event("tool_end", name=turn.tool, call_id=turn.call, output=turn.output)
        history += [answer, {"role": "tool", "tool_call_id": turn.call, "content": turn.output}]


def run(given: Session, callbacks: list[Any], *, each: Callable[[], None] | None = None) -> None:
    """Run the session in LangChain, model and tools by the script; ``each`` is called after every turn."""
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.runnables import RunnableConfig, RunnableLambda
    from langchain_core.tools import StructuredTool

    turns = iter(given.turns)
    outputs = {turn.call: turn.output for turn in given.turns}

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        @property
        def _identifying_params(self) -> dict[str, Any]:
            return {"max_tokens": 4096, "model": MODEL, "seed": 1, "temperature": 0}

        def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
            turn = next(turns)
            asked = {"args": turn.arguments, "id": turn.call, "name": turn.tool, "type": "tool_call"}
            counted = {**turn.usage, "total_tokens": sum(turn.usage.values())}
            message = AIMessage(content=turn.content, tool_calls=[asked], usage_metadata=counted)
            return ChatResult(generations=[ChatGeneration(message=message)])

    expected: list[str] = []

    def answer(limit: int, path: str, query: str) -> str:
        """Look something up."""
        return outputs[expected.pop()]

    names = {turn.tool for turn in given.turns}
    tools = {name: StructuredTool.from_function(answer, name=name) for name in names}
    model = Scripted().bind(tools=given.tools)

    def agent(question: str, config: RunnableConfig) -> str:
        history: list[Any] = [SystemMessage(given.system), HumanMessage(question)]
        said = ""
        for _ in given.turns:
            message = model.invoke(history, config)
            history.append(message)
            for asked in message.tool_calls:
                expected.append(asked["id"])
                history.append(tools[asked["name"]].invoke(asked, config))
            said = message.content
            if each is not None:
                each()
        return said

    RunnableLambda(agent).invoke(given.question, {"callbacks": callbacks})
