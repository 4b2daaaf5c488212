"""A wall clock that jumps: entries stand in the order of their index, `at` may go back, and nothing breaks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

import counterfoil
from counterfoil import keys

YEAR = 365 * 86_400


class Clock:
    """The wall clock of this process; the monotonic one goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0.0
        self.frozen: float | None = None
        self._time, self._time_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: self.now() / 1e9)
        monkeypatch.setattr(time, "time_ns", self.now)

    def now(self) -> int:
        if self.frozen is not None:
            return int(self.frozen * 1e9)
        return self._time_ns() + int(self.offset * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def jumps(clock: Clock) -> Iterator[str]:
    """Back and forth by years, to the epoch, standing still."""
    yield "as it is"
    for years in (-20, 40, 0, 200, -3):
        clock.offset = years * YEAR
        yield f"{years} years"
    for frozen in (0.0, 1.5, 1_790_000_000.0):
        clock.frozen = frozen
        yield f"frozen at {frozen}"
    clock.frozen = None
    clock.offset = 0
    yield "as it was"


def test_a_clock_that_jumps_while_a_process_records(lab: Any, clock: Clock, one_run: Any) -> None:
    recorder = lab.recorder()
    count = 0
    for _ in jumps(clock):
        root = one_run(recorder)
        assert root.end
        assert recorder.flush()
        count += 1
    recorder.close()
    assert recorder.losses == 0
    result = lab.verify()
    assert (result.verdict, result.findings, result.counts["runs"]) == ("intact", [], count)
    assert lab.verify_elsewhere().verdict == "intact"
    entries = list(counterfoil.read(lab.evidence).records())
    assert [one.index for one in entries] == sorted(one.index for one in entries)
    at = [one.body["context"]["at"] for one in entries if "at" in one.body["context"]]
    assert any(later < earlier for earlier, later in itertools.pairwise(at))
    took = [one.body["context"].get("took", 0) for one in entries]
    assert min(took) >= 0  # durations are the monotonic clock's
    assert max(took) < 60_000_000


def test_a_clock_that_jumps_between_processes(lab: Any, clock: Clock) -> None:
    """The next session may say that it began before the one that it follows."""
    count = 0
    for _ in jumps(clock):
        lab.record()
        count += 1
        assert lab.verify().verdict == "intact"
    assert (lab.verify().counts["logs"], lab.verify().counts["runs"]) == (1, count)
    sessions = [one for one in counterfoil.read(lab.evidence).records() if one.op == "session"]
    assert len(sessions) == count


def test_a_clock_that_stands_still_makes_no_two_handoffs_one(lab: Any, clock: Clock) -> None:
    clock.frozen = 1_790_000_000.0
    recorder = lab.recorder()
    made = []
    for _ in range(2):
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        for _ in range(20):
            made.append(
                recorder.handoff(
                    senders=[("a",)],
                    to=("b",),
                    signer=("a",),
                    kind="send",
                    basis="sealed",
                    payload=recorder.value("the same"),
                    parents=[("control", root)],
                    run=root.run,
                )
            )
        recorder.end(root)
        clock.frozen -= 5
    recorder.close()
    assert len(set(made)) == 40
    assert (lab.verify().verdict, lab.verify().counts["handoffs"]) == ("intact", 40)


@pytest.mark.parametrize("beyond", [2.0**53 / 1e6 + 1, 1e13, -5.0])
def test_a_clock_beyond_what_a_record_can_say(lab: Any, clock: Clock, beyond: float) -> None:
    """Microseconds beyond 2^53 (the year 2255), or before 1970: told as the last or first moment there is."""
    recorder = lab.recorder()
    first = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.end(first)
    clock.frozen = beyond
    late = recorder.start("invoke_workflow", "late", actor=("app",))
    recorder.end(late)
    recorder.loss("something")
    clock.frozen = None
    last = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.end(last)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.counts["losses"], result.counts["runs"]) == ("incomplete", 1, 3)
    at = {one.body["context"]["at"] for one in counterfoil.read(lab.evidence).records() if one.op == "loss"}
    assert at == {0 if beyond < 0 else 2**53 - 1}


def test_expiry_is_the_wall_clock_s(lab: Any, clock: Clock) -> None:
    """A handoff is for a while, by the clocks of who seals and who accepts; documented so, and no more is promised."""
    with counterfoil.open(lab.evidence, actor="planner") as sender:
        envelope = counterfoil.seal(sender, {"task": "go"}, to="writer")
        other = counterfoil.seal(sender, {"task": "again"}, to="writer")
    identity = keys.load_identity()
    assert identity is not None
    with counterfoil.open(lab.evidence, actor="writer") as receiver:
        clock.offset = YEAR
        with pytest.raises(counterfoil.CounterfoilError) as late:
            counterfoil.accept(receiver, envelope, {"task": "go"})
        clock.offset = 0
        assert counterfoil.accept(receiver, other, {"task": "again"}).payload == {"task": "again"}
    assert "expired" in str(late.value)
    assert lab.verify().verdict in ("intact", "incomplete")
