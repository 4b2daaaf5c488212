"""Tool calls: any value in and out, how they end, parallel ones, unknown ones, lenient nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, Answer, agent, ai, counted, intact
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import ToolException, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy

from counterfoil_langchain import Handler


class Refuses:
    """An object that answers no question about itself."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Lies:
    """An object whose class is a question it refuses."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("class")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise RuntimeError("class")


@dataclasses.dataclass
class Point:
    x: float
    y: Any


def unfinished() -> Iterator[int]:
    yield 1


def cyclic() -> list[Any]:
    out: list[Any] = [1]
    out.append(out)
    return out


AWKWARD: list[tuple[Any, Any]] = [
    (b"\x00\xff", {"$bytes": "AP8="}),
    (float("nan"), {"$num": "NaN"}),
    (float("-inf"), {"$num": "-Infinity"}),
    ("\ud800", {"$str": "7aCA"}),
    (2**64, {"$int": "0x10000000000000000"}),
    ({1: "a", "1": "b"}, {"$map": [["1", "b"], [1, "a"]]}),
    ({"$ref": "x"}, {"$map": [["$ref", "x"]]}),
    (cyclic(), [1, {"$cycle": 1}]),
    (unfinished(), {"$opaque": "generator"}),
    (object(), {"$opaque": "object"}),
    (Refuses(), {"$opaque": f"{__name__}.Refuses"}),
    ({"k": Lies()}, {"k": {"$opaque": f"{__name__}.Lies"}}),
    (
        [Refuses(), {"k": Refuses()}],
        [{"$opaque": f"{__name__}.Refuses"}, {"k": {"$opaque": f"{__name__}.Refuses"}}],
    ),
    ({"b", "a"}, {"$set": ["a", "b"]}),
    (("t", 1), {"$tuple": ["t", 1]}),
    (Point(1.5, None), {"$dataclass": f"{__name__}.Point", "fields": {"x": 1.5, "y": None}}),
    (Answer(text="x"), {"$model": f"{Answer.__module__}.Answer", "fields": {"sure": True, "text": "x"}}),
    (None, None),
    ("x" * 300_000, "x" * 300_000),
    (ValueError("v", 1), {"$exception": "ValueError", "args": ["v", 1]}),
]


@pytest.mark.parametrize("at", range(len(AWKWARD)))
def test_any_value_a_tool_takes_or_returns_is_kept(at: int, handler: Handler, evidence: Path) -> None:
    given, expected = AWKWARD[at]

    @tool
    def give() -> Any:
        """Give."""
        return given

    @tool
    def take(value: Any) -> int:
        """Take."""
        return 1

    config = {"callbacks": [handler]}
    assert give.invoke({}, config) is given
    if not isinstance(given, Refuses) and "Refuses" not in str(
        expected
    ):  # LangChain itself writes arguments out
        take.invoke({"value": given}, config)
    RunnableLambda(lambda value: value).invoke(given, config)
    handler.close()
    reader = intact(evidence)
    for call in reader.calls():
        if call.name == "give":
            assert reader.value(call.response) == expected
        elif call.name == "take":
            assert reader.value(call.request) == {"arguments": {"value": expected}, "name": "take"}
        else:
            assert (reader.value(call.request), reader.value(call.response)) == (expected, expected)


def test_how_tools_end(handler: Handler, evidence: Path) -> None:
    @tool
    def fails(n: int) -> str:
        """Fail."""
        raise ToolException(f"no {n}")

    @tool
    def commands(n: int) -> Any:
        """Command."""
        return Command(update={"messages": [ToolMessage("done", tool_call_id="c9")]})

    config = {"callbacks": [handler]}
    with pytest.raises(ToolException):
        fails.invoke({"n": 1}, config)
    with pytest.raises(ValueError, match="integer"):
        fails.invoke({"n": "one"}, config)
    fails.handle_tool_error = True
    fails.invoke({"args": {"n": 2}, "id": "c1", "name": "fails", "type": "tool_call"}, config)
    commands.invoke({"n": 3}, config)
    handler.close()
    reader = intact(evidence)
    raised, invalid, handled, command = reader.calls()
    assert [call.status for call in reader.calls()] == ["error", "error", "error", "ok"]
    assert reader.value(raised.error) == {
        "$exception": "langchain_core.tools.base.ToolException",
        "args": ["no 1"],
    }
    assert reader.value(invalid.error)["errors"][0]["input"] == "one"
    assert reader.value(handled.request) == {"arguments": {"n": 2}, "id": "c1", "name": "fails"}
    assert reader.value(handled.response)["$msg"]["status"] == "error"
    assert list(reader.value(command.response)) == ["$command"]


def test_parallel_tool_calls_have_the_positions_of_their_message(handler: Handler, evidence: Path) -> None:
    """Three calls, two of them equal, run by threads: each has an address of its own, equal in two runs."""

    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    asked = ai("", ("double", {"n": 1}, "c1"), ("double", {"n": 2}, "c2"), ("double", {"n": 1}, "c3"))
    for _ in range(2):
        agent("boss", asked, ai("done"), tools=[double]).invoke(ASKED, {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    for run in reader.runs():
        found = {}
        for call in reader.calls():
            if call.run == run.id and call.op == "execute_tool":
                found[reader.value(call.request)["id"]] = call.address.rpartition("/")[2]
        assert found == {f"c{n + 1}": f"execute_tool:double@{n}" for n in range(3)}
    first, second = reader.runs()
    assert first.content_root == second.content_root


def test_an_unknown_tool_and_invalid_arguments_in_an_agent(handler: Handler, evidence: Path) -> None:
    @tool
    def known(n: int) -> int:
        """Know."""
        return n

    asked = ai("", ("unknown", {}, "c1"), ("known", {"n": "x"}, "c2"), ("known", {"n": 5}, "c3"))
    agent("boss", asked, ai("done"), tools=[known]).invoke(ASKED, {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    assert counted(reader)["execute_tool", "known", "error"] == 1
    assert counted(reader)["execute_tool", "known", "ok"] == 1
    # LangChain tells nothing of a tool that does not exist; what came of it is in the next request.
    last = [call for call in reader.calls() if call.op == "chat"][-1]
    assert "unknown is not a valid tool" in str(reader.value(last.request)["messages"])


def test_a_lenient_tools_node_and_a_node_that_is_tried_again(handler: Handler, evidence: Path) -> None:
    @tool
    def fails(n: int) -> str:
        """Fail."""
        raise RuntimeError(f"no {n}")

    tries: list[int] = []

    def flaky(state: MessagesState) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError("again")
        return {"messages": [ai("", ("fails", {"n": 1}, "c1"))]}

    policy = RetryPolicy(initial_interval=0.001, jitter=False)
    graph = StateGraph(MessagesState)
    graph.add_node("flaky", flaky, retry_policy=policy)
    graph.add_node("tools", ToolNode([fails], handle_tool_errors=True))
    graph.add_edge(START, "flaky")
    graph.add_edge("flaky", "tools")
    graph.add_edge("tools", END)
    graph.compile(name="app").invoke(ASKED, {"callbacks": [handler]})
    handler.close()
    assert counted(intact(evidence)) == {
        ("invoke_workflow", "app", "ok"): 1,
        ("step", "flaky", "error"): 1,
        ("step", "flaky", "ok"): 1,
        ("step", "tools", "ok"): 1,
        ("execute_tool", "fails", "error"): 1,
    }
