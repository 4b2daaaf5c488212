"""What is recorded is what happened, equal in every way to run it: equal runs, maps, threads."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import pytest
from graphkit import ASKED, MODES, Scripted, agent, ai, drive, ended, intact
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Send

from counterfoil_langchain import Handler


@pytest.mark.parametrize("mode", MODES)
def test_a_streamed_chain_tells_its_input_at_its_end(mode: str, handler: Handler, evidence: Path) -> None:
    chain = RunnableLambda(lambda n: n + 1) | RunnableLambda(lambda n: 2 * n)
    drive(chain, 1, mode, callbacks=[handler])
    drive(RunnableLambda(len), {"input": ""}, mode, callbacks=[handler])
    handler.close()
    reader = intact(evidence)
    found = [(reader.value(call.request), reader.value(call.response)) for call in reader.calls()]
    assert found == [(1, 4), (1, 2), (2, 4), ({"input": ""}, 1)]


@pytest.mark.parametrize("mode", MODES)
def test_two_equal_runs_have_one_content_root(mode: str, handler: Handler, evidence: Path) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    for _ in range(2):
        asked = ai("let me see", ("add", {"a": 1, "b": 2}, "c1"), ("add", {"a": 3, "b": 4}, "c2"))
        drive(agent("boss", asked, ai("done"), tools=[add]), ASKED, mode, callbacks=[handler])
    drive(agent("boss", asked, ai("other"), tools=[add]), ASKED, mode, callbacks=[handler])
    handler.close()
    first, second, third = (run.content_root for run in intact(evidence).runs())
    assert first == second != third


def test_removed_messages(handler: Handler, evidence: Path) -> None:
    """A random id differs in every run and stands beside the record; one the application chose is what it said."""

    def wipe(state: MessagesState) -> dict[str, Any]:
        return {"messages": [RemoveMessage(str(message.id)) for message in state["messages"]]}

    app = StateGraph(MessagesState).add_node("wipe", wipe).add_edge(START, "wipe").compile()
    for _ in range(2):
        app.invoke({"messages": [HumanMessage("x"), HumanMessage("y", id="mine")]}, {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    steps = [call for call in reader.calls() if call.op == "step"]
    for call in steps:
        first, second = reader.value(call.response)["messages"]
        assert first == {"$msg": {"content": [], "type": "remove"}}
        assert second == {"$msg": {"content": [], "id": "mine", "type": "remove"}}
    ids = [reader.value(ended(call)["raw"])["removed"] for call in steps]
    assert [len(one) for one in ids] == [1, 1]
    assert ids[0] != ids[1]
    first, second = reader.runs()
    assert first.content_root == second.content_root


def test_branches_of_a_map_have_their_keys_as_addresses(handler: Handler, evidence: Path) -> None:
    """Branches of equal name and input, started in any order and answering differently."""

    def waits(answer: int) -> Any:
        def branch(value: int) -> int:
            time.sleep(random.random() / 100)
            return answer

        return RunnableLambda(branch, name="branch")

    models = {name: Scripted(script=[ai(name)]) for name in ("left", "right")}
    for turn in range(6):
        names = ["a", "b", "c"] if turn % 2 else ["c", "b", "a"]
        RunnableParallel({name: waits(ord(name)) for name in names}).invoke(1, {"callbacks": [handler]})
    for turn in range(4):
        names = ["left", "right"] if turn % 2 else ["right", "left"]
        RunnableParallel({name: models[name] for name in names}).invoke("x", {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    places = {
        call.address.partition("@")[2]: reader.value(call.response)
        for call in reader.calls()
        if call.name == "branch"
    }
    assert places == {"map.a": 97, "map.b": 98, "map.c": 99}
    chats: dict[str, set[str]] = {}
    for call in reader.calls():
        if call.op == "chat":
            chats.setdefault(call.address.partition("@")[2], set()).add(str(reader.value(call.response)))
    assert {place: len(answers) for place, answers in chats.items()} == {"map.left": 1, "map.right": 1}


def test_many_threads_at_once(handler: Handler, evidence: Path) -> None:
    """Runs that overlap in threads and in one loop: each is whole, and all are equal."""

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        time.sleep(random.random() / 200)
        return a + b

    asked = ai(
        "", ("add", {"a": 1, "b": 2}, "c1"), ("add", {"a": 1, "b": 2}, "c2"), ("add", {"a": 5, "b": 2}, "c3")
    )

    def build() -> Any:
        graph = StateGraph(MessagesState)
        graph.add_node("first", agent("first", asked, ai("3"), tools=[add]))
        graph.add_node("work", lambda state: {"messages": [("ai", state["text"])]}, input_schema=Text)
        graph.add_node("last", lambda state: {"messages": [("ai", "last")]})
        graph.add_edge(START, "first")
        sends = [Send("work", {"text": text}) for text in ("one", "two", "two")]
        graph.add_conditional_edges("first", lambda state: sends, ["work"])
        graph.add_edge("work", "last")
        return graph.compile(name="app")

    config = {"callbacks": [handler]}
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(lambda: build().invoke(ASKED, config)) for _ in range(16)]:
            done.result()

    async def together() -> None:
        await asyncio.gather(*(build().ainvoke(ASKED, config) for _ in range(8)))

    asyncio.run(together())
    handler.close()
    reader = intact(evidence)
    roots = [run.content_root for run in reader.runs()]
    assert len(roots) == 24
    # LangGraph names its routers in one way of running them and not in the other.
    assert (len(set(roots[:16])), len(set(roots[16:]))) == (1, 1)
    assert {len(reader.graph(run=run.id).edges) for run in reader.runs()} == {4}


class Text(TypedDict):
    text: str
