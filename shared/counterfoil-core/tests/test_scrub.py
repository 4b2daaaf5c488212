"""Bit rot in every kind of byte is found, located and mended from a copy, to the bytes that were written."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counterfoil import appending, keys, segments
from counterfoil.errors import ConfigError, StoreError
from counterfoil.scrub import damage, locating, replacing
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


@pytest.fixture
def pair(lab: Any) -> Pair:
    lab.record(calls=1)
    return Pair(lab)


def flip(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def kinds(path: Path) -> Iterator[tuple[str, int]]:
    """Offsets in every kind of region of a segment: each byte of a header, first, middle and last of the rest."""
    copy = damage.Copy("", path.read_bytes())
    for number, part in enumerate(copy.regions):
        form = copy.data[part.start]
        name = f"chunk {number} form {form}"
        for place in range(segments.CHUNK_HEADER.size):
            yield f"{name} header", part.start + place
        for place in (16, 17, 20, 21, 22, (part.end - part.start) // 2, part.end - part.start - 1):
            yield f"{name} body", part.start + place


def check_flip(pair: Pair, path: Path, at: int, bit: int = 0) -> None:
    """Found, located without help, mended to the same bytes with it, and the damaged file kept."""
    flip(path, at, bit)
    name = str(path.relative_to(pair.evidence))
    alone = pair.scrub(repair=False)
    assert alone.result == "damaged", (at, bit)
    assert {one.file for one in alone.damage} == {name}
    assert any(one.start is not None and one.start <= at < (one.end or 0) for one in alone.damage), (at, bit)
    damaged = path.read_bytes()
    told = pair.scrub(pair.mirror, repair=False)
    assert (told.result, path.read_bytes()) == ("findings", damaged)
    assert [one.at for one in told.damage if one.at is not None] == [at]
    done = pair.scrub(pair.mirror)
    assert (done.result, done.verdict, pair.same()) == ("repaired", "intact", True), (at, bit, done.damage)
    assert (pair.lab.root / f"keep{pair.keeps}" / name).read_bytes() == damaged


def test_clean(pair: Pair) -> None:
    done = pair.scrub(pair.mirror)
    assert (done.result, done.damage, done.kept, done.logs, done.files) == ("clean", [], None, 1, 1)
    assert not (pair.lab.root / "keep1").exists()


def test_one_bit_in_every_kind_of_byte(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    for number, (_, at) in enumerate(kinds(path)):
        check_flip(pair, path, at, number % 8)


@pytest.mark.slow
def test_one_bit_in_every_byte(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    size = path.stat().st_size
    for at in range(size):
        flip(path, at, at % 8)
        done = pair.scrub(pair.mirror)
        assert (done.result, pair.same()) == ("repaired", True), (at, done.damage)
        assert [one.at for one in done.damage if one.at is not None] == [at]
        assert any(one.start is not None and one.start <= at < (one.end or 0) for one in done.damage), at
        if at % 500 == 0:
            print(f"{at} of {size} bytes", flush=True)


def test_the_same_where_nothing_is_remembered(pair: Pair) -> None:
    """On another machine, where the key is pinned and there is no head: the log's own notes vouch."""
    (path,) = pair.lab.segments()
    identity = keys.load_identity()
    assert identity is not None
    with pair.lab.at(pair.lab.elsewhere):
        ring = keys.Keyring.of([identity.public])
        for at in range(5, path.stat().st_size, 397):
            flip(path, at)
            done = pair.scrub(pair.mirror, keyring=ring)
            assert (done.result, pair.same()) == ("repaired", True), (at, done.damage)


def test_a_stranger_may_mend_what_the_notes_vouch_for(pair: Pair) -> None:
    (path,) = pair.lab.segments()
    with pair.lab.at(pair.lab.elsewhere):
        flip(path, 100)
        done = pair.scrub(pair.mirror)
        assert (done.result, done.verdict, pair.same()) == ("repaired", "cannot-tell", True)
        path.write_bytes(bytes(path.stat().st_size))
        done = pair.scrub(pair.mirror)
    # No checkpoint is left, none is remembered, and the key is not pinned: as far as can be told, an unclean stop.
    assert (done.result, done.kept, pair.same()) == ("findings", None, False)
    assert "CF-SCRUB-006" in done.damage[0].hint


@pytest.mark.parametrize("content", [None, b"", b"*", b"*\n*\n", b"+\n", bytes(2)])
def test_gitignore(pair: Pair, content: bytes | None) -> None:
    path = pair.evidence / ".gitignore"
    path.unlink() if content is None else path.write_bytes(content)
    assert pair.scrub(repair=False).result == "findings"
    done = pair.scrub()  # its content is fixed: no copy is needed
    assert (done.result, done.verdict, pair.same()) == ("repaired", "intact", True)


