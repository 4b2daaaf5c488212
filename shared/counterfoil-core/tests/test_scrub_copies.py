"""What a copy may mend and what it may not: other keys, other histories, older and longer copies."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rotting import Pair, flip, lose

from counterfoil import keys
from counterfoil.scrub import damage


def test_what_a_killed_writer_left_is_never_taken_away(pair: Pair) -> None:
    """Entries that no checkpoint covers are still what was recorded, here as in what is mended before them."""
    pair.lab.python(
        """
        import os, sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        recorder.start("invoke_workflow", "w", actor=("w",))
        recorder.flush()
        os._exit(0)
        """
    )
    shutil.rmtree(pair.mirror)
    shutil.copytree(pair.evidence, pair.mirror)
    older = pair.lab.root / "older"
    shutil.copytree(pair.mirror, older)
    newest = sorted(older.glob("*/*.seg"))[-1]
    newest.unlink()
    assert len(list(older.glob("*/*.seg"))) == 1
    for mirror in (older, pair.mirror):
        assert pair.lab.verify().verdict == "incomplete"
        done = pair.scrub(mirror)
        assert (done.result, done.kept, pair.same()) == ("findings", None, True)
        flip(pair.lab.segments()[0], 70)
        done = pair.scrub(mirror)
        assert pair.same(), done.damage


def test_lost_entries_are_named(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    copy = damage.Copy("", path.read_bytes())
    second = next(one for one in copy.regions[1:] if copy.data[one.start] != 0)
    flip(path, second.start + 20)
    (found,) = pair.scrub(repair=False).damage
    assert (found.start, found.end) == (second.start, second.end)
    assert found.first is not None
    assert found.last is not None
    everything = [entry.index for entry in _entries(pair.mirror) if entry.offset == second.start]
    assert list(range(found.first, found.last + 1)) == everything


def _entries(root: Path) -> list[Any]:
    from counterfoil.reader import read

    return list(read(root).entries())


def test_two_copies_complete_each_other(pair: Pair) -> None:
    other = pair.lab.root / "other"
    shutil.copytree(pair.mirror, other)
    (path,) = pair.lab.segments()
    name = path.relative_to(pair.evidence)
    copy = damage.Copy("", path.read_bytes())
    chunks = [one for one in copy.regions if copy.data[one.start] != 0]
    good = pair.mirror / name
    undamaged = good.read_bytes()
    flip(path, chunks[0].start + 30)
    flip(path, chunks[-1].start + 30)
    flip(good, chunks[0].start + 31)
    assert pair.scrub(pair.mirror).result == "damaged"
    flip(other / name, chunks[-1].start + 31)
    flip(other / name, copy.regions[-1].start + 31)
    done = pair.scrub(pair.mirror, other)
    assert (done.result, path.read_bytes() == undamaged) == ("repaired", True), done.damage
    path.write_bytes(bytes(len(undamaged)))
    done = pair.scrub(pair.mirror, other)
    assert (done.result, path.read_bytes() == undamaged) == ("repaired", True), done.damage
    assert {source for one in done.damage for source in one.sources} == {str(pair.mirror), str(other)}


def test_the_damage_of_a_copy_is_never_taken(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    name = path.relative_to(pair.evidence)
    size = path.stat().st_size
    for at in range(7, size, 501):
        flip(path, at)
        flip(pair.mirror / name, at, 3)
        before = path.read_bytes()
        done = pair.scrub(pair.mirror)
        assert (done.result, done.kept, path.read_bytes()) == ("damaged", None, before)
        flip(pair.mirror / name, at, 3)
        pair.heal()


@pytest.mark.parametrize("how", ["flipped", "zeroed", "segment gone", "log gone"])
@pytest.mark.parametrize("remembers", [True, False])
def test_a_copy_signed_by_another_key_is_refused(pair: Pair, how: str, remembers: bool) -> None:
    """Same log name, same shape, everything signed, by somebody else."""
    (path,) = pair.lab.segments()
    forged = pair.lab.root / "forged"
    with pair.lab.at(pair.lab.root / "attacker"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterfoil.choosing.secrets", SimpleNamespace(token_hex=lambda _: path.parent.name))
        pair.lab.record(calls=1, evidence=forged)
    assert (forged / path.relative_to(pair.evidence)).is_file()
    if how == "flipped":
        flip(path, 200)
    else:
        lose(pair, how)
    identity = keys.load_identity()
    assert identity is not None
    before = {one: one.read_bytes() for one in pair.lab.files()}
    with pair.lab.at(pair.lab.home if remembers else pair.lab.elsewhere):
        done = pair.scrub(forged, keyring=keys.Keyring.of([identity.public]))
    assert done.kept is None
    assert {one: one.read_bytes() for one in pair.lab.files()} == before
    if remembers or how in ("flipped", "zeroed"):
        assert done.result == ("damaged" if remembers or how == "flipped" else "findings")
        assert "CF-SCRUB-00" in done.damage[0].hint
    # And a good copy beside it still mends.
    done = pair.scrub(forged, pair.mirror)
    assert (done.result, pair.same()) == ("repaired", True), done.damage


def test_another_history_by_the_same_key_is_refused(pair: Pair, one_run: Any) -> None:
    """The key's own holder cannot put a rewritten log in the place of one that is known."""
    (path,) = pair.lab.segments()
    shutil.rmtree(pair.evidence)
    shutil.rmtree(pair.lab.home / "heads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterfoil.choosing.secrets", SimpleNamespace(token_hex=lambda _: path.parent.name))
        pair.lab.record(calls=1)
    shutil.rmtree(pair.lab.home / "heads")
    history = pair.evidence.rename(pair.lab.root / "history")
    shutil.copytree(pair.mirror, pair.evidence)
    flip(path, 200)
    done = pair.scrub(history)
    assert (done.result, done.kept) == ("damaged", None)
    assert "another history" in done.damage[0].hint or "CF-SCRUB-005" in done.damage[0].hint


