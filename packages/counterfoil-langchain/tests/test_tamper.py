"""One flipped bit anywhere in the evidence of a run, and it is no longer intact."""

from __future__ import annotations

import random
from pathlib import Path

from graphkit import ASKED, agent, ai, intact
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph

import counterfoil
from counterfoil_langchain import Handler


def test_no_flipped_bit_is_missed(handler: Handler, evidence: Path) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    graph = StateGraph(MessagesState)
    graph.add_node("first", agent("first", ai("", ("add", {"a": 1, "b": 2}, "c1")), ai("3"), tools=[add]))
    graph.add_node("second", agent("second", ai("done")))
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.compile().invoke(ASKED, {"callbacks": [handler]})
    handler.close()
    intact(evidence)
    files = sorted(path for path in evidence.rglob("*") if path.is_file())
    assert [path.name for path in files] == [".gitignore", "00000000.seg"]
    bits = [(path, bit) for path in files for bit in range(8 * path.stat().st_size)]
    chosen = random.Random(7).sample(bits, 60 - 8) + [(files[0], bit) for bit in range(8)]
    missed = []
    for path, bit in chosen:
        data = bytearray(path.read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        whole = path.read_bytes()
        path.write_bytes(data)
        verdict = counterfoil.verify(evidence).verdict
        path.write_bytes(whole)
        if verdict == "intact":
            missed.append((path.name, bit))
    assert missed == []
    intact(evidence)
