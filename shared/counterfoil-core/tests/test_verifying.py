"""Verifying evidence of others, of several logs, and while somebody writes."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import Any

import pytest
from crafting import codes

import counterfoil
from counterfoil import checks, keys, verification
from counterfoil.stores import folder


def covered(recorder: Any) -> None:
    """All that was recorded stands under a checkpoint."""
    writer = recorder.open()
    writer.checkpoint()
    assert writer.flush()
    assert writer.last_checkpoint() is not None


def test_one_identity_may_hand_over_between_two_folders(lab: Any, one_run: Any) -> None:
    first, second = lab.root / "planner", lab.root / "writer"
    with counterfoil.open(first, actor="planner") as planner:
        one_run(planner.recorder)
        covered(planner.recorder)
        envelope = counterfoil.seal(planner, {"task": 1}, to="writer")
        assert b'"own"' in envelope.payload
        with counterfoil.open(second, actor="writer") as writer:
            counterfoil.accept(writer, envelope.to_bytes(), {"task": 1})
    assert lab.verify(first).verdict == "intact"
    assert (lab.verify(second).verdict, lab.verify(second).counts["handoffs"]) == ("intact", 1)


def two_logs(lab: Any, one_run: Any) -> tuple[str, str, Any]:
    """Names of two logs with a run each, and the first one's run."""
    one, two = lab.recorder(), lab.recorder()
    run = one_run(one).run.id
    one_run(two, number=1)
    one.flush()
    two.flush()
    names = (one.open().log, two.open().log)
    one.close()
    two.close()
    assert names[0] != names[1]
    return (*names, run)


def test_a_run_is_judged_by_its_log_alone(lab: Any, one_run: Any) -> None:
    _, other, run = two_logs(lab, one_run)
    result = lab.verify(run=run)
    assert (result.verdict, result.counts["logs"], result.counts["runs"]) == ("intact", 1, 1)
    path = lab.evidence / other / "00000000.seg"
    path.write_bytes(path.read_bytes() + b"torn")
    assert lab.verify().verdict == "incomplete"
    assert lab.verify(run=run).counts["logs"] == 1


def test_a_log_that_cannot_be_read_to_its_end_may_hold_any_run(lab: Any, one_run: Any) -> None:
    _, other, run = two_logs(lab, one_run)
    path = lab.evidence / other / "00000000.seg"
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    result = lab.verify(run=run)
    assert (result.verdict, result.counts["logs"]) == ("broken", 2)


def test_a_log_that_this_machine_remembers_longer_may_hold_any_run(lab: Any, one_run: Any) -> None:
    _, other, run = two_logs(lab, one_run)
    old = lab.root / "old"
    shutil.copytree(lab.evidence / other, old)
    while not (lab.evidence / other / "00000001.seg").exists():
        one, two = lab.recorder(), lab.recorder()
        for number, recorder in enumerate((one, two)):
            one_run(recorder, number=number + 5)
        one.close()
        two.close()
    shutil.rmtree(lab.evidence / other)
    shutil.copytree(old, lab.evidence / other)
    assert "CF-VERIFY-052" in codes(lab.verify(run=run))


def test_a_log_of_another_pinned_identity_is_told(lab: Any, one_run: Any) -> None:
    lab.record()
    theirs = lab.root / "theirs"
    with lab.at(lab.elsewhere):
        lab.record(evidence=theirs)
        peer = keys.load_identity()
        own = lab.verify(theirs)
    assert peer is not None
    assert (own.verdict, own.notes) == ("intact", [])
    assert lab.verify().notes == []
    (name,) = counterfoil.read(theirs).logs()
    shutil.copytree(theirs / name, lab.evidence / name)
    mine = keys.load_identity()
    assert mine is not None
    result = lab.verify(keyring=keys.Keyring.of([mine.public, peer.public]))
    assert (result.verdict, [note.code for note in result.notes]) == (
        "intact",
        ["CF-VERIFY-061", "CF-VERIFY-062"],
    )
    assert peer.keyid[:16] in result.notes[0].message
    with lab.at(lab.root / "nobody"):
        ring = keys.Keyring.of([mine.public, peer.public])
        codes = [note.code for note in counterfoil.verify(lab.evidence, keyring=ring).notes]
        assert set(codes) == {
            "CF-VERIFY-062"
        }  # no identity here, so nobody else's either; no end is remembered


