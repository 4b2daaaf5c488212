"""An incident desk: six agents that turn a customer's complaint into a report. Plain LangGraph, nothing else.

    coordinator --Command--> triage --transfer_to_database--> database --edge--> coordinator
    coordinator --Send x3--> inspector (parallel) --join--> coordinator
    coordinator --Command--> writer --tool--> reviewer --return--> writer --edge--> coordinator --> end

It talks to whatever ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY`` name. With the model of ``demo.script`` one
run is:

- model calls, 15: coordinator 4, triage 2, database 3, inspector 3, writer 2 (streamed), reviewer 1
- tool calls, 6: ``lookup_service`` 1, ``transfer_to_database`` 1, ``query_metrics`` 3, ``ask_reviewer`` 1.
  Of the first two ``query_metrics``, asked for in one message, one fails on its argument (the tool never
  runs) and one in the tool; both failures go back to the model as messages with ``status="error"``.
- handoffs, 11, in order: coordinator > triage (Command), triage > database (Command to the parent graph,
  from a tool), database > coordinator (edge), coordinator > inspector 3 times (Send), inspector > coordinator
  (join of the three), coordinator > writer (Command), writer > reviewer (call), reviewer > writer (return),
  writer > coordinator (edge). They join 9 pairs of names; the join has 3 parents, so 13 parent links in all.
- activations of agents, 11: coordinator 4, triage 1, database 1, inspector 3, writer 1, reviewer 1

The coordinator's tool ``Route`` is a form for the model's answer: it is offered and called for, never run.
Requests and replies are the same in every run; the three inspectors' may arrive in any order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import ToolException
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send
from pydantic import BaseModel, Field

MODEL = "gpt-4.1-mini"
COMPLAINT = "Since 09:45 customers cannot finish checkout: the page waits and then says 'Please try again'."

COORDINATOR = "You are the coordinator of an incident desk. Read what is known and decide who acts next."
TRIAGE = "You are the triage agent. Find the system a complaint belongs to and transfer it to its owner."
DATABASE = "You are the database agent. Measure before you judge, and say when something started."
INSPECTOR = "You are the inspector. Report the damage in one service, and what can be done about it."
WRITER = "You are the writer. Draft a report of what was found, have it reviewed, then give the final text."
REVIEWER = "You are the reviewer. Say what a draft report leaves out. Be short."


class Desk(TypedDict):
    """State of the desk: one conversation that every agent reads and adds to."""

    messages: Annotated[list[AnyMessage], add_messages]


class Inspection(TypedDict):
    """What one inspector is sent."""

    service: str
    known: str


class Route(BaseModel):
    """Hand the incident to the next agent."""

    to: Literal["triage", "inspector", "writer", "finish"]
    why: str = Field(description="One sentence for the log.")
    services: list[str] = Field(default_factory=list, description="For the inspector: one service each.")


@tool
def lookup_service(name: str) -> str:
    """Look up a service in the service list."""
    return f"{name}: owner=orders team, needs=[orders-db-1, orders-db-9, payments], release=4.12 at 09:40"


@tool
def transfer_to_database(question: str, runtime: ToolRuntime[None, Any]) -> Command[Any]:
    """Transfer the incident to the database agent."""
    done = ToolMessage(f"Transferred to database: {question}", tool_call_id=runtime.tool_call_id)
    update = {"messages": [*runtime.state["messages"], done]}
    return Command(goto="database", graph=Command.PARENT, update=update)


@tool
def query_metrics(instance: str, minutes: int) -> str:
    """Read the connection metrics of a database instance for the last minutes."""
    if instance != "orders-db-1":
        raise ToolException(f"unknown instance: {instance}")
    return f"{instance}, last {minutes} min: pool 100/100 in use since 09:44, 48 waiting, median query 3 ms"


query_metrics.handle_tool_error = True


@tool
def ask_reviewer(draft: str) -> str:
    """Have a draft report reviewed."""
    answer = _reviewer().invoke({"messages": [HumanMessage(f"Review this draft.\n\n{draft}")]})
    return str(answer["messages"][-1].text)


def _reviewer() -> CompiledStateGraph[Any, Any, Any, Any]:
    model = ChatOpenAI(model=MODEL, temperature=0, seed=31, max_completion_tokens=200)
    return create_agent(model, system_prompt=REVIEWER, name="reviewer")


def coordinator(state: Desk) -> Command[Literal["triage", "inspector", "writer", "__end__"]]:
    """Ask the model who acts next and go there: one agent, three inspectors at once, or the end."""
    model = ChatOpenAI(model=MODEL, temperature=0, seed=7, max_completion_tokens=200)
    conversation = [SystemMessage(COORDINATOR), *state["messages"]]
    reply = model.bind_tools([Route], tool_choice="Route").invoke(conversation)
    route = Route.model_validate(reply.tool_calls[0]["args"])
    update = {"messages": [AIMessage(f"To {route.to}: {route.why}", name="coordinator")]}
    if route.to == "finish":
        return Command(goto="__end__", update=update)
    if route.to == "inspector":
        known = str(state["messages"][-1].text)
        sends = [Send("inspector", Inspection(service=name, known=known)) for name in route.services]
        return Command(goto=sends, update=update)
    return Command(goto=route.to, update=update)


def inspector(state: Inspection) -> Desk:
    """Check one service."""
    model = ChatOpenAI(model=MODEL, temperature=0.2, top_p=0.9, seed=11, max_completion_tokens=300)
    question = f"Inspect {state['service']}.\n\nKnown so far: {state['known']}"
    reply = model.invoke([SystemMessage(INSPECTOR), HumanMessage(question)])
    return {"messages": [AIMessage(reply.text, name="inspector")]}


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """The desk's graph, ready to invoke."""
    precise = ChatOpenAI(model=MODEL, temperature=0, seed=7, max_completion_tokens=300)
    fluent = ChatOpenAI(
        model=MODEL,
        temperature=0.7,
        seed=23,
        max_completion_tokens=600,
        stop_sequences=["END OF REPORT"],
        streaming=True,
    )
    triage = create_agent(
        precise, [lookup_service, transfer_to_database], system_prompt=TRIAGE, name="triage"
    )
    database = create_agent(precise, [query_metrics], system_prompt=DATABASE, name="database")
    writer = create_agent(fluent, [ask_reviewer], system_prompt=WRITER, name="writer")

    graph = StateGraph(Desk)
    graph.add_node("coordinator", coordinator)
    graph.add_node("triage", triage, destinations=("database",))
    graph.add_node("database", database)
    graph.add_node("inspector", inspector, input_schema=Inspection)
    graph.add_node("writer", writer)
    graph.add_edge(START, "coordinator")
    for name in ("database", "inspector", "writer"):
        graph.add_edge(name, "coordinator")
    return graph.compile(name="incident-desk")


def main(arguments: Sequence[str] = ()) -> int:
    if not os.environ.get("OPENAI_BASE_URL") or not os.environ.get("OPENAI_API_KEY"):
        print("set OPENAI_BASE_URL and OPENAI_API_KEY", file=sys.stderr)
        return 2
    complaint = " ".join(arguments) or COMPLAINT
    result = build().invoke({"messages": [HumanMessage(complaint)]})
    reports = [message.text for message in result["messages"] if message.name == "writer" and message.text]
    print(reports[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
