"""Whatever happens to the recording, the application's results, events and exceptions are the same."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, MODES, Scripted, agent, ai, counted, drive, intact, say
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, dispatch_custom_event
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

import counterfoil
from counterfoil import capture
from counterfoil.recorder import Recorder
from counterfoil_langchain import Handler
from counterfoil_langchain.rules import Rules
from counterfoil_langchain.tracker import Tracker


def application() -> Any:
    """Agents, tools that fail and succeed, Sends, a stream, an event: everything the handler is told about."""

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    def fails(n: int) -> int:
        """Fail."""
        raise ToolException("no")

    fails.handle_tool_error = True
    worker = Scripted(script=[ai("worked hard")])

    def work(state: Any, config: RunnableConfig) -> dict[str, Any]:
        dispatch_custom_event("working", {"on": 1}, config=config)
        return {"messages": [("ai", "".join(str(one.content) for one in worker.stream("x")))]}

    graph = StateGraph(MessagesState)
    asked = ai(
        "", ("add", {"a": 1, "b": 2}, "c1"), ("fails", {"n": 1}, "c2"), ("add", {"a": "x", "b": 2}, "c3")
    )
    graph.add_node("boss", agent("boss", asked, ai("go on"), tools=[add, fails]))
    graph.add_node("work", work)
    graph.add_node("end", say("end"))
    graph.add_edge(START, "boss")
    graph.add_conditional_edges("boss", lambda state: [Send("work", state)] * 2, ["work"])
    graph.add_edge("work", "end")
    graph.add_edge("end", END)
    return graph.compile(name="app")


def plain(value: Any) -> Any:
    """A result without the ids that are new in every run."""
    if isinstance(value, BaseMessage):
        return (type(value).__name__, value.content, value.name, getattr(value, "tool_calls", None))
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


@functools.cache
def unrecorded(mode: str = "invoke") -> Any:
    return plain(drive(application(), ASKED, mode))


@pytest.mark.parametrize("mode", MODES)
def test_results_are_equal_with_and_without_recording(mode: str, handler: Handler, evidence: Path) -> None:
    assert plain(drive(application(), ASKED, mode, callbacks=[handler])) == unrecorded(mode)
    handler.close()
    assert counted(intact(evidence))["step", "work", "ok"] == 2


def broken(*args: Any, **more: Any) -> Any:
    raise RuntimeError("broken")


METHODS = [
    (Recorder, name)
    for name in (
        "start",
        "end",
        "point",
        "handoff",
        "value",
        "loss",
        "flush",
        "_record",
        "_entry",
        "_blob",
        "_open",
    )
]
METHODS += [(Tracker, name) for name in ("chain", "leaf", "end", "node", "forget", "position", "_enter")]
METHODS += [(Rules, name) for name in ("offers", "accept", "barrier", "call", "give_back")]
METHODS += [(capture.Capture, name) for name in ("reference", "reduce", "cached", "composed")]


@pytest.mark.parametrize(
    "target", [*METHODS, None], ids=lambda target: target and f"{target[0].__name__}.{target[1]}"
)
def test_a_broken_part_disturbs_nothing(
    target: tuple[type, str] | None,
    evidence: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each part alone, then all of them at once."""
    expected = {mode: unrecorded(mode) for mode in ("invoke", "astream")}
    handler = Handler(evidence)
    for kind, name in METHODS if target is None else [target]:
        monkeypatch.setattr(kind, name, broken)
    for mode, result in expected.items():
        assert plain(drive(application(), ASKED, mode, callbacks=[handler])) == result
    assert [record for record in caplog.records if record.name.startswith("langchain")] == []
    monkeypatch.undo()
    handler.close()


def test_what_could_not_be_recorded_is_told_in_the_log(
    handler: Handler, evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tracker, "position", broken)
    drive(application(), ASKED, "invoke", callbacks=[handler])
    handler.close()
    found = counterfoil.verify(evidence)
    assert found.verdict == "incomplete"
    assert {finding.code for finding in found.findings} == {"CF-VERIFY-021"}
    assert found.counts["losses"] == 3


@pytest.mark.parametrize("where", ["file/evidence", "/proc/none/evidence", "evidence\0"])
def test_an_evidence_that_cannot_be_written(
    where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    expected = unrecorded()
    handler = Handler(tmp_path / where)
    assert plain(drive(application(), ASKED, "invoke", callbacks=[handler])) == expected
    assert handler.recorder.losses > 0
    assert not handler.flush()
    handler.close()
    told = [record for record in caplog.records if record.name == "counterfoil"]
    assert told
    assert len(told) < 5


def test_a_disk_that_is_full(
    evidence: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = unrecorded()
    handler = Handler(evidence)
    handler.recorder.open()
    real = os.write

    def full(fd: int, data: Any) -> int:
        if len(data) > 0 and fd > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    monkeypatch.setattr(os, "write", full)
    assert plain(drive(application(), ASKED, "invoke", callbacks=[handler])) == expected
    assert not handler.flush()
    handler.close()
    assert [record.levelno for record in caplog.records if record.name == "counterfoil"][-1] == logging.ERROR


def test_a_key_that_others_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_HOME", str(tmp_path / "home"))
    program = """
import os, pathlib, sys
from langchain_core.runnables import RunnableLambda
from counterfoil_langchain import Handler
for turn in range(2):
    handler = Handler(os.path.join(sys.argv[1], str(turn)))
    print(RunnableLambda(lambda value: value + 1).invoke(1, {"callbacks": [handler]}))
    handler.close()
    for path in pathlib.Path(os.environ["COUNTERFOIL_HOME"]).rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
"""
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "evidence")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "2\n2\n")
    assert "not recording" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "evidence" / "1").rglob("*.seg"))


