"""Which files a tree of weights has, the root over them, and what has no place in one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.errors import CounterfoilError, WeightsError
from counterfoil.weights import adding, hashing, listing, remembered, walking

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "vectors/outside/model-signing/roots.json").read_text(encoding="utf-8")
)


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


@pytest.fixture
def tree(lab: Any, tmp_path: Path) -> Path:
    """A small tree, and a home that remembers nothing."""
    return fill(tmp_path / "model", {"config.json": "{}", "sub/a.bin": "a" * 5000, "sub/b.bin": "b" * 70000})


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def problems(path: Path, **more: Any) -> dict[str, str]:
    return {one.name: one.code for one in adding.take(path, **more).problems}


# -- the root ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["name"]))
def test_roots_and_order_are_those_of_model_signing(case: dict[str, Any], lab: Any, tmp_path: Path) -> None:
    folder = fill(tmp_path / "model", case["files"])
    for name, target in case.get("links", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
    single = case.get("single")
    taken = adding.take(folder / single if single else folder, without=walking.GIT)
    assert taken.problems == []
    assert taken.root == case["root"]
    assert [one.name for one in taken.files] == ([single] if single else case["order"])


def test_a_file_is_known_by_the_digest_of_its_bytes(tree: Path) -> None:
    taken = adding.take(tree)
    assert {one.name: (one.sha256, one.size) for one in taken.files} == {
        "config.json": (sha256(b"{}"), 2),
        "sub/a.bin": (sha256(b"a" * 5000), 5000),
        "sub/b.bin": (sha256(b"b" * 70000), 70000),
    }


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_any_number_of_threads_finds_the_same(threads: int, lab: Any, tmp_path: Path) -> None:
    folder = fill(tmp_path / "m", {f"{number:03d}": str(number) * number for number in range(60)})
    heard: list[int] = []
    taken = adding.take(folder, threads=threads, told=lambda size, total: heard.append(size))
    assert [one.sha256 for one in taken.files] == [
        sha256((str(number) * number).encode()) for number in range(60)
    ]
    assert sum(heard) == sum(one.size for one in taken.files)


def test_pieces_make_the_same_digest_as_the_whole(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "PIECE", 7)
    assert {one.name: one.sha256 for one in adding.take(tree).files}["sub/b.bin"] == sha256(b"b" * 70000)


def test_a_sparse_file_is_hashed_as_the_zeros_it_reads_as(lab: Any, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    with open(folder / "sparse", "wb") as file:
        file.truncate(3_000_001)
        file.seek(1_500_000)
        file.write(b"x")
    (one,) = adding.take(folder).files
    assert one.sha256 == sha256((folder / "sparse").read_bytes())


# -- what is left out, what has no place ------------------------------------------------------------------------------


def test_what_is_left_out_is_left_out_with_all_below_it(tree: Path) -> None:
    os.mkfifo(tree / "sub/pipe")
    assert [one.name for one in adding.take(tree, without=["sub"]).files] == ["config.json"]
    names = [one.name for one in adding.take(tree, without=["sub/pipe", "b.bin"]).files]
    assert names == ["config.json", "sub/a.bin", "sub/b.bin"]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


ODD: list[tuple[str, Callable[[Path], None], str]] = [
    ("a pipe", lambda path: os.mkfifo(path), "CF-WEIGHTS-002"),
    ("a socket", _socket, "CF-WEIGHTS-002"),
    ("a link out of the tree", _link("../outside"), "CF-WEIGHTS-004"),
    ("a link to an absolute place", _link("/etc/hostname"), "CF-WEIGHTS-004"),
    ("a link to a device", _link("/dev/zero"), "CF-WEIGHTS-004"),
    ("a link to nowhere", _link("missing"), "CF-WEIGHTS-004"),
    ("a link to itself", _link("odd"), "CF-WEIGHTS-004"),
    ("a link to the folder it is in", _link("."), "CF-WEIGHTS-004"),
    ("a link to another folder", _link("sub"), "CF-WEIGHTS-004"),
    ("a link by way of outside", _link("../outside-link"), "CF-WEIGHTS-004"),
]


@pytest.mark.parametrize(("what", "make", "code"), ODD, ids=[one[0] for one in ODD])
def test_what_has_no_place_in_a_tree_is_named(
    what: str,
    make: Callable[[Path], None],
    code: str,
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside").write_text("x")
    (tmp_path / "outside-link").symlink_to("outside")
    make(tree / "odd")
    assert problems(tree) == {"odd": code}
    with pytest.raises(WeightsError) as caught:
        adding.add(tree, evidence=tmp_path / "evidence")
    assert (caught.value.code, caught.value.where) == (code, "odd")
    assert not (tmp_path / "evidence").exists()


def test_a_name_that_is_not_utf8_is_refused_and_shown(tree: Path) -> None:
    (tree / os.fsdecode(b"\xff\xfe.bin")).write_text("x")
    assert problems(tree) == {"\\udcff\\udcfe.bin": "CF-WEIGHTS-003"}


def test_several_problems_are_told_by_the_first_and_their_number(tree: Path, tmp_path: Path) -> None:
    for name in ("x1", "x2", "x3"):
        os.mkfifo(tree / name)
    with pytest.raises(WeightsError, match=r"CF-WEIGHTS-002: .* \(and 2 more problems\) \(x1\)"):
        adding.add(tree, evidence=tmp_path / "evidence")


def test_an_empty_tree_is_none(lab: Any, tmp_path: Path) -> None:
    (tmp_path / "m/folder/in/folder").mkdir(parents=True)
    for path in (tmp_path / "m", fill(tmp_path / "n", {".git/HEAD": "x"})):
        with pytest.raises(WeightsError) as caught:
            adding.add(path, evidence=tmp_path / "evidence")
        assert caught.value.code == "CF-WEIGHTS-007"


@pytest.mark.parametrize("path", ["missing", "config.json/x", "nul\0byte"])
def test_a_path_that_is_none_is_refused(path: str, tree: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        walking.walk(tree / path)
    assert caught.value.code == "CF-WEIGHTS-001"


def test_a_device_alone_is_refused() -> None:
    with pytest.raises(WeightsError) as caught:
        walking.walk("/dev/zero")
    assert caught.value.code == "CF-WEIGHTS-002"


def test_folders_too_deep_and_files_too_many_are_refused(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "m"
    (deep / "/".join("d" * 129)).mkdir(parents=True)
    monkeypatch.setattr(walking, "_MOST", 3)
    many = fill(tmp_path / "n", dict.fromkeys("abcd", "x"))
    for path in (deep, many):
        with pytest.raises(WeightsError) as caught:
            walking.walk(path)
        assert caught.value.code == "CF-WEIGHTS-009"


def test_a_link_that_is_named_itself_is_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("model")
    (tmp_path / "alone.gguf").symlink_to("model/config.json")
    assert adding.take(tmp_path / "link").root == adding.take(tree).root
    (one,) = adding.take(tmp_path / "alone.gguf").files
    assert (one.name, one.sha256) == ("alone.gguf", sha256(b"{}"))


# -- the layout of a hub's cache --------------------------------------------------------------------------------------


@pytest.fixture
def snapshot(lab: Any, tmp_path: Path) -> Path:
    """What a Hugging Face cache looks like."""
    hub = tmp_path / "hub/models--org--name"
    fill(hub, {"blobs/0a": "first", "blobs/0b": "second", "refs/main": "c0ffee", "other": "x"})
    place = hub / "snapshots/c0ffee"
    (place / "sub").mkdir(parents=True)
    (place / "config.json").symlink_to("../../blobs/0a")
    (place / "sub/model.bin").symlink_to("../../../blobs/0b")
    return place


def test_links_of_a_snapshot_are_followed_into_its_blobs(snapshot: Path) -> None:
    taken = adding.take(snapshot)
    assert taken.problems == []
    assert [(one.name, one.sha256) for one in taken.files] == [
        ("config.json", sha256(b"first")),
        ("sub/model.bin", sha256(b"second")),
    ]
    assert walking.default_name(snapshot) == "org/name"
    assert walking.default_source(snapshot) == {"repo": "org/name", "revision": "c0ffee"}
    assert walking.default_source(snapshot.parent) is None


def test_links_of_a_snapshot_go_nowhere_else(snapshot: Path) -> None:
    (snapshot / "other").symlink_to("../../other")
    (snapshot / "refs").symlink_to("../../refs/main")
    assert problems(snapshot) == {"other": "CF-WEIGHTS-004", "refs": "CF-WEIGHTS-004"}


def test_a_link_in_the_place_of_the_blobs_opens_nothing(snapshot: Path, tmp_path: Path) -> None:
    blobs = snapshot.parent.parent / "blobs"
    blobs.rename(tmp_path / "elsewhere")
    blobs.symlink_to(tmp_path / "elsewhere")
    assert set(problems(snapshot).values()) == {"CF-WEIGHTS-004"}


# -- what changes meanwhile, what cannot be read ----------------------------------------------------------------------


def at_first_byte(do: Callable[[], None]) -> Callable[[int, int], None]:
    """Something that happens once, when the first bytes were read."""
    done = threading.Event()

    def told(size: int, total: int) -> None:
        if not done.is_set():
            done.set()
            do()

    return told


CHANGES: list[tuple[str, Callable[[Path], Any], str]] = [
    ("a byte of a file", lambda tree: (tree / "sub/b.bin").write_bytes(b"c" * 70000), "sub/b.bin"),
    ("a file that grows", lambda tree: (tree / "sub/b.bin").write_bytes(b"b" * 70001), "sub/b.bin"),
    ("a file that shrinks", lambda tree: (tree / "sub/b.bin").write_bytes(b"b"), "sub/b.bin"),
    (
        "a file that is replaced",
        lambda tree: shutil.move(fill(tree.parent, {"n": "b" * 70000}) / "n", tree / "sub/b.bin"),
        "sub/b.bin",
    ),
    ("a file that goes", lambda tree: (tree / "sub/a.bin").unlink(), "sub/a.bin"),
    ("a file that comes", lambda tree: (tree / "new").write_text("x"), "new"),
    ("a pipe that comes", lambda tree: os.mkfifo(tree / "new"), "new"),
    ("a file that was hashed already", lambda tree: os.utime(tree / "sub/b.bin"), "sub/b.bin"),
]


@pytest.mark.parametrize(("what", "change", "name"), CHANGES, ids=[one[0] for one in CHANGES])
def test_what_changes_while_it_is_hashed_is_noticed(
    what: str, change: Callable[[Path], Any], name: str, tree: Path
) -> None:
    found = problems(tree, threads=1, told=at_first_byte(lambda: change(tree)))
    assert found == {name: "CF-WEIGHTS-006"}


def test_a_link_that_is_turned_meanwhile_is_noticed(tree: Path) -> None:
    link = tree / "link"
    link.symlink_to("config.json")

    def turn() -> None:
        link.unlink()
        link.symlink_to("sub/a.bin")

    assert problems(tree, threads=1, told=at_first_byte(turn)) == {"link": "CF-WEIGHTS-006"}


def test_a_file_that_grows_for_ever_is_not_read_for_ever(tree: Path) -> None:
    path = tree / "sub/b.bin"

    def more(size: int, total: int) -> None:
        with open(path, "ab") as file:
            file.write(b"b" * hashing.PIECE)

    assert problems(tree, threads=1, told=more)["sub/b.bin"] == "CF-WEIGHTS-006"


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EACCES, "CF-WEIGHTS-005"), (errno.EIO, "CF-WEIGHTS-005"), (errno.ENOENT, "CF-WEIGHTS-006")],
)
def test_a_file_that_cannot_be_read_is_named(
    number: int, code: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A test may run as root, whom no permission stops.
    real = os.open

    def refuse(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith("a.bin"):
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **more)

    monkeypatch.setattr(hashing.os, "open", refuse)
    assert problems(tree) == {"sub/a.bin": code}


def test_a_folder_that_cannot_be_read_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("sub"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path)

    monkeypatch.setattr(walking.os, "scandir", refuse)
    assert problems(tree) == {"sub": "CF-WEIGHTS-005"}


def test_what_a_listener_raises_ends_all_threads(lab: Any, tmp_path: Path) -> None:
    folder = fill(tmp_path / "m", {str(number): "x" * 1000 for number in range(50)})

    def told(size: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adding.take(folder, threads=3, told=told)
    assert [one.name for one in threading.enumerate() if one.name.startswith("counterfoil-hash")] == []


# -- digests that are remembered --------------------------------------------------------------------------------------


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are remembered too, and at once."""
    monkeypatch.setattr(remembered, "LEAST", 1000)
    monkeypatch.setattr(remembered, "SETTLED", -60.0)


