"""The workloads: no model and no network, so that what is timed is the handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

PROMPT = 4096


def text(size: int = PROMPT) -> str:
    """Words that do not repeat soon."""
    return " ".join(f"w{i * 7919 % 9973}" for i in range(size))[:size]


def _answers() -> Iterator[Any]:
    from langchain_core.messages import AIMessage

    number = 0
    while True:
        number += 1
        yield AIMessage(content=f"answer {number} {text()[:400]}")


def _model() -> Any:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

    return GenericFakeChatModel(messages=_answers())


def _messages(history: int) -> list[Any]:
    from langchain_core.messages import HumanMessage, SystemMessage

    return [SystemMessage("You are a careful agent."), *(HumanMessage(text()) for _ in range(history))]


def call(history: int) -> Callable[[int, list[Any]], None]:
    """One chat model call an iteration, ``history`` messages of 4 KB in its prompt."""
    model, messages = _model(), _messages(history)

    def go(iterations: int, callbacks: list[Any]) -> None:
        config = {"callbacks": callbacks}
        for _ in range(iterations):
            model.invoke(messages, config=config)

    return go


def step() -> Callable[[int, list[Any]], None]:
    """Prompt function, model, function, tool: six runs of the framework an iteration."""
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tools import tool

    @tool
    def lookup(query: str, limit: int = 3) -> str:
        """Look something up."""
        return "row\n" * 250

    messages = _messages(1)
    chain = (
        RunnableLambda(lambda _: messages)
        | _model()
        | RunnableLambda(lambda message: {"query": message.content[:40], "limit": 2})
        | lookup
    )

    def go(iterations: int, callbacks: list[Any]) -> None:
        config = {"callbacks": callbacks}
        for _ in range(iterations):
            chain.invoke({}, config=config)

    return go


def graph() -> Callable[[int, list[Any]], None]:
    """Three LangGraph nodes that each call a model: two handoffs an iteration."""
    from langgraph.graph import END, START, MessagesState, StateGraph

    model = _model()

    def node(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    built = StateGraph(MessagesState)
    for name in ("planner", "writer", "editor"):
        built.add_node(name, node)
    built.add_edge(START, "planner")
    built.add_edge("planner", "writer")
    built.add_edge("writer", "editor")
    built.add_edge("editor", END)
    compiled = built.compile()
    messages = _messages(1)

    def go(iterations: int, callbacks: list[Any]) -> None:
        config = {"callbacks": callbacks}
        for _ in range(iterations):
            compiled.invoke({"messages": messages}, config)

    return go


SHAPES: dict[str, tuple[str, int, Callable[[], Callable[[int, list[Any]], None]]]] = {
    "A": ("one model call, 4 KB prompt", 1000, lambda: call(1)),
    "B": ("prompt, model, function, tool", 300, step),
    "C": ("one model call, 50 x 4 KB history", 300, lambda: call(50)),
    "G": ("LangGraph, three agents, two handoffs", 100, graph),
}
"""name -> (what it is, iterations, maker)."""
