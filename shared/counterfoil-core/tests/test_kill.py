"""Killed at any moment, a writer loses nothing it called durable, and the next one says that it was killed."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from forging import chunks

import counterfoil
from counterfoil import keys, segments

EARLY = 4
"""Every so-and-so-many-th process may be killed before it promised anything, or made anything."""


class Killer:
    """Lets processes record with four threads each, and kills them at any moment."""

    def __init__(self, lab: Any, durability: str) -> None:
        self.lab = lab
        self.durability = durability
        self.promised: set[str] = set()
        self.verdicts: Counter[str] = Counter()
        self.rng = random.Random(f"kill {durability}")
        self.process = lab.nursery()

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()

    def wait_for(self, told: Path, *, lines: int) -> None:
        """Until something is promised: on a busy machine the start alone may take longer than it is then left alive."""
        until = time.monotonic() + 120
        while not told.exists() or told.read_bytes().count(b"\n") < lines:
            assert time.monotonic() < until
            time.sleep(0.001)

    def kill_one(self, number: int) -> None:
        """Kill one; what all of them had been promised must be there, and the log must not look whole."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        told = self.lab.root / f"{self.durability}-{number}"
        order = {"scenario": "load", "told": str(told), "seed": number}
        order |= {"home": str(self.lab.home), "evidence": str(self.lab.evidence)}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        if number % EARLY != EARLY - 1:
            self.wait_for(told, lines=2)
        short, middle, long = (self.rng.uniform(*span) for span in ((0, 0.03), (0.03, 0.15), (0.1, 0.4)))
        time.sleep(self.rng.choice([short, middle, long]))
        os.kill(child, signal.SIGKILL)
        assert int(self.process.stdout.readline()) == -signal.SIGKILL
        if told.exists():
            # The kill may have cut the last line, but then it was not promised yet.
            self.promised |= {line for line in told.read_text().split("\n") if len(line) == 64}
            told.unlink()
        if self.lab.evidence.exists():
            result = self.lab.verify()
            self.verdicts[result.verdict] += 1
            # Also right behind a checkpoint with nothing going on: nobody knows what came after it.
            assert result.verdict in ("incomplete", "cannot-tell"), result.findings
            if result.verdict == "cannot-tell":  # killed before the first byte of the first log
                assert {finding.code for finding in result.findings} == {"CF-VERIFY-001"}
            kept = _bodies(self.lab.evidence)
            assert self.promised <= kept, (number, len(self.promised - kept))


@pytest.mark.parametrize("durability", ["group", "call"])
def test_killed_under_load(lab: Any, durability: str, one_run: Any) -> None:
    """Each process goes on with the log that the killed one left; not one of them begins another."""
    keys.load_or_create_identity()
    with Killer(lab, durability) as killer:
        for number in range(6):
            killer.kill_one(number)
    assert killer.promised
    _goes_on(lab, killer, one_run)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["group", "call"])
def test_killed_five_hundred_times(lab: Any, durability: str, one_run: Any) -> None:
    keys.load_or_create_identity()
    promised = 0
    for part in range(10):
        lab.evidence = lab.root / f"evidence {durability} {part}"
        with Killer(lab, durability) as killer:
            for number in range(25):
                killer.kill_one(part * 25 + number)
        _goes_on(lab, killer, one_run)
        promised += len(killer.promised)
    print(f"{durability}: 250 kills, {promised} entries promised, none lost")
    assert promised > 250


def _goes_on(lab: Any, killer: Killer, one_run: Any) -> None:
    recorder = lab.recorder()
    one_run(recorder)
    recorder.close()
    assert recorder.losses == 0
    after = lab.verify()
    assert after.verdict == "incomplete"
    assert {one.code for one in after.findings} <= {"CF-VERIFY-020", "CF-VERIFY-025", "CF-VERIFY-027"}
    assert killer.promised <= _bodies(lab.evidence)
    assert lab.verify_elsewhere().verdict == "incomplete"
    assert after.counts["logs"] == 1


def _bodies(evidence: Path) -> set[str]:
    from counterfoil.digest import sha256_hex

    return {sha256_hex(entry.body_bytes) for entry in counterfoil.read(evidence).entries()}


