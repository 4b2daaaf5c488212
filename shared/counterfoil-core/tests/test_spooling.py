"""Evidence for a bucket: what is written stands in the spool first, is sealed, and goes on; on a bucket in memory."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from forging import codes
from losing import wait
from pails import Pail, failed, pail

from counterfoil import keys, places, verify
from counterfoil.errors import ConfigError, StoreError
from counterfoil.recorder import Recorder
from counterfoil.stores.s3 import uploading
from counterfoil.stores.s3.options import Options
from counterfoil.stores.s3.pushing import push
from counterfoil.stores.s3.sending import Sender
from counterfoil.stores.s3.spool import SpoolStore, spools

__all__ = ["pail"]

URI = "s3://pail/p"


def written(lab: Any, number: int = 0, *, uri: str = URI, **settings: Any) -> str:
    """One complete run in a session of its own; the log."""
    recorder = lab.recorder(uri, **settings)
    lab.run(recorder, number=number)
    log = recorder.open().log
    recorder.close()
    return log


def verdict(lab: Any, pail: Pail, name: str = "dump") -> str:
    found = verify(pail.dump(lab.root / name))
    return found.verdict


def spool() -> SpoolStore:
    return SpoolStore(URI)


def test_a_session_is_in_the_bucket_when_it_is_closed(lab: Any, pail: Pail) -> None:
    log = written(lab)
    assert pail.logs() == {log: [0]}
    assert verdict(lab, pail) == "intact"
    assert keys.remembered_heads()[f"{keys.load_or_create_identity().keyid}/{log}"].evidence == URI
    # What a writer goes on from stays, and nothing else.
    assert [path.name for path in lab.segments(spool().root)] == ["00000000.seg"]
    assert spool().backlog().segments == 0
    assert [one.name for one in spools()] == [URI]


def test_a_log_is_claimed_before_it_is_gone_on_with(lab: Any, pail: Pail) -> None:
    log = written(lab)
    recorder = Recorder(URI)
    assert recorder.open().log == log
    assert pail.logs() == {log: [0, 1]}  # before anything was recorded
    lab.run(recorder)
    recorder.close()
    assert pail.logs() == {log: [0, 1, 2]}
    result = verify(pail.dump(lab.root / "dump"))
    assert (result.verdict, result.counts["runs"], result.counts["logs"]) == ("intact", 2, 1)
    assert lab.segments(spool().root)[-1].name == "00000002.seg"
    assert len(lab.segments(spool().root)) == 1


def test_segments_are_sealed_by_time(lab: Any, pail: Pail) -> None:
    pail.options = Options(upload_after=0.05, close_wait=5.0)
    recorder = Recorder(URI)
    for number in range(3):
        lab.run(recorder, number=number)
        wait(lambda number=number: len(pail.puts) > number)  # type: ignore[misc]
    recorder.close()
    assert len(pail.puts) >= 3
    assert verdict(lab, pail) == "intact"


def test_a_busy_writer_makes_few_objects(lab: Any, pail: Pail) -> None:
    recorder = Recorder(URI)
    for number in range(150):
        lab.run(recorder, number=number)
    recorder.close()
    records = verify(pail.dump(lab.root / "dump")).counts["records"]
    assert records > 1500
    assert len(pail.puts) <= 1 + records // 1000


def test_full_segments_go(lab: Any, pail: Pail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.appending.SEGMENT_SIZE", 2000)
    recorder = Recorder(URI)
    for number in range(40):
        lab.run(recorder, number=number)
        recorder.flush()
    recorder.close()
    assert len(pail.puts) > 3
    assert verdict(lab, pail) == "intact"
    assert len(lab.segments(spool().root)) == 1


def test_remote_waits_for_the_bucket(lab: Any, pail: Pail) -> None:
    recorder = Recorder(URI, durability="remote")
    root = recorder.start("invoke_workflow", "app", actor=("app",), wait=True)
    first = len(pail.puts)
    assert first == 1
    assert verify(pail.dump(lab.root / "start")).counts["open"] == 1
    recorder.end(root)
    assert recorder.flush()
    assert len(pail.puts) == 2
    assert verify(pail.dump(lab.root / "end")).counts["open"] == 0
    assert recorder.flush()  # nothing new
    assert len(pail.puts) == 2
    recorder.close()
    assert recorder.losses == 0
    assert verdict(lab, pail) == "intact"


def test_remote_is_for_buckets(lab: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Recorder(lab.evidence, durability="remote")
    assert caught.value.code == "CF-CONFIG-016"


def test_remote_without_the_bucket_is_a_loss_and_goes_on(lab: Any, pail: Pail) -> None:
    pail.options = Options(upload_after=3600.0, close_wait=0.3)
    pail.down = "CF-S3-002"
    recorder = Recorder(URI, durability="remote")
    root = recorder.start("invoke_workflow", "app", actor=("app",), wait=True)
    assert recorder.losses == 1
    assert recorder.flush() is False
    recorder.end(root)
    recorder.close()
    assert spool().backlog().segments >= 1
    pail.down = None
    created, left, stopped = push(pail)  # type: ignore[arg-type]
    assert (created >= 1, left.segments, stopped) == (True, 0, None)
    result = verify(pail.dump(lab.root / "dump"))
    assert result.verdict == "incomplete"
    assert codes(result) == {"CF-VERIFY-021"}


def test_what_cannot_be_sent_stays_and_the_next_process_sends_it(
    lab: Any, pail: Pail, caplog: pytest.LogCaptureFixture
) -> None:
    pail.options = Options(upload_after=3600.0, close_wait=0.1)
    pail.down = "CF-S3-002"
    first = written(lab)
    assert "not in the bucket yet" in caplog.text
    assert "counterfoil push" in caplog.text
    left = spool().backlog()
    assert (left.segments, left.stranded) == (1, ())
    assert left.entries > 10
    assert left.error is not None
    assert left.error.startswith("CF-S3-002")
    second = written(lab)
    assert second != first  # nobody could tell whether the first may be gone on with
    assert pail.logs() == {}
    pail.down = None
    wait(
        lambda: all(one.name != "counterfoil-upload" for one in threading.enumerate())
    )  # it knows of a failure
    third = written(lab)
    assert third in (first, second)
    wait(lambda: not push(pail)[1].segments)  # type: ignore[arg-type]
    result = verify(pail.dump(lab.root / "dump"))
    assert (result.verdict, result.counts["runs"]) == ("intact", 3)


def test_an_answer_that_got_lost_is_no_loss(lab: Any, pail: Pail) -> None:
    pail.lost_answers = 2
    written(lab, 0)
    written(lab, 1)
    written(lab, 2)
    push(pail)  # type: ignore[arg-type]
    result = verify(pail.dump(lab.root / "dump"))
    assert (result.verdict, result.counts["runs"]) == ("intact", 3)
    assert spool().backlog().segments == 0
    assert spool().backlog().stranded == ()


def test_copied_homes_go_on_in_two_logs(lab: Any, pail: Pail) -> None:
    """Both have the same identity and the same spool: one wins the next key, the other begins a log of its own."""
    log = written(lab)
    shutil.copytree(lab.home, lab.elsewhere)
    ours = Recorder(URI)
    assert ours.open().log == log
    with lab.at(lab.elsewhere):
        theirs = Recorder(URI)
        assert theirs.open().log != log
        lab.run(theirs, number=2)
        theirs.close()
        assert spool().taken(log) is None or spool().backlog().stranded
    lab.run(ours, number=1)
    ours.close()
    assert len(pail.logs()) == 2
    result = verify(pail.dump(lab.root / "dump"))
    assert (result.verdict, result.counts["runs"]) == ("intact", 3)
    with lab.at(lab.elsewhere):
        assert verify(lab.root / "dump").verdict == "intact"


def test_somebody_takes_the_next_key(lab: Any, pail: Pail) -> None:
    """An attacker puts something where the log goes on: recording moves to another log, and nothing here is lost."""
    pail.options = Options(upload_after=3600.0, close_wait=0.5)
    recorder = Recorder(URI)
    first = recorder.open()
    lab.run(recorder, number=0)
    pail.objects[f"p/{first.log}/00000000.seg"] = [b"mine now"]
    assert first.flush(remote=True) is False
    lab.run(recorder, number=1)
    recorder.flush()
    wait(lambda: recorder.open().log != first.log)
    lab.run(recorder, number=2)
    recorder.close()
    second = next(log for log in pail.logs() if log != first.log)
    assert pail.objects[f"p/{first.log}/00000000.seg"] == [b"mine now"]
    left = spool().backlog()
    assert [one.log for one in left.stranded] == [first.log]
    assert left.segments == 0
    assert sorted((spool().root / first.log).glob("*.seg"))
    # The log that goes on tells that something is missing.
    dump = pail.dump(lab.root / "dump")
    shutil.rmtree(dump / first.log)
    assert "CF-VERIFY-021" in codes(verify(dump))
    # It is never tried again, and never gone on with.
    asked = len(pail.puts)
    third = written(lab, 3)
    assert third == second
    push(pail)  # type: ignore[arg-type]
    assert pail.logs()[first.log] == [0]
    assert len(pail.puts) > asked


def test_a_foreign_claim_leaves_the_log_alone(lab: Any, pail: Pail) -> None:
    """The other machine went on between the look and the claim."""
    log = written(lab)

    def meanwhile() -> None:
        pail.objects[f"p/{log}/00000001.seg"] = [b"another machine's"]

    pail.faults = [None, meanwhile]
    other = written(lab, 1)
    assert other != log
    assert pail.objects[f"p/{log}/00000001.seg"] == [b"another machine's"]
    assert not (spool().root / log / "00000001.seg").exists()
    result = verify(pail.dump(lab.root / "dump"))
    assert result.verdict != "intact"
    assert {finding.where.partition("/")[0] for finding in result.findings} == {log}
    assert result.counts["runs"] == 2


def test_a_claim_that_nobody_answers_is_sent_later(lab: Any, pail: Pail) -> None:
    log = written(lab)
    pail.faults = [None, "CF-S3-011"]
    other = written(lab, 1)
    assert other != log
    wait(lambda: not push(pail)[1].segments)  # type: ignore[arg-type]
    result = verify(pail.dump(lab.root / "dump"))
    assert (result.verdict, result.counts["runs"], result.counts["logs"]) == ("intact", 2, 2)
    assert len(pail.logs()[log]) == 3  # the claim, and behind it the end of that session


def test_what_a_dead_process_left_is_sent(lab: Any, pail: Pail, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its segments have no end and no checkpoint at their end: they go as they are."""
    lab.python(
        """
        import os, sys
        from counterfoil.recorder import Recorder
        recorder = Recorder(sys.argv[1])
        root = recorder.start("invoke_workflow", "dead", actor=("app",))
        recorder.flush()
        recorder.open().checkpoint()
        recorder.flush()
        recorder.start("chat", "m", actor=("app",), parent=root)
        recorder.flush()
        os._exit(0)
        """
    )
    log = lab.segments()[0].parent.name
    there = spool()
    there.prepare()
    shutil.copytree(lab.evidence / log, there.root / log)
    monkeypatch.setattr(uploading, "DEAD_FIRST", 0.0)
    recorder = Recorder(URI)
    recorder.open()
    wait(lambda: there.sent(log) >= 0)
    recorder.close()
    # The next session tells what is good of it.
    with recorder_of(log) as after:
        lab.run(after)
    assert verdict(lab, pail) == "incomplete"
    result = verify(lab.root / "dump")
    assert result.counts["runs"] == 2
    assert not {code for code in codes(result) if code.startswith("CF-LOG")}