def test_what_is_written_meanwhile_is_no_damage(
    lab: Any, one_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log read first goes on, and a session in a third one cites what it says now."""
    recorders = sorted((lab.recorder(), lab.recorder()), key=lambda one: one.open().log)
    for number, recorder in enumerate(recorders):
        one_run(recorder, number=number)
        recorder.flush()
    recorders[1].close()
    check, passed = checks.LogCheck.run, []

    def meanwhile(self: checks.LogCheck) -> Any:
        found = check(self)
        passed.append(self.name)
        if len(passed) == 1:
            one_run(recorders[0], number=7)
            covered(recorders[0])
            lab.record()
        return found

    monkeypatch.setattr(checks.LogCheck, "run", meanwhile)
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("intact", [])
    assert len(passed) == 4


def test_a_log_begun_after_the_heads_were_read_is_not_missed(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.record()
    remembered = keys.remembered_heads

    def late() -> Any:
        monkeypatch.setattr(keys, "remembered_heads", remembered)
        lab.record()
        return remembered()

    monkeypatch.setattr(keys, "remembered_heads", late)
    monkeypatch.setattr(verification, "_AGAIN", 0)
    result = lab.verify()
    assert (result.verdict, result.counts["runs"]) == ("intact", 2)


def test_evidence_that_never_rests_is_read_four_times(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()
    (path,) = lab.segments()
    once, times = verification.examine, []

    def touched(*arguments: Any) -> Any:
        times.append(arguments)
        path.write_bytes(path.read_bytes() + b"x")
        return once(*arguments)

    monkeypatch.setattr(verification, "examine", touched)
    assert (lab.verify().verdict, len(times)) == ("incomplete", 4)
    monkeypatch.setattr(
        verification, "examine", lambda *arguments: times.append(arguments) or once(*arguments)
    )
    assert (lab.verify().verdict, len(times)) == ("incomplete", 5)


def test_where_no_end_is_remembered_a_cut_tail_is_said_to_be_invisible(lab: Any) -> None:
    for _ in range(2):
        lab.record()
    (log_folder,) = [path for path in lab.evidence.iterdir() if path.is_dir()]
    assert lab.verify().notes == []
    (log_folder / "00000001.seg").unlink()
    here, elsewhere = lab.verify(), lab.verify_elsewhere()
    assert (here.verdict, [one.code for one in here.findings]) == ("broken", ["CF-VERIFY-052"])
    assert (elsewhere.verdict, [one.code for one in elsewhere.notes]) == ("intact", ["CF-VERIFY-062"])
    assert "a checkpoint held elsewhere" in elsewhere.notes[0].hint


def test_a_segment_that_may_not_be_read_cannot_be_judged(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()

    real = folder._open_regular

    def refuse(path: Path) -> Any:
        if path.suffix == ".seg":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(folder, "_open_regular", refuse)
    result = lab.verify()
    assert "CF-STORE-006" in {one.code for one in result.findings}
    assert all(one.verdict == "cannot-tell" for one in result.findings if one.code == "CF-STORE-006")


def test_a_log_that_is_just_beginning(lab: Any) -> None:
    """Its writer holds the lock, and nothing of its first group is on disk."""
    lab.record()
    identity = keys.load_identity()
    assert identity is not None
    name = "ab" * 8
    (lab.evidence / name).mkdir(mode=0o700)
    (lab.evidence / name / "00000000.seg").touch(mode=0o600)
    with open(keys.prepare_lock(f"{identity.keyid}/{name}"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert (lab.verify().verdict, lab.verify().findings) == ("intact", [])
    result = lab.verify()
    assert (result.verdict, [one.code for one in result.findings]) == ("incomplete", ["CF-VERIFY-024"])
