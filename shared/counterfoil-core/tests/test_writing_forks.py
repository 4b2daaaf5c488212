"""A forked child writes into a log of its own, whatever the parent was about."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tallies import named


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
    # What the child received, the parent of its handoff and the request of the parent's call are in the other log.
    assert {one.code for one in result.findings} == {"CF-VERIFY-021"}
    assert result.verdict == "incomplete"
    assert named(lab.evidence, "loss") == [
        "a handoff that a call received is not in this log",
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
