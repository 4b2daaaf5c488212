"""Token streams byte for byte: parts that are read and written, and parts that are none."""

from __future__ import annotations

import random
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


def test_a_part_that_is_changed_anywhere_is_refused_or_has_other_digests() -> None:
    rng = random.Random("streams")
    cases = [
        case for case in STREAMS["streams"] if len(case["parts"]) == 1 and len(case["parts"][0]["hex"]) < 2000
    ]
    refused = taken = 0
    for _ in range(3000):
        case = rng.choice(cases)
        part = bytes.fromhex(case["parts"][0]["hex"])
        at = rng.randrange(len(part))
        piece = rng.choice([b"", bytes([rng.randrange(256)]), rng.randbytes(2), part[: rng.randrange(9)]])
        changed = part[:at] + piece + part[at + rng.randrange(3) :]
        running = Running(case["call"])
        try:
            running.read(changed)
        except ValueError:
            refused += 1
            continue
        taken += changed != part
        assert (running.stated() == case["parts"][0]["stated"]) == (changed == part)
    assert refused > 1000
    assert taken > 100
