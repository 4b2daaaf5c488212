"""Threads, forks, and every way in which a process can end: what is lost is known and said."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from forging import codes

import counterfoil
from counterfoil import keys

START = """
import atexit, os, signal, sys, threading, time
import counterfoil
from counterfoil import autostart
from counterfoil.recorder import Recorder
recorder = Recorder(sys.argv[1])
root = recorder.start("invoke_workflow", "app", actor=("app",))
def some(count=3, name="step", parent=root):
    for number in range(count):
        recorder.end(recorder.start("step", name, actor=("node",), parent=parent, request=recorder.value("x" * 500)))
"""


def named(evidence: Path) -> Counter[str]:
    return Counter(call.name for call in counterfoil.read(evidence).calls() if call.end is not None)


def ended(lab: Any, code: str, *arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    child = lab.start(START + code, *arguments, **more)
    out, err = child.communicate(timeout=60)
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def next_one_goes_on(lab: Any, logs: int = 1) -> None:
    before = counterfoil.read(lab.evidence).logs()
    lab.record()
    result = lab.verify()
    assert result.verdict in ("intact", "incomplete"), result.findings
    assert counterfoil.read(lab.evidence).logs() == before
    assert len(before) == logs


# -- ends -------------------------------------------------------------------------------------------------------------

CLEAN = {
    "the end of the program": ("some()", 0),
    "sys.exit": ("some(); sys.exit(3)", 3),
    "an exception that nobody catches": ("some(); raise ValueError('mine')", 1),
    "Ctrl-C": ("some(); signal.raise_signal(signal.SIGINT)", -signal.SIGINT),
    "sys.exit in a thread": (
        "some(); thread = threading.Thread(target=sys.exit); thread.start(); thread.join()",
        0,
    ),
    "SIGTERM that the application turns into an exit": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); some(); signal.raise_signal(signal.SIGTERM)",
        9,
    ),
}


@pytest.mark.parametrize("how", CLEAN)
def test_a_normal_end_loses_nothing(lab: Any, how: str) -> None:
    """Also of a recorder that was made by hand and never closed: a last checkpoint, and what was open is ended."""
    code, number = CLEAN[how]
    done = ended(lab, code)
    assert done.returncode == number, done.stderr
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert (result.counts["open"], result.counts["tail"]) == (0, 0)
    assert named(lab.evidence) == {"app": 1, "step": 3}
    next_one_goes_on(lab)
    assert lab.verify().verdict == "intact"


HARD = {
    "os._exit": ("os._exit(0)", 0),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(10)", -signal.SIGTERM),
    "abort": ("os.abort()", -signal.SIGABRT),
    "exec": ("os.execv(sys.executable, [sys.executable, '-c', ''])", 0),
}


@pytest.mark.parametrize("how", HARD)
def test_an_end_without_clean_up_is_told(lab: Any, how: str) -> None:
    """What was flushed is there; what came within the last moments may not be, and the verdict says so."""
    code, number = HARD[how]
    done = ended(lab, f"some(); assert recorder.flush(); some(50, 'late'); {code}")
    assert done.returncode == number, done.stderr
    result = lab.verify()
    assert result.verdict == "incomplete"
    assert codes(result) <= {"CF-VERIFY-024", "CF-VERIFY-025"}
    assert "CF-VERIFY-025" in codes(result)  # the run was never ended
    assert named(lab.evidence)["step"] == 3
    next_one_goes_on(lab)
    assert lab.verify().verdict == "incomplete"


def test_a_thread_that_records_while_the_interpreter_ends(lab: Any) -> None:
    """It neither holds the end up nor speaks; what came before the last checkpoint is there."""
    done = ended(
        lab,
        """
def forever():
    while True:
        some(1, "background")
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
some()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = lab.verify()
    assert result.verdict in ("intact", "incomplete")
    assert not {"CF-VERIFY-020", "CF-VERIFY-024"} & codes(result)
    assert named(lab.evidence)["step"] == 3
    next_one_goes_on(lab)


