"""Model calls: one digest however they are made, all that was told, answers that fit and that do not."""

from __future__ import annotations

import array
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphkit import USAGE, Answer, Scripted, ai, ended, intact, only, through
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool

from counterfoil_langchain import Handler

TALK = [SystemMessage("Be brief."), HumanMessage("What is 2 + 2?")]


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


class Finds(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if query == "bad":
            raise LookupError(query)
        return [Document("text", metadata={"source": "s"})]
