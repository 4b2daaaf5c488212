"""A process that archives is killed at each of its changes: nothing is lost, and the next call finishes."""

from __future__ import annotations

from typing import Any

import pytest
from archives import Aged, aged

import counterfoil
from counterfoil.archiving.moving import archive
from counterfoil.stores import FolderStore

# What a killed session leaves of itself.
UNCLEAN = {"CF-VERIFY-020", "CF-VERIFY-024", "CF-VERIFY-027"}


def runs_in(*places: Any) -> set[str]:
    return {one.id for place in places if place.exists() for one in counterfoil.read(place).runs()}


def check_killed(lab: Any, logs: Aged, at: int, *, direct: bool) -> None:
    logs.put_back()
    assert logs.child(at, direct=direct) is None
    # As it is now.
    allowed = UNCLEAN | ({"CF-VERIFY-071"} if direct else set())
    assert {one.code for one in lab.verify().findings} <= allowed, at
    assert runs_in(lab.evidence, logs.place) == logs.runs, at
    whole = [name for name in logs.old if len(FolderStore(lab.evidence).segments(name)) > 0]
    if logs.there() and not direct:
        assert {one.code for one in lab.verify(logs.place).findings} <= UNCLEAN, at
        assert set(logs.there()) | set(whole) == set(logs.old), at
    # The next call.
    logs.archive()
    assert {one.code for one in lab.verify().findings} <= UNCLEAN, at
    assert {one.code for one in lab.verify(logs.place).findings} <= UNCLEAN, at
    assert {one.code for one in lab.verify(archives=[logs.place]).findings} <= UNCLEAN, at
    assert logs.there() == logs.old, at
    assert not set(logs.old) & set(FolderStore(lab.evidence).logs()), at
    assert runs_in(lab.evidence, logs.place) == logs.runs, at
    assert not [path.name for path in lab.root.iterdir() if path.name.startswith(".")], at
    assert not logs.survey().of("due", "left"), at


def changes(logs: Aged, *, direct: bool) -> int:
    logs.keep()
    found = logs.child(0, direct=direct)
    assert found is not None
    assert logs.there() == logs.old
    return found


@pytest.mark.parametrize("direct", [False, True], ids=["in one step", "file by file"])
def test_killed_at_some_changes(lab: Any, direct: bool) -> None:
    logs = aged(lab)
    count = changes(logs, direct=direct)
    assert count > 40
    for at in range(3, count, count // 3):
        check_killed(lab, logs, at, direct=direct)


@pytest.mark.long
@pytest.mark.parametrize("direct", [False, True], ids=["in one step", "file by file"])
def test_killed_at_every_change(lab: Any, direct: bool) -> None:
    logs = aged(lab)
    for at in range(1, changes(logs, direct=direct) + 1):
        check_killed(lab, logs, at, direct=direct)


def test_the_home_that_was_lost_meanwhile_is_no_hindrance(lab: Any) -> None:
    """A new home with the same identity knows of no closed log, no head and no call that was killed."""
    logs = aged(lab)
    logs.keep()
    count = logs.child(0)
    assert count is not None
    logs.put_back()
    assert logs.child(count // 2) is None
    for folder in ("heads", "closed", "locks"):
        for path in (lab.home / folder).iterdir():
            path.unlink()
    archive(logs.store, to=str(logs.place), before=logs.before)
    assert {one.code for one in lab.verify(archives=[logs.place]).findings} <= UNCLEAN
    assert runs_in(lab.evidence, logs.place) == logs.runs
