"""Both verifiers, asked alike; the second is kept running."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

import counterfoil

SERVER = Path(__file__).parent.parent / "shared" / "verifier-js" / "test" / "serve.mjs"
LONGEST = 120
"""Seconds for one answer, on however busy a machine."""
Judged = tuple[str, list[str], list[str], dict[str, int]]


class Second:
    """The second verifier, kept running: one line a question, one line an answer."""

    def __init__(self) -> None:
        node = shutil.which("node")
        assert node, "Node is missing: these tests compare the verifier written in JavaScript"
        self.process = subprocess.Popen(
            [node, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()

    def __call__(self, path: Path, keyring: Path) -> Judged:
        """What it says: verdict, codes of findings and notes, counts."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"path": str(path), "keyring": str(keyring)}) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], LONGEST)
        assert ready, f"no answer within {LONGEST} seconds"
        answer = json.loads(self.process.stdout.readline())
        assert answer["text"], answer["error"]
        told = json.loads(answer["text"])
        assert (
            answer["code"] == {"intact": 0, "broken": 3, "incomplete": 4, "cannot-tell": 5}[told["verdict"]]
        )
        return told["verdict"], _codes(told["findings"]), _codes(told["notes"]), told["counts"]


def _codes(findings: list[dict[str, Any]]) -> list[str]:
    # Whether an end is remembered is the home's business; only one of the two has the home here.
    return [finding["code"] for finding in findings if finding["code"] != "CF-VERIFY-062"]


def first(path: Path, keyring: Path) -> Judged:
    """What the first verifier says, without what only its home knows."""
    said = counterfoil.verify(path, keyring=keyring)
    codes = [finding.code for finding in said.findings]
    notes = [note.code for note in said.notes if note.code not in ("CF-VERIFY-061", "CF-VERIFY-062")]
    return said.verdict, codes, notes, said.counts
