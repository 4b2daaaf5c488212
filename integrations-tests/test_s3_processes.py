"""Processes that fork, hand over and accept while their evidence goes into a real bucket."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from bucket_writing import Place, faulty, place
from faulty import Faulty

__all__ = ["faulty", "place"]

pytestmark = pytest.mark.s3

FORKS = """
import os, sys
from counterfoil.recorder import Recorder

recorder = Recorder(sys.argv[1])

def record(name):
    root = recorder.start("invoke_workflow", name, actor=("app",))
    recorder.end(root, response=recorder.value(name * 100))

record("parent")
assert recorder.open().flush(remote=True)  # the client of this process has threads now
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        try:
            record(f"child {number}")
            recorder.close()
        finally:
            os._exit(0 if recorder.losses == 0 else 1)
    children.append(child)
assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
record("afterwards")
recorder.close()
"""

POOL = """
import multiprocessing, sys
from counterfoil.recorder import Recorder

recorder = Recorder(sys.argv[1])

def work(number):
    root = recorder.start("invoke_workflow", f"worker {number}", actor=("app",))
    recorder.end(root)

if __name__ == "__main__":
    recorder.open()
    workers = [multiprocessing.get_context("fork").Process(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    recorder.close()
"""

SEAL = """
import sys, counterfoil
from pathlib import Path

with counterfoil.open("sender-evidence", actor="sender") as log:
    Path("handoff").write_bytes(counterfoil.seal(log, "task", to="receiver").to_bytes())
    print(log.fingerprint)
"""

SEAL_AND_DIE = """
import os, sys, counterfoil
from pathlib import Path

log = counterfoil.open(sys.argv[1], actor="sender")
log.recorder.end(log.recorder.start("invoke_workflow", "before", actor=("sender",)))
log.recorder.open().checkpoint()
log.flush()
Path("handoff").write_bytes(counterfoil.seal(log, "task", to="receiver").to_bytes())
print(log.fingerprint, flush=True)
os._exit(0)
"""

ACCEPT = """
import sys, counterfoil
from pathlib import Path
from counterfoil import keys
from counterfoil.errors import CounterfoilError

keys.Keyring.load().pin(sys.argv[2])
with counterfoil.open(sys.argv[1], actor="receiver") as log:
    try:
        counterfoil.accept(log, Path("handoff").read_bytes(), "task")
    except CounterfoilError as exc:
        print(exc.code)
    else:
        print("accepted")
"""


def test_forked_children_send_what_they_record(place: Place) -> None:
    place.python(FORKS, place.uri)
    assert place.waiting() == 0
    assert place.names() == {"parent", "afterwards", "child 0", "child 1", "child 2"}
    result = place.verify()
    assert (result["verdict"], result["findings"]) == ("intact", [])


def test_children_of_multiprocessing_send_what_they_record(place: Place) -> None:
    (place.root / "pool.py").write_text(POOL)
    words = [place.python_program, "pool.py", place.uri]
    done = subprocess.run(
        words, env=place.variables(), cwd=place.root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert place.waiting() == 0
    assert place.names() == {f"worker {number}" for number in range(3)}
    assert place.verify()["verdict"] == "intact"


def test_what_was_accepted_once_stays_so_by_the_bucket_alone(place: Place) -> None:
    """The home forgot what it accepted; the receipts in the bucket did not."""
    sender = place.python(SEAL, home=place.root / "sender-home").strip()
    assert place.python(ACCEPT, place.uri, sender).strip() == "accepted"
    assert place.python(ACCEPT, place.uri, sender).strip() == "CF-HANDOFF-018"
    shutil.rmtree(place.home / "nonces")
    shutil.rmtree(place.home / "spool")
    assert place.python(ACCEPT, place.uri, sender).strip() == "CF-HANDOFF-018"
    assert place.verify()["verdict"] == "intact"


def test_services_of_two_machines_share_a_bucket(place: Place) -> None:
    """What the sender says of its own log is not in the bucket yet: that is no reason to refuse."""
    sender = place.root / "sender-home"
    first = place.writer("first", home=sender)
    assert first.record(1) == "flushed"
    assert first.close() == 0
    told = place.python(SEAL_AND_DIE, place.uri, home=sender, COUNTERFOIL_S3_UPLOAD_AFTER="3600").strip()
    assert place.waiting(home=sender) > 0
    assert place.python(ACCEPT, place.uri, told).strip() == "accepted"
    assert place.command("push", home=sender).returncode == 0
    result = place.verify()
    assert result["verdict"] == "incomplete"
    assert {finding["code"] for finding in result["findings"]} <= {"CF-VERIFY-024", "CF-VERIFY-027"}


def test_nothing_is_accepted_that_the_bucket_may_know_of(place: Place, faulty: Faulty) -> None:
    """Without the bucket nobody can tell whether a handoff was accepted before: it is not acted on."""
    sender = place.python(SEAL, home=place.root / "sender-home").strip()
    faulty.mode = "refuse"
    said = place.python(ACCEPT, place.uri, sender, COUNTERFOIL_S3_CLOSE_WAIT="0.2").strip()
    assert said.startswith("CF-")
    faulty.mode = "pass"
    assert place.command("push").returncode == 0
    assert place.python(ACCEPT, place.uri, sender).strip() == "accepted"
