"""Scripted models, small graphs in every shape LangGraph has, and short readings of the evidence they leave."""

from __future__ import annotations

import asyncio
import json
import operator
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from os import PathLike
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import BaseModel, Field

import counterfoil
from counterfoil.reader import CallView, Reader

MODES = ("invoke", "ainvoke", "stream", "astream")
ASKED: dict[str, Any] = {"messages": [("user", "go")]}
USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


def ai(text: str = "", *calls: tuple[str, dict[str, Any], str]) -> AIMessage:
    """An answer with tool calls given as (name, arguments, id)."""
    return AIMessage(
        content=text,
        tool_calls=[{"name": name, "args": args, "id": id} for name, args, id in calls],
        usage_metadata=dict(USAGE),
        response_metadata={
            "system_fingerprint": "fp_1",
            "model_name": "scripted-1-dated",
            "finish_reason": "stop",
        },
    )


class Scripted(BaseChatModel):
    """Says the messages of ``script`` in turn; ``wait`` seconds each; raises where the script holds an exception."""

    model_name: str = "scripted-1"
    temperature: float = 0.5
    seed: int = 42
    script: list[Any] = Field(default_factory=list)
    wait: float = 0.0
    extra: dict[str, Any] = Field(default_factory=dict)
    said: list[int] = Field(default_factory=list)
    asked: list[int] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {
            "model_name": self.model_name,
            "temperature": self.temperature,
            "seed": self.seed,
            **self.extra,
        }

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **more: Any) -> Any:
        more["tools"] = [convert_to_openai_tool(one) for one in tools]
        return self.bind(**more)

    def _next(self) -> AIMessage:
        at = len(self.said) % len(self.script)
        self.said.append(at)
        found = self.script[at]
        if isinstance(found, BaseException):
            raise found
        return found.model_copy(deep=True)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        if self.wait:
            time.sleep(self.wait)
        return ChatResult(generations=[ChatGeneration(message=self._next())])

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        self.asked.append(len(self.asked))
        if self.wait:
            await asyncio.sleep(self.wait)
        return ChatResult(generations=[ChatGeneration(message=self._next())])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in pieces(self._next()):
            if self.wait:
                time.sleep(self.wait)
            yield ChatGenerationChunk(message=chunk)

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in pieces(self._next()):
            if self.wait:
                await asyncio.sleep(self.wait)
            yield ChatGenerationChunk(message=chunk)


def pieces(message: AIMessage) -> Iterator[AIMessageChunk]:
    """A message as a provider streams it."""
    words = str(message.content).split(" ") if message.content else []
    for at, word in enumerate(words):
        yield AIMessageChunk(content=word if at == len(words) - 1 else word + " ")
    for at, call in enumerate(message.tool_calls):
        part = tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=at)
        yield AIMessageChunk(content="", tool_call_chunks=[part])
    yield AIMessageChunk(
        content="",
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )


def agent(name: str, *script: Any, tools: Sequence[BaseTool] = (), wait: float = 0.0) -> Any:
    """An agent's own graph as LangChain's ``create_agent`` makes it: a model, its tools, and its name in metadata."""
    model = Scripted(script=list(script), wait=wait)
    bound = model.bind_tools(tools) if tools else model

    def call(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"], config)]}

    async def acall(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"], config)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", RunnableLambda(call, acall))
    graph.add_edge(START, "model")
    if tools:
        graph.add_node("tools", ToolNode(list(tools)))
        graph.add_conditional_edges(
            "model", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
        )
        graph.add_edge("tools", "model")
    return graph.compile(name=name).with_config(metadata={"lc_agent_name": name})


def transfer(to: str, graph: str | None = Command.PARENT) -> BaseTool:
    """A handoff tool as the swarm and supervisor libraries have it."""

    def hand_over(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Transfer."""
        done = ToolMessage(f"to {to}", tool_call_id=tool_call_id)
        return Command(goto=to, graph=graph, update={"messages": [done]})

    return tool(f"transfer_to_{to}")(hand_over)


def say(text: str) -> Callable[[Any], dict[str, Any]]:
    """A node that adds a message."""
    return lambda state: {"messages": [AIMessage(text)]}


def drive(app: Any, inputs: Any, mode: str, **config: Any) -> Any:
    """Run an application to its end in one of the four ways."""
    if mode == "invoke":
        return app.invoke(inputs, config)
    if mode == "ainvoke":
        return asyncio.run(app.ainvoke(inputs, config))
    if mode == "stream":
        return list(app.stream(inputs, config))

    async def through() -> list[Any]:
        return [one async for one in app.astream(inputs, config)]

    return asyncio.run(through())


def intact(evidence: str | PathLike[str], *, tail: int = 0) -> Reader:
    """The evidence, after it was verified without a finding."""
    found = counterfoil.verify(evidence)
    assert (found.verdict, found.findings) == ("intact", [])
    assert (found.counts["losses"], found.counts["open"], found.counts["tail"]) == (0, 0, tail)
    return counterfoil.read(evidence)


Row = tuple[str, str, str, str, bool, str]


def hops(reader: Reader, run: str | None = None) -> list[Row]:
    """(from, to, kind, basis, exact, status) of every hop, sorted (parallel nodes start in any order)."""
    return sorted(map(_row, reader.handoffs(hops=True, run=run)))


def between_agents(reader: Reader, run: str | None = None) -> list[Row]:
    """The same between agents, hops collapsed."""
    return sorted(map(_row, reader.handoffs(run=run)))


def _row(found: dict[str, Any]) -> Row:
    return (
        found["from"],
        found["to"],
        found["kind"],
        found["basis"],
        found["exact"],
        found["status"],
    )


def counted(reader: Reader) -> Counter[tuple[str, str, str]]:
    """How many calls there are of each (op, name, status)."""
    return Counter((call.op, call.name, call.status) for call in reader.calls())


def row_names(reader: Reader) -> list[tuple[str, str]]:
    """(op, name) of each call in the order they started."""
    return [(call.op, call.name) for call in reader.calls()]


class Numbers(TypedDict):
    """State of a map-reduce graph."""

    n: int
    out: Annotated[list[Any], operator.add]


def only(reader: Reader, op: str) -> CallView:
    (found,) = [call for call in reader.calls() if call.op == op]
    return found


def ended(call: CallView) -> dict[str, Any]:
    assert call.end is not None
    return dict(call.end.body["context"])


async def through(source: Any) -> None:
    async for _ in source:
        pass


class Answer(BaseModel):
    """The form of an answer."""

    text: str
    sure: bool = True