def test_ended_without_a_word(lab: Any) -> None:
    """``os._exit`` runs no clean-up: what was flushed is there, and the stop is told."""
    out = lab.python(
        """
        import os, sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        for number in range(50):
            recorder.end(recorder.start("step", "node", actor=("node",), parent=root, key=str(number)))
        assert recorder.flush()
        print(root.start, flush=True)
        recorder.start("step", "after", actor=("node",), parent=root)
        os._exit(0)
        """
    )
    result = lab.verify()
    assert result.verdict == "incomplete"
    found = counterfoil.read(lab.evidence).calls()
    assert out.strip() in {call.start_digest for call in found}
    assert sum(call.name == "node" and call.end is not None for call in found) == 50
    lab.record()
    after = lab.verify()
    assert after.verdict == "incomplete"
    assert after.counts["logs"] == 1


def test_stopped_cleanly_with_calls_open_elsewhere(lab: Any) -> None:
    """A normal end of the interpreter closes what is open, by ``install`` or by hand."""
    lab.python(
        """
        import sys, counterfoil
        from counterfoil import autostart
        counterfoil.install(sys.argv[1])
        recorder = autostart.recorder()
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        recorder.start("step", "node", actor=("node",), parent=root)
        """
    )
    result = lab.verify()
    assert (result.verdict, result.counts["open"]) == ("intact", 0)
    assert {call.status for call in counterfoil.read(lab.evidence).calls()} == {"abandoned"}


def test_a_call_that_nobody_ended_is_told_once_its_process_is_gone(lab: Any) -> None:
    code = """
    import os, sys, time
    from counterfoil.recorder import Recorder
    recorder = Recorder(sys.argv[1])
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.start("step", "node", actor=("node",), parent=root)
    recorder._writer.checkpoint()
    assert recorder.flush()
    print("ready", flush=True)
    sys.stdin.readline()
    os._exit(0)
    """
    child = lab.start(code)
    assert child.stdout.readline() == "ready\n"
    running = lab.verify()
    assert (running.verdict, running.counts["open"]) == ("intact", 2)
    child.communicate("go\n", timeout=120)
    stopped = lab.verify()
    assert (stopped.verdict, stopped.counts["open"]) == ("incomplete", 2)
    assert {finding.code for finding in stopped.findings} == {"CF-VERIFY-025", "CF-VERIFY-027"}
    lab.record()
    assert lab.verify().verdict == "incomplete"


ENDS = {
    "_exit": "os._exit(0)",
    "abort": "os.abort()",
    "kill": "os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_came_after_the_last_checkpoint_is_never_called_whole(lab: Any, one_run: Any, end: str) -> None:
    """A run that was signed, one that was not written yet, and no end: the first alone is no clean end."""
    code = f"""
    import os, sys
    from counterfoil.recorder import Recorder
    recorder = Recorder(sys.argv[1])
    recorder.end(recorder.start("invoke_workflow", "a", actor=("a",)))
    recorder.flush()
    recorder.end(recorder.start("invoke_workflow", "b", actor=("b",)))
    {end}
    """
    lab.start(code).communicate(timeout=60)
    found = lab.verify()
    assert found.verdict == "incomplete"
    assert lab.verify_elsewhere().verdict == "incomplete"
    lab.record()  # the next one goes on with the log, and what is missing stays told
    assert lab.verify().verdict == "incomplete"


def test_a_log_cut_at_a_checkpoint_inside_a_session_shows_elsewhere(lab: Any, one_run: Any) -> None:
    recorder = lab.recorder()
    for number in range(3):
        one_run(recorder, number=number)
        recorder.flush()
    recorder.close()
    (path,) = lab.segments()
    parts = chunks(path)
    notes = [
        part.end for part in parts if segments.NOTE in {item.kind for item in segments.items(part, where="")}
    ]
    assert len(notes) > 2
    for end in notes[:-1]:
        path.write_bytes(path.read_bytes()[:end])
    assert {one.code for one in lab.verify_elsewhere().findings} == {"CF-VERIFY-027"}
