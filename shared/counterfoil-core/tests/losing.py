"""What a writer was given while its disk or folder went, and what stands in evidence afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import counterfoil
from counterfoil.recorder import Recorder


def starts(evidence: Path) -> set[str]:
    return {call.start_digest for call in counterfoil.read(evidence).calls()}


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def some(recorder: Recorder, count: int = 5) -> list[str]:
    made = []
    for number in range(count):
        request = recorder.value({"text": f"{number} " * 300, "noise": os.urandom(300)})
        call = recorder.start("invoke_workflow", str(number), actor=("app",), request=request)
        recorder.end(call, response=request)
        made.append(call.start)
    return made


def workflow(recorder: Recorder, count: int = 20) -> list[str]:
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    out = [root.start]
    for number in range(count):
        request = recorder.value({"text": f"{number} " * 300, "noise": os.urandom(300)})
        call = recorder.start("step", str(number), actor=("node",), parent=root, request=request)
        recorder.end(call, response=request)
        out.append(call.start)
    recorder.end(root)
    return out
