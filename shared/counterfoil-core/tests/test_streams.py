"""Streams as adapters give them: digests that hold, checkpoints in the log, an end for every one of them."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from losing import wait

import counterfoil
from counterfoil import frames, streams
from counterfoil.reader import Reader
from counterfoil.recorder import Call, Recorder
from counterfoil.stream_reading import frames_of
from counterfoil.views import CallView

TEXT = frames.channel(0, "text")


def begin(recorder: Recorder, name: str = "m") -> Call:
    return recorder.start("chat", name, actor=("a",), request=recorder.value("asked"))


def said(call: CallView) -> dict[str, Any]:
    assert call.end is not None
    found: dict[str, Any] = call.end.body["context"]["stream"]
    return found


def read(lab: Any) -> Reader:
    result = lab.verify()
    assert (result.verdict, result.findings) == ("intact", [])
    return counterfoil.read(lab.evidence)


def points(reader: Reader) -> list[dict[str, Any]]:
    return [one.body["context"]["stream"] for one in reader.records() if one.op == "stream"]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1000, 40 * 256])
def test_what_was_said_is_stated_and_kept(lab: Any, count: int) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    assert recorder.stream(call) is stream
    pieces = [f"piece {number} ☃" for number in range(count)]
    for piece in pieces:
        stream.add(TEXT, piece)
        stream.add(TEXT, "")
    recorder.end(call, response=recorder.value("".join(pieces)))
    recorder.close()
    reader = read(lab)
    (view,) = reader.calls()
    whole = "".join(pieces).encode()
    stated = said(view)
    assert stated["content"] == ({TEXT: sha256(whole)} if count else {})
    assert (stated["frames"]["count"], stated["bytes"], stated["end"]) == (count, len(whole), "stop")
    if whole:
        assert view.response is not None
        assert stated["content"][TEXT] == view.response.sha256
    assert [(name, data.decode()) for name, data, _ in frames_of(reader, view)] == [
        (TEXT, piece) for piece in pieces
    ]
    assert [one["frames"]["count"] for one in points(reader)] == [256 * n for n in range(1, count // 256 + 1)]
    assert [one["number"] for one in points(reader)] == list(range(1, count // 256 + 1))


def test_channels_and_what_is_no_name_of_one(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    for name in ("text", "sha256", "0:" + "x" * 127, "0:\ud800", ""):
        stream.add(name, "?")
    for number in range(100):
        stream.add(frames.channel(number, "text"), b"%d" % number)
    recorder.end(call)
    recorder.close()
    (view,) = read(lab).calls()
    content = said(view)["content"]
    assert len(content) == frames.MAX_CHANNELS
    assert content[frames.REST] == sha256(b"?" * 5 + b"".join(b"%d" % n for n in range(63, 100)))
    assert content["62:text"] == sha256(b"62")
    assert frames.channel(0, "tool_args", "a/b:c") == "0:tool_args:a%2Fb%3Ac"
    assert len(frames.channel(0, "tool_args", "x" * 999)) <= 128


def test_halves_of_a_surrogate_pair(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    other = frames.channel(0, "reasoning")
    for name, text in (
        (TEXT, "a\ud83d"),
        (other, "\ud83d"),
        (TEXT, "\ude00b"),
        (other, "-"),
        (other, "\ude00"),
        (other, "\ud83d"),
    ):
        stream.add(name, text)
    recorder.end(call)
    recorder.close()
    (view,) = read(lab).calls()
    lone = "\ud83d-\ude00\ud83d".encode("utf-8", "surrogatepass")
    assert said(view)["content"] == {TEXT: sha256("a\U0001f600b".encode()), other: sha256(lone)}
    assert said(view)["ill"] == [other]


def test_the_probabilities_of_tokens(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    rows = []
    for number in range(300):
        candidates: list[frames.Candidate] = [
            (number, -0.5 * number, b"x"),
            (None, float("-inf"), None),
            (-1, float("nan"), "é".encode()),
            (1 << 60, None, None),
        ]
        stream.sample(0, candidates)
        rows.append(frames.sample(0, candidates))
    stream.add(TEXT, "x")
    recorder.end(call)
    recorder.close()
    reader = read(lab)
    (view,) = reader.calls()
    assert said(view)["sampling"] == {"count": 300, "sha256": sha256(b"".join(rows))}
    assert len(points(reader)) == 1


def test_a_stream_is_no_part_of_what_repeats(lab: Any, tmp_path: Path) -> None:
    """However it was cut, and whether it was a stream at all, the run has one content root."""
    roots, contents = set(), set()
    for number, size in enumerate((0, 1, 7, 999)):
        evidence = tmp_path / str(number)
        recorder = lab.recorder(evidence)
        call = begin(recorder)
        text = "what was said " * 400
        for start in range(0, len(text), size) if size else ():
            recorder.stream(call).add(TEXT, text[start : start + size])
        recorder.end(call, response=recorder.value(text))
        recorder.close()
        assert counterfoil.verify(evidence).verdict == "intact"
        (run,) = counterfoil.read(evidence).runs()
        roots.add(run.content_root)
        (view,) = counterfoil.read(evidence).calls()
        if size:
            contents.add(said(view)["content"][TEXT])
    assert (len(roots), len(contents)) == (1, 1)


@pytest.mark.parametrize(
    ("status", "reason", "end"),
    [
        ("ok", "", "stop"),
        ("ok", "length", "length"),
        ("error", "", "error"),
        ("cancelled", "", "cancelled"),
        ("cancelled", "abandoned", "abandoned"),
        ("interrupted", "", "cancelled"),
    ],
)
def test_how_a_stream_ends(status: str, reason: str, end: str, lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    stream.add(TEXT, "x")
    stream.reason = reason
    recorder.end(call, status=status)
    stream.add(TEXT, "too late")
    recorder.stream(call).add(TEXT, "later still")
    recorder.end(call)  # a second end states no stream
    recorder.close()
    reader = read(lab)
    (view,) = reader.calls()
    assert (said(view)["end"], said(view)["frames"]["count"]) == (end, 1)
    assert [one["end"] for entry in reader.records() if (one := entry.body["context"].get("stream"))] == [end]


@pytest.mark.parametrize(("status", "end"), [("ok", "abandoned"), ("cancelled", "cancelled")])
def test_whatever_ends_the_run_ends_its_streams(status: str, end: str, lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "w", actor=("w",))
    call = recorder.start("chat", "m", actor=("w",), parent=root)
    recorder.stream(call).add(TEXT, "x")
    recorder.end(root, status=status)
    left = begin(recorder)
    recorder.stream(left).add(TEXT, "y")
    recorder.close()
    views = [view for view in read(lab).calls() if view.op == "chat"]
    assert [(view.status, said(view)["end"]) for view in views] == [
        ("abandoned", end),
        ("abandoned", "abandoned"),
    ]


def test_the_clock_makes_checkpoints(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    clock = recorder._streams
    second = int(streams.TICK * 1e9)
    stream.add(TEXT, "one")
    first = stream._queue[0][2]
    clock.tick(first + second - 1)
    assert len(stream._queue) == 1
    clock.tick(first + second)
    assert len(stream._queue) == 0
    clock.tick(first + 9 * second)  # nothing waits
    stream.sample(0, [(1, -1.0, None)])
    clock.tick(first + 10 * second)
    stream.add(TEXT, "two")
    recorder.end(call)
    clock.tick(first + 99 * second)
    recorder.close()
    reader = read(lab)
    assert [one["frames"]["count"] for one in points(reader)] == [1, 1]
    (view,) = reader.calls()
    assert len(said(view)["parts"]) == 3


def test_the_clock_is_a_thread_of_its_own(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "TICK", 0.01)
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    stream.add(TEXT, "waits for nobody")
    wait(lambda: not stream._queue)
    recorder.end(call)
    wait(lambda: recorder._streams._thread is None)  # nothing to do
    again = begin(recorder)
    recorder.stream(again).add(TEXT, "x")
    wait(lambda: not recorder.stream(again)._queue)
    recorder.close()
    assert len(points(read(lab))) == 2


def test_no_room_for_a_thread(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = lab.recorder()
    call = begin(recorder)

    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        recorder.stream(call).add(TEXT, "x")
    recorder.end(call)
    recorder.close()
    read(lab)


def test_long_pieces_do_not_wait(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    for _ in range(6):
        stream.add(TEXT, "x" * (streams.HELD // 2))
    stream.add(TEXT, b"y" * (streams.MOST_FRAME + 1))  # longer than what is kept: then digests alone
    stream.add(TEXT, "z")
    recorder.end(call)
    recorder.close()
    reader = read(lab)
    assert ["part" in one for one in points(reader)] == [True, True, True, False]
    (view,) = reader.calls()
    assert "parts" not in said(view)
    assert said(view)["bytes"] == 3 * streams.HELD + streams.MOST_FRAME + 2


def test_a_stream_that_goes_on_for_ever_takes_no_more_memory(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_PARTS", 4)
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    for number in range(256 * 12 + 5):
        stream.add(TEXT, f"{number} ")
        assert len(stream._queue) < 256
    assert len(stream._parts) == 4
    recorder.end(call)
    recorder.close()
    reader = read(lab)
    assert ["part" in one for one in points(reader)] == [True] * 4 + [False] * 8
    (view,) = reader.calls()
    assert "parts" not in said(view)
    whole = "".join(f"{number} " for number in range(256 * 12 + 5)).encode()
    assert said(view)["content"] == {TEXT: sha256(whole)}


def test_what_waits_can_be_taken_back_until_it_is_in_the_log(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    stream.add(TEXT, "told twice")
    stream.sample(0, [(1, -1.0, None)])
    assert stream.restart()
    for number in range(256):
        stream.add(TEXT, f"{number}")
    assert not stream.restart()
    recorder.end(call)
    recorder.close()
    (view,) = read(lab).calls()
    assert (said(view)["frames"]["count"], said(view)["sampling"]["count"]) == (256, 1)


def test_many_threads_add_to_one_stream(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)

    def add(number: int) -> None:
        for _ in range(2000):
            stream.add(frames.channel(number, "text"), "x")

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.end(call)
    recorder.close()
    reader = read(lab)
    (view,) = reader.calls()
    assert said(view)["frames"]["count"] == 8000
    assert set(said(view)["content"].values()) == {sha256(b"x" * 2000)}
    assert all(after >= 0 for _, _, after in frames_of(reader, view))


def test_a_writer_that_takes_no_more(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that was not taken is cited nowhere; the digests are stated all the same."""
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    for number in range(300):
        stream.add(TEXT, f"{number}")
    writer = recorder.open()
    with monkeypatch.context() as patched:
        patched.setattr(writer, "blob", lambda digest, data: False)
        for number in range(300):
            stream.add(TEXT, f"{number}")
    recorder.end(call)
    recorder.close()
    reader = read(lab)
    assert ["part" in one for one in points(reader)] == [True, False]
    (view,) = reader.calls()
    assert "parts" not in said(view)
    assert said(view)["frames"]["count"] == 600


