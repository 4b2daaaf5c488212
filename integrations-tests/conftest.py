"""Gives the journeys the adapter's test kit and the test beds' comparison with the wire, and each its own evidence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE / "beds" / "common"), str(HERE.parent / "packages" / "counterfoil-langchain" / "tests")]


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    return tmp_path / "evidence"


@pytest.fixture
def recording(evidence: Path) -> Iterator[Path]:
    """Recording is on, by the configure hook, while the test runs; its log is closed by ``counterfoil.uninstall``."""
    import counterfoil

    counterfoil.install(evidence)
    yield evidence
    counterfoil.uninstall()
