"""Token streams byte for byte: parts that are read and written, and parts that are none."""

from __future__ import annotations

from typing import Any

import pytest
from golden import STREAMS, named

from counterfoil.digest import sha256_hex
from counterfoil.frames import Running


@named(STREAMS["streams"])
def test_a_stream_is_read_part_by_part(case: dict[str, Any]) -> None:
    running = Running(case["call"])
    for number, part in enumerate(case["parts"], 1):
        data = bytes.fromhex(part["hex"])
        assert sha256_hex(data) == part["sha256"]
        frames = [(one["channel"], bytes.fromhex(one["hex"]), one["after"]) for one in part["frames"]]
        assert running.read(data) == frames
        assert (running.stated(), running.number) == (part["stated"], number)
    assert running.lists(part["sha256"] for part in case["parts"])
    assert not running.lists(["0" * 64])


@named(STREAMS["streams"])
def test_a_stream_is_written_part_by_part(case: dict[str, Any]) -> None:
    running = Running(case["call"])
    for part in case["parts"]:
        frames = part["frames"]
        written = running.write(
            [one["channel"] for one in frames],
            [bytes.fromhex(one["hex"]) for one in frames],
            [one["after"] for one in frames],
            list(map(bytes.fromhex, part["tokens"])),
        )
        assert written == (part["sha256"], bytes.fromhex(part["hex"]))
        assert running.stated() == part["stated"]


@named(STREAMS["refused"])
def test_what_is_no_part_is_refused(case: dict[str, Any]) -> None:
    running = Running("c1")
    for before in case["before"]:
        running.read(bytes.fromhex(before))
    stated = running.stated()
    with pytest.raises(ValueError, match=r"\w"):
        running.read(bytes.fromhex(case["hex"]))
    assert running.stated()["frames"] == stated["frames"]
