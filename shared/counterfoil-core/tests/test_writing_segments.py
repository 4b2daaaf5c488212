"""Segments roll over, big values are parted, and checkpoints come when they should."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tallies import entries, ops

import counterfoil
from counterfoil import appending, keys, notes, writer
from counterfoil.log import CheckpointSeen, LogScan
from counterfoil.stores import FolderStore


def test_segments_roll_over(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 20_000)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for number in range(60):
        call = recorder.start(
            "step", str(number), actor=("node",), parent=root, request=recorder.value(os.urandom(2000))
        )
        recorder.end(call)
        recorder.flush()
    recorder.end(root)
    recorder.close()
    assert len(lab.segments()) > 4
    assert all(path.stat().st_size < 40_000 for path in lab.segments())
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert ops(lab.evidence)["segment"] == len(lab.segments()) - 1
    lab.record()
    assert lab.verify().verdict == "intact"


def test_big_values_are_split_over_chunks(lab: Any) -> None:
    recorder = lab.recorder()
    values = [os.urandom(3 << 20), "x" * (5 << 20), [os.urandom(1 << 20) for _ in range(4)]]
    references = [recorder.value(value) for value in values]
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=references[0])
    for reference in references:
        recorder.end(recorder.start("step", "node", actor=("node",), parent=root, request=reference))
    recorder.end(root)
    recorder.close()
    assert lab.verify().verdict == "intact"
    reader = counterfoil.read(lab.evidence)
    assert reader.blob(references[0].sha256) == values[0]
    assert reader.value(references[1]) == values[1]
    assert len(reader.value(references[2])) == 4


def test_a_value_too_big_for_a_chunk_is_a_loss(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_BLOB", 1000)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value("x" * 2000))
    nested = recorder.value({"small": 1, "big": "y" * 2000})
    recorder.end(recorder.start("step", "node", actor=("node",), parent=root, request=nested))
    recorder.end(root, response=recorder.value({"fits": "z" * 900}))
    recorder.close()
    result = lab.verify()
    assert (result.verdict, {one.code for one in result.findings}) == ("incomplete", {"CF-VERIFY-021"})
    assert result.counts["losses"] == 4  # the root's request at its start and end, the node's as well
    calls = counterfoil.read(lab.evidence).calls()
    assert [call.request for call in calls] == [None, None]
    assert calls[0].response is not None


def test_checkpoints_come_by_count_by_time_and_at_the_end_of_a_run(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "EVERY", 50)
    monkeypatch.setattr(writer, "DELAY", 0.2)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for number in range(120):
        recorder.end(recorder.start("step", str(number), actor=("node",), parent=root))
        recorder.flush()
    by_count = _checkpoints(lab.evidence)
    assert len(by_count) >= 4
    assert max(b - a for a, b in itertools.pairwise(by_count)) <= 54
    recorder.start("step", "open", actor=("node",), parent=root)
    recorder.flush()
    deadline = time.monotonic() + 120
    while _checkpoints(lab.evidence)[-1] < len(entries(lab.evidence)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    monkeypatch.setattr(writer, "DELAY", 100)
    recorder.end(root)
    recorder.flush()
    deadline = time.monotonic() + 120
    while _checkpoints(lab.evidence)[-1] < len(entries(lab.evidence)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    recorder.close()
    assert lab.verify().verdict == "intact"


def _checkpoints(evidence: Path) -> list[int]:
    store = FolderStore(evidence)
    return [
        event.size
        for name in store.logs()
        for event in LogScan(store, name).events()
        if isinstance(event, CheckpointSeen)
    ]


def test_checkpoints_are_notes_of_the_log(lab: Any) -> None:
    lab.record(3)
    store = FolderStore(lab.evidence)
    (name,) = store.logs()
    identity = keys.load_identity()
    assert identity is not None
    origin = f"{identity.keyid}/{name}"
    seen = [event for event in LogScan(store, name).events() if isinstance(event, CheckpointSeen)]
    for event in seen:
        note = notes.Note.parse(event.note)
        note.verify([notes.vkey(origin, identity.public)])
        checkpoint = notes.Checkpoint.parse(note.text)
        assert (checkpoint.origin, checkpoint.size, checkpoint.root) == (origin, event.size, event.root)
    head = keys.remembered_head(origin)
    assert head is not None
    assert (head.size, head.root, head.evidence) == (
        seen[-1].size,
        seen[-1].root.hex(),
        str(lab.evidence.resolve()),
    )
