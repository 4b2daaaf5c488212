"""Bit rot in every kind of byte is found, located and mended from a copy, to the bytes that were written."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rotting import Pair, flip, lose, several

from counterfoil import appending, keys, segments
from counterfoil.errors import StoreError
from counterfoil.scrub import damage, locating
from counterfoil.scrub.filebytes import FileBytes


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
    found.compare(FileBytes.of(old), FileBytes.of(new))
    assert (found.at, found.wrong) == (at, wrong)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100_000, 2_000_000])
def test_walking_through_what_is_no_segment(size: int) -> None:
    """Holes, noise and headers that promise too much: one pass, and every byte is accounted for."""
    noise = random.Random(size).randbytes(size)
    headers = (b"\0\0\0\0" + struct.pack("<III", size // 2, size // 2, 1)) * (size // 16)
    for data in (bytes(size), noise, headers, noise[: size // 2] + bytes(size - size // 2)):
        regions = damage.walk(FileBytes.of(data))
        edges = [0, *(one.end for one in regions)]
        assert edges == [*(one.start for one in regions), len(data)]
