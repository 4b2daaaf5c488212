"""Whole evidence, right and damaged, is judged alike with what is read by patterns and without."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import (
    appending,
    keys,
    moulds,
)
from counterfoil.findings import Verification

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "log.json").read_text(encoding="utf-8"))


def _alike(evidence: Path, **arguments: Any) -> tuple[Verification, int]:
    """The verdict, the same with moulds and without, and how many entries were read by one."""
    taken = 0
    match = moulds.Moulds.match

    def counted(self: Any, text: bytes) -> Any:
        nonlocal taken
        found = match(self, text)
        taken += found is not None
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moulds.Moulds, "match", counted)
        short = counterfoil.verify(evidence, full=True, jobs=1, **arguments)
        patch.setattr(moulds.Moulds, "match", lambda self, text: None)
        long = counterfoil.verify(evidence, full=True, jobs=1, **arguments)
    assert short == long
    return short, taken


def test_every_vector(tmp_path: Path) -> None:
    known, taken, before = VECTORS["keys"], 0, keys.home()
    try:
        for number, case in enumerate(VECTORS["cases"]):
            place = tmp_path / f"{number}"
            keys.set_home(tmp_path / f"home{number}")
            for name, data in case["files"].items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(base64.b64decode(data))
            names = [name.rstrip("+") for name in case["keyring"] if name[0] != "~"]
            public = [keys.PublicKey.from_spki(base64.b64decode(known[name]["spki"])) for name in names]
            taken += _alike(place, keyring=keys.Keyring.of(public))[1]
    finally:
        keys.set_home(before)
    assert taken > 30


@pytest.fixture
def long(lab: Any, one_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Evidence of several segments with runs in them that are much alike."""
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 6000)
    recorder = lab.recorder()
    for number in range(8):
        one_run(recorder, number=number)
        recorder.open().checkpoint()
    recorder.close()
    evidence: Path = lab.evidence
    return evidence


def test_most_of_a_log_is_read_the_short_way(long: Path) -> None:
    result, taken = _alike(long)
    assert result.verdict == "intact"
    assert taken * 2 > result.counts["records"] + result.counts["statements"]


def test_damage_of_every_kind(long: Path, tmp_path: Path) -> None:
    chance = random.Random(11)
    files = sorted(long.rglob("*.seg"))
    verdicts = set()
    for number in range(40):
        place = tmp_path / "copy"
        shutil.copytree(long, place)
        victim = place / chance.choice(files).relative_to(long)
        data = bytearray(victim.read_bytes())
        if number % 4 == 0:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif number % 4 == 1:
            del data[chance.randrange(len(data)) :]
        elif number % 4 == 2:
            data[:] = chance.choice(files).read_bytes()
        else:
            data += data[chance.randrange(len(data)) :]
        victim.write_bytes(data)
        verdicts.add(_alike(place)[0].verdict)
        shutil.rmtree(place)
    assert "broken" in verdicts
