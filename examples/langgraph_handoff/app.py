"""Two agents, plain LangGraph: a planner hands its plan to a writer."""

from typing import Literal, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.types import Command

PLANNER = "You are the planner. Say in two sentences what a notice must tell its readers."
WRITER = "You are the writer. Turn a plan into a notice of at most 40 words."


class Notice(TypedDict, total=False):
    task: str
    plan: str
    text: str


def planner(state: Notice) -> Command[Literal["writer"]]:
    model = ChatOpenAI(model="gpt-4.1-mini", temperature=0, seed=7)
    plan = model.invoke([SystemMessage(PLANNER), HumanMessage(state["task"])])
    return Command(goto="writer", update={"plan": plan.text})


def writer(state: Notice) -> Notice:
    model = ChatOpenAI(model="gpt-4.1-mini", temperature=0.4, seed=7)
    text = model.invoke([SystemMessage(WRITER), HumanMessage(state["plan"])])
    return {"text": text.text}


graph = StateGraph(Notice)
graph.add_node("planner", planner)
graph.add_node("writer", writer)
graph.add_edge(START, "planner")

if __name__ == "__main__":
    app = graph.compile(name="notice")
    print(app.invoke({"task": "The library closes early this Friday."})["text"])
