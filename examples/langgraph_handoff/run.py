"""Run the application under `counterfoil run`, offline, and verify what it left behind.

    python run.py [FOLDER]

FOLDER (default: a new temporary one) gets the evidence and an identity of its own, so that yours is not
touched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from counterfoil_langchain.demo.endpoint import Endpoint, Reply, ScriptError

HERE = Path(__file__).resolve().parent
SAYS = {
    "You are the planner": (
        "Say on which day and at what hour the library closes, and that books can be returned through the "
        "slot beside the door. Do not explain the reason: readers want to know what it means for them."
    ),
    "You are the writer": (
        "This Friday the library closes at 15:00. Books due that day can be returned at any hour through the "
        "slot beside the door. On Saturday we open as usual."
    ),
}


def script(request: dict[str, Any]) -> Reply:
    system = str(request["messages"][0]["content"])
    for role, text in SAYS.items():
        if system.startswith(role):
            return Reply(text)
    raise ScriptError("no such role")


def counterfoil(*arguments: str, environment: dict[str, str], show: bool = True) -> str:
    """Run the command as a user would; its output goes to the terminal, or is returned."""
    beside = Path(sys.executable).with_name("counterfoil")
    program = str(beside) if beside.exists() else shutil.which("counterfoil")
    if program is None:
        sys.exit('counterfoil is not installed: pip install "counterfoil[langchain]"')
    if show:
        print(f"$ counterfoil {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        [program, *arguments],
        env=environment,
        cwd=HERE,
        text=True,
        stdout=None if show else subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout or ""


def main() -> None:
    folder = Path(
        sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="counterfoil-example-")
    ).resolve()
    own = {"COUNTERFOIL": str(folder / "evidence"), "COUNTERFOIL_HOME": str(folder / "home")}
    with Endpoint(script) as endpoint:
        counterfoil("run", "app.py", environment={**os.environ, **endpoint.environment(), **own})
        requests = len(endpoint.wire)
    environment = {**os.environ, **own}
    counterfoil("verify", environment=environment)
    counterfoil("handoffs", environment=environment)

    verdict = json.loads(counterfoil("verify", "--json", environment=environment, show=False))
    handoffs = json.loads(counterfoil("handoffs", "--json", environment=environment, show=False))
    lines = counterfoil("log", "--json", environment=environment, show=False).splitlines()
    entries = [json.loads(line) for line in lines]
    chats = sum(entry["op"] == "chat" and entry["phase"] == "end" for entry in entries)
    print(f"model calls: {requests} made, {chats} recorded")
    for handoff in handoffs:
        how = ", ".join(str(handoff[key]) for key in ("kind", "basis", "proof"))
        print(f"handoff: {handoff['from']} -> {handoff['to']} ({how})")
    print(f"verdict: {verdict['verdict']}")
    print(f"evidence: {folder / 'evidence'}")


if __name__ == "__main__":
    main()
