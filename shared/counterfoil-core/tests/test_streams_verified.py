"""Streams that are verified: in order, side by side, in bundles; read once; and what a wrong one costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_side_by_side import Counted, same

import counterfoil
from counterfoil import appending, frames, parts, records, stored, streams
from counterfoil.engines import work
from counterfoil.recorder import Call, Recorder
from counterfoil.stream_reading import frames_of

TEXT = frames.channel(0, "text")


def talk(recorder: Recorder, pieces: int = 600, *, root: Call | None = None, end: bool = True) -> Call:
    call = recorder.start("chat", "m", actor=("a",), parent=root)
    stream = recorder.stream(call)
    for number in range(pieces):
        stream.add(TEXT, f"{number} ")
    if end:
        recorder.end(call, response=recorder.value("x" * pieces))
    return call


@pytest.fixture
def long(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of many segments, with streams inside them and one that goes through all of them."""
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 1000)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "w", actor=("w",))
    whole = recorder.start("chat", "m", actor=("w",), parent=root)
    for number in range(8):
        for piece in range(300):
            recorder.stream(whole).add(TEXT, f"{number} {piece} ")
        recorder.end(
            recorder.start("step", "s", actor=("w",), parent=root, request=recorder.value({"n": number}))
        )
        if number % 2:
            talk(recorder, 20, root=root)
        recorder.open().checkpoint()
        assert recorder.flush()
    recorder.end(whole)
    for _ in range(4):
        talk(recorder, root=root)
        recorder.open().checkpoint()
        assert recorder.flush()
    recorder.end(root)
    recorder.close()
    evidence: Path = lab.evidence
    assert len(list(evidence.rglob("*.seg"))) > 8
    return evidence


def test_side_by_side_is_as_in_order(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    alone: list[bool] = []
    check = parts.check_part
    monkeypatch.setattr(
        work, "check_part", lambda task, told: [one := check(task, told), alone.append(one is not None)][0]
    )
    assert same(long).findings == []
    assert counted.taken == sum(alone) > 0  # segments whose streams are their own
    assert len(alone) > sum(alone)  # and those through which one goes


def test_side_by_side_finds_the_same_faults(long: Path, monkeypatch: pytest.MonkeyPatch, lab: Any) -> None:
    monkeypatch.setattr(frames.Running, "stated", _lying(frames.Running.stated))
    recorder = lab.recorder()
    talk(recorder, 10)
    talk(recorder, 400)
    recorder.close()
    monkeypatch.undo()
    monkeypatch.setenv("COUNTERFOIL_HOME", str(lab.home))
    Counted(monkeypatch)
    found = same(long)
    assert [one.code for one in found.findings] == ["CF-VERIFY-013"] * 2
    assert found.verdict == "broken"


def _lying(stated: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    return lambda self: {**stated(self), "timing": "0" * 64}


def test_each_part_is_read_as_it_passes(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a long stream is looked for again on the disk."""
    recorder = lab.recorder()
    talk(recorder, 256 * 60)
    recorder.close()

    def refused(*_: Any) -> bytes:
        raise AssertionError("read again")

    monkeypatch.setattr(stored, "_HELD", 20_000)
    with monkeypatch.context() as patched:
        # The list of the parts is the only thing that stands farther back.
        again: list[int] = []
        read = stored.read_blob
        patched.setattr(stored, "read_blob", lambda *given: again.append(1) or read(*given))
        assert lab.verify().verdict == "intact"
        assert len(again) == 1


def test_parts_that_are_no_longer_at_hand_are_read_again(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = lab.recorder()
    first = talk(recorder, 200, end=False)
    monkeypatch.setattr(streams, "FRAMES", 100)
    recorder.stream(first).checkpoint()
    talk(recorder, 200)
    recorder.end(first)
    recorder.close()
    monkeypatch.setattr(stored, "_HELD", 0)
    assert lab.verify().verdict == "intact"


def test_only_what_states_a_stream_is_looked_at(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.record(3)

    def refused(*_: Any) -> str:
        raise AssertionError("looked at")

    monkeypatch.setattr("counterfoil.stream_checks.StreamCheck.fault", refused)
    assert lab.verify().verdict == "intact"


def test_a_bundle_holds_the_streams_of_its_run(lab: Any) -> None:
    recorder = lab.recorder()
    talk(recorder, 10)
    talk(recorder, 256 * 40)
    talk(recorder, 300)
    recorder.close()
    for number, count in enumerate((10, 256 * 40, 300)):
        run = counterfoil.read(lab.evidence).runs()[number].id
        target = lab.root / f"{number}.bundle"
        counterfoil.bundle(lab.evidence, target, run=run)
        assert counterfoil.verify(target).verdict == "intact"
        reader = counterfoil.read(target)
        (view,) = reader.calls()
        assert [data.decode() for _, data, _ in frames_of(reader, view)] == [f"{n} " for n in range(count)]


def test_a_stream_that_was_not_kept_reads_as_nothing(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_PARTS", 0)
    recorder = lab.recorder()
    talk(recorder, 10)
    recorder.close()
    assert lab.verify().verdict == "intact"
    reader = counterfoil.read(lab.evidence)
    (view,) = reader.calls()
    assert list(frames_of(reader, view)) == []


def test_what_is_told_in_two_segments_is_told_once(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is told again in another segment, wrongly: in order or side by side, nobody looks at it twice."""
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 1000)
    recorder = lab.recorder()
    for lies in (False, True, True):
        with monkeypatch.context() as patched:
            if lies:
                patched.setattr(frames.Running, "stated", _lying(frames.Running.stated))
            call = recorder.start("chat", "m", actor=("a",), id="c" * 32)
            for number in range(600):
                recorder.stream(call).add(TEXT, f"{number} ")
            recorder.end(call, response=recorder.value("x" * 2000))
        recorder.open().checkpoint()
        assert recorder.flush()
        lab.record(1)
        for number in range(20):
            recorder.end(
                recorder.start("chat", str(number), actor=("a",), request=recorder.value({"n": number}))
            )
        assert recorder.flush()
    recorder.close()
    assert len(list(lab.evidence.rglob("*.seg"))) > 3
    Counted(monkeypatch)
    assert same(lab.evidence).verdict == "intact"


@pytest.mark.parametrize("kept", [True, False])
def test_a_stream_that_ends_in_a_segment_of_its_own_is_open_no_more(
    kept: bool, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end, with parts or without, is checked elsewhere; a checkpoint behind it is passed over all the same."""
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 1000)
    if not kept:
        monkeypatch.setattr(streams, "MOST_PARTS", 1)
    recorder = lab.recorder()

    def fill() -> None:
        assert recorder.flush()
        for number in range(20):
            recorder.end(
                recorder.start("chat", str(number), actor=("a",), request=recorder.value({"n": number}))
            )
            recorder.open().checkpoint()
        assert recorder.flush()

    call = recorder.start("chat", "m", actor=("a",))
    for number in range(frames.FRAMES + 1):
        recorder.stream(call).add(TEXT, f"{number} ")
    fill()
    recorder.end(call)
    fill()
    part = {"media": "application/octet-stream", "sha256": "0" * 64, "size": 1}
    said = {"call": call.id, "frames": {"count": 1, "sha256": "0" * 64}, "number": 5, "part": part, "v": 1}
    assert recorder.open().entry(
        records.build({"name": "m", "op": "stream", "phase": "point"}, {"at": records.now(), "stream": said})
    )
    fill()
    recorder.close()
    Counted(monkeypatch)
    found = same(lab.evidence)
    assert "CF-VERIFY-013" not in [one.code for one in found.findings]
