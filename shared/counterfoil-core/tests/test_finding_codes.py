"""Every finding of the table in the format can be produced, and a verdict stays short however much is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import counterfoil
from counterfoil import records
from counterfoil.findings import MOST, Finding, Findings

SHARED = Path(__file__).parents[2]
ELSEWHERE = {
    "CF-VERIFY-006",
    "CF-VERIFY-007",
    "CF-VERIFY-009",
    "CF-VERIFY-061",
    "CF-VERIFY-062",
    "CF-VERIFY-073",
}
"""Codes that no vector has: they need a second place, a clock or what this machine remembers."""


def test_every_code_of_the_table_is_produced_by_a_vector_or_a_test() -> None:
    page = (SHARED / "spec" / "log.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| (CF-VERIFY-\d{3})", page, re.MULTILINE))
    listed |= set(re.findall(r"`(CF-LOG-0\d\d)`", page))
    cases = json.loads((SHARED / "vectors" / "log.json").read_text(encoding="utf-8"))["cases"]
    shown = {code for case in cases for code in (*case["findings"], *case.get("notes", []))}
    assert listed - shown == ELSEWHERE
    tests = Path(__file__).parent.rglob("test_*.py")
    text = "".join(path.read_text(encoding="utf-8") for path in tests)
    assert [code for code in sorted(ELSEWHERE) if text.count(f'"{code}"') < 2] == []


def lost(lab: Any, count: int) -> None:
    """A log with this many losses."""
    recorder = lab.recorder()
    writer = recorder.open()
    for number in range(count):
        content = {"name": "x", "op": "loss", "phase": "point"}
        assert writer.entry(records.build(content, {"at": number, "count": 1}))
    recorder.close()


def test_of_many_findings_the_first_are_listed_and_the_rest_counted(lab: Any) -> None:
    lost(lab, MOST + 234)
    for jobs in (1, 2):
        found = counterfoil.verify(lab.evidence, jobs=jobs)
        assert [one.code for one in found.findings] == ["CF-VERIFY-021"] * MOST + ["CF-VERIFY-009"]
        assert (found.verdict, found.counts["losses"]) == ("incomplete", MOST + 234)
        assert found.findings[-1].message == "234 more findings are not listed (234 incomplete)"


def test_what_is_not_listed_counts_for_the_verdict(lab: Any) -> None:
    lost(lab, MOST)
    (path,) = lab.segments()
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    found = lab.verify()
    assert len(found.findings) == MOST + 1
    assert found.findings[-1].code == "CF-VERIFY-009"
    assert found.verdict == found.findings[-1].verdict == "broken"


def test_findings_of_parts_add_up() -> None:
    def some(count: int, verdict: Any) -> Findings:
        out = Findings()
        for number in range(count):
            out.add(Finding("CF-VERIFY-021", f"{number}", "m", "h", verdict))
        return out

    whole = some(MOST - 1, "incomplete")
    whole.extend(some(MOST + 5, "cannot-tell"))
    listed = whole.whole()
    assert len(listed) == MOST + 1
    assert whole.more == {"cannot-tell": MOST + 4}
    assert (listed[-1].verdict, listed[-1].message) == (
        "cannot-tell",
        f"{MOST + 4} more findings are not listed ({MOST + 4} cannot-tell)",
    )
    assert some(MOST, "broken").whole() == some(MOST, "broken").listed
