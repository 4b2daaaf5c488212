"""Streams nobody reads to the end, cancelled tasks, and what never ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, Scripted, ai, counted, intact
from langgraph.graph import START, MessagesState, StateGraph

from counterfoil_langchain import Handler


def test_streams_that_are_not_read_to_the_end(handler: Handler, evidence: Path) -> None:
    config = {"callbacks": [handler]}
    model = Scripted(script=[ai("one two three")])
    closed = model.stream("x", config)
    next(closed)
    closed.close()
    dropped = model.stream("x", config)
    next(dropped)
    del dropped
    gc.collect()

    async def leave() -> None:
        left = model.astream("x", config)
        await anext(left)

    asyncio.run(leave())
    app = (
        StateGraph(MessagesState)
        .add_node("n", lambda state: model.invoke("x") and {})
        .add_edge(START, "n")
        .compile()
    )
    stream = app.stream(ASKED, config, stream_mode="messages")
    next(stream)
    stream.close()
    handler.close()
    reader = intact(evidence)
    chats = [call for call in reader.calls() if call.op == "chat"]
    assert {call.status for call in chats[:3]} == {"cancelled"}
    assert all(call.end is not None for call in reader.calls())


def test_cancelled_tasks(handler: Handler, evidence: Path) -> None:
    """A cancelled ``ainvoke`` of a model has no end event at all: its run's end tells that it was abandoned."""
    model = Scripted(script=[ai("never")], wait=30)
    config = {"callbacks": [handler]}

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke("x")]}

    app = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()

    async def cancel(work: Any) -> None:
        before = len(model.asked)
        task = asyncio.create_task(work)
        while len(model.asked) == before and not task.done():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel(app.ainvoke(ASKED, config)))
    asyncio.run(cancel(model.ainvoke("x", config)))
    handler.close()
    reader = intact(evidence)
    assert [(call.op, call.status) for call in reader.calls()] == [
        ("invoke_workflow", "cancelled"),
        ("step", "cancelled"),
        ("chat", "abandoned"),
        ("chat", "abandoned"),
    ]


def test_what_never_ends_is_given_up_and_not_kept_for_ever(
    handler: Handler, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterfoil_langchain import tracker

    monkeypatch.setattr(tracker, "_HELD", 20)
    monkeypatch.setattr(tracker, "_LATE", 5)
    model = Scripted(script=[ai("never")], wait=30)

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke("x")]}

    app = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()

    async def cancel(work: Callable[[], Any]) -> None:
        for _ in range(30):
            before = len(model.asked)
            task = asyncio.create_task(work())
            while len(model.asked) == before and not task.done():
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    config = {"callbacks": [handler]}
    asyncio.run(cancel(lambda: model.ainvoke("x", config)))
    assert len(handler._tracker._nodes) <= 20
    asyncio.run(cancel(lambda: app.ainvoke(ASKED, config)))
    assert len(handler._tracker._nodes) <= 20
    handler.close()
    statuses = counted(intact(evidence))
    assert (
        sum(count for (op, _, status), count in statuses.items() if (op, status) == ("chat", "abandoned"))
        >= 30
    )
