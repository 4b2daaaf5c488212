"""What is recorded is what happened: models, tools, retrievers, errors, cancellations; equal in every way to run it."""

from __future__ import annotations

import array
import asyncio
import dataclasses
import gc
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import pytest
from graphkit import ASKED, MODES, USAGE, Scripted, agent, ai, counted, drive, intact
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import ToolException, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, Send
from pydantic import BaseModel

from counterfoil.reader import CallView, Reader
from counterfoil_langchain import Handler

TALK = [SystemMessage("Be brief."), HumanMessage("What is 2 + 2?")]


def only(reader: Reader, op: str) -> CallView:
    (found,) = [call for call in reader.calls() if call.op == op]
    return found


def ended(call: CallView) -> dict[str, Any]:
    assert call.end is not None
    return dict(call.end.body["context"])


async def through(source: Any) -> None:
    async for _ in source:
        pass


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "invoke": lambda model, config: model.invoke(TALK, config),
    "ainvoke": lambda model, config: asyncio.run(model.ainvoke(TALK, config)),
    "stream": lambda model, config: list(model.stream(TALK, config)),
    "astream": lambda model, config: asyncio.run(through(model.astream(TALK, config))),
    "events": lambda model, config: asyncio.run(through(model.astream_events(TALK, config, version="v2"))),
    "batch": lambda model, config: model.batch([TALK], config),
}


@pytest.mark.parametrize(
    "answer", [ai("It is 4"), ai("", ("add", {"a": 2, "b": [2]}, "c1"), ("add", {}, "c2"))]
)
def test_a_model_call_has_one_digest_however_it_is_made(
    answer: AIMessage, handler: Handler, evidence: Path
) -> None:
    for way in WAYS.values():
        way(Scripted(script=[answer]), {"callbacks": [handler]})
    handler.close()
    calls = intact(evidence).calls()
    assert len(calls) == len(WAYS)
    assert len({(call.request, call.response) for call in calls}) == 1


class Answer(BaseModel):
    """The form of an answer."""

    text: str
    sure: bool = True


def test_everything_that_was_told_to_the_model_and_by_it(handler: Handler, evidence: Path) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    asked = [*TALK, AIMessage("", tool_calls=[{"name": "add", "args": {"a": 2, "b": 2}, "id": "c1"}])]
    asked.append(ToolMessage("4", tool_call_id="c1", name="add"))
    model = Scripted(script=[ai("It is 4")], extra={"top_p": 0.25, "stop": ["END"]}).bind_tools([add, Answer])
    model.invoke(asked, {"callbacks": [handler]}, stop=["STOP"])
    handler.close()
    reader = intact(evidence)
    call = only(reader, "chat")
    request = reader.value(call.request)
    assert call.name == request["model"] == "scripted-1"
    assert request["provider"] == "scripted"
    assert {name: request["params"][name] for name in ("temperature", "seed", "top_p", "stop")} == {
        "temperature": 0.5,
        "seed": 42,
        "top_p": 0.25,
        "stop": ["STOP"],
    }
    assert [one["function"]["name"] for one in request["tools"]] == ["add", "Answer"]
    assert request["tools"][0]["function"]["parameters"]["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "integer"},
    }

    def text(said: str) -> list[dict[str, str]]:
        return [{"text": said, "type": "text"}]

    assert request["messages"] == [
        {"$msg": {"content": text("Be brief."), "type": "system"}},
        {"$msg": {"content": text("What is 2 + 2?"), "type": "human"}},
        {
            "$msg": {
                "content": [],
                "tool_calls": [{"args": {"a": 2, "b": 2}, "id": "c1", "name": "add"}],
                "type": "ai",
            }
        },
        {"$msg": {"content": text("4"), "name": "add", "tool_call_id": "c1", "type": "tool"}},
    ]
    assert reader.value(call.response) == {"message": {"$msg": {"content": text("It is 4"), "type": "ai"}}}
    about = ended(call)
    assert about["usage"] == USAGE
    assert about["provider"] == {
        "finish_reason": "stop",
        "fingerprint": "fp_1",
        "model": "scripted-1-dated",
    }
    raw = reader.value(about["raw"])
    assert raw["response_metadata"]["system_fingerprint"] == "fp_1"
    assert raw["id"].startswith("lc_run--")


