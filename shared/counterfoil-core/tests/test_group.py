"""A group goes to the disk when it is full, however long its window is."""

from __future__ import annotations

import time
from typing import Any

import pytest

from counterfoil import records, writer


def test_a_full_group_does_not_wait_for_its_window(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = lab.recorder()
    open_writer = recorder.open()
    open_writer.flush()
    monkeypatch.setattr(writer, "WINDOW", 3600.0)
    for number in range(writer.GROUP + 1):
        content = {"name": f"n{number}", "op": "custom", "phase": "point"}
        assert open_writer.entry(records.build(content, {"at": number}))
    until = time.monotonic() + 60
    while open_writer.last_checkpoint() is None and time.monotonic() < until:
        time.sleep(0.01)
    head = open_writer.last_checkpoint()
    assert head is not None
    assert head["size"] >= writer.GROUP
