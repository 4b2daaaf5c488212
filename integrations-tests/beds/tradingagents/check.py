"""Does recorded evidence of one TradingAgents run hold everything that happened, and does it verify?

    python check.py EVIDENCE OUT [--max-bytes N]

OUT is the folder that ``run.py`` filled while the run was recorded into EVIDENCE. The wire log there and
``expected_graph.json`` are the truth; the evidence is read by the public reader and the command line only.
Prints a JSON summary; exit code 1 when anything is missing, different or superfluous.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "common"), str(HERE)]

import openai_body  # noqa: E402

import counterfoil  # noqa: E402

GRAPH = json.loads((HERE / "expected_graph.json").read_text())
ACTIVATIONS = ("invoke_agent", "step")
Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One call, start and end joined, with its values whole."""

    op: str
    name: str
    request: Any
    response: Any


def recorded_calls(evidence: Path) -> list[Call]:
    """Every call in log order. The only place that knows how the reader gives out values."""
    reader = counterfoil.read(evidence)
    return [Call(c.op, c.name, reader.value(c.request), reader.value(c.response)) for c in reader.calls()]


def tool_arguments(request: Any) -> Any:
    """The arguments in the request of an ``execute_tool`` call."""
    return openai_body.plain(request["arguments"])


def tool_result(response: Any) -> list[Any]:
    """The content, as blocks, in the response of an ``execute_tool`` call."""
    if isinstance(response, str):
        return openai_body.blocks(response)
    return openai_body.recorded_message(response)["content"]