def test_what_a_message_carries_is_not_lost(handler: Handler, evidence: Path) -> None:
    """Fields that have no place of their own, and content that nobody repeats elsewhere."""
    odd = AIMessage("", additional_kwargs={"reasoning": "because"})
    odd.content = [
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {"at": 2}},
        {"type": "reasoning", "reasoning": "hmm", "index": 3},
        {"type": "text", "text": ""},
        "plain",
    ]
    odd.tool_calls = [{"name": "look", "args": {"at": 1}, "id": "t1", "extras": {"sig": "s"}}]  # type: ignore[typeddict-unknown-key]
    result = ToolMessage("done", tool_call_id="t1", artifact=array.array("b", [1, 2]), status="error")
    Scripted(script=[ai("ok")]).invoke([odd, result], {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    first, second = reader.value(only(reader, "chat").request)["messages"]
    assert first["$msg"] == {
        "additional_kwargs": {"reasoning": "because"},
        "content": [
            {"id": "t2", "input": {"at": 2}, "name": "look", "type": "tool_use"},
            {"reasoning": "hmm", "type": "reasoning"},
            {"text": "plain", "type": "text"},
        ],
        "tool_calls": [{"args": {"at": 1}, "extras": {"sig": "s"}, "id": "t1", "name": "look"}],
        "type": "ai",
    }
    assert second["$msg"]["status"] == "error"
    assert "artifact" in second["$msg"]


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
    (Answer(text="x"), {"$model": f"{__name__}.Answer", "fields": {"sure": True, "text": "x"}}),
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


class Finds(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if query == "bad":
            raise LookupError(query)
        return [Document("text", metadata={"source": "s"})]


def test_retrievers_and_text_models(handler: Handler, evidence: Path) -> None:
    config = {"callbacks": [handler]}
    Finds().invoke("q", config)
    with pytest.raises(LookupError):
        Finds().invoke("bad", config)
    asyncio.run(Finds().ainvoke("q", config))
    FakeListLLM(responses=["a"]).invoke("hi", config)
    asyncio.run(FakeListLLM(responses=["a"]).ainvoke("hi", config))
    assert "".join(FakeListLLM(responses=["abc"]).stream("hi", config)) == "abc"
    FakeListLLM(responses=["a", "b"]).generate(["p1", "p2"], callbacks=[handler])
    handler.close()
    reader = intact(evidence)
    searched = [call for call in reader.calls() if call.op == "retrieval"]
    assert [call.status for call in searched] == ["ok", "error", "ok"]
    (document,) = reader.value(searched[0].response)["documents"]
    assert document["fields"]["page_content"] == "text"
    texts = [call for call in reader.calls() if call.op == "text_completion"]
    assert [reader.value(call.request)["prompts"] for call in texts] == [["hi"]] * 3 + [["p1"], ["p2"]]
    assert [reader.value(call.response)["generations"] for call in texts] == [
        [[{"text": said}]] for said in ("a", "a", "abc", "a", "b")
    ]


def test_a_model_that_fails_and_its_fallback(handler: Handler, evidence: Path) -> None:
    broken = Scripted(script=[ConnectionError("down")], model_name="broken")
    with pytest.raises(ConnectionError):
        broken.invoke("x", {"callbacks": [handler]})
    safe = broken.with_fallbacks([Scripted(script=[ai("saved")], model_name="spare")])
    assert safe.invoke("x", {"callbacks": [handler]}).content == "saved"
    handler.close()
    reader = intact(evidence)
    chats = [call for call in reader.calls() if call.op == "chat"]
    assert [(call.name, call.status) for call in chats] == [
        ("broken", "error"),
        ("broken", "error"),
        ("spare", "ok"),
    ]
    assert reader.value(chats[0].error) == {"$exception": "ConnectionError", "args": ["down"]}
    assert chats[1].run == chats[2].run != chats[0].run


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
        task = asyncio.create_task(work)
        await asyncio.sleep(0.1)
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
            task = asyncio.create_task(work())
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


@pytest.mark.parametrize("mode", MODES)
def test_a_streamed_chain_tells_its_input_at_its_end(mode: str, handler: Handler, evidence: Path) -> None:
    chain = RunnableLambda(lambda n: n + 1) | RunnableLambda(lambda n: 2 * n)
    drive(chain, 1, mode, callbacks=[handler])
    drive(RunnableLambda(len), {"input": ""}, mode, callbacks=[handler])
    handler.close()
    reader = intact(evidence)
    found = [(reader.value(call.request), reader.value(call.response)) for call in reader.calls()]
    assert found == [(1, 4), (1, 2), (2, 4), ({"input": ""}, 1)]


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


def test_structured_output(handler: Handler, evidence: Path) -> None:
    model = Scripted(script=[ai("", ("Answer", {"text": "4"}, "c1"))])
    asked = model.with_structured_output(Answer)
    assert asked.invoke(TALK, {"callbacks": [handler]}) == Answer(text="4")
    handler.close()
    reader = intact(evidence)
    request = reader.value(only(reader, "chat").request)
    assert [one["function"]["name"] for one in request["tools"]] == ["Answer"]
    assert any(
        "$model" in str(reader.value(call.response))
        for call in reader.calls()
        if call.op == "invoke_workflow"
    )


def test_answers_beside_the_first_are_kept(handler: Handler, evidence: Path) -> None:
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Several(Scripted):
        def _generate(self, *args: Any, **more: Any) -> ChatResult:
            return ChatResult(
                generations=[ChatGeneration(message=ai(f"answer {n}")) for n in range(2)],
                llm_output={"token_usage": {"total_tokens": 9, "details": {"cached": 1, "huge": 2**60}}},
            )

    Several(script=[]).invoke("x", {"callbacks": [handler]})
    handler.close()
    reader = intact(evidence)
    call = only(reader, "chat")
    ((one, two),) = reader.value(call.response)["generations"]
    assert [said["$msg"]["content"][0]["text"] for said in (one, two)] == ["answer 0", "answer 1"]
    assert ended(call)["usage"] == {"details.cached": 1, "total_tokens": 9}
    assert reader.value(ended(call)["raw"])[0][1]["response_metadata"]["system_fingerprint"] == "fp_1"


def test_what_a_provider_answers_never_outgrows_a_record(handler: Handler, evidence: Path) -> None:
    """Ids, names and counters of any length and any number, ill-formed text included."""
    answer = AIMessage(
        "x",
        response_metadata={
            "id": "i" * 50_000,
            "model_name": "\ud800" * 5_000,
            "finish_reason": "stop",
            "system_fingerprint": "f" * 40_000,
        },
        usage_metadata={"input_tokens": 2**63, "output_tokens": 1, "total_tokens": 1},
    )
    answer.usage_metadata.update({f"counter-{n}": n for n in range(5_000)})  # type: ignore[union-attr]
    Scripted(script=[answer], model_name="m" * 40_000).invoke(
        "x", {"callbacks": [handler], "run_name": "\udfff"}
    )
    handler.close()
    reader = intact(evidence)
    raw = reader.value(ended(only(reader, "chat"))["raw"])
    assert raw["response_metadata"]["id"] == "i" * 50_000
    assert raw["usage_metadata"]["counter-4999"] == 4999
    assert reader.value(only(reader, "chat").request)["model"] == "m" * 40_000


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
