"""Evidence that is removed, moved or stolen while somebody writes into it: what is lost is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forging import codes
from losing import some, starts, wait

import counterfoil
from counterfoil import _locks, keys
from counterfoil.recorder import Recorder


def lose(lab: Any, how: Callable[[Path], object]) -> tuple[Recorder, list[str], list[str]]:
    """Something happens to the place of a writer; what it was given before and after."""
    recorder = lab.recorder()
    before = some(recorder)
    recorder.open().checkpoint()
    wait(lambda: recorder.flush() and recorder.open().last_checkpoint())
    how(lab.evidence)
    some(recorder, 1)
    recorder.flush()
    wait(lambda: recorder.open().ended or not recorder.open().gone)
    after = some(recorder)
    assert recorder.flush()
    recorder.close()
    assert set(after) <= starts(lab.evidence)
    return recorder, before, after


def test_the_whole_folder_is_removed(lab: Any) -> None:
    """It is begun anew, and says what stood there."""
    recorder, _, _ = lose(lab, shutil.rmtree)
    assert recorder.losses == 2
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("incomplete", {"CF-VERIFY-021"})
    assert result.counts["losses"] == 2
    assert [note.code for note in result.notes] == ["CF-VERIFY-060"]


def test_the_log_is_removed(lab: Any) -> None:
    recorder, _, _ = lose(lab, lambda place: [shutil.rmtree(path) for path in place.glob("*/")])
    assert recorder.losses == 2
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("broken", 1)
    assert "CF-VERIFY-003" in codes(result)


def test_the_segment_is_removed(lab: Any) -> None:
    lose(lab, lambda place: [path.unlink() for path in place.glob("*/*.seg")])
    result = lab.verify()
    assert result.verdict == "broken"


def test_the_segment_is_replaced_by_a_copy(lab: Any) -> None:
    def replace(place: Path) -> None:
        for path in place.glob("*/*.seg"):
            shutil.copy(path, path.with_suffix(".copy"))
            path.with_suffix(".copy").rename(path)

    recorder, before, _ = lose(lab, replace)
    assert recorder.losses == 2
    assert set(before) <= starts(lab.evidence)
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("incomplete", 1)


def test_the_folder_is_moved_away(lab: Any) -> None:
    """What was written into the moved one stays whole there; recording goes on where it was asked for."""
    recorder, before, _ = lose(lab, lambda place: place.rename(lab.root / "moved"))
    assert recorder.losses == 0
    assert set(before) <= starts(lab.root / "moved")
    # Its session was never closed: what came afterwards is elsewhere.
    assert {one.code for one in lab.verify(lab.root / "moved").findings} == {"CF-VERIFY-027"}
    result = lab.verify()
    assert (result.verdict, [note.code for note in result.notes]) == ("intact", ["CF-VERIFY-060"])


def test_a_file_stands_where_the_folder_was(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    recorder = lab.recorder()
    some(recorder)
    assert recorder.flush()
    shutil.rmtree(lab.evidence)
    lab.evidence.write_text("mine")
    some(recorder, 1)
    recorder.flush()
    some(recorder, 1)
    assert not recorder.flush()
    assert recorder.error is not None
    assert recorder.error.code == "CF-STORE-003"
    lab.evidence.unlink()
    made = some(recorder)
    recorder.close()
    assert set(made) <= starts(lab.evidence)
    assert lab.verify().counts["losses"] == recorder.losses == 4
    assert lab.verify().verdict == "incomplete"


def test_the_home_is_removed(lab: Any) -> None:
    """The identity is gone with it: what is written on is signed by it all the same, and nobody here knows it."""
    recorder = lab.recorder()
    some(recorder)
    assert recorder.flush()
    identity = recorder.open().identity
    shutil.rmtree(lab.home)
    made = some(recorder)
    recorder.close()
    assert recorder.losses == 0
    assert set(made) <= starts(lab.evidence)
    assert lab.verify().verdict == "cannot-tell"
    ring = keys.Keyring.of([identity.public])
    assert counterfoil.verify(lab.evidence, keyring=ring).verdict == "intact"


def test_a_home_that_another_process_holds_holds_nobody_up(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped while it held the home's lock: the head is not remembered, and the log says so."""
    monkeypatch.setattr("counterfoil.appending.PATIENCE", 0.1)
    recorder = lab.recorder(durability="call")
    some(recorder)
    assert recorder.flush()
    with _locks.locked():
        root = recorder.start("invoke_workflow", "app", actor=("app",), wait=True)
        recorder.end(root)
        assert recorder.flush(timeout=120)
        wait(lambda: recorder.open()._forgetful)
    recorder.close()
    assert root.start in starts(lab.evidence)
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("incomplete", {"CF-VERIFY-021"})


