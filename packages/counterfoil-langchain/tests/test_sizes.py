"""How many bytes a run leaves, against a log of every event with its whole payload."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

import counterfoil

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "sizes", raising=False)
    return importlib.import_module("sizes")


def test_runs_of_25_calls_are_a_36th_of_a_naive_log(sizes: ModuleType, evidence: Path) -> None:
    found = sizes.measure(25, evidence, seeds=range(1, 4), compressed=False)
    assert found["evidence"] * 36 <= found["naive"]
    told = counterfoil.verify(evidence)
    assert told.verdict == "intact"
    # Nothing was left out to get there: each model call and each tool is in it, start and end.
    calls = list(counterfoil.read(evidence).calls())
    assert (
        sorted(call.op for call in calls) == ["chat"] * 75 + ["execute_tool"] * 75 + ["invoke_workflow"] * 3
    )
    assert all(call.start and call.end for call in calls)


@pytest.mark.slow
def test_a_run_of_200_calls_is_a_290th_of_a_naive_log(sizes: ModuleType, evidence: Path) -> None:
    found = sizes.measure(200, evidence)
    assert found["evidence"] * 290 <= found["naive"]
    assert found["evidence"] * 70 <= found["each_compressed"]


@pytest.mark.slow
def test_a_call_costs_the_same_however_long_the_history_is(sizes: ModuleType, evidence: Path) -> None:
    stored, texts = sizes.growth(200, evidence)
    assert stored <= texts * 1.1
