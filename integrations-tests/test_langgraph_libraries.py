"""The libraries people build agents with on LangGraph, unmodified: exactly their handoffs, in each way to run them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, MODES, Row, Scripted, ai, between_agents, counted, drive, hops, intact
from langchain.agents import create_agent
from langchain.agents.middleware import before_model, wrap_model_call
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import counterfoil

with warnings.catch_warnings():
    # Both still build on langgraph.prebuilt.create_react_agent, which warns of its own end.
    warnings.simplefilter("ignore")
    from langgraph_supervisor import create_supervisor
    from langgraph_swarm import create_handoff_tool, create_swarm

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")


def row(sender: str, to: str, kind: str, *, exact: bool = True, status: str = "accepted") -> Row:
    sealed = kind in ("command", "send", "call", "return")
    return (sender, to, kind, "sealed" if sealed else "observed", exact, status)


def made(name: str, *script: Any, tools: Any = (), **more: Any) -> Any:
    return create_agent(Scripted(script=list(script)), list(tools), name=name, **more)


def closed(evidence: Path) -> Any:
    counterfoil.uninstall()
    return intact(evidence)


@pytest.mark.parametrize("mode", MODES)
def test_a_supervisor(mode: str, recording: Path) -> None:
    chief = Scripted(script=[ai("", ("transfer_to_math", {}, "c1")), ai("done")])
    app = create_supervisor([made("math", ai("42"))], model=chief).compile(name="team")
    drive(app, ASKED, mode)
    reader = closed(recording)
    expected = [row("math", "supervisor", "edge"), row("supervisor", "math", "command")]
    assert hops(reader) == between_agents(reader) == expected
    assert counted(reader)["chat", "scripted-1", "ok"] == 3


@pytest.mark.parametrize("mode", MODES)
def test_a_supervisor_that_transfers_twice_at_once(mode: str, recording: Path) -> None:
    """LangGraph keeps one of the two at random today; the other is told as dropped."""
    script = [ai("", ("transfer_to_x", {}, "c1"), ("transfer_to_y", {}, "c2")), ai("done")]
    team = create_supervisor([made("x", ai("X")), made("y", ai("Y"))], model=Scripted(script=script))
    drive(team.compile(name="team"), ASKED, mode)
    reader = closed(recording)
    found = hops(reader)
    sent = [(to, status) for _, to, kind, basis, _, status in found if kind == "send" and basis == "sealed"]
    assert sorted(to for to, _ in sent) == ["x", "y"]
    started = {to for to, status in sent if status == "accepted"}
    dropped = {to for to, status in sent if status == "dropped"}
    assert started
    assert started | dropped == {"x", "y"}
    backwards = [row(name, "supervisor", "edge", exact=len(started) == 1) for name in started]
    assert [one for one in found if one[2] == "edge"] == sorted(backwards)


@pytest.mark.parametrize("mode", MODES)
def test_a_swarm_of_two_turns(mode: str, recording: Path) -> None:
    alice = made(
        "Alice", ai("", ("transfer_to_bob", {}, "c1")), tools=[create_handoff_tool(agent_name="Bob")]
    )
    swarm = create_swarm([alice, made("Bob", ai("hello"))], default_active_agent="Alice")
    app = swarm.compile(checkpointer=InMemorySaver(), name="swarm")
    for _ in range(2):
        drive(app, ASKED, mode, configurable={"thread_id": "t"})
    reader = closed(recording)
    first, second = reader.runs()
    assert hops(reader, first.id) == between_agents(reader, first.id) == [row("Alice", "Bob", "command")]
    assert hops(reader, second.id) == [row("Bob", "Bob", "continue", exact=False)]


@pytest.mark.parametrize("mode", MODES)
def test_deep_agents_that_work_at_once(mode: str, recording: Path) -> None:
    from deepagents import create_deep_agent

    tasks = [("task", {"description": f"dig {n}", "subagent_type": "digger"}, f"c{n}") for n in range(2)]
    digger = {
        "name": "digger",
        "description": "digs",
        "system_prompt": "dig",
        "model": Scripted(script=[ai("found")]),
        "tools": [],
    }
    app = create_deep_agent(
        model=Scripted(script=[ai("", *tasks), ai("done")]), subagents=[digger], name="main"
    )
    drive(app, ASKED, mode)
    reader = closed(recording)
    expected = [*[row("digger", "main", "return")] * 2, *[row("main", "digger", "call")] * 2]
    assert hops(reader) == between_agents(reader) == expected
    assert counted(reader)["execute_tool", "task", "ok"] == 2
    addresses = {call.address for call in reader.calls() if call.op == "execute_tool"}
    assert {address.rpartition("/")[2] for address in addresses} == {
        "execute_tool:task@0",
        "execute_tool:task@1",
    }


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_in_a_tool(mode: str, recording: Path) -> None:
    sub = made("sub", ai("because"))

    @tool
    def ask(question: str) -> str:
        """Ask."""
        return str(sub.invoke({"messages": [("user", question)]})["messages"][-1].text)

    @tool
    async def ask_later(question: str) -> str:
        """Ask."""
        return str((await sub.ainvoke({"messages": [("user", question)]}))["messages"][-1].text)

    asked: BaseTool = ask_later if mode.startswith("a") else ask
    drive(made("boss", ai("", (asked.name, {"question": "?"}, "c1")), ai("so"), tools=[asked]), ASKED, mode)
    reader = closed(recording)
    expected = [row("boss", "sub", "call"), row("sub", "boss", "return")]
    assert hops(reader) == between_agents(reader) == expected


@pytest.mark.parametrize("mode", MODES)
def test_static_edges_command_and_teams(mode: str, recording: Path) -> None:
    """Agents joined by edges through a function, a Command out of an agent's tool, and a team in a graph."""

    @tool
    def to_writer(runtime: ToolRuntime) -> Command[Any]:
        """Hand over to the writer."""
        done = ToolMessage("to writer", tool_call_id=runtime.tool_call_id)
        return Command(
            goto="writer", graph=Command.PARENT, update={"messages": [*runtime.state["messages"], done]}
        )

    team = StateGraph(MessagesState)
    team.add_node(
        "planner",
        made("planner", ai("", ("to_writer", {}, "c1")), tools=[to_writer]),
        destinations=("writer",),
    )
    team.add_node("writer", made("writer", ai("text")))
    team.add_edge(START, "planner")
    graph = StateGraph(MessagesState)
    graph.add_node("team", team.compile(name="team"))
    graph.add_node("format", lambda state: {"messages": []})
    graph.add_node("critic", made("critic", ai("good")))
    graph.add_edge(START, "team")
    graph.add_edge("team", "format")
    graph.add_edge("format", "critic")
    drive(graph.compile(name="house"), ASKED, mode)
    reader = closed(recording)
    assert hops(reader) == sorted(
        [
            row("team", "team/planner", "enter"),
            row("team/planner", "team/writer", "command"),
            row("team", "format", "edge"),
            row("format", "critic", "edge"),
        ]
    )
    assert between_agents(reader) == sorted(
        [
            row("team", "team/planner", "enter"),
            row("team/planner", "team/writer", "command"),
            row("team", "critic", "edge"),
        ]
    )


