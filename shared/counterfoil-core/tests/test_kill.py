"""Killed at any moment, a writer loses nothing it called durable, and the next one says that it was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Any

import pytest

import counterfoil
from counterfoil import keys

# Imports once, then forks one recording process for every line it reads, so that a kill costs no start-up.
NURSERY = """
import os, sys, time
from counterfoil.recorder import Recorder
import counterfoil.environment, counterfoil.reader, counterfoil.verification  # loaded before the first fork

def record(evidence, acknowledgements, durability):
    out = os.open(acknowledgements, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    recorder = Recorder(evidence, durability=durability)
    number = 0
    while True:
        root = recorder.start("invoke_workflow", "app", actor=("app",), wait=True)
        digests = [root.start]
        for turn in range(number % 7):
            asked = recorder.value({"messages": [f"question {number} {turn} " * 40]})
            call = recorder.start("chat", "model", actor=("app",), parent=root, request=asked, wait=True)
            if durability == "call":
                os.write(out, (call.start + chr(10)).encode())
            recorder.end(call, response=recorder.value(os.urandom(500 * (number % 5))))
            digests += [call.start, call.end]
        if number % 3:
            recorder.end(root)
            digests.append(root.end)
        if durability == "group" and recorder.flush():
            os.write(out, (chr(10).join(digests) + chr(10)).encode())
        number += 1
        time.sleep(0.002)

for line in sys.stdin:
    evidence, acknowledgements, durability = line.rstrip().split("|")
    child = os.fork()
    if child == 0:
        try:
            record(evidence, acknowledgements, durability)
        finally:
            os._exit(1)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


class Nursery:
    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.process: subprocess.Popen[str] = lab.start(NURSERY)

    def line(self) -> str:
        stream: IO[str] | None = self.process.stdout
        assert stream is not None
        return stream.readline().strip()

    def kill_one(self, acknowledgements: Path, durability: str, delay: float) -> set[str]:
        """Let a process record for a while, kill it, and return the digests it had been promised."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{self.lab.evidence}|{acknowledgements}|{durability}\n")
        self.process.stdin.flush()
        child = int(self.line())
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        assert self.line() == "gone"
        try:
            text = acknowledgements.read_text()
        except FileNotFoundError:
            return set()
        # The kill may have cut the last line, but then it was not promised yet.
        return {line for line in text.split("\n") if len(line) == 64}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.mark.parametrize("durability", ["group", "call"])
def test_killed_twenty_times(lab: Any, durability: str, one_run: Any) -> None:
    keys.load_or_create_identity()
    rng = random.Random(f"kill {durability}")
    nursery = Nursery(lab)
    promised: set[str] = set()
    verdicts = []
    try:
        for number in range(20):
            delay = rng.choice([rng.uniform(0, 0.03), rng.uniform(0.03, 0.15), rng.uniform(0.1, 0.4)])
            promised |= nursery.kill_one(lab.root / f"acknowledged-{number}", durability, delay)
            if not lab.evidence.exists():
                continue
            result = lab.verify()
            verdicts.append(result.verdict)
            assert result.verdict in ("incomplete", "cannot-tell"), (number, delay, result.findings)
            if result.verdict == "cannot-tell":  # killed before the first byte of the first log
                assert {finding.code for finding in result.findings} == {"CF-VERIFY-001"}
            kept = _bodies(lab.evidence)
            assert promised <= kept, (number, delay, len(promised - kept))
    finally:
        nursery.close()
    assert len(promised) > 100
    recorder = lab.recorder()
    one_run(recorder)
    recorder.close()
    after = lab.verify()
    assert after.verdict == "incomplete"
    assert promised <= _bodies(lab.evidence)
    assert lab.verify_elsewhere().verdict == "incomplete"
    # A log is left behind only when its first checkpoint was never written.
    assert len(counterfoil.read(lab.evidence).logs()) < 20


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
    assert after.counts["logs"] in (1, 2)


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
    child.communicate("go\n", timeout=20)
    stopped = lab.verify()
    assert (stopped.verdict, stopped.counts["open"]) == ("incomplete", 2)
    assert {finding.code for finding in stopped.findings} == {"CF-VERIFY-025"}
    lab.record()
    assert lab.verify().verdict == "incomplete"
