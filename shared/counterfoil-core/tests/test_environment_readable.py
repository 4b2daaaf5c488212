"""An environment that stands in evidence is shown whatever is written in it: anybody may have written it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crafting import Crafted, ref

from counterfoil import canonical, environment
from counterfoil.cli import app
from counterfoil.cli.environment import _lines
from counterfoil.environment import cyclonedx
from counterfoil.environment.readable import readable

ODD: list[Any] = [
    None,
    True,
    0,
    2**53 - 1,
    "",
    "x",
    [],
    [1, "a", None, {}],
    {},
    {"a": 1},
    {"a": {"b": [None]}},
]
RUN = "1" * 32


@pytest.fixture(scope="module")
def captured() -> dict[str, Any]:
    found: dict[str, Any] = canonical.loads(canonical.dumps(environment.capture(key=b"k" * 32)))
    items = found["distributions"]["items"]
    found["distributions"]["items"] = {name: items[name] for name in sorted(items)[:3]}
    found["variables"]["fingerprints"] = {"A": "f" * 32, "B": ""}
    found["gpu"] = {"cuda": "12", "devices": [{"memory": 1, "name": "g"}], "driver": "1", "source": "probed"}
    return found


def odd_ones(value: Any, into: Any) -> Iterator[None]:
    """Each part of a value in turn is something else, in ``into``, which is the same value."""
    for key, child in value.items() if type(value) is dict else enumerate(value):
        for odd in ODD:
            into[key] = odd
            yield
        into[key] = copy.deepcopy(child)
        if type(child) in (dict, list):
            yield from odd_ones(child, into[key])


def test_one_that_was_captured_is_shown_whole(captured: dict[str, Any]) -> None:
    assert readable(captured) == captured


def test_whatever_stands_anywhere(captured: dict[str, Any]) -> None:
    changed = copy.deepcopy(captured)
    count = 0
    for _ in odd_ones(captured, changed):
        shown = readable(changed)
        assert all(type(line) is str for line in _lines(shown))
        json.dumps(cyclonedx.document(shown, at="2026-01-01T00:00:00Z"), allow_nan=False)
        count += 1
    assert count > 500
    assert changed == captured


@pytest.mark.parametrize("cyclone", [False, True])
@pytest.mark.parametrize("value", [*ODD, {"gpu": {"devices": 1}, "python": 1}])
@pytest.mark.parametrize("at", ["x", -(2**53 - 1)])
def test_whatever_a_run_cites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: Any, at: Any, cyclone: bool
) -> None:
    evidence = Crafted(tmp_path / "ev")
    data = canonical.dumps(value)
    call = {"at": 1, "call": RUN, "run": RUN}
    evidence.blobs(data)
    evidence.record({"name": "n", "op": "invoke_workflow", "phase": "start"}, call)
    cited = {**call, "environment": ref(data).to_dict()}
    evidence.record({"name": "n", "op": "invoke_workflow", "phase": "end"}, cited | {"at": at})
    evidence.verify()
    assert app.run(["environment", str(evidence.root), *(["--cyclonedx"] if cyclone else [])]) in (0, 2)
    assert "CF-CLI-005" not in capsys.readouterr().err
