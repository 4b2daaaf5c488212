"""Makes the kit importable (importlib mode puts no folder on the path) and gives each test an evidence of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

import counterfoil
from counterfoil_langchain import Handler


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    return tmp_path / "evidence"


@pytest.fixture
def handler(evidence: Path) -> Iterator[Handler]:
    made = Handler(evidence)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _taken_out() -> Iterator[None]:
    yield
    counterfoil.uninstall()
