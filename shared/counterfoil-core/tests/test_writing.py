"""What is recorded is in the log, once and in order, whoever records at the same time."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import appending, keys, log, notes, records, writer
from counterfoil.digest import references_in
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.log import BlobSeen, CheckpointSeen, LogScan
from counterfoil.stores import FolderStore


def entries(evidence: Path) -> list[log.Entry]:
    return list(counterfoil.read(evidence).entries())


def named(evidence: Path, op: str) -> list[str]:
    return [one.body["content"].get("name", "") for one in entries(evidence) if one.op == op]


def ops(evidence: Path) -> Counter[str]:
    return Counter(one.op for one in entries(evidence))


def test_one_run_is_intact_here_and_elsewhere(lab: Any) -> None:
    lab.record()
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert result.counts == {
        "records": result.counts["records"],
        "statements": 2,
        "logs": 1,
        "runs": 1,
        "handoffs": 1,
        "blobs": result.counts["blobs"],
        "losses": 0,
        "open": 0,
        "tail": 0,
    }
    assert lab.verify_elsewhere().verdict == "intact"
    with lab.at(lab.elsewhere):
        unknown = counterfoil.verify(lab.evidence)
    assert (unknown.verdict, [one.code for one in unknown.findings]) == ("cannot-tell", ["CF-VERIFY-032"])
    assert sorted(path.name for path in lab.files()) == [".gitignore", "00000000.seg"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in lab.evidence.rglob("*.seg"))


def test_a_second_process_continues_the_log(lab: Any, one_run: Any) -> None:
    code = """
    import sys
    from counterfoil.recorder import Recorder
    recorder = Recorder(sys.argv[1])
    root = recorder.start("invoke_workflow", sys.argv[2], actor=("app",))
    recorder.end(root)
    recorder.close()
    """
    for name in ("first", "second", "third"):
        lab.python(code, name)
    assert named(lab.evidence, "invoke_workflow") == ["first", "first", "second", "second", "third", "third"]
    result = lab.verify()
    assert (result.verdict, result.counts["logs"], ops(lab.evidence)["session"]) == ("intact", 1, 3)
    assert [path.name for path in lab.segments()] == ["00000000.seg", "00000001.seg", "00000002.seg"]


MANY = """
import sys, time
from counterfoil.recorder import Recorder
recorder = Recorder(sys.argv[1])
recorder.open()
print("open", flush=True)
sys.stdin.readline()
root = recorder.start("invoke_workflow", sys.argv[2], actor=("app",))
for number in range(int(sys.argv[3])):
    request = recorder.value("x" * (number * 37 % 900))
    recorder.end(recorder.start("step", "node", actor=("node",), parent=root, request=request))
recorder.end(root)
recorder.close()
"""


@pytest.mark.parametrize("count", [2, 4])
def test_processes_at_once(lab: Any, count: int) -> None:
    keys.load_or_create_identity()
    children = [lab.start(MANY, f"process {number}", 200) for number in range(count)]
    for child in children:
        assert child.stdout.readline() == "open\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    assert lab.verify().verdict in ("intact", "cannot-tell")
    for child in children:
        _, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
    result = lab.verify()
    assert (result.verdict, result.counts["logs"], result.counts["runs"]) == ("intact", count, count)
    assert sorted(set(named(lab.evidence, "invoke_workflow"))) == [
        f"process {number}" for number in range(count)
    ]
    assert ops(lab.evidence)["step"] == 2 * 200 * count
    lab.record()
    after = lab.verify()
    assert (after.verdict, after.counts["logs"]) == ("intact", count)
    cited = {
        one["log"]
        for entry in entries(lab.evidence)
        if entry.op == "session"
        for one in entry.body["context"].get("seen", [])
    }
    assert len(cited) == count - 1


def test_the_first_use_of_a_home_by_several_processes(lab: Any) -> None:
    children = [lab.start(MANY, f"process {number}", 3) for number in range(4)]
    for child in children:
        _, err = child.communicate("go\n", timeout=60)
        assert child.returncode == 0, err
    result = lab.verify()
    assert (result.verdict, result.counts["runs"]) == ("intact", 4)
    assert (
        len({entry.body["context"]["spki"] for entry in entries(lab.evidence) if entry.op == "session"}) == 1
    )


def test_two_recorders_in_one_process(lab: Any, one_run: Any) -> None:
    first, second = lab.recorder(), lab.recorder()
    one_run(first)
    one_run(second)
    assert first.open().log != second.open().log
    first.close()
    third = lab.recorder()
    one_run(third)
    assert third.open().log == first.open().log if not first.closed else True
    second.close()
    third.close()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"], result.counts["runs"]) == ("intact", 2, 3)


def test_a_log_that_grew_until_it_was_locked_is_read_again(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a log and its lock another process may append and go."""
    from counterfoil import choosing

    lab.record()
    real = choosing._lock
    grown: list[bool] = []

    def slow(origin: str) -> int | None:
        if not grown:
            grown.append(True)
            lab.python(MANY.replace("sys.stdin.readline()", "pass"), "in between", 5)
        return real(origin)

    monkeypatch.setattr(choosing, "_lock", slow)
    lab.record()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"], result.counts["runs"]) == ("intact", 1, 3)
    assert "in between" in named(lab.evidence, "invoke_workflow")


