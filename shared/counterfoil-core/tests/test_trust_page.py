"""What the page about trust shows is what happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import counterfoil

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "trust.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_runs(party: Callable[..., Any]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    imports, first, second, third = code.split("\n\n")
    planner = party("planner")
    coder = party("coder", trusts=[planner])
    tester = party("tester", trusts=[planner, coder])
    planner.agree(coder, tester)
    names: dict[str, Any] = {"counterfoil": counterfoil, "task": "write tests", "part": "write one test"}
    exec(imports, names)  # noqa: S102 - our own page
    with planner.inside() as names["log"]:
        exec(first, names)  # noqa: S102
    with coder.inside() as names["log"]:
        names["task"] = counterfoil.accept(names["log"], names["envelope"], "write tests")
        exec(second, names)  # noqa: S102
    with tester.inside() as names["log"]:
        exec(third, names)  # noqa: S102
    assert repr(names["got"].allow) == re.findall(r"got\.allow +# (.*)", code)[0]
    coder.trust(tester)
    coder.take(names["got"].answer)
    for one in (planner, coder, tester):
        assert one.verdict() == ("intact", [])