def test_objects_that_record_when_they_are_deleted(lab: Any) -> None:
    done = ended(
        lab,
        """
class Late:
    def __init__(self, name): self.name = name
    def __del__(self):
        recorder.value({"of": self.name, "text": "y" * 500})
        some(1, self.name)
        recorder.flush()
        recorder.loss("something")
kept = Late("at the end")
Late("at once")
cycle = Late("in a cycle")
cycle.itself = cycle
some()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = lab.verify()
    assert (result.verdict, result.counts["tail"]) == ("incomplete", 0)
    assert named(lab.evidence)["at once"] == 1
    assert codes(result) == {"CF-VERIFY-021"}


@pytest.mark.parametrize("installed", ["at start", "by hand"])
def test_what_the_application_s_own_exit_handlers_do(lab: Any, installed: str) -> None:
    """Recording that was on from the start goes on until they are all done; made by hand, for those that came later."""
    begin = "" if installed == "by hand" else "autostart._on_exit()"
    done = ended(lab, f"atexit.register(some, 1, 'later')\n{begin}\nsome()")
    assert (done.returncode, done.stderr) == (0, "")
    assert lab.verify().verdict == "intact"
    assert named(lab.evidence) == {"app": 1, "step": 3, "later": 1}


def test_recording_from_the_start_outlasts_handlers_made_before_the_first_record(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
    import atexit, sys
    from counterfoil import autostart
    autostart.boot()
    def late():
        recorder = autostart.recorder()
        recorder.end(recorder.start("invoke_workflow", "late", actor=("app",)))
    atexit.register(late)
    recorder = autostart.recorder()
    recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    """
    lab.python(code, COUNTERFOIL=str(lab.evidence))
    assert lab.verify().verdict == "intact"
    assert named(lab.evidence) == {"app": 1, "late": 1}


def test_a_first_record_while_the_interpreter_ends(lab: Any) -> None:
    """From Python 3.12 on no thread can be started then: it is a loss, and no error."""
    done = ended(
        lab,
        """
recorder.end(root)
recorder.close()
other = Recorder(sys.argv[1])
atexit.register(other.start, "step", "s", actor=("a",))
""",
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert lab.verify().verdict in ("intact", "incomplete")
    next_one_goes_on(lab)


# -- forks ------------------------------------------------------------------------------------------------------------

FORKS = """
def work(stop):
    while not stop.is_set():
        some(1, "parent's")
        time.sleep(0.01)
stop = threading.Event()
threads = [threading.Thread(target=work, args=(stop,)) for _ in range(8)]
for thread in threads: thread.start()
"""


def test_forks_in_a_thread_under_load(lab: Any) -> None:
    """Neither a lock that was held at that moment nor a value that only the parent stored harms the child."""
    done = ended(
        lab,
        FORKS
        + """
def fork():
    for number in range(8):
        child = os.fork()
        if child == 0:
            own = recorder.start("invoke_workflow", "child", actor=("app",), request=recorder.value("x" * 500))
            some(2, "child's", own)
            recorder.end(own)
            recorder.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
forking = threading.Thread(target=fork)
forking.start()
forking.join()
stop.set()
for thread in threads: thread.join()
recorder.end(root)
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert (named(lab.evidence)["child"], named(lab.evidence)["child's"]) == (8, 16)
    next_one_goes_on(lab, logs=result.counts["logs"])


def test_a_child_that_outlives_its_parent_holds_none_of_its_locks(lab: Any) -> None:
    """A killed parent's log is not taken for one that is being written, and the next process goes on with it."""
    child = lab.start(
        START
        + FORKS
        + """
children = []
for number in range(6):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    children.append(child)
    time.sleep(0.01)
assert recorder.flush()
print(*children, flush=True)
time.sleep(60)
"""
    )
    children = [int(word) for word in child.stdout.readline().split()]
    try:
        child.kill()
        child.wait(120)
        result = lab.verify()
        assert result.verdict == "incomplete"
        next_one_goes_on(lab)
        keys.Keyring.load().pin("ab" * 32)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        child.communicate(timeout=120)


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(0)"])
def test_how_a_forked_child_ends(lab: Any, how: str) -> None:
    done = ended(
        lab,
        f"""
some()
child = os.fork()
if child == 0:
    own = recorder.start("invoke_workflow", "child", actor=("app",))
    recorder.end(own)
    assert recorder.flush()
    {how}
os.waitpid(child, 0)
some()
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = lab.verify()
    assert result.verdict in ("intact", "incomplete")
    assert result.verdict == "intact" or "sys.exit" not in how
    assert named(lab.evidence) == {"app": 1, "step": 6, "child": 1}
    assert result.counts["logs"] == 2
    next_one_goes_on(lab, logs=2)


def test_a_child_that_was_forked_inside_a_call_and_records_nothing(lab: Any) -> None:
    done = ended(lab, "some()\nif os.fork() == 0: sys.exit(0)\nos.wait()\nsome()")
    assert (done.returncode, done.stderr) == (0, "")
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("intact", 1)


# -- at once ----------------------------------------------------------------------------------------------------------

AT_ONCE = """
import asyncio, sys, threading
from counterfoil.recorder import Recorder
recorder = Recorder(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
root = recorder.start("invoke_workflow", sys.argv[2], actor=("app",))
def work(number):
    for turn in range(6):
        request = recorder.value({"n": turn, "text": f"{turn} " * 200})
        recorder.end(recorder.start("step", "thread", actor=("node",), parent=root, request=request))
async def task(number):
    for turn in range(6):
        call = recorder.start("step", "task", actor=("node",), parent=root)
        await asyncio.sleep(0)
        recorder.end(call)
async def tasks():
    await asyncio.gather(*map(task, range(8)))
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
asyncio.run(tasks())
for thread in threads: thread.join()
recorder.end(root)
recorder.close()
assert recorder.losses == 0
"""


def four_at_once(lab: Any) -> None:
    children = [lab.start(AT_ONCE, f"process {number}") for number in range(4)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    while any(child.poll() is None for child in children):
        verdict = lab.verify().verdict if lab.evidence.exists() else "cannot-tell"
        assert verdict in ("intact", "cannot-tell")
        time.sleep(0.02)
    for child in children:
        assert (child.returncode, child.communicate()[1]) == (0, "")
    result = lab.verify()
    assert (result.verdict, result.findings, result.counts["runs"]) == ("intact", [], 4)
    assert named(lab.evidence)["thread"] == named(lab.evidence)["task"] == 4 * 48
    assert result.counts["logs"] <= 4
    next_one_goes_on(lab, logs=result.counts["logs"])


def test_four_processes_with_threads_and_tasks_at_once(lab: Any) -> None:
    four_at_once(lab)


@pytest.mark.slow
def test_four_processes_at_once_fifty_times(lab: Any) -> None:
    for number in range(50):
        lab.evidence = lab.root / f"evidence {number}"
        if number % 10 == 0:
            lab.home = lab.root / f"home {number}"  # begun by four at once, too
            keys.set_home(lab.home)
        four_at_once(lab)


def test_two_places_of_one_home_and_one_place_of_two_homes(lab: Any) -> None:
    code = """
    import sys
    from counterfoil.recorder import Recorder
    recorder = Recorder(sys.argv[2])
    recorder.open()
    print("ready", flush=True)
    sys.stdin.readline()
    recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    recorder.close()
    """
    one, two, other = lab.root / "one", lab.root / "two", lab.root / "other home"
    children = [
        lab.start(code, one),
        lab.start(code, two),
        lab.start(code, one, COUNTERFOIL_HOME=str(other)),
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        _, err = child.communicate("go\n", timeout=60)
        assert (child.returncode, err) == (0, "")
    assert lab.verify(two).verdict == "intact"
    result = lab.verify(one)
    assert (result.verdict, codes(result), result.counts["logs"]) == ("cannot-tell", {"CF-VERIFY-032"}, 2)
    with lab.at(other):
        identity = keys.load_identity()
    assert identity is not None
    keys.Keyring.load().pin(identity.keyid)
    assert lab.verify(one).verdict == "intact"
    # Each goes on with its own.
    lab.record(evidence=one)
    with lab.at(other):
        lab.record(evidence=one)
    assert (lab.verify(one).verdict, lab.verify(one).counts["logs"]) == ("intact", 2)


def test_a_reader_that_looks_keeps_no_writer_from_its_log(lab: Any) -> None:
    """To see whether a writer lives a reader holds its lock for a moment."""
    lab.record()
    looking = [
        lab.start(
            """
            import os, sys
            import counterfoil
            print("ready", flush=True)
            while not os.path.exists("enough"): counterfoil.verify(sys.argv[1])
            """
        )
        for _ in range(2)
    ]
    for child in looking:
        assert child.stdout.readline() == "ready\n"
    for _ in range(12):
        lab.record()
    (lab.root / "enough").touch()
    for child in looking:
        child.communicate(timeout=120)
    assert (lab.verify().verdict, lab.verify().counts["logs"]) == ("intact", 1)