def test_a_lock_that_is_stolen_lets_nobody_into_an_open_log(lab: Any) -> None:
    """The lock's file is removed: the folder of the log is held as well."""
    first = lab.recorder()
    some(first)
    assert first.flush()
    for path in (lab.home / "locks").iterdir():
        path.unlink()
    second = lab.recorder()
    some(second)
    assert second.flush()
    assert second.open().log != first.open().log
    some(first)
    first.close()
    second.close()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("intact", 2)


def test_a_thread_that_cannot_start_leaves_the_log_free(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    lab.record()
    real = threading.Thread.start
    refused: list[threading.Thread] = []

    def start(self: threading.Thread) -> None:
        if len(refused) < 3:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    open_files = len(os.listdir("/proc/self/fd"))
    recorder = lab.recorder()
    for _ in range(3):
        assert some(recorder, 1) != []
    assert len(os.listdir("/proc/self/fd")) <= open_files + 3
    made = some(recorder)
    recorder.close()
    assert set(made) <= starts(lab.evidence)
    assert lab.verify().counts["logs"] == 1


def two_logs(lab: Any) -> str:
    """Evidence of two logs; the name of one that no other cites."""
    first, second = lab.recorder(), lab.recorder()
    some(first)
    some(second)
    assert first.flush()
    assert second.flush()
    first.close()
    second.close()
    cited = {
        one["log"]
        for entry in counterfoil.read(lab.evidence).records()
        if entry.op == "session"
        for one in entry.body["context"].get("seen", [])
    }
    return next(name for name in counterfoil.read(lab.evidence).logs() if name not in cited)


@pytest.mark.parametrize(
    "way", ["behind a link", "elsewhere", "behind two links", "its parent behind a link"]
)
def test_a_moved_folder_hides_no_deleted_log(lab: Any, way: str) -> None:
    lab.evidence = lab.root / "parent" / "evidence"
    name = two_logs(lab)
    moved = lab.root / "moved"
    place = lab.evidence
    if way == "elsewhere":
        place.rename(moved)
        place = moved
    elif way == "its parent behind a link":
        place.parent.rename(moved)
        place.parent.symlink_to(moved)
    else:
        place.rename(moved)
        if way == "behind two links":
            (lab.root / "link").symlink_to(moved)
            moved = lab.root / "link"
        place.symlink_to(moved)
    assert lab.verify(place).verdict == "intact"
    shutil.rmtree(place / name)
    result = lab.verify(place)
    assert result.verdict == "broken"
    assert "CF-VERIFY-003" in codes(result)
    lab.record(evidence=place)
    assert lab.verify(place).verdict == "broken"


def test_a_folder_behind_a_link_whose_only_log_was_deleted(lab: Any) -> None:
    lab.record()
    moved = lab.root / "moved"
    lab.evidence.rename(moved)
    lab.evidence.symlink_to(moved)
    shutil.rmtree(moved / counterfoil.read(moved).logs()[0])
    lab.record()
    assert "CF-VERIFY-003" in codes(lab.verify())


def test_a_part_that_was_copied_out_accuses_nobody(lab: Any) -> None:
    name = two_logs(lab)
    part = lab.root / "part"
    part.mkdir()
    (part / ".gitignore").write_bytes(b"*\n")
    (other,) = (one for one in counterfoil.read(lab.evidence).logs() if one != name)
    shutil.copytree(lab.evidence / name, part / name)
    assert other
    assert "CF-VERIFY-003" not in codes(lab.verify(part))