def again(tree: Path, **more: Any) -> dict[str, bool]:
    return {one.name: one.facts.get("cached", False) for one in adding.take(tree, **more).files}


@pytest.mark.usefixtures("eager")
def test_large_files_that_did_not_change_are_not_read_again(tree: Path) -> None:
    first = adding.take(tree, cached=True)
    assert (first.cached, first.problems) == (0, [])
    assert again(tree, cached=True) == {"config.json": False, "sub/a.bin": True, "sub/b.bin": True}
    assert again(tree) == {"config.json": False, "sub/a.bin": False, "sub/b.bin": False}
    assert adding.take(tree, cached=True).root == first.root


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("change", ["bytes", "times back", "inode", "size"])
def test_a_file_that_changed_in_any_way_is_read_again(change: str, tree: Path) -> None:
    adding.take(tree)
    path = tree / "sub/b.bin"
    before = path.stat()
    if change == "inode":
        shutil.copy2(path, tree / "copy")
        (tree / "copy").rename(path)
    elif change == "size":
        path.write_bytes(b"b" * 70001)
    else:
        path.write_bytes(b"c" * 70000)
    if change == "times back":  # what a forger does; ctime tells
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    taken = adding.take(tree, cached=True)
    (found,) = [one for one in taken.files if one.name == "sub/b.bin"]
    assert (found.sha256, found.facts) == (sha256(path.read_bytes()), {})


