"""Runs to record: a workflow of two agents, model calls, a handoff between them."""

from __future__ import annotations

from pathlib import Path

from counterfoil.recorder import Recorder


def record(evidence: str | Path, *, runs: int = 1, calls: int = 2) -> None:
    """One session of complete runs."""
    recorder = Recorder(evidence)
    for number in range(runs):
        one_run(recorder, calls=calls, number=number)
    recorder.close()


def one_run(recorder: Recorder, *, calls: int = 2, number: int = 0) -> str:
    """One complete run; gives its identifier."""
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value({"n": number}))
    first = recorder.start("step", "writer", actor=("writer",), parent=root, key="1")
    for turn in range(calls):
        asked = recorder.value({"messages": [f"question {number} {turn} " * 40]})
        model = recorder.start("chat", "model", actor=("writer",), parent=first, request=asked)
        recorder.end(model, response=recorder.value(f"answer {number} {turn} " * 40))
    payload = recorder.value({"text": f"draft {number} " * 40})
    recorder.end(first, response=payload)
    handed = recorder.handoff(
        senders=[("writer",)],
        to=("reader",),
        signer=("app",),
        kind="edge",
        basis="observed",
        payload=payload,
        parents=[("control", first)],
        run=root.run,
    )
    second = recorder.start(
        "step",
        "reader",
        actor=("reader",),
        parent=root,
        key="2",
        request=payload,
        parents=[("control", first)],
        handoffs=[handed] if handed else [],
    )
    recorder.end(second)
    recorder.end(root, response=payload)
    return root.run
