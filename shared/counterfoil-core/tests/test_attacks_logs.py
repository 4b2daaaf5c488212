"""Segments swapped, dropped or cut and logs deleted, renamed or put back are found out."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forging import chunk, chunks, codes, item, nowhere_intact, saved
from targets import many_segments, two_logs

import counterfoil
from counterfoil import appending, keys, segments


def test_segments_swapped_duplicated_renumbered_dropped(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    many_segments(lab, monkeypatch)
    restore = saved(lab)
    names = [path.name for path in lab.segments()]
    folder = lab.segments()[0].parent
    moves: list[Callable[[], object]] = []
    for a, b in itertools.pairwise(names):
        moves.append(
            lambda a=a, b=b: (  # type: ignore[misc]
                (folder / a).rename(folder / "t"),
                (folder / b).rename(folder / a),
                (folder / "t").rename(folder / b),
            )
        )
        moves.append(lambda a=a, b=b: shutil.copy(folder / a, folder / b))  # type: ignore[misc]
    moves += [
        lambda: shutil.copy(folder / names[-1], folder / f"{len(names):08d}.seg"),
        lambda: shutil.copy(folder / names[0], folder / f"{len(names):08d}.seg"),
        lambda: (folder / f"{len(names):08d}.seg").touch(),
        lambda: (folder / names[-1]).rename(folder / f"{len(names):08d}.seg"),
        lambda: [(folder / name).rename(folder / f"{int(name[:8]) + 1:08d}.seg") for name in reversed(names)],
        lambda: (
            [(folder / names[0]).unlink()]
            + [(folder / name).rename(folder / f"{int(name[:8]) - 1:08d}.seg") for name in names[1:]]
        ),
        lambda: (folder / names[1]).unlink(),
        lambda: (folder / names[-1]).unlink(),
        lambda: (folder / names[1]).write_bytes(
            (folder / names[1]).read_bytes() + chunk(item(segments.BLOB, b"x"))
        ),
        lambda: (folder / names[1]).write_bytes((folder / names[1]).read_bytes() + chunk(b"")),
    ]
    for move in moves:
        move()
        here = lab.verify().verdict
        assert here in ("broken", "incomplete")
        with lab.at(lab.root / "stranger"):
            assert counterfoil.verify(lab.evidence).verdict != "intact"
        restore()
    assert lab.verify().verdict == "intact"


def test_a_log_cut_at_every_chunk(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the remembered head tells; where nothing is known of the log, nobody calls it intact."""
    lab.record(3)
    (path,) = lab.segments()
    data = path.read_bytes()
    for part in chunks(path)[:-1]:
        path.write_bytes(data[: part.end])
        assert lab.verify().verdict == "broken", part
        with lab.at(lab.root / "stranger"):
            assert counterfoil.verify(lab.evidence).verdict in ("cannot-tell", "broken")
    path.write_bytes(data)
    assert lab.verify().verdict == "intact"