def test_a_file_that_changed_just_now_is_not_remembered(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "LEAST", 1000)
    adding.take(tree)
    assert not any(again(tree, cached=True).values())


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"sha256":"' + "0" * 64 + '"}', "\xff", "x" * 5000], ids=range(7)
)
def test_a_damaged_note_costs_time_and_nothing_else(text: str, tree: Path, lab: Any) -> None:
    first = adding.take(tree)
    notes = list((lab.home / "hashed").iterdir())
    assert len(notes) == 2
    for note in notes:
        note.write_text(text, encoding="latin-1")
    assert adding.take(tree, cached=True) == first


@pytest.mark.usefixtures("eager")
def test_what_was_hashed_before_an_interruption_is_kept(tree: Path) -> None:
    heard: list[int] = []

    def told(size: int, total: int) -> None:
        heard.append(size)
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adding.take(tree, threads=1, told=told)
    assert again(tree, cached=True) == {"config.json": False, "sub/a.bin": False, "sub/b.bin": True}


# -- lists ------------------------------------------------------------------------------------------------------------


def test_a_list_is_read_as_it_was_written(tree: Path) -> None:
    files = adding.take(tree, described=True).files
    assert listing.load(listing.dump(files)) == files


def test_a_list_that_is_too_long_is_not_made(monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    monkeypatch.setattr(listing, "MAX_LIST", 100)
    with pytest.raises(WeightsError) as caught:
        listing.dump(adding.take(tree).files)
    assert caught.value.code == "CF-WEIGHTS-008"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[1]", b"[ ]", b'[{"name":"a"}]', b"\xff", b"[" * 100])
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(CounterfoilError) as caught:
        listing.load(data)
    assert caught.value.code == "CF-WEIGHTS-020"
