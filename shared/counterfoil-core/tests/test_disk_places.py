"""Places that cannot be used: files in the way, folders that nobody may write, homes that are none."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from forging import codes
from losing import workflow

import counterfoil
from counterfoil import keys, writer
from counterfoil.errors import ConfigError, CounterfoilError, StoreError
from counterfoil.recorder import Recorder


def refused(recorder: Recorder) -> CounterfoilError:
    """Recording goes on without a log and without an error; opening tells why."""
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value("x" * 500))
    recorder.end(root)
    assert recorder.flush() is False
    assert recorder.losses == 2
    assert recorder.error is not None
    with pytest.raises(CounterfoilError) as caught:
        recorder.open()
    assert caught.value.code == recorder.error.code
    assert caught.value.hint
    recorder.close()
    return recorder.error


def test_the_evidence_is_a_file(lab: Any) -> None:
    lab.evidence.write_text("mine")
    assert refused(lab.recorder()).code == "CF-STORE-003"
    assert lab.evidence.read_text() == "mine"
    with pytest.raises(StoreError) as caught:
        lab.verify()
    assert caught.value.code == "CF-STORE-003"


def test_a_file_stands_in_the_way_of_the_folder(lab: Any) -> None:
    lab.evidence.write_text("mine")
    assert refused(lab.recorder(lab.evidence / "below")).code.startswith("CF-STORE-00")


def test_a_folder_that_cannot_be_written(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert refused(lab.recorder()).code == "CF-STORE-006"
    assert lab.verify().verdict == "intact"


def test_a_folder_on_a_read_only_disk(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record()
    real = os.open

    def read_only(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if str(path).endswith(".seg") and flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(writer, "RETRY", 0.05)
    recorder = lab.recorder()
    workflow(recorder, 1)
    assert not recorder.flush()
    assert recorder.open().error.code == "CF-STORE-005"
    recorder.close()
    assert recorder.losses == 4
    assert lab.verify().verdict == "intact"


def test_an_identity_key_that_others_can_read(lab: Any) -> None:
    keys.load_or_create_identity()
    (lab.home / "identity.pem").chmod(0o644)
    assert refused(lab.recorder()).code == "CF-KEYS-006"
    assert not lab.evidence.exists()


def test_a_home_that_is_a_file(lab: Any) -> None:
    lab.home.write_text("mine")
    assert refused(lab.recorder()).code == "CF-KEYS-003"


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        ("", "CF-CONFIG-011"),
        ("gs://bucket/prefix", "CF-CONFIG-010"),
        ("a\x00b", "CF-CONFIG-012"),
    ],
)
def test_paths_that_are_none(lab: Any, evidence: str, code: str) -> None:
    assert refused(Recorder(evidence)).code == code
    with pytest.raises(ConfigError) as caught:
        counterfoil.read(evidence)
    assert caught.value.code == code


def test_a_place_that_becomes_usable(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.intake._REOPEN", 0.0)
    lab.evidence.write_text("in the way")
    recorder = lab.recorder()
    value = {"text": "x" * 1000, "more": ["y" * 1000]}
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value(value))
    step = recorder.start("step", "node", actor=("node",), parent=root, request=recorder.value(value))
    lab.evidence.unlink()
    other = recorder.start(
        "step",
        "other",
        actor=("node",),
        parent=root,
        request=recorder.value(value),
        parents=[("control", step)],
    )
    recorder.handoff(
        senders=[("node",)],
        to=("other",),
        signer=("node",),
        kind="edge",
        basis="observed",
        payload=recorder.value(value),
        parents=[("control", step)],
        run=root.run,
    )
    recorder.end(step, response=recorder.value(value))
    recorder.end(other)
    recorder.end(root)
    recorder.close()
    result = lab.verify()
    assert result.verdict == "incomplete"
    assert codes(result) == {"CF-VERIFY-021"}
    reader = counterfoil.read(lab.evidence)
    assert [call.name for call in reader.calls()] == ["other"]
    assert reader.value(reader.calls()[0].request) == value


def test_a_log_that_cannot_be_read_is_left_alone(lab: Any) -> None:
    lab.record()
    segment = lab.segments()[0]
    data = segment.read_bytes()
    segment.unlink()
    segment.mkdir()
    lab.record()
    assert len(counterfoil.read(lab.evidence).logs()) == 2
    segment.rmdir()
    segment.write_bytes(data)
    assert lab.verify().verdict == "intact"


def test_nothing_is_left_behind_when_an_opening_is_cut(lab: Any) -> None:
    """What a kill leaves of the very first steps: a folder, an empty .gitignore, a log without a segment."""
    lab.evidence.mkdir(mode=0o700)
    assert lab.verify().verdict == "cannot-tell"
    (lab.evidence / ".gitignore").write_bytes(b"*")
    lab.record()
    assert lab.verify().verdict == "intact"
    (lab.evidence / ("ab" * 8)).mkdir()
    result = lab.verify()
    assert (result.verdict, codes(result)) == ("incomplete", {"CF-VERIFY-024"})
    for size in (0, 5, 16, 40):
        empty = lab.evidence / ("ab" * 8) / "00000000.seg"
        empty.write_bytes(lab.segments()[0].read_bytes()[:size])
        assert lab.verify().verdict == "incomplete"