def test_a_log_cut_in_the_middle_of_a_run_is_seen_everywhere(lab: Any, one_run: Any) -> None:
    """Even at a checkpoint: a clean stop would have ended the calls."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.open().checkpoint()
    recorder.flush()
    recorder.end(root)
    recorder.close()
    (path,) = lab.segments()
    data = path.read_bytes()
    cuts = [part.end for part in chunks(path) if next(segments.items(part, where="")).kind == segments.NOTE]
    assert len(cuts) >= 2
    path.write_bytes(data[: cuts[0]])
    assert nowhere_intact(lab)[:2] == ("broken", "incomplete")


def test_an_older_copy_put_back(lab: Any) -> None:
    lab.record()
    older = saved(lab)
    lab.record()
    older()
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-052"})
    # The next process does not go on with it.
    lab.record()
    after = lab.verify()
    assert after.verdict == "broken"
    assert after.counts["logs"] == 2


def test_an_older_copy_with_the_segments_in_between_made_anew(lab: Any) -> None:
    """Rolled back and continued by the same identity on another machine: the heads of both differ."""
    lab.record()
    older = saved(lab)
    lab.record()
    older()
    key = (lab.home / "identity.pem").read_bytes()
    with lab.at(lab.root / "twin"):
        keys.load_or_create_identity()
        (lab.root / "twin" / "identity.pem").write_bytes(key)
        (lab.root / "twin" / "keyring.json").unlink()
        keys.load_or_create_identity()
        for _ in range(3):
            lab.record(calls=0)
        assert lab.verify().verdict == "intact"
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-053"})


def cited_logs(evidence: Path) -> set[str]:
    """Logs whose checkpoint a session of another log cites."""
    sessions = [
        entry.body["context"] for entry in counterfoil.read(evidence).records() if entry.op == "session"
    ]
    return {one["log"] for context in sessions for one in context.get("seen", [])}


def test_a_log_deleted(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    two_logs(lab, monkeypatch)
    restore = saved(lab)
    cited = cited_logs(lab.evidence)
    assert cited
    for name in counterfoil.read(lab.evidence).logs():
        shutil.rmtree(lab.evidence / name)
        here, there = lab.verify(), lab.verify_elsewhere()
        assert here.verdict == "broken"
        assert "CF-VERIFY-003" in codes(here)
        assert ("CF-VERIFY-004" in codes(there)) == (name in cited)
        restore()
    shutil.rmtree(lab.evidence)
    lab.evidence.mkdir()
    assert lab.verify().verdict == "broken"


def test_a_cited_log_cut(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its witness is the other log: no machine needs to remember anything."""
    lab.record()
    recorder = lab.recorder()  # holds that log
    recorder.open()
    lab.record(calls=0)  # cites it
    recorder.close()
    (cited,) = cited_logs(lab.evidence)
    path = lab.evidence / cited / "00000000.seg"
    data = path.read_bytes()
    assert lab.verify_elsewhere().verdict == "intact"
    for part in chunks(path)[:-1]:
        path.write_bytes(data[: part.end])
        assert lab.verify_elsewhere().verdict == "broken"
        assert "CF-VERIFY-005" in codes(lab.verify_elsewhere())


def test_more_logs_than_a_session_can_name(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "SEEN_MAX", 2)
    recorders = [lab.recorder() for _ in range(5)]
    for recorder in recorders:
        recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
        recorder.flush()
    for recorder in recorders:
        recorder.close()
    lab.record(calls=0)
    assert lab.verify().verdict == "intact"
    last = max(counterfoil.read(lab.evidence).records(), key=lambda one: one.body["context"].get("at", 0)).log
    for name in counterfoil.read(lab.evidence).logs():
        if name != last:
            shutil.move(lab.evidence / name, lab.root / name)
            assert "CF-VERIFY-004" in codes(lab.verify_elsewhere())
            shutil.move(lab.root / name, lab.evidence / name)


def test_a_log_under_another_name(valid: Any) -> None:
    folder = valid.segments()[0].parent
    shutil.copytree(folder, folder.parent / "0123456789abcdef")
    assert nowhere_intact(valid)[:2] == ("broken", "broken")
    shutil.rmtree(folder)
    assert nowhere_intact(valid)[:2] == ("broken", "broken")


def test_a_log_of_other_evidence_copied_in(lab: Any) -> None:
    lab.record()
    other = lab.root / "other"
    lab.record(evidence=other)
    (name,) = counterfoil.read(other).logs()
    shutil.copytree(other / name, lab.evidence / name)
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-006"})
    # Moved as a whole it is simply in another place.
    assert lab.verify(other).verdict == "intact"
    shutil.rmtree(lab.evidence / name)
    shutil.move(other, lab.root / "moved")
    assert lab.verify(lab.root / "moved").verdict == "intact"


def test_a_log_of_another_identity_copied_in(lab: Any) -> None:
    lab.record()
    other = lab.root / "other"
    with lab.at(lab.root / "mallory"):
        lab.record(evidence=other)
    (name,) = counterfoil.read(other).logs()
    shutil.copytree(other / name, lab.evidence / name)
    assert nowhere_intact(lab)[:2] == ("cannot-tell", "cannot-tell")
