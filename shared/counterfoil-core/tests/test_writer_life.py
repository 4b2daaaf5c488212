"""A writer that is flushed, closed, interrupted, copied or forgotten at any moment."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tallies import named

import counterfoil
from counterfoil import keys
from counterfoil.errors import LogError


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
            thread.join(120)
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
    _, err = child.communicate(timeout=120)
    assert "KeyboardInterrupt" in err
    result = lab.verify()
    # It may have struck between a record and its count, but the last checkpoint was written.
    assert result.verdict in ("intact", "incomplete")
    assert not {"CF-VERIFY-020", "CF-VERIFY-024"} & {one.code for one in result.findings}
    assert result.counts["tail"] == 0


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