@pytest.mark.parametrize("how", ["symlink", "dangling", "folder", "fifo"])
def test_a_gitignore_that_is_no_file_is_left(pair: Pair, how: str) -> None:
    path = pair.evidence / ".gitignore"
    path.unlink()
    if how == "symlink":
        path.symlink_to(pair.mirror / ".gitignore")
    elif how == "dangling":
        path.symlink_to(pair.lab.root / "nowhere")
    elif how == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    done = pair.scrub(pair.mirror)
    assert (done.result, done.kept, [one.code for one in done.damage]) == ("damaged", None, ["CF-VERIFY-002"])
    assert os.path.lexists(path)


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


@pytest.mark.parametrize(
    "how", ["zeroed", "emptied", "halved", "one byte short", "hole", "segment gone", "log gone"]
)
def test_larger_damage(pair: Pair, how: str) -> None:
    lose(pair, how)
    assert pair.scrub(repair=False).result == "damaged"
    told = pair.scrub(pair.mirror, repair=False)
    assert (told.result, told.kept) == ("findings", None)
    done = pair.scrub(pair.mirror)
    assert (done.result, done.verdict, pair.same()) == ("repaired", "intact", True), done.damage


def test_what_is_no_file_is_not_replaced(pair: Pair) -> None:
    lose(pair, "unreadable")
    assert pair.scrub(repair=False).result == "damaged"
    with pytest.raises(StoreError) as caught:
        pair.scrub(pair.mirror)
    assert caught.value.code == "CF-SCRUB-003"


def test_bytes_behind_the_last_checkpoint_are_nobodys(pair: Pair) -> None:
    """Nothing vouches for them, so they are told and left; a machine that remembers says no more."""
    lose(pair, "grown")
    done = pair.scrub(pair.mirror)
    assert [one.state for one in done.damage] == ["tail"]
    assert (done.result, done.kept) == ("findings", None)


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


def test_several_segments(pair: Pair, monkeypatch: pytest.MonkeyPatch, one_run: Any) -> None:
    paths = several(pair, monkeypatch, one_run)
    for path in paths:
        path.unlink()
        assert pair.scrub(pair.mirror).result == "repaired"
        assert pair.same()
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 3])
        assert pair.scrub(pair.mirror).result == "repaired"
        assert pair.same()
    for path in paths[1:]:
        flip(path, 30)
    done = pair.scrub(pair.mirror)
    assert (done.result, done.verdict, pair.same()) == ("repaired", "intact", True)
    assert {one.file for one in done.damage} == {str(path.relative_to(pair.evidence)) for path in paths[1:]}


def test_a_sealed_segment_cut_at_a_checkpoint(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, one_run: Any
) -> None:
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 6_000)
    several(pair, monkeypatch, one_run)
    cuts = 0
    for path in pair.lab.segments():
        copy = damage.Copy("", path.read_bytes())
        ends = [copy.parts[at].end for at in copy.parts if copy.note(at) is not None]
        for end in ends[:-1]:
            cuts += 1
            path.write_bytes(copy.data[:end])
            done = pair.scrub(pair.mirror)
            assert (done.result, pair.same()) == ("repaired", True), done.damage
    assert cuts >= 2


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


@pytest.mark.parametrize(
    ("old", "new", "at", "wrong"),
    [
        (b"abc", b"abc", None, 0),
        (b"abc", b"abd", 2, 1),
        (b"xbc", b"abd", 0, 2),
        (b"ab", b"abcd", 2, 2),
        (b"abcd", b"ab", 2, 2),
        (b"", b"abc", 0, 3),
        (bytes(3 << 20), bytes(3 << 20), None, 0),
        (bytes(3 << 20), bytes((1 << 20) + 5) + b"x" * 9 + bytes((2 << 20) - 14), (1 << 20) + 5, 9),
        (bytes(1 << 20), bytes((1 << 20) + 1), 1 << 20, 1),
    ],
    ids=range(9),
)
def test_wrong_bytes_are_counted(old: bytes, new: bytes, at: int | None, wrong: int) -> None:
    found = locating.Damage("CF-LOG-010", "x", None, None, "x")
    found.compare(old, new)
    assert (found.at, found.wrong) == (at, wrong)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100_000, 2_000_000])
def test_walking_through_what_is_no_segment(size: int) -> None:
    """Holes, noise and headers that promise too much: one pass, and every byte is accounted for."""
    noise = random.Random(size).randbytes(size)
    headers = (b"\0\0\0\0" + struct.pack("<III", size // 2, size // 2, 1)) * (size // 16)
    for data in (bytes(size), noise, headers, noise[: size // 2] + bytes(size - size // 2)):
        regions = damage.walk(data)
        edges = [0, *(one.end for one in regions)]
        assert edges == [*(one.start for one in regions), len(data)]


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
