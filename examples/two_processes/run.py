"""Two processes, two owners: neither shares a key, a folder or a log with the other.

    python run.py [FOLDER]

The writer refuses the planner's handoff until its owner has pinned the planner's fingerprint; then it
accepts one, and refuses the same message again and a changed one. FOLDER (default: a new temporary one)
gets both sides' folders.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Owner:
    """One side: a home with its identity and keyring, and a folder of evidence."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.evidence = str(folder / name / "evidence")
        self.environment = {**os.environ, "COUNTERFOIL_HOME": str(folder / name / "home")}
        (folder / name).mkdir(parents=True)

    def python(self, script: str, *arguments: str) -> str:
        command = [sys.executable, str(HERE / script), self.evidence, *arguments]
        done = subprocess.run(command, env=self.environment, text=True, stdout=subprocess.PIPE, check=True)
        return done.stdout.strip()

    def serve(self, script: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(HERE / script), self.evidence]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.environment, text=True, stdin=pipe, stdout=pipe)

    def counterfoil(self, *arguments: str) -> None:
        beside = Path(sys.executable).with_name("counterfoil")
        program = str(beside) if beside.exists() else shutil.which("counterfoil")
        if program is None:
            sys.exit("counterfoil is not installed: pip install counterfoil")
        subprocess.run([program, *arguments], env=self.environment, stdout=subprocess.PIPE, check=True)


def main() -> None:
    folder = Path(
        sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="counterfoil-example-")
    ).resolve()
    planner, writer = Owner(folder, "planner"), Owner(folder, "writer")
    fingerprint = planner.python("sender.py", "fingerprint")

    server = writer.serve("receiver.py")
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        print("not pinned:", planner.python("sender.py", url))
        # In life the fingerprint comes from its owner by a way of its own, never from the message.
        writer.counterfoil("keys", "pin", fingerprint)
        print("pinned, sent twice:", planner.python("sender.py", url, "twice"), sep="\n")
        print("changed on its way:", planner.python("sender.py", url, "changed"))
    finally:
        server.stdin.close()
        heard = server.stdout.read()
        server.wait(timeout=30)
    print("the writer's side:", heard.strip(), sep="\n")
    for owner in (planner, writer):
        owner.counterfoil("verify", owner.evidence)
        print(f"{owner.name}'s evidence: intact")
    print(f"folders: {folder}")


if __name__ == "__main__":
    main()
