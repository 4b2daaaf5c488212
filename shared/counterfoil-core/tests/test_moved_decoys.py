"""Evidence moved as a whole: no decoy in its old place, and no log of the same name, hides one that is gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil


def _empty_folder(old: Path, moved: Path, name: str) -> None:
    (old / name).mkdir(parents=True)


def _file(old: Path, moved: Path, name: str) -> None:
    old.mkdir()
    (old / name).touch()


def _link_to_nothing(old: Path, moved: Path, name: str) -> None:
    old.mkdir()
    (old / name).symlink_to(old / "nothing")


def _link_to_itself(old: Path, moved: Path, name: str) -> None:
    old.mkdir()
    (old / name).symlink_to(moved / name)


def _link_to_all(old: Path, moved: Path, name: str) -> None:
    old.symlink_to(moved)


def _beginning(old: Path, moved: Path, name: str) -> None:
    (old / name).mkdir(parents=True)
    (first, *_) = sorted((moved / name).iterdir())
    (old / name / first.name).write_bytes(first.read_bytes()[:-1])


def _end(old: Path, moved: Path, name: str) -> None:
    (old / name).mkdir(parents=True)
    shutil.copy(max((moved / name).iterdir()), old / name)


def _other(old: Path, moved: Path, name: str) -> None:
    (other,) = (one for one in counterfoil.read(moved).logs() if one != name)
    shutil.copytree(moved / other, old / name)


DECOYS = [
    _empty_folder,
    _file,
    _link_to_nothing,
    _link_to_itself,
    _link_to_all,
    _beginning,
    _end,
    _other,
]


@pytest.fixture
def moved(lab: Any) -> tuple[Path, str]:
    """Where evidence of two logs of two segments each was moved to, and the name of one of them."""
    for _ in range(2):
        first, second = lab.recorder(), lab.recorder()
        for recorder in (first, second):
            recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
        first.close()
        second.close()
    (name, _) = counterfoil.read(lab.evidence).logs()
    assert len(list((lab.evidence / name).iterdir())) == 2
    place = lab.root / "moved"
    lab.evidence.rename(place)
    return place, name


@pytest.mark.parametrize("decoy", DECOYS)
@pytest.mark.parametrize("recorded_meanwhile", [False, True])
def test_a_decoy_hides_nothing(
    lab: Any, moved: tuple[Path, str], decoy: Callable[[Path, Path, str], None], recorded_meanwhile: bool
) -> None:
    place, name = moved
    decoy(lab.evidence, place, name)
    if recorded_meanwhile:
        lab.record(evidence=place)
        lab.record(evidence=place)
    shutil.rmtree(place / name)
    found = lab.verify(place)
    assert (found.verdict, "CF-VERIFY-003" in {one.code for one in found.findings}) == ("broken", True)


def test_a_log_that_stands_where_it_was_written_is_not_missed_elsewhere(
    lab: Any, moved: tuple[Path, str]
) -> None:
    place, name = moved
    shutil.copytree(place / name, lab.evidence / name)
    shutil.rmtree(place / name)
    assert "CF-VERIFY-003" not in {one.code for one in lab.verify(place).findings}