def test_without_langgraph(tmp_path: Path, evidence: Path) -> None:
    program = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "langgraph":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
chain = ChatPromptTemplate.from_template("Say {word}") | FakeListChatModel(responses=["said"])
print(chain.invoke({"word": "x"}).content)
print("langgraph" in sys.modules)
"""
    command = [sys.executable, "-W", "error", "-c", program]
    environment = {**os.environ, "COUNTERFOIL": str(evidence)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "said\nFalse\n", "")
    assert [call.op for call in intact(evidence).calls()] == ["invoke_workflow", "chain", "chat"]


def test_langsmith_that_is_on_and_cannot_be_reached(tmp_path: Path, evidence: Path) -> None:
    """Its tracing puts runs of its own between ours, whose ids no callback tells."""
    program = """
import os
from langsmith import traceable
from langchain_core.language_models import FakeListChatModel
from langgraph.graph import START, MessagesState, StateGraph
model = FakeListChatModel(responses=["said"])
@traceable
def between(messages):
    return model.invoke(messages)
graph = StateGraph(MessagesState)
graph.add_node("asker", lambda state: {"messages": [between(state["messages"])]})
graph.add_edge(START, "asker")
print(graph.compile(name="app").invoke({"messages": [("user", "hi")]})["messages"][-1].content, flush=True)
import counterfoil
counterfoil.uninstall()
os._exit(0)
"""
    environment = {
        **os.environ,
        "COUNTERFOIL": str(evidence),
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": "placeholder",
        "LANGSMITH_ENDPOINT": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "said\n")
    reader = intact(evidence)
    assert [(call.op, call.actor) for call in reader.calls()] == [
        ("invoke_workflow", "app"),
        ("step", "asker"),
        ("chat", "asker"),
    ]


class Watches(BaseCallbackHandler):
    """Somebody else's handler."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_chain_start(self, *args: Any, **more: Any) -> None:
        self.seen.append("chain")

    def on_chat_model_start(self, *args: Any, **more: Any) -> None:
        self.seen.append("chat")

    def on_llm_new_token(self, *args: Any, **more: Any) -> None:
        self.seen.append("token")

    def on_llm_end(self, *args: Any, **more: Any) -> None:
        self.seen.append("llm end")

    def on_tool_start(self, *args: Any, **more: Any) -> None:
        self.seen.append("tool")

    def on_tool_error(self, *args: Any, **more: Any) -> None:
        self.seen.append("tool error")

    def on_custom_event(self, *args: Any, **more: Any) -> None:
        self.seen.append("custom")


class WatchesToo(AsyncCallbackHandler):
    """Somebody else's, of the other kind."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_chain_start(self, *args: Any, **more: Any) -> None:
        self.seen.append("chain")

    async def on_chat_model_start(self, *args: Any, **more: Any) -> None:
        self.seen.append("chat")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("other", [Watches, WatchesToo])
def test_other_handlers_see_what_they_saw_before(
    other: Callable[[], Any], mode: str, handler: Handler, evidence: Path
) -> None:
    alone, beside = other(), other()
    drive(application(), ASKED, mode, callbacks=[alone])
    drive(application(), ASKED, mode, callbacks=[handler, beside])
    assert sorted(alone.seen) == sorted(beside.seen)
    assert alone.seen
    handler.close()
    intact(evidence)


class Breaks(BaseCallbackHandler):
    """Somebody else's handler that stops the run."""

    raise_error = True

    def on_tool_start(self, *args: Any, **more: Any) -> None:
        raise PermissionError("not this tool")


def test_another_handlers_veto_stops_the_run_and_is_recorded(handler: Handler, evidence: Path) -> None:
    for callbacks in ([handler, Breaks()], [Breaks(), handler]):
        with pytest.raises(PermissionError):
            application().invoke(ASKED, {"callbacks": callbacks})
    handler.close()
    reader = intact(evidence)
    assert {run.root.status for run in reader.runs() if run.root} == {"error"}
    assert all(call.end is not None for call in reader.calls())


def test_the_applications_own_exception_comes_through(handler: Handler, evidence: Path) -> None:
    class Own(BaseException):
        pass

    def fail(state: MessagesState) -> None:
        raise Own("own")

    app = StateGraph(MessagesState).add_node("n", fail).add_edge(START, "n").compile()
    with pytest.raises(Own):
        app.invoke(ASKED, {"callbacks": [handler]})
    with pytest.raises(Own):
        asyncio.run(app.ainvoke(ASKED, {"callbacks": [handler]}))
    handler.close()
    assert {call.status for call in intact(evidence).calls()} == {"error"}


def test_a_mode_it_cannot_keep_is_refused(evidence: Path) -> None:
    for mode in ("enforce", "hold", "other"):
        with pytest.raises(counterfoil.errors.ConfigError) as told:
            Handler(evidence, mode=mode)
        assert told.value.code == "CF-CONFIG-005"
    assert not evidence.exists()