class recorder_of:
    """A recorder that goes on with one log: others are held meanwhile."""

    def __init__(self, log: str) -> None:
        self._log = log

    def __enter__(self) -> Recorder:
        self._held: list[Recorder] = []
        while True:
            found = Recorder(URI)
            if found.open().log == self._log:
                self._found = found
                return found
            assert len(self._held) < 4, "the log is not gone on with"
            self._held.append(found)

    def __exit__(self, *exc: object) -> None:
        self._found.close()
        for held in self._held:
            held.close()


def test_logs_cite_only_what_is_in_the_bucket(lab: Any, pail: Pail) -> None:
    """A session that went up before the log it cites would look like one whose witness was removed."""
    pail.options = Options(upload_after=3600.0, close_wait=0.1)
    first = Recorder(URI)
    lab.run(first, number=0)
    first.open().checkpoint()
    first.flush()
    second = Recorder(URI)  # the other log has a checkpoint here, and none there
    lab.run(second, number=1)
    second.close()
    assert len(pail.logs()) == 1
    assert verdict(lab, pail, "early") == "intact"
    first.close()
    assert verdict(lab, pail, "late") == "intact"


def test_a_fork_has_an_uploader_of_its_own(lab: Any, pail: Pail) -> None:
    recorder = Recorder(URI)
    lab.run(recorder, number=0)
    recorder.flush()
    parent = recorder.open().log
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lab.run(recorder, number=1)
            log = recorder.open().log
            recorder.close()
            os.write(writing, f"{log} {len(pail.puts)}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    log, puts = os.read(reading, 100).decode().split()
    recorder.close()
    os.close(reading)
    os.close(writing)
    assert log != parent
    assert puts == "1"  # into the child's copy of the bucket
    assert (spool().root / log / "00000000.sent").exists()
    assert pail.logs() == {parent: [0]}


def test_one_bad_segment_holds_up_its_own_log_alone(lab: Any, pail: Pail) -> None:
    pail.options = Options(upload_after=3600.0, close_wait=0.2)
    bad = lab.recorder(URI)
    pail.bad = bad.open().log
    lab.run(bad)
    good = written(lab, 1)
    bad.close()
    assert pail.logs() == {good: [0]}
    created, left, stopped = push(pail)  # type: ignore[arg-type]
    assert (created, left.segments, stopped is not None) == (0, 1, True)
    pail.bad = ""
    assert push(pail)[1].segments == 0  # type: ignore[arg-type]
    assert len(pail.logs()) == 2
    assert verdict(lab, pail) == "intact"


def test_errors_repeat_no_secret(lab: Any, pail: Pail, caplog: pytest.LogCaptureFixture) -> None:
    def leaks() -> None:
        raise failed("CF-S3-004")

    pail.options = Options(upload_after=3600.0, close_wait=0.1)
    pail.faults = [leaks] * 50
    written(lab)
    assert "CF-S3-004" in caplog.text
    note: Path = spool().root.with_suffix(".error")
    assert note.read_text().startswith("CF-S3-004")


def test_the_installed_recorder_takes_an_address(lab: Any, pail: Pail) -> None:
    import counterfoil
    from counterfoil import autostart

    counterfoil.install(URI)
    first = autostart.recorder()
    counterfoil.install(URI)
    assert autostart.recorder() is first
    assert autostart.recorder(URI) is first
    lab.run(first)
    counterfoil.uninstall()
    assert verdict(lab, pail) == "intact"
    assert places.is_bucket(URI)


def test_a_failing_bucket_is_left_alone_meanwhile(
    lab: Any, pail: Pail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two attempts the thread sleeps, whatever else would be due."""
    monkeypatch.setattr(uploading, "DEAD_FIRST", 0.0)
    monkeypatch.setattr(uploading, "FIRST_PAUSE", 2.0)
    pail.options = Options(upload_after=3600.0, close_wait=0.2)
    turns: list[int] = []
    following = uploading.Uploader._next
    monkeypatch.setattr(uploading.Uploader, "_next", lambda self: (turns.append(1), following(self))[1])
    pail.down = "CF-S3-002"
    written(lab)
    assert len(turns) < 20


def test_nothing_is_marked_as_sent_over_what_was_not(lab: Any, pail: Pail) -> None:
    pail.options = Options(upload_after=3600.0, close_wait=0.1)
    pail.down = "CF-S3-002"
    log = written(lab)
    shutil.copy(spool().root / log / "00000000.seg", spool().root / log / "00000001.seg")
    pail.down = None
    with pytest.raises(StoreError) as caught:
        Sender(spool(), pail).send(log, 1)  # type: ignore[arg-type]
    assert caught.value.code == "CF-S3-041"
    assert len(list((spool().root / log).glob("*.seg"))) == 2
