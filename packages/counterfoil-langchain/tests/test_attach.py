"""Every way the handler gets into an application: everything recorded, and nothing twice."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from graphkit import ASKED, Scripted, agent, ai, counted, intact, row_names, say
from langchain_core.callbacks import CallbackManager, dispatch_custom_event
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

import counterfoil
from counterfoil_langchain import Handler


def application() -> Any:
    """A graph of a function, which tells an event of its own, and a streaming model in another."""
    graph = StateGraph(MessagesState)
    model = Scripted(script=[ai("one two three")])

    def tell(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        dispatch_custom_event("progress", {"percent": 50}, config=config)
        dispatch_custom_event("progress", {"percent": 50}, config=config)
        return {"messages": []}

    graph.add_node("tell", tell)
    graph.add_node("speak", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "tell")
    graph.add_edge("tell", "speak")
    return graph.compile(name="app")


ONE_RUN = {
    ("invoke_workflow", "app", "ok"): 1,
    ("step", "tell", "ok"): 1,
    ("step", "speak", "ok"): 1,
    ("chat", "scripted-1", "ok"): 1,
}


def recorded_once(evidence: Path, *, runs: int = 1, streamed: bool = False) -> None:
    reader = intact(evidence)
    assert counted(reader) == Counter({key: count * runs for key, count in ONE_RUN.items()})
    customs = [entry.body["content"] for entry in reader.records() if entry.op == "custom"]
    assert [reader.value(one["request"]) for one in customs] == [{"percent": 50}] * 2 * runs
    chunks = [
        call.end.body["context"].get("chunks") for call in reader.calls() if call.op == "chat" and call.end
    ]
    assert chunks == [4 if streamed else None] * runs


def go(app: Any, *, streamed: bool = False, **config: Any) -> None:
    if streamed:
        assert list(app.stream(ASKED, config, stream_mode="messages"))
    else:
        app.invoke(ASKED, config)


Attached = Callable[[Path, bool], None]


def by_hook(evidence: Path, streamed: bool) -> None:
    counterfoil.install(evidence)
    go(application(), streamed=streamed)


def by_hook_with_other_callbacks(evidence: Path, streamed: bool) -> None:
    counterfoil.install(evidence)
    go(application(), streamed=streamed, callbacks=[])


def by_hand(evidence: Path, streamed: bool) -> None:
    go(application(), streamed=streamed, callbacks=[Handler(evidence)])


def by_manager(evidence: Path, streamed: bool) -> None:
    go(application(), streamed=streamed, callbacks=CallbackManager.configure([Handler(evidence)]))


def by_both(evidence: Path, streamed: bool) -> None:
    counterfoil.install(evidence)
    go(application(), streamed=streamed, callbacks=[Handler(evidence)])


def by_default_and_hook(evidence: Path, streamed: bool) -> None:
    counterfoil.install(evidence)
    go(application(), streamed=streamed, callbacks=[Handler()])


def by_two_handlers(evidence: Path, streamed: bool) -> None:
    go(application(), streamed=streamed, callbacks=[Handler(evidence), Handler(str(evidence) + "/")])


def by_config_twice(evidence: Path, streamed: bool) -> None:
    handler = Handler(evidence)
    go(application().with_config(callbacks=[handler]), streamed=streamed, callbacks=[handler])


def by_everything(evidence: Path, streamed: bool) -> None:
    counterfoil.install(evidence)
    counterfoil.install(evidence)
    first, second = Handler(evidence), Handler()
    go(application().with_config(callbacks=[first, second]), streamed=streamed, callbacks=[second, first])


@pytest.mark.parametrize("streamed", [False, True], ids=["invoke", "stream"])
@pytest.mark.parametrize(
    "attached",
    [
        by_hook,
        by_hook_with_other_callbacks,
        by_hand,
        by_manager,
        by_both,
        by_default_and_hook,
        by_two_handlers,
        by_config_twice,
        by_everything,
    ],
    ids=lambda attached: attached.__name__,
)
def test_a_run_is_recorded_once_however_the_handler_got_in(
    attached: Attached, streamed: bool, evidence: Path
) -> None:
    attached(evidence, streamed)
    Handler(evidence).close()
    counterfoil.uninstall()
    recorded_once(evidence, streamed=streamed)


def test_two_evidences_each_get_everything(tmp_path: Path) -> None:
    counterfoil.install(tmp_path / "installed")
    handlers = [Handler(tmp_path / "one"), Handler(tmp_path / "two")]
    go(application(), callbacks=list(handlers))
    for handler in handlers:
        handler.close()
    counterfoil.uninstall()
    for name in ("installed", "one", "two"):
        recorded_once(tmp_path / name)


def test_install_uninstall_and_again(tmp_path: Path) -> None:
    app = application()
    for name in ("first", "second", "first"):
        counterfoil.install(tmp_path / name)
        go(app)
        counterfoil.uninstall()
        go(app)
    recorded_once(tmp_path / "first", runs=2)
    recorded_once(tmp_path / "second")


def test_what_runs_while_recording_is_taken_out_goes_on(evidence: Path) -> None:
    graph = StateGraph(MessagesState)

    def stop(state: MessagesState) -> dict[str, Any]:
        counterfoil.uninstall()
        return {"messages": [("ai", "on")]}

    graph.add_node("stop", stop)
    graph.add_node("last", say("x"))
    graph.add_edge(START, "stop")
    graph.add_edge("stop", "last")
    counterfoil.install(evidence)
    assert graph.compile(name="app").invoke(ASKED)["messages"][-1].content == "x"
    found = counted(counterfoil.read(evidence))
    assert found == {("invoke_workflow", "app", "abandoned"): 1, ("step", "stop", "abandoned"): 1}
    assert counterfoil.verify(evidence).verdict == "intact"


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_a_pool(work: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            done.result()


def test_threads_and_pools_are_recorded(evidence: Path) -> None:
    counterfoil.install(evidence)
    app = application()
    in_a_thread(lambda: go(app))
    in_a_pool(lambda: go(app))
    counterfoil.uninstall()
    recorded_once(evidence, runs=5)


def test_a_batch_is_recorded(evidence: Path) -> None:
    counterfoil.install(evidence)
    app = application()
    app.batch([ASKED] * 3)
    asyncio.run(app.abatch([ASKED] * 3))
    counterfoil.uninstall()
    recorded_once(evidence, runs=6)


def test_a_node_that_hides_its_callbacks_is_still_the_parent(evidence: Path) -> None:
    """``callbacks=[]`` cuts LangChain's own tree; the run still stands inside its node."""
    model = Scripted(script=[ai("hidden")])
    graph = StateGraph(MessagesState)
    graph.add_node("node", lambda state: {"messages": [model.invoke("x", {"callbacks": []})]})
    graph.add_edge(START, "node")
    counterfoil.install(evidence)
    graph.compile(name="app").invoke(ASKED)
    counterfoil.uninstall()
    reader = intact(evidence)
    (chat,) = [call for call in reader.calls() if call.op == "chat"]
    assert len(reader.runs()) == 1
    assert chat.actor == "node"


