"""Each way agents hand over in LangGraph, in each way a graph is run: exactly the handoffs there were."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, MODES, Numbers, agent, ai, between_agents, drive, hops, intact, say, transfer
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from patternkit import NUMBERS, PATTERNS, Pattern, asking, row, workers

from counterfoil import canonical
from counterfoil_langchain import Handler


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.__name__)
def test_a_pattern_leaves_exactly_its_handoffs(
    pattern: Callable[..., Pattern], mode: str, handler: Handler, evidence: Path
) -> None:
    app, inputs, expected, agents = pattern(mode) if pattern is asking else pattern()
    drive(app, inputs, mode, callbacks=[handler])
    assert (handler._tracker._nodes, handler.recorder._roots) == (
        {},
        {},
    )  # nothing is held of a run that is over
    handler.close()
    reader = intact(evidence)
    assert hops(reader) == sorted(expected)
    assert between_agents(reader) == sorted(agents)
    assert {run.root.status for run in reader.runs() if run.root is not None} == {"ok"}


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.__name__)
def test_a_pattern_run_twice_has_one_content_root(
    pattern: Callable[..., Pattern], handler: Handler, evidence: Path
) -> None:
    for mode in ("invoke", "stream"):
        app, inputs, *_ = pattern(mode) if pattern is asking else pattern()
        drive(app, inputs, mode, callbacks=[handler])
    handler.close()
    first, second = (run.content_root for run in intact(evidence).runs())
    assert first == second


@pytest.mark.parametrize("mode", MODES)
def test_of_two_parallel_transfers_one_is_dropped_and_told(
    mode: str, handler: Handler, evidence: Path
) -> None:
    graph = StateGraph(MessagesState)
    script = [ai("", ("transfer_to_x", {}, "c1"), ("transfer_to_y", {}, "c2")), ai("done")]
    chief = agent("chief", *script, tools=[transfer("x"), transfer("y")])
    graph.add_node("chief", chief, destinations=("x", "y", END))
    graph.add_node("x", agent("x", ai("X")))
    graph.add_node("y", agent("y", ai("Y")))
    graph.add_edge(START, "chief")
    drive(graph.compile(), ASKED, mode, callbacks=[handler])
    handler.close()
    reader = intact(evidence)
    (started,) = {call.actor for call in reader.calls() if call.actor in ("x", "y")}
    (other,) = {"x", "y"} - {started}
    found = [row("chief", started, "command"), row("chief", other, "command", status="dropped")]
    assert hops(reader) == sorted(found)
    assert between_agents(reader) == sorted(found)


@pytest.mark.parametrize("mode", MODES)
def test_a_swarms_next_turn_goes_on_from_the_last(mode: str, handler: Handler, evidence: Path) -> None:
    graph = StateGraph(MessagesState)
    alice = agent("alice", ai("", ("transfer_to_bob", {}, "c1")), tools=[transfer("bob")])
    graph.add_node("alice", alice, destinations=("bob",))
    graph.add_node("bob", agent("bob", ai("bob")))
    graph.add_conditional_edges(
        START, lambda state: "bob" if len(state["messages"]) > 1 else "alice", ["alice", "bob"]
    )
    app = graph.compile(checkpointer=InMemorySaver(), name="swarm")
    for _ in range(2):
        drive(app, ASKED, mode, callbacks=[handler], configurable={"thread_id": "t"})
    handler.close()
    reader = intact(evidence)
    first, second = reader.runs()
    assert hops(reader, first.id) == between_agents(reader, first.id) == [row("alice", "bob", "command")]
    # Whether the earlier run is all that the thread holds, only the checkpointer knows.
    assert hops(reader, second.id) == [row("bob", "bob", "continue", exact=False)]
    assert between_agents(reader, second.id) == []


@pytest.mark.parametrize("mode", MODES)
def test_after_an_interrupt_the_run_goes_on_from_where_it_stopped(
    mode: str, handler: Handler, evidence: Path
) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("may I?"))]}

    graph = StateGraph(MessagesState)
    graph.add_node("planner", agent("planner", ai("plan")))
    graph.add_node("ask", ask)
    graph.add_node("side", agent("side", ai("side")))
    graph.add_node("last", agent("last", ai("last")))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "ask")
    graph.add_edge("planner", "side")
    graph.add_edge(["ask", "side"], "last")
    app = graph.compile(checkpointer=InMemorySaver(), name="asks")
    config: dict[str, Any] = {"callbacks": [handler], "configurable": {"thread_id": "t"}}
    drive(app, ASKED, mode, **config)
    drive(app, Command(resume="yes"), mode, **config)
    handler.close()
    reader = intact(evidence)
    first, second = reader.runs()
    assert hops(reader, first.id) == sorted([row("planner", "ask", "edge"), row("planner", "side", "edge")])
    resumed = [row("ask", "ask", "continue"), row("ask", "last", "join"), row("side", "last", "join")]
    assert hops(reader, second.id) == sorted(resumed)
    statuses = [(call.name, call.status) for call in reader.calls() if call.name == "ask"]
    assert statuses == [("ask", "interrupted"), ("ask", "ok")]
    assert set(between_agents(reader)) >= {row("side", "last", "join"), row("planner", "side", "edge")}


def test_an_equal_thread_id_without_a_checkpointer_joins_nothing(handler: Handler, evidence: Path) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("only", say("x"))
    graph.add_edge(START, "only")
    app = graph.compile()
    for _ in range(2):
        app.invoke(ASKED, {"callbacks": [handler], "configurable": {"thread_id": "t"}})
    handler.close()
    assert hops(intact(evidence)) == []


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
def test_a_wide_fan_out_loses_nothing(mode: str, handler: Handler, evidence: Path) -> None:
    width, runs = 24, 10
    app = workers(lambda state: [Send("work", {"n": n}) for n in range(width)]).compile()
    for _ in range(runs):
        drive(app, NUMBERS, mode, callbacks=[handler])
    handler.close()
    reader = intact(evidence)
    assert len(reader.runs()) == runs
    for run in reader.runs():
        graph = reader.graph(run=run.id)
        by_name: dict[str, list[Any]] = {}
        for call in graph.calls:
            by_name.setdefault(call.name, []).append(call)
        assert {
            name: len(calls) for name, calls in by_name.items() if name in ("split", "work", "collect")
        } == {
            "split": 1,
            "work": width,
            "collect": 1,
        }
        (split,), (collect,), worked = by_name["split"], by_name["collect"], by_name["work"]
        # Each task got the Send whose payload it was started with, from the one splitter.
        arguments = sorted(reader.value(call.request)["n"] for call in worked)
        assert arguments == list(range(width))
        sent = [edge for edge in graph.edges if edge.handoff.content.kind == "send"]
        assert all(edge.sources == [split] and edge.target is not None for edge in sent)
        assert {edge.target.id for edge in sent if edge.target} == {call.id for call in worked}
        for edge in sent:
            assert edge.target is not None
            assert edge.target.request is not None
            assert edge.handoff.content.payload == edge.target.request.sha256
        (joined,) = [edge for edge in graph.edges if edge.target is collect]
        assert joined.handoff.parentSet is not None
        assert joined.handoff.parentSet.count == width == len(joined.parents)
        # The repeatable half names them as well: by address, under one hash.
        assert joined.handoff.content.parents is None
        addresses = sorted(call.address for call in worked)
        listed = canonical.dumps([{"address": address, "rel": "control"} for address in addresses])
        assert joined.handoff.content.parentSet is not None
        assert joined.handoff.content.parentSet.count == width
        assert joined.handoff.content.parentSet.sha256 == hashlib.sha256(listed).hexdigest()
        assert {call.id for call in joined.sources} == {call.id for call in worked}
        assert {one["digest"] for one in joined.parents} == {call.end_digest for call in worked}
        assert run.content_root == reader.runs()[0].content_root


def test_a_join_of_more_senders_than_a_statement_lists(handler: Handler, evidence: Path) -> None:
    names = [f"node-{number:03d}-{'x' * 40}" for number in range(150)]
    graph = StateGraph(Numbers)
    for name in names:
        graph.add_node(name, lambda state: {"out": [1]})
        graph.add_edge(START, name)
    graph.add_node("collect", lambda state: {"out": ["end"]})
    graph.add_edge(names, "collect")
    graph.compile().invoke(NUMBERS, {"callbacks": [handler]})
    handler.close()
    assert hops(intact(evidence)) == [row(name, "collect", "join") for name in names]


@pytest.mark.parametrize("name", ["x" * 1_500, "研究" * 300, "a/b @c #d", "\n\t\x00"])
def test_any_name_is_an_actor(name: str, handler: Handler, evidence: Path) -> None:
    graph = StateGraph(Numbers)
    graph.add_node("first", lambda state: Command(goto=name, update={"out": [1]}))
    graph.add_node(name, lambda state: {"out": [2]})
    graph.add_node("last", lambda state: {"out": [3]})
    graph.add_edge(START, "first")
    graph.add_edge(name, "last")
    graph.compile().invoke(NUMBERS, {"callbacks": [handler]})
    handler.close()
    found = hops(intact(evidence))
    assert [(kind, status) for _, _, kind, _, _, status in found] == [
        (kind, "accepted") for kind in sorted(["command", "edge"], reverse=found[0][2] == "edge")
    ]
    assert len({one for pair in found for one in pair[:2]}) == 3


def test_twenty_graphs_in_each_other(handler: Handler, evidence: Path) -> None:
    app: Any = None
    for level in range(20):
        graph = StateGraph(Numbers)
        graph.add_node(f"level-{level}", app or (lambda state: {"out": [1]}))
        graph.add_edge(START, f"level-{level}")
        app = graph.compile()
    app.invoke(NUMBERS, {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    assert [kind for _, _, kind, _, _, _ in hops(reader)] == ["enter"] * 19
    assert len({call.address for call in reader.calls()}) == len(reader.calls())
