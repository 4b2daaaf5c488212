"""TauricResearch/TradingAgents, unmodified, its provider on loopback, in an empty network namespace.

Its checkout is named by TRADINGAGENTS_CHECKOUT; TRADINGAGENTS_PYTHON may name another interpreter that has its
dependencies and Counterfoil (default: this one). Where the system allows no network namespace, the bed's own guard
refuses every connection that is not to loopback.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import counterfoil

pytestmark = pytest.mark.tradingagents

BEDS = Path(__file__).resolve().parent / "beds"
sys.path.append(str(BEDS / "tradingagents"))
NOT_RUN = 125
FROZEN = ("--freeze-clock", "2026-05-15T21:00:00")


@dataclass(frozen=True, slots=True)
class Ran:
    evidence: Path
    out: Path
    began: datetime
    ended: datetime


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tradingagents")


def run(folder: Path, name: str, *arguments: str) -> Ran:
    """Run the application once into ``folder/name``."""
    place = folder / name
    place.mkdir()
    evidence, out = place / "evidence", place / "out"
    bed = [
        os.environ.get("TRADINGAGENTS_PYTHON", sys.executable),
        str(BEDS / "tradingagents" / "run.py"),
        *("--attach", "none", "--out", str(out), *arguments),
    ]
    environment = {**os.environ, "COUNTERFOIL": str(evidence)}
    began = datetime.now().replace(microsecond=0)
    for command in ([sys.executable, str(BEDS / "common" / "netns.py"), *bed], bed):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode != NOT_RUN:
            break
    assert done.returncode == 0, done.stderr[-2000:]
    assert "counterfoil" not in done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["attach"], summary["blocked_connections"]) == ("none", [])
    return Ran(evidence, out, began, datetime.now())


@pytest.fixture(scope="module")
def plain(folder: Path) -> Ran:
    return run(folder, "plain")


def problems(ran: Ran, *, rounds: int = 1, wire: bool = True, max_bytes: int | None = None) -> list[str]:
    """What the bed's own check finds; without ``wire`` for a provider whose bodies it does not read."""
    import check
    import expected

    check.GRAPH = expected.build(rounds)
    if wire:
        return list(check.check(ran.evidence, ran.out, max_bytes)["problems"])
    return [
        *check.check_verdict(ran.evidence),
        *check.check_log(ran.evidence),
        *check.check_graph(ran.evidence),
        *check.check_handoffs(ran.evidence),
    ]


def test_everything_that_happened_is_in_the_evidence(plain: Ran) -> None:
    assert problems(plain, max_bytes=260_000) == []


def test_with_a_provider_that_takes_its_time(folder: Path) -> None:
    """Entries come one by one, each with a checkpoint of its own."""
    assert problems(run(folder, "slow", "--latency-ms", "1500"), max_bytes=320_000) == []


def test_three_rounds(folder: Path) -> None:
    assert problems(run(folder, "rounds", "--rounds", "3"), rounds=3, max_bytes=440_000) == []


def test_five_rounds(folder: Path) -> None:
    assert problems(run(folder, "five", "--rounds", "5"), rounds=5, max_bytes=620_000) == []


def test_another_provider(folder: Path) -> None:
    ran = run(folder, "anthropic", "--provider", "anthropic")
    assert problems(ran, wire=False) == []
    reader = counterfoil.read(ran.evidence)
    calls = [call for call in reader.calls() if call.op == "chat"]
    assert {reader.value(call.request)["provider"] for call in calls} == {"anthropic"}
    assert all(call.end and call.end.body["context"]["usage"] for call in calls)


def test_with_the_clock_frozen_two_runs_have_one_content_root(folder: Path) -> None:
    roots = []
    for turn in range(2):
        ran = run(folder, f"frozen-{turn}", *FROZEN)
        assert problems(ran) == []
        roots += [one.content_root for one in counterfoil.read(ran.evidence).runs()]
    assert len(roots) == 2
    assert len(set(roots)) == 1


STAMP = re.compile(r"(?<=# Data retrieved on: )\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
CALL_ID = re.compile(r"call_[0-9a-f]{20}")
DIGEST = re.compile(r"@[0-9a-f]{16}(?=[/#]|$)")


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


def told(ran: Ran) -> dict[tuple[str, int], Any]:
    """Every call's values by its address (without the digests in it) and its number among equal ones."""
    reader = counterfoil.read(ran.evidence)
    seen: Counter[str] = Counter()
    out: dict[tuple[str, int], Any] = {}
    for call in reader.calls():
        address = DIGEST.sub("@", call.address)
        seen[address] += 1
        refs = (call.request, call.response, call.error)
        out[address, seen[address]] = [call.status, call.actor, *map(reader.value, refs)]
    return out


def same_but(value: Any, ids: dict[str, str]) -> Any:
    """A value with the application's clock stamps and the tool-call ids made from them replaced."""
    if isinstance(value, dict):
        return {key: same_but(one, ids) for key, one in value.items()}
    if isinstance(value, list):
        return [same_but(one, ids) for one in value]
    if isinstance(value, str):
        return CALL_ID.sub(lambda found: ids[found.group()], STAMP.sub("STAMP", value))
    return value


def test_without_it_nothing_differs_but_its_stamps_and_ids_made_from_them(plain: Ran, folder: Path) -> None:
    other = run(folder, "other")
    first, second = told(plain), told(other)
    assert first.keys() == second.keys()
    assert first != second
    renamed = []
    for ran, values in ((plain, first), (other, second)):
        found = [text for key in sorted(values) for text in texts(values[key])]
        stamps = {stamp for text in found for stamp in STAMP.findall(text)}
        assert stamps
        for stamp in stamps:
            assert ran.began <= datetime.fromisoformat(stamp) <= ran.ended
        ids = dict.fromkeys(one for text in found for one in CALL_ID.findall(text))
        names = {one: f"call {at}" for at, one in enumerate(ids)}
        renamed.append({key: same_but(value, names) for key, value in values.items()})
    assert renamed[0] == renamed[1]
