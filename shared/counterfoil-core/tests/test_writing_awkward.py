"""Odd names, big records, deep nesting and values that cannot be read stop no recording."""

from __future__ import annotations

from typing import Any

import pytest
from tallies import entries, ops

import counterfoil
from counterfoil import records
from counterfoil.digest import references_in


def test_no_name_however_odd_stops_the_recording(lab: Any) -> None:
    recorder = lab.recorder()
    odd = ["", " ", "/", "a/b", "\ud800", "\x00", "é\U0001f600", "x" * 5000, "%2F", "#", "@", ":", "\n"]
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for name in odd:
        call = recorder.start("step", name, actor=("team", name), parent=root, key=name)
        recorder.point("custom", name, parent=call, content={})
        recorder.end(call, status="ok")
    recorder.end(root)
    recorder.close()
    assert recorder.losses == 0
    assert lab.verify().verdict == "intact"
    assert ops(lab.evidence)["step"] == 2 * len(odd)


def test_a_record_with_more_than_fits_keeps_the_rest_by_reference(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    steps = [
        recorder.start("step", f"node {n}", actor=("node",), parent=root, key="k" * 50) for n in range(600)
    ]
    for step in steps:
        recorder.end(step)
    join = recorder.start(
        "step",
        "join",
        actor=("join",),
        parent=root,
        parents=[("control", step) for step in steps],
        context={"usage": {str(number): number for number in range(3000)}},
    )
    handed = recorder.handoff(
        senders=[("node",)],
        to=("join",),
        signer=("app",),
        kind="join",
        basis="observed",
        payload=recorder.value("x"),
        parents=[("control", step) for step in steps],
        run=root.run,
    )
    assert handed is not None
    recorder.end(join)
    recorder.end(root)
    recorder.close()
    assert recorder.losses == 0
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    (entry,) = [
        one
        for one in entries(lab.evidence)
        if one.op == "step"
        and one.body["content"]["name"] == "join"
        and one.body["content"]["phase"] == "start"
    ]
    reader = counterfoil.read(lab.evidence)
    listed = reader.value(entry.body["context"]["parents"])
    assert {one["digest"] for one in listed} == {step.digest for step in steps}
    assert len(entry.body_bytes) < records.MAX_RECORD
    assert all(reader.blob(ref.sha256) for ref in references_in(entry.body))


def test_deep_nesting_of_calls(lab: Any) -> None:
    recorder = lab.recorder()
    calls = [recorder.start("invoke_workflow", "app", actor=("app",))]
    for number in range(400):
        calls.append(
            recorder.start("step", f"level {number}", actor=("deep",) * (number + 1), parent=calls[-1])
        )
    for call in reversed(calls):
        recorder.end(call)
    recorder.close()
    assert recorder.losses == 0
    assert lab.verify().verdict == "intact"


@pytest.mark.parametrize(
    "change",
    [
        {"signer": ()},
        {"senders": []},
        {"senders": [("x" * 2000,) * 3]},
        {"to": ()},
        {"kind": "unknown"},
        {"basis": "guessed"},
        {"reason": "r" * 5000},
        {"senders": [(f"agent {number}",) for number in range(300)]},
    ],
    ids=str,
)
def test_a_handoff_that_cannot_be_written_is_a_loss_and_breaks_nothing(
    lab: Any, change: dict[str, Any]
) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    arguments: dict[str, Any] = {
        "senders": [("a",)],
        "to": ("b",),
        "signer": ("a",),
        "kind": "edge",
        "basis": "observed",
        "payload": recorder.value("x"),
        "parents": [("control", root)],
        "run": root.run,
    }
    digest = recorder.handoff(**(arguments | change))
    assert recorder.handoff(**arguments) is not None
    recorder.end(root)
    recorder.close()
    result = lab.verify()
    if digest is None:
        assert (result.verdict, {one.code for one in result.findings}) == ("incomplete", {"CF-VERIFY-021"})
    else:
        assert (result.verdict, result.findings) == ("intact", [])


def test_more_actors_than_keys_are_held(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.actors.HELD", 8)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for turn in range(3):
        for number in range(20):
            digest = recorder.handoff(
                senders=[(f"agent {number}",)],
                to=("b",),
                signer=(f"agent {number}",),
                kind="edge",
                basis="sealed",
                payload=recorder.value(f"{turn} {number}"),
                parents=[("control", root)],
                run=root.run,
            )
            assert digest is not None
    recorder.end(root)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert (result.counts["handoffs"], result.counts["statements"]) == (60, 120)


def test_a_value_that_cannot_be_read_is_told_and_no_error(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))

    def fail(obj: object) -> Any:
        raise MemoryError

    real = recorder.capture._reference
    monkeypatch.setattr(
        type(recorder.capture), "_reference", lambda self, obj: fail(obj) if obj == "bad" else real(obj)
    )
    recorder.end(root, response=recorder.value("bad"))
    recorder.close()
    assert recorder.losses == 1
    assert lab.verify().verdict == "incomplete"
