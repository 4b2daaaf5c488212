"""The ancestry graph that a perfect recording of one TradingAgents run holds.

    python expected.py build [--rounds N] > expected_graph.json
    python expected.py check OUT [--rounds N]

``build`` states it from a reading of the application (which state fields each role reads and writes, what
the scripted policy asks for); it looks at no recording. ``check`` compares it with what a run left in OUT:
node order from the naive recorder's events, tool calls and data edges (is the producer's text literally
inside the consumer's request?) from the wire.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "common"), str(HERE)]

from scripted import flat  # noqa: E402

COMMIT = "85946c2f60768ab2dae23a5a36cd927662feef94"
# Analyst, its tool node, its clearing node, the state field of its report.
ANALYSTS = [
    ("Market Analyst", "tools_market", "Msg Clear Market", "market_report"),
    ("Sentiment Analyst", "tools_social", "Msg Clear Sentiment", "sentiment_report"),
    ("News Analyst", "tools_news", "Msg Clear News", "news_report"),
    ("Fundamentals Analyst", "tools_fundamentals", "Msg Clear Fundamentals", "fundamentals_report"),
]
# Tool calls the scripted policy asks for, a list for each turn of an analyst.
BATCHES: dict[str, list[list[str]]] = {
    "Market Analyst": [["get_stock_data"], ["get_verified_market_snapshot"], ["get_indicators"] * 8],
    "Sentiment Analyst": [],
    "News Analyst": [
        ["get_news", "get_global_news"],
        ["get_macro_indicators"] * 3 + ["get_prediction_markets"],
    ],
    "Fundamentals Analyst": [
        ["get_fundamentals"],
        ["get_balance_sheet", "get_cashflow", "get_income_statement"],
    ],
}
DEBATERS = ("Bull Researcher", "Bear Researcher")
RISK = ("Aggressive Analyst", "Conservative Analyst", "Neutral Analyst")
DEEP = {"Research Manager", "Portfolio Manager"}
NO_REPORT = "this role's request carries no analyst report"

Json = dict[str, Any]


def build(rounds: int = 1) -> Json:
    """The expected graph of one run with `rounds` rounds in both debates."""
    activations = _activations(rounds)
    ids = [a["id"] for a in activations]
    data, absent = _data_edges(ids)
    model_calls, tool_calls = _calls(activations)
    control = [{"from": a, "to": b} for a, b in pairwise(ids)]
    speakers = [a["node"] for a in activations if a["kind"] == "agent"]
    return {
        "app": "TauricResearch/TradingAgents",
        "version": "0.3.0",
        "commit": COMMIT,
        "rounds": rounds,
        "analysts": ["market", "social", "news", "fundamentals"],
        "activations": activations,
        "control_edges": control,
        "agent_handoffs": [{"from": a, "to": b} for a, b in pairwise(speakers) if a != b],
        "llm_calls": model_calls,
        "tool_calls": tool_calls,
        "data_edges": data,
        "no_direct_data_edge": absent,
        "reads_outside_callbacks": _silent_reads(),
        "counts": {
            "activations": len(activations),
            "control_edges": len(control),
            "llm_calls": len(model_calls),
            "tool_calls": len(tool_calls),
            "data_edges": len(data),
        },
    }


def _kind(node: str) -> str:
    if node.startswith("tools_"):
        return "tools"
    return "clear" if node.startswith("Msg Clear") else "agent"


def _activations(rounds: int) -> list[Json]:
    order: list[str] = []
    for analyst, tools, clear, _field in ANALYSTS:
        order += [analyst, tools] * len(BATCHES[analyst]) + [analyst, clear]
    order += [*DEBATERS * rounds, "Research Manager", "Trader", *RISK * rounds, "Portfolio Manager"]
    seen: Counter[str] = Counter()
    activations = []
    for step, node in enumerate(order, 1):
        seen[node] += 1
        activations.append({"id": f"{node}#{seen[node]}", "node": node, "step": step, "kind": _kind(node)})
    return activations


def _calls(activations: list[Json]) -> tuple[list[Json], list[Json]]:
    model_calls: list[Json] = []
    tool_calls: list[Json] = []
    turns: Counter[str] = Counter()
    for position, activation in enumerate(activations):
        if activation["kind"] != "agent":
            continue
        node, caller = activation["node"], activation["id"]
        slot = "deep" if node in DEEP else "quick"
        model_calls.append({"id": f"llm:{len(model_calls) + 1:02d}", "in": caller, "model_slot": slot})
        batches = BATCHES.get(node, [])
        for tool in batches[turns[node]] if turns[node] < len(batches) else []:
            tool_calls.append(
                {
                    "id": f"tool:{len(tool_calls) + 1:02d}",
                    "tool": tool,
                    "requested_by": caller,
                    "executed_in": activations[position + 1]["id"],
                    "returned_to": activations[position + 2]["id"],
                }
            )
        turns[node] += 1
    return model_calls, tool_calls


def _data_edges(ids: list[str]) -> tuple[list[Json], list[Json]]:
    """Data edges, and the control ancestors whose text must not be in the receiver's request."""

    def of(*nodes: str) -> list[str]:
        return [i for i in ids if i.rsplit("#", 1)[0] in nodes]

    edges: list[Json] = []

    def edge(producer: str, consumer: str, field: str) -> None:
        edges.append({"from": producer, "to": consumer, "field": field})

    reports = [(of(analyst)[-1], field) for analyst, _, _, field in ANALYSTS]
    debate, risk = of(*DEBATERS), of(*RISK)
    (manager,), (trader,), (portfolio,) = of("Research Manager"), of("Trader"), of("Portfolio Manager")
    for turn in debate + risk:
        for report, field in reports:
            edge(report, turn, field)
    for index, turn in enumerate(debate):
        for earlier in debate[:index]:
            edge(earlier, turn, "investment_debate_state.history")
        edge(turn, manager, "investment_debate_state.history")
    edge(manager, trader, "investment_plan")
    edge(manager, portfolio, "investment_plan")
    for index, turn in enumerate(risk):
        edge(trader, turn, "trader_investment_plan")
        for earlier in risk[:index]:
            edge(earlier, turn, "risk_debate_state.history")
        edge(turn, portfolio, "risk_debate_state.history")
    edge(trader, portfolio, "trader_investment_plan")
    blind = (manager, trader, portfolio)
    absent = [{"from": report, "to": role, "why": NO_REPORT} for report, _ in reports for role in blind]
    return edges, absent


