"""Evidence with old and new logs, an archive beside it, and a child that archives and is killed at one change."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import counterfoil
from counterfoil import keys, records
from counterfoil.archiving.moving import Moved, archive
from counterfoil.archiving.surveying import Survey, survey
from counterfoil.stores import FolderStore

CHILD = textwrap.dedent(
    """
    import json, os, signal, sys
    evidence, place, before, at, direct = sys.argv[1:]
    before, at, done = int(before), int(at), 0

    def counted(name, real):
        def change(*arguments, **more):
            global done
            done += 1
            if done == at:
                if name == "write":  # half of it is there
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "rename" and direct == "direct":
                raise OSError(18, "another file system")
            return real(*arguments, **more)
        return change

    from counterfoil.archiving.moving import archive
    from counterfoil.stores import FolderStore
    for name in ("write", "rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync", "fdatasync"):
        setattr(os, name, counted(name, getattr(os, name)))
    archive(FolderStore(__import__("pathlib").Path(evidence)), to=place, before=before)
    print(done)
    """
)


@dataclass
class Aged:
    """Two old logs of one run each, then a young one; ``before`` is between them."""

    root: Path
    evidence: Path
    home: Path
    place: Path
    before: int
    old: list[str]
    runs: set[str]

    @property
    def store(self) -> FolderStore:
        return FolderStore(self.evidence)

    def survey(self, before: int | None = None) -> Survey:
        return survey(self.store, before=self.before if before is None else before)

    def archive(self, **more: Any) -> Moved:
        arguments: dict[str, Any] = {"to": str(self.place), "before": self.before, **more}
        return archive(self.store, **arguments)

    def keep(self) -> None:
        """Remember the state as it is now."""
        shutil.copytree(self.evidence, self.root / "kept-evidence")
        shutil.copytree(self.home, self.root / "kept-home")

    def put_back(self) -> None:
        """Everything as it was, in its own place."""
        for folder in (self.evidence, self.home, self.place):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.root / "kept-evidence", self.evidence)
        shutil.copytree(self.root / "kept-home", self.home)

    def child(self, at: int, *, direct: bool = False) -> int | None:
        """Archive in a process that is killed at its change number ``at``; the number of changes if it never was."""
        words = [self.evidence, self.place, self.before, at, "direct" if direct else "rename"]
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *map(str, words)],
            env={"COUNTERFOIL_HOME": str(self.home), "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return int(json.loads(done.stdout))
        assert done.returncode == -9, done.stderr
        return None

    def there(self) -> list[str]:
        return FolderStore(self.place).logs()


def run(recorder: counterfoil.Recorder, name: str) -> str:
    """One run with a call; its identifier."""
    call = recorder.start(
        "invoke_workflow", name, actor=(name,), request=recorder.value({"question": name * 200})
    )
    inner = recorder.start("chat", "small", actor=(name,), parent=call, request=recorder.value("?" * 300))
    recorder.end(inner, response=recorder.value({"answer": name * 99}))
    recorder.end(call, response=recorder.value(name))
    return call.run.id


def aged(lab: Any, *, old: int = 2) -> Aged:
    """As ``Aged`` says; every old log was open beside the others."""
    several = [lab.recorder() for _ in range(old)]
    runs = {run(recorder, f"old{number}") for number, recorder in enumerate(several)}
    names = [recorder.open().log for recorder in several]
    for recorder in several:
        recorder.close()
    before = records.now() + 1
    for name in names:
        keys.close_log(f"{keys.load_or_create_identity().keyid}/{name}")
    young = lab.recorder()
    runs.add(run(young, "young"))
    young.close()
    return Aged(lab.root, lab.evidence, lab.home, lab.root / "archive", before, sorted(names), runs)