def test_threads(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    ready = threading.Barrier(24)

    def work(number: int) -> None:
        ready.wait()
        for turn in range(100):
            request = recorder.value({"n": turn % 10, "text": f"{turn % 10} " * 200})
            call = recorder.start(
                "step", f"{number} {turn}", actor=(f"agent {number}",), parent=root, request=request
            )
            recorder.end(call, response=request)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.end(root)
    recorder.close()
    assert recorder.losses == 0
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert Counter(named(lab.evidence, "step")) == {f"{n} {t}": 2 for n in range(24) for t in range(100)}
    store = FolderStore(lab.evidence)
    stored = [
        event.sha256 for event in LogScan(store, store.logs()[0]).events() if isinstance(event, BlobSeen)
    ]
    assert len(stored) == len(set(stored)) == result.counts["blobs"]


def test_the_end_of_a_run_while_its_calls_go_on(lab: Any) -> None:
    """The root may end while others still start and end calls: totals fit, each call has one end that counts."""
    recorder = lab.recorder()
    for _ in range(30):
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        go = threading.Barrier(5)

        def work(root: Any = root, go: threading.Barrier = go) -> None:
            go.wait()
            for _ in range(10):
                recorder.end(recorder.start("step", "node", actor=("node",), parent=root))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        go.wait()
        recorder.end(root)
        for thread in threads:
            thread.join()
    recorder.close()
    result = lab.verify()
    assert (result.verdict, [one.code for one in result.findings if one.code != "CF-VERIFY-025"]) in (
        ("intact", []),
        ("incomplete", []),
    )


def test_two_ends_of_one_call(lab: Any) -> None:
    recorder = lab.recorder()
    for _ in range(50):
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        call = recorder.start("step", "node", actor=("node",), parent=root)
        go = threading.Barrier(3)

        def work(call: Any = call, go: threading.Barrier = go) -> None:
            go.wait()
            recorder.end(call)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.end(root)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    late = [one for one in entries(lab.evidence) if one.op == "step" and one.body["context"].get("late")]
    assert len(late) == 100


def test_asyncio(lab: Any) -> None:
    recorder = lab.recorder()

    async def agent(root: Any, number: int) -> None:
        for turn in range(20):
            call = recorder.start("step", f"{number} {turn}", actor=("node",), parent=root)
            await asyncio.sleep(0)
            recorder.end(call)

    async def main() -> None:
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        await asyncio.gather(*(agent(root, number) for number in range(20)))
        recorder.end(root)

    asyncio.run(main())
    recorder.close()
    assert lab.verify().verdict == "intact"
    assert ops(lab.evidence)["step"] == 800


def test_a_late_end_amends(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    call = recorder.start("step", "node", actor=("node",), parent=root)
    recorder.end(root)
    recorder.end(call, response=recorder.value("late"))
    recorder.end(root)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert [call.status for call in counterfoil.read(lab.evidence).calls()] == ["ok", "abandoned"]


# -- fork -------------------------------------------------------------------------------------------------------------


def test_a_forked_child_opens_another_log(lab: Any) -> None:
    lab.python(
        """
        import os, sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        text = "a long text " * 100
        root = recorder.start("invoke_workflow", "parent", actor=("app",), request=recorder.value({"text": text}))
        step = recorder.start("step", "node", actor=("node",), parent=root, request=recorder.value(text * 2))
        handed = recorder.handoff(senders=[("node",)], to=("child",), signer=("app",), kind="send", basis="sealed",
                                  payload=recorder.value(text), parents=[("control", step)], run=root.run)
        child = os.fork()
        if child == 0:
            below = recorder.start("step", "child", actor=("child",), parent=root, request=recorder.value(text),
                                   parents=[("control", step)], handoffs=[handed])
            recorder.handoff(senders=[("node",)], to=("child",), signer=("app",), kind="send", basis="sealed",
                             payload=recorder.value({"text": text}), parents=[("control", step), ("control", below)],
                             run=root.run)
            recorder.end(below)
            recorder.end(step, response=recorder.value(text))  # begun by the parent
            recorder.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        recorder.end(step)
        recorder.end(root)
        recorder.close()
        """
    )
    result = lab.verify()
    assert result.counts["logs"] == 2
    # The parent of the child's handoff is in the other log, and so is the request of the parent's call.
    assert {one.code for one in result.findings} == {"CF-VERIFY-021"}
    assert result.verdict == "incomplete"
    assert named(lab.evidence, "loss") == [
        "a parent of a handoff is not in this log",
        "a value was not stored",
    ]


def test_a_fork_while_the_parent_records(lab: Any) -> None:
    lab.python(
        """
        import os, sys, threading, time
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        root = recorder.start("invoke_workflow", "parent", actor=("app",))
        stop = threading.Event()
        def work():
            while not stop.is_set():
                request = recorder.value("x" * 500)
                recorder.end(recorder.start("step", "node", actor=("node",), parent=root, request=request))
                time.sleep(0.002)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for _ in range(8):
            child = os.fork()
            if child == 0:
                own = recorder.start("invoke_workflow", "child", actor=("app",))
                recorder.end(own, response=recorder.value("x" * 500))
                recorder.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for thread in threads: thread.join()
        recorder.end(root)
        recorder.close()
        """
    )
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert result.counts["runs"] == 9
    assert named(lab.evidence, "invoke_workflow").count("child") == 16


POOL = """
import multiprocessing, sys
from counterfoil import autostart

def work(evidence):
    recorder = autostart.recorder(evidence)
    recorder.end(recorder.start("invoke_workflow", "worker", actor=("app",)))

if __name__ == "__main__":
    recorder = autostart.recorder(sys.argv[1])
    recorder.end(recorder.start("invoke_workflow", "parent", actor=("app",)))
    context = multiprocessing.get_context(sys.argv[2])
    workers = [context.Process(target=work, args=(sys.argv[1],)) for _ in range(3)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    print([worker.exitcode for worker in workers])
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_end_cleanly(lab: Any, method: str) -> None:
    script = lab.root / "pool.py"  # a spawned process imports the program anew, from its file
    script.write_text(POOL, encoding="utf-8")
    words = [sys.executable, str(script), str(lab.evidence), method]
    done = subprocess.run(
        words, env=lab.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 0, 0]"), done.stderr
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    assert named(lab.evidence, "invoke_workflow").count("worker") == 6


# -- segments and checkpoints -----------------------------------------------------------------------------------------


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
    deadline = time.monotonic() + 10
    while _checkpoints(lab.evidence)[-1] < len(entries(lab.evidence)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    monkeypatch.setattr(writer, "DELAY", 100)
    recorder.end(root)
    recorder.flush()
    deadline = time.monotonic() + 10
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


# -- life of a writer -------------------------------------------------------------------------------------------------


def test_flush_close_and_records_at_the_same_time(lab: Any) -> None:
    """No order of these calls waits for ever, and what was promised is there."""
    for _ in range(15):
        recorder = lab.recorder()
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        promised: list[str] = []

        def work(recorder: Any = recorder, root: Any = root, promised: list[str] = promised) -> None:
            for _ in range(20):
                call = recorder.start("step", "node", actor=("node",), parent=root)
                if recorder.flush():
                    promised.append(call.start)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.01)
        recorder.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        kept = {call.start_digest for call in counterfoil.read(lab.evidence).calls()}
        assert {one for one in promised if one} <= kept
    assert lab.verify().verdict in ("intact", "incomplete")


def test_records_after_the_close_are_losses_and_no_error(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.close()
    recorder.end(root)
    late = recorder.start("invoke_workflow", "late", actor=("app",), request=recorder.value("x" * 300))
    recorder.end(late)
    assert (
        recorder.handoff(
            senders=[("a",)],
            to=("b",),
            signer=("a",),
            kind="edge",
            basis="observed",
            payload=recorder.value("x" * 300),
            parents=[("control", late)],
            run=late.run,
        )
        is None
    )
    assert recorder.losses >= 3
    assert recorder.closed
    with pytest.raises(LogError) as caught:
        recorder.open()
    assert caught.value.code == "CF-LOG-031"
    recorder.close()
    assert lab.verify().verdict == "intact"


def test_a_signal_handler_may_record_and_close(lab: Any) -> None:
    out = lab.python(
        """
        import os, signal, sys, threading, time
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        def handler(number, frame):
            recorder.end(recorder.start("step", "in the handler", actor=("node",), parent=root))
            recorder.close()
            print("closed", flush=True)
            os._exit(0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        while True:
            recorder.end(recorder.start("step", "node", actor=("node",), parent=root))
        """
    )
    assert out == "closed\n"
    result = lab.verify()
    # It may have struck between a record and its count.
    assert result.verdict in ("intact", "incomplete")
    assert not {"CF-VERIFY-020", "CF-VERIFY-024"} & {one.code for one in result.findings}
    assert named(lab.evidence, "step").count("in the handler") == 2


def test_ctrl_c_closes_the_log(lab: Any) -> None:
    child = lab.start(
        """
        import sys, counterfoil, time
        from counterfoil import autostart
        counterfoil.install(sys.argv[1])
        recorder = autostart.recorder()
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        print("ready", flush=True)
        while True:
            recorder.end(recorder.start("step", "node", actor=("node",), parent=root))
        """
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=20)
    assert "KeyboardInterrupt" in err
    result = lab.verify()
    # It may have struck between a record and its count, but the last checkpoint was written.
    assert result.verdict in ("intact", "incomplete")
    assert not {"CF-VERIFY-020", "CF-VERIFY-024"} & {one.code for one in result.findings}
    assert result.counts["tail"] == 0


# -- awkward content --------------------------------------------------------------------------------------------------


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


def test_threads_that_hand_over(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    made: list[str | None] = []

    def work() -> None:
        for number in range(25):
            made.append(
                recorder.handoff(
                    senders=[("a",)],
                    to=("b",),
                    signer=(f"signer {number % 3}",),
                    kind="send",
                    basis="sealed",
                    payload=recorder.value("the same"),
                    parents=[("control", root)],
                    run=root.run,
                )
            )

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.end(root)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    # Equal handoffs of one moment are handoffs of their own all the same.
    assert len(set(made)) == 200
    assert result.counts["handoffs"] == 200
    assert result.counts["statements"] == 203


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


def test_json_of_a_verification(lab: Any) -> None:
    lab.record()
    result = lab.verify()
    assert json.loads(json.dumps(result.counts))
    result.raise_for_status()
    (lab.evidence / "foreign").write_text("x")
    with pytest.raises(CounterfoilError) as caught:
        lab.verify().raise_for_status()
    assert caught.value.code == "CF-VERIFY-002"


# -- signals, copied homes, folders that are links, forgetful homes ---------------------------------------------------


@pytest.mark.parametrize("action", ["flush", "close"])
def test_a_signal_handler_that_flushes_or_closes_never_hangs(lab: Any, action: str) -> None:
    out = lab.python(
        """
        import signal, sys, time
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        def handler(*_):
            getattr(recorder, sys.argv[2])()
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            recorder.end(recorder.start("step", "s", actor=("a",), parent=root))
        signal.setitimer(signal.ITIMER_REAL, 0)
        recorder.close()
        print("done")
        """,
        action,
    )
    assert out.strip() == "done"


def test_a_copied_home_does_not_write_into_a_log_that_is_open(lab: Any) -> None:
    recorder = lab.recorder()
    recorder.end(recorder.start("invoke_workflow", "first", actor=("app",)))
    recorder.flush()
    copy = lab.root / "copied home"
    shutil.copytree(lab.home, copy)
    lab.python(
        """
        import sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        recorder.end(recorder.start("invoke_workflow", "second", actor=("app",)))
        recorder.close()
        """,
        COUNTERFOIL_HOME=str(copy),
    )
    recorder.end(recorder.start("invoke_workflow", "third", actor=("app",)))
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("intact", 2)


def test_nothing_is_written_through_a_link(lab: Any) -> None:
    lab.record()
    lab.close()
    (name,) = [path.name for path in lab.evidence.iterdir() if path.is_dir()]
    outside = lab.root / "outside"
    (lab.evidence / name).rename(outside)
    (lab.evidence / name).symlink_to(outside)
    before = sorted(path.name for path in outside.iterdir())
    lab.record()
    lab.close()
    assert sorted(path.name for path in outside.iterdir()) == before
    assert lab.verify().verdict == "broken"


def test_a_head_that_cannot_be_remembered_is_a_loss(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keys, "remember_head", forget)
    recorder = lab.recorder()
    recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    recorder.flush()
    recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.counts["losses"]) == ("incomplete", 1)


def test_a_folder_whose_name_is_no_utf8_is_remembered(lab: Any) -> None:
    lab.evidence = Path(os.fsdecode(os.fsencode(lab.root) + b"/\xff"))
    for _ in range(2):
        recorder = lab.recorder()
        recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
        recorder.close()
    (log,) = [path for path in lab.evidence.iterdir() if path.is_dir()]
    (log / "00000001.seg").unlink()
    assert lab.verify().verdict == "broken"
