"""Every example runs offline by one command and prints the lines of its expected.txt, in that order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
EXAMPLES = sorted(path.parent.name for path in HERE.glob("*/run.py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_prints_what_its_readme_promises(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / name / "run.py"), str(tmp_path / "example")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = iter(done.stdout.splitlines())
    for line in (HERE / name / "expected.txt").read_text().splitlines():
        assert any(line == other for other in printed), (
            f"{line!r} is missing or out of order in:\n{done.stdout}"
        )