def test_a_pool_inside_a_node_loses_the_parent_and_nothing_else(evidence: Path) -> None:
    model = Scripted(script=[ai("from afar")])
    graph = StateGraph(MessagesState)

    def work(state: MessagesState) -> dict[str, Any]:
        in_a_pool(lambda: model.invoke("x"))
        return {"messages": []}

    graph.add_node("node", work)
    graph.add_edge(START, "node")
    counterfoil.install(evidence)
    graph.compile(name="app").invoke(ASKED)
    counterfoil.uninstall()
    reader = intact(evidence)
    assert counted(reader)["chat", "scripted-1", "ok"] == 4
    assert len(reader.runs()) == 5


def test_one_run_id_given_twice_is_two_runs(handler: Handler, evidence: Path) -> None:
    given = uuid.uuid4()
    for _ in range(2):
        RunnableLambda(lambda value: value).invoke(1, {"callbacks": [handler], "run_id": given})
    handler.close()
    reader = intact(evidence)
    assert len(reader.runs()) == 2
    told = [run.root.start.body["context"]["langchain"]["run"] for run in reader.runs() if run.root]
    assert told == [given.hex] * 2


def test_a_handler_survives_being_copied_and_pickled(handler: Handler, evidence: Path) -> None:
    config = {"callbacks": [handler]}
    assert copy.deepcopy(config)["callbacks"][0] is handler
    assert copy.copy(handler) is handler
    other = pickle.loads(pickle.dumps(handler))  # noqa: S301
    assert other.recorder is handler.recorder


