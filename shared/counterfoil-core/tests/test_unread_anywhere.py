"""Wherever the system stops letting honest evidence be read, nobody can tell, and nobody is accused."""

from __future__ import annotations

import base64
import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from golden import LOG, named, public

import counterfoil
from counterfoil import keys
from counterfoil.log import LogScan
from counterfoil.stores import FolderStore, folder
from counterfoil.trust_checks import Acceptances

HONEST = [
    one
    for one in LOG["cases"]
    if one["verdict"] in ("intact", "incomplete") and not any(name[0] in "~" for name in one["keyring"])
    if not {"there", "policy"} & one.keys()
    # No writer leaves such checkpoints behind what it recovers.
    if not one["name"].endswith("behind what was recovered")
    # What is left of an archived log is that only by the word of another log, which may be the one that is not read.
    and "CF-VERIFY-071" not in one["findings"]
]


class Failing(io.FileIO):
    """A file on a disk that gives nothing from a byte on; a file of ``limit`` 0 may not even be opened."""

    def __init__(self, path: Path, limit: int) -> None:
        if not limit:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        super().__init__(path)
        self._limit = limit

    def readinto(self, buffer: Any) -> int:
        left = self._limit - self.tell()
        if left <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().readinto(memoryview(buffer)[:left])  # type: ignore[return-value]

    def readall(self) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class Disk:
    """Lets one file be read as far as ``limit``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.limit = Path(), 0
        self._real = folder._open_regular
        monkeypatch.setattr(folder, "_open_regular", self._open)

    def _open(self, path: Path) -> Any:
        return io.BufferedReader(Failing(path, self.limit)) if path == self.path else self._real(path)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    before = keys.home()
    keys.set_home(tmp_path / "home")
    yield tmp_path / "evidence"
    keys.set_home(before)


def laid_out(place: Path, case: dict[str, Any]) -> list[Path]:
    for name, data in case["files"].items():
        (place / name).parent.mkdir(exist_ok=True, parents=True)
        (place / name).write_bytes(base64.b64decode(data))
    return sorted(place.glob("*/*.seg"))


def last_note(place: Path) -> bytes:
    scan = LogScan(FolderStore(place), next(place.glob("*/")).name)
    for _ in scan.events():
        pass
    assert scan.last_note is not None
    return scan.last_note


@named(HONEST)
def test_nothing_is_broken(place: Path, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    segments = laid_out(place, case)
    for head in case.get("heads", []):
        keys.remember_head(**head | {"evidence": FolderStore(place).uri if head["evidence"] else ""})
    ring = keys.Keyring.of([public(name) for name in case["keyring"]])
    disk = Disk(monkeypatch)
    for disk.path in segments:
        size = disk.path.stat().st_size
        for disk.limit in {size * part // 20 for part in range(20)}:
            found = counterfoil.verify(place, keyring=ring)
            assert found.verdict == "cannot-tell", (disk.path.name, disk.limit, found.findings)
            said = {one.code for one in found.findings}
            assert said & {"CF-STORE-001", "CF-STORE-006"}
            assert "broken" not in {one.verdict for one in found.findings}


def test_what_was_recovered_is_told_where_nobody_can_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for torn in (True, False, False):
        with counterfoil.open(place, actor="planner") as log:
            counterfoil.seal(log, "hello", to="writer")
        if torn:
            with next(place.glob("*/*.seg")).open("ab") as file:
                file.write(b"no chunk")
    segments = sorted(place.glob("*/*.seg"))
    assert len(segments) == 3
    assert counterfoil.verify(place).verdict == "incomplete"
    disk = Disk(monkeypatch)
    for disk.path in segments:
        for jobs in (1, 2):
            assert counterfoil.verify(place, jobs=jobs).verdict == "cannot-tell", disk.path.name


@pytest.mark.parametrize("limit", [0, 400])
def test_a_kept_checkpoint_that_may_stand_where_nobody_can_read(
    place: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counterfoil.open(place, actor="planner") as log:
        counterfoil.seal(log, "hello", to="writer")
    note = last_note(place)
    assert counterfoil.verify(place, checkpoints=[note]).verdict == "intact"
    disk = Disk(monkeypatch)
    (disk.path,), disk.limit = place.glob("*/*.seg"), limit
    found = counterfoil.verify(place, checkpoints=[note])
    assert (found.verdict, found.continues) == ("cannot-tell", [])
    assert [(one.code, one.verdict) for one in found.findings][1:] == [("CF-VERIFY-008", "cannot-tell")]


@pytest.mark.parametrize("which", ["a", "b"])
def test_what_a_log_accepted_that_could_not_be_read_to_its_end(which: str) -> None:
    """It may be taken back where nobody can read."""
    receipt: Any = SimpleNamespace(sender=SimpleNamespace(key="0" * 64), handoff="1" * 64)
    for unread in ("", which):
        found = Acceptances()
        for log in ("a", "b"):
            found.note(log, receipt)
            if log == unread:
                found.leave_out(log)
        assert [one.code for one in found.findings()] == ([] if unread else ["CF-VERIFY-048"])
