"""A repair that is stopped, refused or raced leaves whole files, and the originals are kept."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rotting import Pair, flip, several

from counterfoil.errors import ConfigError, StoreError
from counterfoil.scrub import damage, replacing
from counterfoil.scrub.scrubbing import scrub


def test_a_log_with_a_writer_is_left_alone(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    recorder = pair.lab.recorder()
    recorder.start("invoke_workflow", "w", actor=("w",))
    recorder.flush()
    assert pair.scrub(pair.mirror).result == "clean"
    flip(path, 60)
    before = path.read_bytes()
    done = pair.scrub(pair.mirror)
    assert (done.result, done.kept, path.read_bytes()) == ("damaged", None, before)
    assert "CF-SCRUB-004" in done.damage[0].hint
    recorder.close()
    assert pair.scrub(pair.mirror).result == "repaired"


def test_damage_that_is_no_rot_is_told(pair: Pair) -> None:
    (pair.evidence / "notes.txt").write_text("mine")
    done = pair.scrub(pair.mirror)
    assert (done.result, [one.code for one in done.damage], done.kept) == ("damaged", ["CF-VERIFY-002"], None)
    assert (pair.evidence / "notes.txt").read_text() == "mine"


def test_where_nothing_may_be_written(pair: Pair) -> None:
    inside = pair.evidence / "kept"
    for mirrors, keep, code in (
        ([pair.evidence], None, "CF-SCRUB-001"),
        ([pair.lab.root], None, "CF-SCRUB-001"),
        ([pair.evidence / pair.lab.segments()[0].parent.name], None, "CF-SCRUB-001"),
        ([], inside, "CF-SCRUB-002"),
        ([pair.mirror], pair.mirror / "kept", "CF-SCRUB-002"),
        ([], pair.evidence, "CF-SCRUB-002"),
    ):
        with pytest.raises(ConfigError) as caught:
            scrub(pair.evidence, mirrors=mirrors, repair=True, keep=keep)
        assert caught.value.code == code
    assert not inside.exists()


def test_originals_are_kept_under_the_home_unless_told_otherwise(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    for _ in range(2):
        flip(path, 80)
        damaged = path.read_bytes()
        done = scrub(pair.evidence, mirrors=[pair.mirror], repair=True)
        assert done.kept is not None
        kept = Path(done.kept)
        assert kept.is_relative_to(pair.lab.home / "scrub")
        assert (kept / path.relative_to(pair.evidence)).read_bytes() == damaged
    assert len(list((pair.lab.home / "scrub").iterdir())) == 2
    assert [one.name for one in pair.evidence.parent.iterdir() if "scrub" in one.name] == []


def test_a_file_that_changes_meanwhile_is_left_alone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = pair.lab.segments()
    flip(path, 80)
    from counterfoil.scrub import scrubbing

    def late(*arguments: Any) -> None:
        flip(path, 90)
        real(*arguments)

    real = scrubbing.replace_files
    monkeypatch.setattr(scrubbing, "replace_files", late)
    with pytest.raises(StoreError) as caught:
        pair.scrub(pair.mirror)
    assert caught.value.code == "CF-SCRUB-007"


@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_repair_that_is_stopped_leaves_whole_files(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, one_run: Any, call: str, at: int
) -> None:
    """Every file is as it was or as it should be, the originals are kept, and the next repair finishes the work."""
    paths = several(pair, monkeypatch, one_run)[:3]
    damaged = {}
    for path in paths:
        flip(path, 60)
        damaged[path] = path.read_bytes()
    calls = 0
    real = getattr(os, call)

    def fail(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(5, "Input/output error")
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacing, "os", SimpleNamespace(**{**vars(os), call: fail}))
        with pytest.raises(StoreError) as caught:
            pair.scrub(pair.mirror)
    assert caught.value.code == "CF-SCRUB-003"
    for path in paths:
        whole = (pair.mirror / path.relative_to(pair.evidence)).read_bytes()
        kept = pair.lab.root / f"keep{pair.keeps}" / path.relative_to(pair.evidence)
        if path.read_bytes() == whole:
            assert kept.read_bytes() == damaged[path]
        else:
            assert path.read_bytes() == damaged[path]
    assert [one.name for one in pair.lab.root.iterdir() if "scrub-" in one.name] == []
    done = pair.scrub(pair.mirror)
    assert (done.result, done.verdict, pair.same()) == ("repaired", "intact", True), done.damage


def corrupt(data: bytes, chance: random.Random) -> bytes:
    """The bytes after something went wrong on a disk or on the way to it."""
    at = chance.randrange(len(data))
    size = chance.choice([1, 7, 64, 512, 4096])
    copy = damage.Copy("", data)
    regions = copy.regions
    one, other = chance.choice(regions), chance.choice(regions)
    return chance.choice(
        [
            data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
            data[:at] + bytes(size) + data[at + size :],
            data[:at] + chance.randbytes(size) + data[at + size :],
            data[:at] + data[at + size :],
            data[:at] + chance.randbytes(size) + data[at:],
            data[:at],
            data[: one.start] + data[one.end :],
            data[: one.end] + data[one.start :],
            data[: one.start] + data[other.start : other.end] + data[one.end :],
            data[: one.start] + data[one.start : one.end][::-1] + data[one.end :],
            b"",
        ]
    )


@pytest.mark.parametrize(
    "seed", [*range(16), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(16, 150))]
)
def test_whatever_goes_wrong_is_mended_or_left(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, one_run: Any, seed: int
) -> None:
    """With an undamaged copy all comes back; with two damaged ones nothing gets worse than it was."""
    chance = random.Random(seed)
    paths = several(pair, monkeypatch, one_run)
    whole = {path: path.read_bytes() for path in paths}
    for path in chance.sample(paths, chance.choice([1, 1, 2, len(paths)])):
        path.write_bytes(corrupt(path.read_bytes(), chance))
    other = pair.lab.root / "other"
    shutil.copytree(pair.mirror, other)
    for path in chance.sample(paths, 2):
        copy = other / path.relative_to(pair.evidence)
        copy.write_bytes(corrupt(copy.read_bytes(), chance))
    before = {path: path.read_bytes() if path.exists() else None for path in paths}
    done = pair.scrub(other)
    if done.result in ("repaired", "clean"):
        assert all(path.read_bytes() == whole[path] for path in paths), done.damage
    else:
        assert {path: path.read_bytes() if path.exists() else None for path in paths} == before
    done = pair.scrub(other, pair.mirror)
    assert all(path.read_bytes() == whole[path] for path in paths), done.damage
    assert pair.lab.verify().verdict == "intact"
