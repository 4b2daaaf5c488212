"""Each way agents hand over in LangGraph, in each way a graph is run: exactly these handoffs, and intact."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, MODES, Numbers, Row, agent, ai, between_agents, drive, hops, intact, say, transfer
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, Send, interrupt

from counterfoil import canonical
from counterfoil_langchain import Handler

Pattern = tuple[Any, Any, list[Row], list[Row]]
NUMBERS: dict[str, Any] = {"n": 3, "out": []}


def row(sender: str, to: str, kind: str, *, exact: bool = True, status: str = "accepted") -> Row:
    sealed = kind in ("command", "send", "call", "return")
    return (sender, to, kind, "sealed" if sealed else "observed", exact, status)


def supervisor() -> Pattern:
    """The supervisor's tool raises a Command for the parent graph; a plain edge leads back."""
    graph = StateGraph(MessagesState)
    chief = agent("chief", ai("", ("transfer_to_math", {}, "c1")), ai("done"), tools=[transfer("math")])
    graph.add_node("chief", chief, destinations=("math", END))
    graph.add_node("math", agent("math", ai("42")))
    graph.add_edge(START, "chief")
    graph.add_edge("math", "chief")
    found = [row("chief", "math", "command"), row("math", "chief", "edge")]
    return graph.compile(name="team"), ASKED, found, found


def command() -> Pattern:
    graph = StateGraph(MessagesState)

    def planner(state: MessagesState) -> Command[Any]:
        return Command(goto="writer", update={"messages": [AIMessage("plan")]})

    graph.add_node("planner", planner, destinations=("writer",))
    graph.add_node("writer", agent("writer", ai("text")))
    graph.add_edge(START, "planner")
    return graph.compile(), ASKED, [row("planner", "writer", "command")], []


def hop() -> Pattern:
    """Two agents with a function between them: two hops, one handoff via the function."""
    graph = StateGraph(MessagesState)
    graph.add_node("researcher", agent("researcher", ai("facts")))
    graph.add_node("fmt", say("formatted"))
    graph.add_node("writer", agent("writer", ai("essay")))
    graph.add_edge(START, "researcher")
    graph.add_edge("researcher", "fmt")
    graph.add_edge("fmt", "writer")
    found = [row("researcher", "fmt", "edge"), row("fmt", "writer", "edge")]
    return graph.compile(), ASKED, found, [row("researcher", "writer", "edge")]


def parallel() -> Pattern:
    """a > c and b > d side by side: either could have read both, and that is said."""
    graph = StateGraph(MessagesState)
    for name in "abcd":
        graph.add_node(name, agent(name, ai(name)))
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    graph.add_edge("a", "c")
    graph.add_edge("b", "d")
    found = [row(sender, to, "edge", exact=False) for sender in "ab" for to in "cd"]
    return graph.compile(), ASKED, found, found


def join() -> Pattern:
    graph = StateGraph(MessagesState)
    for name in "abc":
        graph.add_node(name, agent(name, ai(name)))
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    graph.add_edge(["a", "b"], "c")
    found = [row("a", "c", "join"), row("b", "c", "join")]
    return graph.compile(), ASKED, found, found


def label() -> Pattern:
    """A conditional edge whose labels are not node names."""
    graph = StateGraph(MessagesState)
    for name in "abc":
        graph.add_node(name, agent(name, ai(name)))
    graph.add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "yes", {"yes": "c", "no": "b"})
    found = [row("a", "c", "edge")]
    return graph.compile(), ASKED, found, found


def asking(mode: str) -> Pattern:
    """An agent inside another's tool: called, and its answer returned."""
    sub = agent("sub", ai("because"))

    @tool
    def ask_sub(question: str) -> str:
        """Ask."""
        return str(sub.invoke({"messages": [("user", question)]})["messages"][-1].text)

    @tool
    async def ask_sub_later(question: str) -> str:
        """Ask."""
        return str((await sub.ainvoke({"messages": [("user", question)]}))["messages"][-1].text)

    asked: BaseTool = ask_sub_later if mode.startswith("a") else ask_sub
    boss = agent("boss", ai("", (asked.name, {"question": "why?"}, "c1")), ai("final"), tools=[asked])
    found = [row("boss", "sub", "call"), row("sub", "boss", "return")]
    return boss, ASKED, found, found


def workers(targets: Callable[[Numbers], Any]) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Numbers)
    graph.add_node("split", lambda state: {"out": ["split"]})
    graph.add_node("work", lambda state: {"out": [state["n"]]})
    graph.add_node("collect", lambda state: {"out": ["end"]})
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", targets, ["work"])
    graph.add_edge("work", "collect")
    return graph