def test_a_forked_child_ends_nothing_of_its_parent(lab: Any) -> None:
    recorder = lab.recorder()
    call = begin(recorder)
    stream = recorder.stream(call)
    for number in range(300):
        stream.add(TEXT, f"{number}")
    child = os.fork()
    if not child:
        for number in range(300):
            stream.add(TEXT, f"{number}")
        own = begin(recorder)
        recorder.stream(own).add(TEXT, "the child's")
        recorder.end(own)
        recorder.end(call)
        recorder.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for number in range(300):
        stream.add(TEXT, f"{number}")
    recorder.end(call)
    recorder.close()
    result = lab.verify()
    assert result.counts["logs"] == 2
    assert (result.verdict, result.findings) == ("intact", [])  # the child cites no part of its parent's log
    reader = counterfoil.read(lab.evidence)
    kept = [sum(1 for _ in frames_of(reader, view)) for view in reader.calls() if view.end is not None]
    assert sorted(kept) == [1, 600]


def test_a_killed_process_leaves_what_it_said_until_then(lab: Any) -> None:
    process = lab.start(
        """
        import sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        call = recorder.start("chat", "m", actor=("a",))
        stream = recorder.stream(call)
        for number in range(1000):
            stream.add("0:text", f"{number} ")
        assert recorder.flush()
        print("said", flush=True)
        sys.stdin.read()
        """
    )
    assert process.stdout.readline().strip() == "said"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    result = lab.verify()
    assert result.verdict == "incomplete"
    assert {one.code for one in result.findings} <= {"CF-VERIFY-024", "CF-VERIFY-025", "CF-VERIFY-027"}
    reader = counterfoil.read(lab.evidence)
    (view,) = reader.calls()
    found = [data.decode() for _, data, _ in frames_of(reader, view)]
    assert found[:768] == [f"{number} " for number in range(768)]
    assert len(found) in (768, 1000)