def cli(command: str, evidence: Path, *options: str) -> tuple[int, str]:
    beside = Path(sys.executable).with_name("counterfoil")
    program = str(beside) if beside.exists() else shutil.which("counterfoil")
    if program is None:
        sys.exit("check: the counterfoil command is not installed")
    done = subprocess.run(
        [program, command, str(evidence), "--json", *options], capture_output=True, text=True
    )
    if not done.stdout:
        sys.exit(f"check: counterfoil {command}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.returncode, done.stdout


def check_verdict(evidence: Path) -> list[str]:
    problems = []
    by_api = counterfoil.verify(evidence)
    code, text = cli("verify", evidence)
    by_cli = json.loads(text)
    for source, verdict in (("verify()", str(by_api.verdict)), ("counterfoil verify", by_cli["verdict"])):
        if verdict != "intact":
            problems.append(f"{source}: {verdict}: {by_cli['findings']}")
    if code != 0:
        problems.append(f"counterfoil verify: exit code {code}")
    if by_cli["counts"]["losses"] or by_cli["counts"]["open"]:
        problems.append(f"losses or open calls: {by_cli['counts']}")
    return problems


def check_log(evidence: Path) -> list[str]:
    """Every model and tool call has one start and one end in the log."""
    lines = [json.loads(line) for line in cli("log", evidence)[1].splitlines()]
    problems = []
    for op, expected in (("chat", "llm_calls"), ("execute_tool", "tool_calls")):
        phases = Counter(line["phase"] for line in lines if line["op"] == op)
        count = GRAPH["counts"][expected]
        if phases != {"start": count, "end": count}:
            problems.append(f"log: {op}: {dict(phases)}, expected {count} of each phase")
    return problems


def check_calls(calls: list[Call], wire: list[Json]) -> list[str]:
    """Requests, replies, tool arguments and tool results equal what was on the wire."""
    chats = [call for call in calls if call.op == "chat"]
    tools = [call for call in calls if call.op == "execute_tool"]
    return [
        *openai_body.unmatched(
            [openai_body.recorded_request(c.request) for c in chats],
            [openai_body.wire_request(w["request"]) for w in wire],
            "model requests",
        ),
        *openai_body.unmatched(
            [openai_body.recorded_reply(c.response) for c in chats],
            [openai_body.wire_reply(w["response"]) for w in wire],
            "model replies",
        ),
        *openai_body.unmatched(
            [[c.name, tool_arguments(c.request), tool_result(c.response)] for c in tools],
            wire_tool_calls(wire),
            "tool calls",
        ),
    ]


def wire_tool_calls(wire: list[Json]) -> list[Any]:
    """[name, arguments, result] of each tool call that the model asked for and later got an answer to."""
    asked: dict[str, Json] = {}
    answers: dict[str, Any] = {}
    for exchange in wire:
        for call in openai_body.wire_reply(exchange["response"]).get("calls", ()):
            asked[call["id"]] = call
        for message in map(openai_body.wire_message, exchange["request"]["messages"]):
            if message["role"] == "tool":
                answers[message["answers"]] = message["content"]
    return [[asked[i]["name"], asked[i]["args"], content] for i, content in answers.items()]


def check_graph(evidence: Path) -> list[str]:
    """Activations and control edges are exactly the expected ones, occurrences counted in log order."""
    graph = json.loads(cli("graph", evidence)[1])
    seen: Counter[str] = Counter()
    ids: dict[Any, str] = {}
    for node in graph["nodes"]:
        if node["op"] in ACTIVATIONS:
            name = last_name(node["actor"])
            seen[name] += 1
            ids[node["id"]] = f"{name}#{seen[name]}"
    problems = []
    expected = [activation["id"] for activation in GRAPH["activations"]]
    if list(ids.values()) != expected:
        problems.append(f"activations: {openai_body.difference(list(ids.values()), expected)}")
    control = [edge for edge in graph["edges"] if edge["kind"] == "control"]
    strangers = [edge for edge in control if edge["from"] not in ids or edge["to"] not in ids]
    if strangers:
        return [*problems, f"control edges that do not join activations: {strangers}"]
    pairs = sorted([ids[edge["from"]], ids[edge["to"]]] for edge in control)
    wanted = sorted([edge["from"], edge["to"]] for edge in GRAPH["control_edges"])
    if pairs != wanted:
        problems.append(f"control edges: {openai_body.difference(pairs, wanted)}")
    inexact = [edge for edge in control if edge["exact"] is not True]
    if inexact:
        problems.append(f"control edges that are not exact: {inexact}")
    return problems


def check_handoffs(evidence: Path) -> list[str]:
    """The 11 handoffs between agents, 4 of them through the clearing node named in ``via``; all 29 hops."""
    found = json.loads(cli("handoffs", evidence)[1])
    triples = [
        [last_name(h["from"]), last_name(h["to"]), list(map(last_name, h["via"] or []))] for h in found
    ]
    problems = []
    if triples != expected_handoffs():
        problems.append(f"handoffs: {openai_body.difference(triples, expected_handoffs())}")
    hops = json.loads(cli("handoffs", evidence, "--hops")[1])
    pairs = [[last_name(h["from"]), last_name(h["to"])] for h in hops]
    wanted = [[name_of(e["from"]), name_of(e["to"])] for e in GRAPH["control_edges"]]
    if pairs != wanted:
        problems.append(f"hops: {openai_body.difference(pairs, wanted)}")
    for hop in [*found, *hops]:
        if hop["exact"] is not True or hop["proof"] != "recorded":
            problems.append(f"a handoff is not exact or not recorded: {hop}")
    return problems


def expected_handoffs() -> list[list[Any]]:
    clearing = [a["node"] for a in GRAPH["activations"] if a["kind"] == "clear"]
    vias = [[node] for node in clearing]
    return [
        [handoff["from"], handoff["to"], vias[index] if index < len(vias) else []]
        for index, handoff in enumerate(GRAPH["agent_handoffs"])
    ]


def last_name(actor: str) -> str:
    """The actor's own name: identities are percent-encoded paths."""
    return unquote(actor.rsplit("/", 1)[-1])


def name_of(activation: str) -> str:
    return activation.rsplit("#", 1)[0]


def size(evidence: Path) -> int:
    """Apparent size of a folder, as ``du -sb`` counts it."""
    return sum(path.lstat().st_size for path in (evidence, *evidence.rglob("*")))


def check(evidence: Path, out: Path, max_bytes: int | None = None) -> Json:
    """A summary whose ``problems`` are empty when the evidence holds the run."""
    wire = [json.loads(line) for line in (out / "wire.jsonl").read_text().splitlines()]
    problems = []
    if len(wire) != GRAPH["counts"]["llm_calls"]:
        problems.append(f"the run itself made {len(wire)} model calls")
    problems += check_verdict(evidence)
    problems += check_log(evidence)
    problems += check_calls(recorded_calls(evidence), wire)
    problems += check_graph(evidence)
    problems += check_handoffs(evidence)
    stored = size(evidence)
    if max_bytes is not None and stored > max_bytes:
        problems.append(f"{stored} bytes of evidence, more than {max_bytes}")
    return {"ok": not problems, "problems": problems, "bytes": stored}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("evidence", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--max-bytes", type=int)
    args = parser.parse_args()
    summary = check(args.evidence, args.out, args.max_bytes)
    print(json.dumps(summary, indent=1))
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
