"""Evidence that was moved as a whole and written on where it is now: nobody is accused."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil import keys


def two_logs(lab: Any, one_run: Any) -> None:
    """Two logs, written at once."""
    first, second = lab.recorder(), lab.recorder()
    for recorder in (first, second):
        one_run(recorder)
    first.close()
    second.close()


@pytest.mark.parametrize("old", ["gone", "empty", "new evidence"])
def test_a_writer_takes_over_what_was_moved(lab: Any, one_run: Any, old: str) -> None:
    two_logs(lab, one_run)
    before = lab.evidence
    lab.evidence = lab.root / "elsewhere now"
    before.rename(lab.evidence)
    if old == "empty":
        before.mkdir()
    elif old == "new evidence":
        lab.record(evidence=before)
    assert (lab.verify().verdict, lab.verify(before).verdict if old == "new evidence" else "intact") == (
        "intact",
        "intact",
    )
    for _ in range(2):
        lab.record()
        found = lab.verify()
        assert (found.verdict, [one.code for one in found.findings]) == ("intact", [])
    if old == "new evidence":
        assert lab.verify(before).verdict == "intact"


@pytest.mark.parametrize("told", [0, 1])
def test_a_writer_that_is_killed_while_it_takes_over(
    lab: Any, one_run: Any, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the home remembers of the logs is rewritten one by one: between two of them the next writer goes on."""
    two_logs(lab, one_run)
    before = lab.evidence
    lab.evidence = lab.root / "elsewhere now"
    before.rename(lab.evidence)
    before.mkdir()
    real, count = keys.remember_head, 0

    def remember(*arguments: Any, **more: Any) -> None:
        nonlocal count
        count += 1
        if count <= told:
            real(*arguments, **more)

    monkeypatch.setattr(keys, "remember_head", remember)
    lab.record()
    monkeypatch.undo()
    lab.record()
    found = lab.verify()
    assert (found.verdict, [one.code for one in found.findings]) == ("intact", [])
