"""A node and an agent name only handoffs that their log took: what the rules tell them more is left out and counted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, agent, ai, drive, hops, intact
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from patternkit import command, row

import counterfoil
from counterfoil_langchain import Handler
from counterfoil_langchain.rules import Rules

MODES = pytest.mark.parametrize("mode", ["invoke", "astream"])


def calling() -> tuple[Any, list[tuple[str, str, str, str, bool, str]]]:
    """An agent that calls another one from a tool: the called one is no node of the graph."""
    helper = agent("helper", ai("42"))

    @tool
    def ask() -> str:
        """Ask the helper."""
        return str(helper.invoke(ASKED)["messages"][-1].content)

    found = [row("chief", "helper", "call", status="accepted"), row("helper", "chief", "return")]
    return agent("chief", ai("", ("ask", {}, "c1")), ai("done"), tools=[ask]), found


def lost(evidence: Path) -> set[str]:
    return {one.body["content"]["name"] for one in counterfoil.read(evidence).records() if one.op == "loss"}


def received(evidence: Path) -> dict[tuple[str, str], list[str]]:
    return {
        (call.op, call.name): call.handoffs for call in counterfoil.read(evidence).calls() if call.handoffs
    }


@MODES
def test_a_node_that_is_told_of_a_handoff_that_nobody_signed(
    handler: Handler, evidence: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    accept = Rules.accept

    def more(self: Rules, *arguments: Any) -> Any:
        parents, handoffs = accept(self, *arguments)
        return parents, ["0" * 64, *handoffs]

    monkeypatch.setattr(Rules, "accept", more)
    application, asked, found, _ = command()
    drive(application, asked, mode, callbacks=[handler])
    handler.close()
    _only_losses(evidence)
    assert hops(counterfoil.read(evidence)) == sorted(found)
    assert all("0" * 64 not in told for told in received(evidence).values())
    assert ("step", "writer") in received(evidence)


@MODES
def test_an_agent_that_is_told_of_a_call_that_nobody_signed(
    handler: Handler, evidence: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    call = Rules.call
    monkeypatch.setattr(Rules, "call", lambda *arguments: [*call(*arguments), "1" * 64])
    application, _ = calling()
    drive(application, ASKED, mode, callbacks=[handler])
    handler.close()
    _only_losses(evidence)
    (told,) = received(evidence).values()
    assert "1" * 64 not in told
    assert len(told) == 1


@pytest.mark.parametrize("inner", [lambda: command()[0], lambda: calling()[0]], ids=["nodes", "agents"])
def test_a_node_that_forks(handler: Handler, evidence: Path, inner: Callable[[], Any]) -> None:
    """The child goes on inside the node, with the handoffs and calls of its parent in memory."""
    application = inner()

    def forking(state: MessagesState) -> dict[str, Any]:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                application.invoke(ASKED, {"callbacks": [handler]})
                handler.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        return {"messages": [AIMessage("forked")]}

    graph = StateGraph(MessagesState)
    graph.add_node("before", agent("before", ai("first")))
    graph.add_node("forking", forking)
    graph.add_edge(START, "before")
    graph.add_edge("before", "forking")
    drive(graph.compile(), ASKED, "invoke", callbacks=[handler])
    handler.close()
    found = counterfoil.verify(evidence)
    assert found.counts["logs"] == 2
    assert found.verdict in ("intact", "incomplete")
    assert {one.code for one in found.findings} <= {"CF-VERIFY-021"}
    both = received(evidence)
    assert ("step", "forking") in both
    assert len(both) > 1


def test_what_is_signed_is_named(handler: Handler, evidence: Path) -> None:
    application, found = calling()
    drive(application, ASKED, "invoke", callbacks=[handler])
    handler.close()
    assert hops(intact(evidence)) == sorted(found)
    (told,) = received(evidence).values()
    assert len(told) == 1


def _only_losses(evidence: Path) -> None:
    found = counterfoil.verify(evidence)
    assert (found.verdict, {one.code for one in found.findings}) == ("incomplete", {"CF-VERIFY-021"})
    assert lost(evidence) == {"a handoff that a call received is not in this log"}
