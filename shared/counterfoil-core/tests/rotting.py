"""Evidence that rots and an undamaged copy of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from counterfoil import appending
from counterfoil.scrub.scrubbing import Scrub, scrub


class Pair:
    """Evidence and an undamaged copy of it."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.evidence: Path = lab.evidence
        self.mirror: Path = lab.root / "mirror"
        shutil.copytree(self.evidence, self.mirror)
        self.keeps = 0

    def scrub(self, *mirrors: Path, repair: bool = True, **more: Any) -> Scrub:
        self.keeps += 1
        keep = self.lab.root / f"keep{self.keeps}"
        return scrub(self.evidence, mirrors=mirrors, repair=repair, keep=keep, **more)

    def heal(self) -> None:
        shutil.rmtree(self.evidence)
        shutil.copytree(self.mirror, self.evidence)

    def same(self) -> bool:
        def content(root: Path) -> dict[str, bytes]:
            return {str(path.relative_to(root)): path.read_bytes() for path in self.lab.files(root)}

        return content(self.evidence) == content(self.mirror)


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def lose(pair: Pair, how: str) -> None:
    path = pair.lab.segments()[-1]
    data = path.read_bytes()
    if how == "zeroed":
        path.write_bytes(bytes(len(data)))
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "halved":
        path.write_bytes(data[: len(data) // 2])
    elif how == "one byte short":
        path.write_bytes(data[:-1])
    elif how == "grown":
        path.write_bytes(data + b"\0" * 100)
    elif how == "hole":
        path.write_bytes(data[:400] + bytes(512) + data[912:])
    elif how == "segment gone":
        path.unlink()
    elif how == "log gone":
        shutil.rmtree(path.parent)
    elif how == "unreadable":
        path.unlink()
        os.mkfifo(path)


def several(pair: Pair, monkeypatch: pytest.MonkeyPatch, one_run: Any) -> list[Path]:
    """More segments of one log, and a second session."""
    if appending.SEGMENT_SIZE > 10_000:
        monkeypatch.setattr(appending, "SEGMENT_SIZE", 2_000)
    for _ in range(2):
        recorder = pair.lab.recorder()
        for number in range(4):
            one_run(recorder, number=number)
            recorder.flush()
        recorder.close()
    shutil.rmtree(pair.mirror)
    shutil.copytree(pair.evidence, pair.mirror)
    found: list[Path] = pair.lab.segments()
    assert len(found) > 4
    return found