def _silent_reads() -> list[Json]:
    start, sentiment = "run start (before the graph)", "Sentiment Analyst#1"
    memory = "past_context, in Portfolio Manager#1 (second run of a ticker onward)"
    return [
        {"in": start, "source": "yfinance.Ticker.info", "becomes": "instrument_context, in every request"},
        {"in": start, "source": "memory log file", "becomes": memory},
        {"in": sentiment, "source": "yfinance news", "becomes": "system prompt"},
        {"in": sentiment, "source": "StockTwits", "becomes": "system prompt"},
        {"in": sentiment, "source": "Reddit x3", "becomes": "system prompt"},
    ]


def _request_text(exchange: Json) -> str:
    request = exchange["request"]
    return "\n".join([flat(request.get("system")), *(flat(m.get("content")) for m in request["messages"])])


def _reply(exchange: Json) -> tuple[str, list[tuple[str, Json]]]:
    response = exchange["response"]
    if "choices" in response:
        message = response["choices"][0]["message"]
        functions = [c["function"] for c in message.get("tool_calls") or []]
        return message.get("content") or "", [(f["name"], json.loads(f["arguments"])) for f in functions]
    content = response["content"]
    if isinstance(content, list):
        uses = [(p["name"], p["input"]) for p in content if p["type"] == "tool_use"]
        return flat([p for p in content if p["type"] == "text"]), uses
    return content, [(c["name"], c["args"]) for c in response["tool_calls"]]


def _needle(exchange: Json) -> str:
    """A stretch of what was said that a later request would have to contain."""
    text, calls = _reply(exchange)
    if len(text) <= 200:
        strings = (v for _, arguments in calls for v in arguments.values() if isinstance(v, str))
        text = max(strings, key=len, default="")
    return text[:180].strip()


def check(out: Path, rounds: int) -> list[str]:
    """What the run in `out` has different from ``build(rounds)``; empty when nothing."""
    graph = build(rounds)
    summary = json.loads((out / "summary.json").read_text())
    wire = [json.loads(line) for line in (out / "wire.jsonl").read_text().splitlines()]
    problems = []
    if summary["node_order"] and summary["node_order"] != [a["node"] for a in graph["activations"]]:
        problems.append("node order differs")
    if len(wire) != len(graph["llm_calls"]):
        return [*problems, f"{len(wire)} model calls on the wire, expected {len(graph['llm_calls'])}"]
    # Tools are snake_case; the CamelCase calls are answers in a form.
    asked = [name for exchange in wire for name, _ in _reply(exchange)[1] if name[0].islower()]
    if asked != [call["tool"] for call in graph["tool_calls"]]:
        problems.append("tool calls differ")
    agents = [call["in"] for call in graph["llm_calls"]]
    needles = dict(zip(agents, map(_needle, wire), strict=True))
    requests = dict(zip(agents, map(_request_text, wire), strict=True))
    expected = {(edge["from"], edge["to"]) for edge in graph["data_edges"]}
    for index, producer in enumerate(agents):
        for consumer in agents[index + 1 :]:
            wanted = (producer, consumer) in expected
            known = len(needles[producer]) >= 100 and needles[producer] in requests[consumer]
            if wanted and not known:
                problems.append(f"data edge not on the wire: {producer} -> {consumer}")
            if known and not wanted:
                problems.append(f"text passed on that the graph does not expect: {producer} -> {consumer}")
    return problems


def _dump(graph: Json) -> str:
    """JSON with one list item a line: small, and its diffs can be read."""
    parts = []
    for key, value in graph.items():
        text = json.dumps(value)
        if isinstance(value, list):
            text = "[\n" + ",\n".join("  " + json.dumps(item) for item in value) + "\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["build", "check"])
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    if args.what == "build":
        print(_dump(build(args.rounds)))
        return 0
    if args.out is None:
        parser.error("check needs OUT")
    problems = check(args.out, args.rounds)
    print(json.dumps({"ok": not problems, "problems": problems, **build(args.rounds)["counts"]}, indent=1))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