class Verdict(BaseModel):
    """What the judge says."""

    guilty: bool


@pytest.mark.parametrize("mode", MODES)
def test_middleware_structured_output_and_a_system_prompt(mode: str, recording: Path) -> None:
    @wrap_model_call
    def twice(request: Any, handler: Any) -> Any:
        handler(request)
        return handler(request)

    @wrap_model_call
    async def twice_later(request: Any, handler: Any) -> Any:
        await handler(request)
        return await handler(request)

    @before_model
    def look(state: Any, runtime: Any) -> None:
        return None

    judge = made(
        "judge",
        ai("", ("Verdict", {"guilty": True}, "c1")),
        middleware=[twice_later if mode.startswith("a") else twice, look],
        response_format=ToolStrategy(Verdict),
        system_prompt="You judge.",
    )
    drive(judge, ASKED, mode)
    reader = closed(recording)
    assert hops(reader) == []
    chats = [call for call in reader.calls() if call.op == "chat"]
    assert [(call.actor, call.status) for call in chats] == [("judge", "ok")] * 2
    request = reader.value(chats[0].request)
    assert request["messages"][0] == {
        "$msg": {"content": [{"text": "You judge.", "type": "text"}], "type": "system"}
    }
    assert [one["function"]["name"] for one in request["tools"]] == ["Verdict"]
    (root,) = [call for call in reader.calls() if call.op == "invoke_agent"]
    assert "Verdict" in str(reader.value(root.response)["structured_response"])


def test_a_thread_that_waits_in_a_database_for_its_answer(recording: Path, tmp_path: Path) -> None:
    """The tool of an agent asks a person; the same process goes on with the thread's next run."""

    @tool
    def ask_person(question: str) -> str:
        """Ask a person."""
        return str(interrupt(question))

    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = StateGraph(MessagesState)
        boss = made(
            "boss", ai("", ("ask_person", {"question": "may I?"}, "c1")), ai("done"), tools=[ask_person]
        )
        graph.add_node("boss", boss)
        graph.add_node("clerk", made("clerk", ai("filed")))
        graph.add_edge(START, "boss")
        graph.add_edge("boss", "clerk")
        app = graph.compile(checkpointer=saver, name="office")
        config: Any = {"configurable": {"thread_id": "t"}}
        assert app.invoke(ASKED, config)["__interrupt__"][0].value == "may I?"
        assert app.invoke(Command(resume="yes"), config)["messages"][-1].content == "filed"
    reader = closed(recording)
    first, second = reader.runs()
    assert hops(reader, first.id) == []
    expected = [row("boss", "boss", "continue"), row("boss", "clerk", "edge")]
    assert hops(reader, second.id) == expected
    asked = [call for call in reader.calls() if call.op == "execute_tool"]
    assert [(call.name, call.status) for call in asked] == [
        ("ask_person", "interrupted"),
        ("ask_person", "ok"),
    ]
