"""Each way agents hand over in LangGraph: a graph, what is asked of it, and exactly the handoffs it must leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphkit import ASKED, Numbers, Row, agent, ai, say, transfer
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, Send

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