def test_a_forked_child_records_into_a_log_of_its_own(evidence: Path) -> None:
    """In the middle of a run, as a node that starts worker processes does."""
    model = Scripted(script=[ai("child")])
    graph = StateGraph(MessagesState)

    def fork(state: MessagesState) -> dict[str, Any]:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                in_a_thread(lambda: model.invoke("x"))
                model.invoke("y")
                counterfoil.uninstall()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        return {"messages": [model.invoke("z")]}

    graph.add_node("fork", fork)
    graph.add_edge(START, "fork")
    counterfoil.install(evidence)
    graph.compile(name="app").invoke(ASKED)
    counterfoil.uninstall()
    reader = intact(evidence)
    assert len(reader.logs()) == 2
    assert counted(reader)["chat", "scripted-1", "ok"] == 3


PROGRAM = """
{before}
from langchain_core.language_models import FakeListChatModel
from langgraph.graph import START, MessagesState, StateGraph
{after}
graph = StateGraph(MessagesState)
model = FakeListChatModel(responses=["said"])
graph.add_node("asker", lambda state: {{"messages": [model.invoke(state["messages"])]}})
graph.add_edge(START, "asker")
print(graph.compile(name="app").invoke({{"messages": [("user", "hi")]}})["messages"][-1].content)
{last}
"""


@pytest.mark.parametrize(
    ("before", "after", "variable"),
    [
        ("", "", True),
        ("import langchain_core.callbacks.manager", "", True),
        ("import langchain_core.runnables", "", True),
        ("import langgraph.graph", "", True),
        ("from counterfoil_langchain import Handler", "", True),
        ("", "import counterfoil; counterfoil.install(EVIDENCE)", False),
        ("import counterfoil; counterfoil.install(EVIDENCE)", "counterfoil.install(EVIDENCE)", False),
    ],
)
def test_whatever_is_imported_first(
    before: str, after: str, variable: bool, evidence: Path, tmp_path: Path
) -> None:
    """By the variable alone, and by ``install`` before and after the framework is imported."""
    program = PROGRAM.format(before=before, after=after, last="").replace("EVIDENCE", repr(str(evidence)))
    environment = {**os.environ, **({"COUNTERFOIL": str(evidence)} if variable else {})}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "said\n", "")
    reader = intact(evidence)
    assert row_names(reader) == [("invoke_workflow", "app"), ("step", "asker"), ("chat", "FakeListChatModel")]


def test_an_agent_in_an_agent_of_equal_name(handler: Handler, evidence: Path) -> None:
    inner = agent("twin", ai("inner"))

    @tool
    def ask(question: str) -> str:
        """Ask."""
        return str(inner.invoke({"messages": [("user", question)]})["messages"][-1].text)

    outer = agent("twin", ai("", ("ask", {"question": "?"}, "c1")), ai("outer"), tools=[ask])
    outer.invoke(ASKED, {"callbacks": [handler]})
    handler.close()
    assert counted(intact(evidence))["invoke_agent", "twin", "ok"] == 2