def sends() -> Pattern:
    graph = workers(lambda state: [Send("work", {"n": n}) for n in range(state["n"])])
    found = [row("split", "work", "send")] * 3 + [row("work", "collect", "edge")]
    return graph.compile(), NUMBERS, found, []


def equal_sends() -> Pattern:
    """Equal payloads, and one Send object twice: two tasks each, so two handoffs each."""
    one = Send("work", {"n": 7})
    graph = workers(lambda state: [one, one, Send("work", {"n": 7})])
    found = [row("split", "work", "send")] * 3 + [row("work", "collect", "edge")]
    return graph.compile(), NUMBERS, found, []


def first_sends() -> Pattern:
    """Sends of the graph's own start: nobody handed anything over."""
    graph = StateGraph(Numbers)
    graph.add_node("work", lambda state: {"out": [state["n"]]})
    graph.add_conditional_edges(
        START, lambda state: [Send("work", {"n": 1}), Send("work", {"n": 1})], ["work"]
    )
    return graph.compile(), NUMBERS, [], []


def gotos() -> Pattern:
    """One Command with names and Sends."""
    graph = StateGraph(Numbers)
    goto = ["a", Send("b", {"n": 1}), Send("b", {"n": 1}), "c"]
    graph.add_node("plan", lambda state: Command(goto=goto, update={"out": ["plan"]}))
    for name in "abcj":
        graph.add_node(name, lambda state: {"out": ["done"]})
    graph.add_edge(START, "plan")
    graph.add_edge(["a", "b", "c"], "j")
    found = [
        *(row("plan", name, "command") for name in "ac"),
        *[row("plan", "b", "send")] * 2,
        *(row(name, "j", "join") for name in "abc"),
    ]
    return graph.compile(), NUMBERS, found, []


def shared_command() -> Pattern:
    """Two nodes return one Command object: the target has two parents."""
    graph = StateGraph(Numbers)
    go = Command(goto="last", update={"out": ["go"]})
    graph.add_node("a", lambda state: go)
    graph.add_node("b", lambda state: go)
    graph.add_node("last", lambda state: {"out": ["last"]})
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    return graph.compile(), NUMBERS, [row("a", "last", "command"), row("b", "last", "command")], []


def loop() -> Pattern:
    graph = StateGraph(Numbers)

    def step(state: Numbers) -> dict[str, Any]:
        return {"n": state["n"] - 1, "out": ["step"]}

    graph.add_node("step", step)
    graph.add_node("check", lambda state: {"out": ["check"]})
    graph.add_edge(START, "step")
    graph.add_edge("step", "check")
    graph.add_conditional_edges("check", lambda state: "step" if state["n"] else END, ["step", END])
    found = [row("step", "check", "edge")] * 3 + [row("check", "step", "edge")] * 2
    return graph.compile(), NUMBERS, found, []


def itself() -> Pattern:
    """A node that goes to itself hands over to nobody else."""
    graph = StateGraph(Numbers)
    graph.add_node("again", lambda state: {"n": state["n"] - 1, "out": ["again"]})
    graph.add_edge(START, "again")
    graph.add_conditional_edges("again", lambda state: "again" if state["n"] else END, ["again", END])
    return graph.compile(), NUMBERS, [row("again", "again", "continue")] * 2, []


def nested() -> Pattern:
    """A team inside a graph, and a team inside that."""
    inner = StateGraph(MessagesState)
    for name in ("s1", "s2"):
        inner.add_node(name, agent(name, ai(name)))
    inner.add_edge(START, "s1")
    inner.add_edge("s1", "s2")
    middle = StateGraph(MessagesState)
    middle.add_node("squad", inner.compile(name="squad"))
    middle.add_edge(START, "squad")
    graph = StateGraph(MessagesState)
    graph.add_node("team", middle.compile(name="team"))
    graph.add_node("boss", agent("boss", ai("well")))
    graph.add_edge(START, "team")
    graph.add_edge("team", "boss")
    found = [
        row("team", "team/squad", "enter"),
        row("team/squad", "team/squad/s1", "enter"),
        row("team/squad/s1", "team/squad/s2", "edge"),
        row("team", "boss", "edge"),
    ]
    return graph.compile(), ASKED, found, found


