"""A call names only handoffs that stand in its log: what another process or log accepted is left out, and counted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import stated

NAMES = {
    "handoffs": lambda digest: {"handoffs": [digest]},
    "foreign": lambda digest: {"foreign": [("control", digest)]},
}
WORDS = pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)


@pytest.fixture
def accepted(party: Callable[..., Any]) -> tuple[Any, str]:
    """A receiver whose log is open, and the handoff that it accepted."""
    sender = party("sender")
    receiver = party("receiver", trusts=[sender])
    return receiver, receiver.accept(sender.seal()).digest


def _calls(recorder: counterfoil.Recorder, **more: Any) -> int:
    """One call that names something; what was lost by that."""
    before = recorder.losses
    call = recorder.start("invoke_workflow", "app", actor=("app",), **more)
    recorder.end(call)
    assert recorder.flush()
    return recorder.losses - before


def _named(evidence: Path) -> list[str]:
    return [
        one if type(one) is str else one["digest"]
        for entry in counterfoil.read(evidence).entries()
        if "content" in entry.body
        for name in ("handoffs", "parents")
        for one in entry.body["context"].get(name, [])
    ]


@WORDS
def test_what_this_log_accepted_is_named(accepted: Any, names: Callable[[str], Any]) -> None:
    receiver, digest = accepted
    with receiver.inside() as log:
        assert _calls(log.recorder, **names(digest)) == 0
    assert receiver.verdict() == ("intact", [])
    assert _named(receiver.evidence) == [digest]


@WORDS
def test_what_an_earlier_session_accepted_is_named(accepted: Any, names: Callable[[str], Any]) -> None:
    receiver, digest = accepted
    receiver.close()
    with receiver.inside() as log:
        assert _calls(log.recorder, **names(digest)) == 0
    assert receiver.verdict() == ("intact", [])
    assert _named(receiver.evidence) == [digest]


@WORDS
def test_of_a_long_log_nobody_asks_what_stood_before(
    accepted: Any, names: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application would wait while it is read."""
    receiver, digest = accepted
    receiver.close()
    monkeypatch.setattr(stated, "LOOK_MAX", 100)
    with receiver.inside() as log:
        assert _calls(log.recorder, **names(digest)) == 1
    assert receiver.verdict() == ("incomplete", ["CF-VERIFY-021"])


@WORDS
def test_what_another_writer_of_this_evidence_accepted_is_left_out(
    accepted: Any, lab: Any, names: Callable[[str], Any]
) -> None:
    receiver, digest = accepted
    with receiver.inside():
        worker = counterfoil.Recorder(receiver.evidence)
        assert _calls(worker, **names(digest)) == 1
        worker.close()
    assert receiver.verdict() == ("incomplete", ["CF-VERIFY-021"])
    assert _named(receiver.evidence) == []


@WORDS
@pytest.mark.parametrize("digest", ["0" * 64, "", "x", "A" * 64, "é", "0 " * 32])
def test_what_nobody_accepted_is_left_out(lab: Any, names: Callable[[str], Any], digest: str) -> None:
    recorder = lab.recorder()
    assert _calls(recorder, **names(digest)) == 1
    recorder.close()
    found = lab.verify()
    assert (found.verdict, [one.code for one in found.findings]) == ("incomplete", ["CF-VERIFY-021"])
    assert _named(lab.evidence) == []


@WORDS
def test_what_a_forked_child_names_of_its_parent_is_left_out(
    accepted: Any, names: Callable[[str], Any]
) -> None:
    receiver, digest = accepted
    with receiver.inside() as log:
        child = os.fork()
        if not child:
            try:
                lost = _calls(log.recorder, **names(digest))
                log.recorder.close()
            finally:
                os._exit(0 if lost == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert receiver.verdict() == ("incomplete", ["CF-VERIFY-021"])
    assert _named(receiver.evidence) == []