def test_an_older_copy_mends_what_it_holds_and_shortens_nothing(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    pair.lab.record()
    newer = pair.lab.segments()
    assert len(newer) == 2
    content = {one: one.read_bytes() for one in newer}
    flip(path, 50)
    done = pair.scrub(pair.mirror)
    assert (done.result, done.verdict) == ("repaired", "intact")
    assert {one: one.read_bytes() for one in newer} == content
    flip(newer[1], 50)
    done = pair.scrub(pair.mirror)
    assert (done.result, done.kept) == ("damaged", None)
    newer[1].unlink()
    done = pair.scrub(pair.mirror)
    assert (done.result, done.kept, len(pair.lab.segments())) == ("damaged", None, 1)


def test_a_longer_copy_adds_nothing_to_a_log_that_ends_well(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    length = path.stat().st_size
    older = pair.lab.root / "older"
    shutil.copytree(pair.mirror, older)
    pair.lab.record()
    shutil.rmtree(pair.mirror)
    shutil.copytree(pair.evidence, pair.mirror)
    shutil.rmtree(pair.evidence)
    older.rename(pair.evidence)
    with pair.lab.at(pair.lab.elsewhere):
        flip(path, 50)
        assert pair.scrub(pair.mirror).result == "repaired"
    assert (path.stat().st_size, len(pair.lab.segments())) == (length, 1)
    # This machine remembers that there was more: then it is missing, and is put back.
    assert pair.scrub(pair.mirror).result == "repaired"
    assert pair.same()


def test_recovered_segments_are_compared_whole(pair: Pair) -> None:
    """What stands behind an unclean stop is read by nobody, and is evidence all the same."""
    pair.lab.python(
        """
        import os, sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        recorder.start("invoke_workflow", "w", actor=("w",))
        recorder.flush()
        os._exit(9 - 9)
        """
    )
    crashed = pair.lab.segments()[-1]
    with crashed.open("ab") as file:
        file.write(b"torn")
    pair.lab.record()
    shutil.rmtree(pair.mirror)
    shutil.copytree(pair.evidence, pair.mirror)
    assert pair.lab.verify().verdict == "incomplete"
    assert pair.scrub(repair=False).result == "clean"
    size = crashed.stat().st_size
    for at in (3, size // 2, size - 3):
        flip(crashed, at)
        alone = pair.scrub(repair=False)
        assert (alone.result, {one.file for one in alone.damage}) == (
            "damaged",
            {str(crashed.relative_to(pair.evidence))},
        )
        done = pair.scrub(pair.mirror)
        assert (done.result, done.verdict, pair.same()) == ("repaired", "incomplete", True), done.damage


@pytest.mark.parametrize("how", ["cut back", "gone"])
def test_a_log_that_only_another_log_misses(pair: Pair, one_run: Any, how: str) -> None:
    """Nothing is remembered: a session of the second log cites a checkpoint that the first no longer has."""
    first = pair.lab.recorder()
    one_run(first)
    first.flush()
    second = pair.lab.recorder()
    one_run(second)
    first.close()
    second.close()
    shutil.rmtree(pair.mirror)
    shutil.copytree(pair.evidence, pair.mirror)
    cited = min(pair.evidence.glob("*/"), key=lambda folder: -len(list(folder.iterdir())))
    if how == "gone":
        shutil.rmtree(cited)
    else:
        (cited / "00000001.seg").unlink()
        copy = damage.Copy("", (cited / "00000000.seg").read_bytes())
        assert copy.ends_clean()
    identity = keys.load_identity()
    assert identity is not None
    with pair.lab.at(pair.lab.elsewhere):
        ring = keys.Keyring.of([identity.public])
        alone = pair.scrub(repair=False, keyring=ring)
        code = "CF-VERIFY-004" if how == "gone" else "CF-VERIFY-005"
        assert (alone.result, [one.code for one in alone.damage]) == ("damaged", [code])
        done = pair.scrub(pair.mirror, keyring=ring)
        assert (done.result, done.verdict, pair.same()) == ("repaired", "intact", True), done.damage
