"""Evidence of every kind, to be attacked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from counterfoil import appending


def one_session(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()


def three_sessions(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        lab.record(calls=0)


def many_segments(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 2_000)
    recorder = lab.recorder()
    for number in range(4):
        root = recorder.start(
            "invoke_workflow", str(number), actor=("app",), request=recorder.value(os.urandom(900))
        )
        recorder.end(root)
        recorder.flush()
        while recorder.open()._covered != recorder.open()._index:
            time.sleep(0.005)
    recorder.close()
    assert len(lab.segments()) > 2


def two_logs(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab.recorder(), lab.recorder()
    for recorder in (first, second):
        recorder.end(
            recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value("x" * 400))
        )
        recorder.flush()
    first.close()
    second.close()
    lab.record(calls=0)


def recovered(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill; its verdict is incomplete from the start."""
    lab.python(
        """
        import os, sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        recorder.end(recorder.start("invoke_workflow", "first", actor=("app",)))
        recorder.flush()
        recorder.start("invoke_workflow", "second", actor=("app",))
        recorder.flush()
        os._exit(0)
        """
    )
    lab.record(calls=0)


KINDS: dict[str, Callable[[Any, pytest.MonkeyPatch], None]] = {
    "one": one_session,
    "sessions": three_sessions,
    "segments": many_segments,
    "logs": two_logs,
    "recovered": recovered,
}
