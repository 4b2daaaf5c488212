"""What is recorded is in the log, once and in order, whoever records at the same time."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from typing import Any

import pytest
from busy import together
from tallies import entries, named, ops

import counterfoil
from counterfoil import keys
from counterfoil.errors import CounterfoilError
from counterfoil.log import BlobSeen, LogScan
from counterfoil.stores import FolderStore


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
    from counterfoil import locking

    lab.record()
    real = locking.lock
    grown: list[bool] = []

    def slow(origin: str) -> int | None:
        if not grown:
            grown.append(True)
            lab.python(MANY.replace("sys.stdin.readline()", "pass"), "in between", 5)
        return real(origin)

    monkeypatch.setattr(locking, "lock", slow)
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

        together(work, 3)
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

    together(work, 8)
    recorder.end(root)
    recorder.close()
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    # Equal handoffs of one moment are handoffs of their own all the same.
    assert len(set(made)) == 200
    assert result.counts["handoffs"] == 200
    assert result.counts["statements"] == 203


def test_json_of_a_verification(lab: Any) -> None:
    lab.record()
    result = lab.verify()
    assert json.loads(json.dumps(result.counts))
    result.raise_for_status()
    (lab.evidence / "foreign").write_text("x")
    with pytest.raises(CounterfoilError) as caught:
        lab.verify().raise_for_status()
    assert caught.value.code == "CF-VERIFY-002"