def upwards() -> Pattern:
    """A plain node of a subgraph raises a Command for the graph above."""
    inner = StateGraph(MessagesState)
    inner.add_node("s1", say("s1"))
    go = Command(graph=Command.PARENT, goto="boss", update={"messages": [AIMessage("up")]})
    inner.add_node("s2", lambda state: go)
    inner.add_edge(START, "s1")
    inner.add_edge("s1", "s2")
    graph = StateGraph(MessagesState)
    graph.add_node("team", inner.compile(name="team"), destinations=("boss",))
    graph.add_node("boss", say("boss"))
    graph.add_edge(START, "team")
    found = [
        row("team", "team/s1", "enter"),
        row("team/s1", "team/s2", "edge"),
        row("team/s2", "boss", "command"),
    ]
    return graph.compile(), ASKED, found, []


def sent_upwards() -> Pattern:
    """Sends inside a Command for the graph above."""
    inner = StateGraph(Numbers)
    sent = [Send("work", {"n": 1}), Send("work", {"n": 2})]
    inner.add_node("s", lambda state: Command(graph=Command.PARENT, goto=sent, update={"out": ["up"]}))
    inner.add_edge(START, "s")
    graph = StateGraph(Numbers)
    graph.add_node("team", inner.compile(name="team"), destinations=("work",))
    graph.add_node("work", lambda state: {"out": [state["n"]]})
    graph.add_edge(START, "team")
    found = [row("team", "team/s", "enter"), *[row("team/s", "work", "send")] * 2]
    return graph.compile(), NUMBERS, found, []


def tool_command() -> Pattern:
    """A tool of a plain graph's tools node returns a Command: one handoff, though the node returns it again."""
    graph = StateGraph(MessagesState)
    graph.add_node("planner", lambda state: {"messages": [ai("", ("transfer_to_writer", {}, "c1"))]})
    graph.add_node("tools", ToolNode([transfer("writer", None)]))
    graph.add_node("writer", say("text"))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "tools")
    found = [row("planner", "tools", "edge"), row("tools", "writer", "command")]
    return graph.compile(), ASKED, found, []


def two_transfers() -> Pattern:
    """Two tools hand over to one agent in one message: it starts once and has both."""
    graph = StateGraph(MessagesState)
    both = ai("", ("transfer_to_writer", {}, "c1"), ("transfer_to_writer", {}, "c2"))
    graph.add_node("planner", lambda state: {"messages": [both]})
    graph.add_node("tools", ToolNode([transfer("writer", None)]))
    graph.add_node("writer", say("text"))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "tools")
    found = [row("planner", "tools", "edge"), *[row("tools", "writer", "command")] * 2]
    return graph.compile(), ASKED, found, []


def retried() -> Pattern:
    """A node that is tried again follows its first attempt, and what comes after follows the last."""
    tries: list[int] = []

    def flaky(state: MessagesState) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return {"messages": [AIMessage("at last")]}

    graph = StateGraph(MessagesState)
    go = Command(goto="flaky", update={"messages": [AIMessage("go")]})
    graph.add_node("planner", lambda state: go, destinations=("flaky",))
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, jitter=False, retry_on=ValueError)
    graph.add_node("flaky", flaky, retry_policy=policy)
    graph.add_node("last", say("last"))
    graph.add_edge(START, "planner")
    graph.add_edge("flaky", "last")
    found = [
        row("planner", "flaky", "command"),
        *[row("flaky", "flaky", "continue")] * 2,
        row("flaky", "last", "edge"),
    ]
    return graph.compile(), ASKED, found, []


def unnamed_children() -> Pattern:
    """What a node calls itself is its own: chains, models, and an agent it wraps under another name."""
    inner = agent("helper", ai("helped"))

    def wrap(state: MessagesState) -> dict[str, Any]:
        return {"messages": inner.invoke(state)["messages"][-1:]}

    graph = StateGraph(MessagesState)
    graph.add_node("first", agent("first", ai("one")))
    graph.add_node("wrapper", wrap)
    graph.add_edge(START, "first")
    graph.add_edge("first", "wrapper")
    found = [row("first", "wrapper", "edge")]
    return graph.compile(), ASKED, found, found


PATTERNS: list[Callable[..., Pattern]] = [
    asking,
    command,
    equal_sends,
    first_sends,
    gotos,
    hop,
    itself,
    join,
    label,
    loop,
    nested,
    parallel,
    retried,
    sends,
    sent_upwards,
    shared_command,
    supervisor,
    tool_command,
    two_transfers,
    unnamed_children,
    upwards,
]


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
