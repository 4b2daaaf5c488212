"""Whoever changes evidence is found out: no change of any file is ever called intact."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forging import chunk, codes, item, nowhere_intact, saved
from targets import KINDS

from counterfoil import segments
from counterfoil.stores import FolderStore


@pytest.fixture(params=list(KINDS))
def attacked(request: pytest.FixtureRequest, lab: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    KINDS[request.param](lab, monkeypatch)
    lab.before = lab.verify().verdict
    assert lab.before == ("incomplete" if request.param == "recovered" else "intact")
    return lab


def test_a_flipped_bit_anywhere(attacked: Any, request: pytest.FixtureRequest) -> None:
    rng = random.Random(request.node.name)
    places = [(path, at) for path in attacked.files() for at in range(path.stat().st_size)]
    elsewhere = []
    for path, at in rng.sample(places, 80):
        before = path.read_bytes()
        data = bytearray(before)
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        here, there, _ = nowhere_intact(attacked)
        assert here == "broken", (path.name, at)
        elsewhere.append(there)
        path.write_bytes(before)
    assert attacked.verify().verdict == attacked.before
    # Without a remembered head only damage behind the last checkpoint may pass for an unclean stop.
    assert elsewhere.count("broken") > 60


DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut by a byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "doubled": lambda path: path.write_bytes(path.read_bytes() * 2),
    "a zero more": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "an empty chunk more": lambda path: path.write_bytes(path.read_bytes() + chunk(b"")),
    "a blob more": lambda path: path.write_bytes(path.read_bytes() + chunk(item(segments.BLOB, b"x"))),
    "its last chunk again": lambda path: path.write_bytes(path.read_bytes() + path.read_bytes()[-300:]),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(path.stat().st_size)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a link": lambda path: (shutil.move(path, aside(path)), path.symlink_to(aside(path))),
    "a loop": lambda path: (path.unlink(), path.symlink_to(path)),
    "a device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
}


LONGER = {"a zero more", "an empty chunk more", "a blob more", "doubled", "its last chunk again"}


def aside(path: Path) -> Path:
    """A place outside of the evidence for one of its files."""
    return next(up for up in path.parents if up.name == "evidence").parent / f"moved {path.name}"


@pytest.mark.parametrize("how", DAMAGE)
def test_every_file_damaged(attacked: Any, how: str) -> None:
    restore = saved(attacked)
    for name in [path.relative_to(attacked.evidence) for path in attacked.files()]:
        path = attacked.evidence / name
        others = sorted(path.parent.glob("*.seg"))
        DAMAGE[how](path)
        if how == "deleted" and len(others) > 1 and path == others[-1]:
            # What is left is whole: only who remembers the head, or met the log, can tell.
            assert attacked.verify().verdict == "broken"
        else:
            here, _, _ = nowhere_intact(attacked)
            assert here == "broken" or (how in LONGER and here == "incomplete"), (name, here)
        restore()
    assert attacked.verify().verdict == attacked.before


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file": lambda place: (place / "notes.txt").write_text("mine"),
    "an empty file": lambda place: (place / "x").touch(),
    "a hidden file": lambda place: (place / ".DS_Store").touch(),
    "a folder": lambda place: (place / "folder").mkdir(),
    "a link": lambda place: (place / "link").symlink_to("/etc/passwd"),
    "a dangling link": lambda place: (place / "link").symlink_to("nowhere"),
    "a pipe": lambda place: os.mkfifo(place / "pipe"),
    "a name that is no text": lambda place: (place / os.fsdecode(b"\xff\x1b[31m\n")).touch(),
    "a name like a segment": lambda place: (place / "0000000a.seg").touch(),
    "a segment of nine digits": lambda place: (place / "000000000.seg").touch(),
    "a temporary file": lambda place: (place / "00000000.seg.tmp").touch(),
    "a name like a log's": lambda place: (place / "0123456789abcdef").touch(),
    "an empty log": lambda place: (place / "0123456789abcdef").mkdir(),
    "a log of an empty segment": lambda place: (
        (place / "0123456789abcdef").mkdir(),
        (place / "0123456789abcdef" / "00000000.seg").touch(),
    ),
    "a link like a log": lambda place: (place / "0123456789abcdef").symlink_to("/usr"),
    "a pipe like a log": lambda place: os.mkfifo(place / "0123456789abcdef"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_something_foreign_is_added(valid: Any, what: str) -> None:
    restore = saved(valid)
    for place in (valid.evidence, valid.segments()[0].parent):
        FOREIGN[what](place)
        nowhere_intact(valid)
        for finding in valid.verify().findings:
            assert finding.where.isprintable()
            assert finding.where.encode()
        restore()


def test_a_changed_gitignore(valid: Any) -> None:
    ignore = valid.evidence / ".gitignore"
    for text in (b"", b"*", b"*\n\n", b"!*\n", b"* \n", b"*\n" * 40):
        ignore.write_bytes(text)
        assert nowhere_intact(valid)[0] == "broken"
        assert "CF-VERIFY-002" in codes(valid.verify())


def test_the_head_this_machine_remembers_is_damaged(valid: Any) -> None:
    (head,) = (valid.home / "heads").glob("*.json")
    head.write_bytes(b"{}")
    assert valid.verify().verdict == "cannot-tell"
    valid.record()  # and recording says why it does not go on
    assert FolderStore(valid.evidence).logs()
