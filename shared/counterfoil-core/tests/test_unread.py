"""A log that the system does not let be read accuses nobody; one moved in from a folder that is still there is told."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil.stores import folder


def _write(place: Path) -> Path:
    with counterfoil.open(place, actor="planner") as log:
        counterfoil.seal(log, "hello", to="writer")
    return next(one for one in place.iterdir() if one.is_dir())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(("number", "code"), [(errno.EACCES, "CF-STORE-006"), (errno.EIO, "CF-STORE-001")])
def test_a_segment_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    _write(tmp_path / "ev")

    def refuse(path: Path) -> Any:
        if path.suffix != ".seg":
            return real(path)
        raise OSError(number, os.strerror(number), str(path))

    real = folder._open_regular
    monkeypatch.setattr(folder, "_open_regular", refuse)
    result = counterfoil.verify(tmp_path / "ev")
    assert (result.verdict, [one.code for one in result.findings]) == ("cannot-tell", [code])


def test_a_log_moved_in_from_a_folder_that_is_still_there(tmp_path: Path) -> None:
    _write(tmp_path / "one")
    log = _write(tmp_path / "two")
    shutil.move(log, tmp_path / "one" / log.name)
    result = counterfoil.verify(tmp_path / "one")
    assert (result.verdict, [one.code for one in result.findings]) == ("broken", ["CF-VERIFY-006"])


def test_a_folder_that_was_renamed_or_is_behind_a_link(tmp_path: Path) -> None:
    _write(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")
    (tmp_path / "link").symlink_to("two")
    for name in ("two", "link"):
        assert counterfoil.verify(tmp_path / name).verdict == "intact"
