"""A handoff between real processes with a home each, restarted and run twice."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import counterfoil

SENDER = """
import json, sys, counterfoil
log = counterfoil.open(sys.argv[2], actor="sender")
print(log.fingerprint, flush=True)
for line in sys.stdin:
    payload = json.loads(line)
    print(counterfoil.seal(log, payload, to="receiver").to_bytes().decode(), flush=True)
log.close()
"""

RECEIVER = """
import json, sys, counterfoil
from counterfoil import keys
from counterfoil.errors import HandoffRefusedError
if len(sys.argv) > 3:
    keys.load_or_create_identity()
    keys.Keyring.load().pin(sys.argv[3])
log = counterfoil.open(sys.argv[2], actor="receiver")
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    try:
        accepted = counterfoil.accept(log, asked["envelope"], asked["payload"])
        print("accepted by", "/".join(accepted.sender), flush=True)
    except HandoffRefusedError as exc:
        print(exc.code, flush=True)
log.close()
"""


def ask(child: subprocess.Popen[str], line: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def stop(child: subprocess.Popen[str]) -> None:
    _, err = child.communicate(timeout=120)
    assert child.returncode == 0, err


def test_two_processes_with_two_homes(lab: Any) -> None:
    homes = {name: str(lab.root / f"home of {name}") for name in ("sender", "receiver")}
    evidence = {name: lab.root / f"evidence of {name}" for name in homes}
    sender = lab.start(SENDER, evidence["sender"], COUNTERFOIL_HOME=homes["sender"])
    fingerprint = sender.stdout.readline().strip()
    receiver = lab.start(RECEIVER, evidence["receiver"], fingerprint, COUNTERFOIL_HOME=homes["receiver"])
    assert receiver.stdout.readline() == "ready\n"

    def hand(payload: Any, got: Any, child: subprocess.Popen[str], envelope: str | None = None) -> str:
        envelope = envelope or ask(sender, json.dumps(payload))
        return ask(child, json.dumps({"envelope": envelope, "payload": got}))

    first = ask(sender, json.dumps({"task": "a"}))
    assert hand(None, {"task": "a"}, receiver, first) == "accepted by sender"
    assert hand(None, {"task": "a"}, receiver, first) == "CF-HANDOFF-018"
    assert hand({"task": "b"}, {"task": "c"}, receiver) == "CF-HANDOFF-016"
    # A second process of the same receiver, open at the same time, and then a restart.
    twin = lab.start(RECEIVER, evidence["receiver"], COUNTERFOIL_HOME=homes["receiver"])
    assert twin.stdout.readline() == "ready\n"
    assert hand(None, {"task": "a"}, twin, first) == "CF-HANDOFF-018"
    second = ask(sender, json.dumps("second"))
    assert hand(None, "second", twin, second) == "accepted by sender"
    assert hand(None, "second", receiver, second) == "CF-HANDOFF-018"
    stop(receiver)
    stop(twin)
    again = lab.start(RECEIVER, evidence["receiver"], COUNTERFOIL_HOME=homes["receiver"])
    assert again.stdout.readline() == "ready\n"
    assert hand(None, {"task": "a"}, again, first) == "CF-HANDOFF-018"
    assert hand(None, "second", again, second) == "CF-HANDOFF-018"
    again.kill()
    again.communicate()
    stop(sender)
    with lab.at(Path(homes["sender"])):
        assert counterfoil.verify(evidence["sender"]).verdict == "intact"
    with lab.at(Path(homes["receiver"])):
        result = counterfoil.verify(evidence["receiver"])
        assert result.verdict == "incomplete"  # the last receiver was killed
        rows = counterfoil.read(evidence["receiver"]).handoffs()
    assert [(row["from"], row["to"], row["status"], row["proof"]) for row in rows] == [
        ("sender", "receiver", "accepted", "countersigned")
    ] * 2
