"""Recording into a real bucket under Object Lock, while writers, servers and networks die."""

from __future__ import annotations

import random
import shutil
import time
from typing import Any

import pytest
from bucket_writing import Place, faulty, place, wait
from faulty import Faulty

__all__ = ["faulty", "place"]

pytestmark = pytest.mark.s3

UNCLEAN = {"CF-VERIFY-020", "CF-VERIFY-024", "CF-VERIFY-025", "CF-VERIFY-026", "CF-VERIFY-027"}


def codes(result: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in result["findings"]}


def test_what_is_closed_is_in_the_bucket_under_lock(place: Place) -> None:
    writer = place.writer("one")
    assert writer.record(20) == "flushed"
    assert writer.close() == 0
    result = place.verify()
    assert (result["verdict"], result["findings"]) == ("intact", [])
    assert place.names() == writer.acknowledged
    for key in place.objects():
        head = place.client.head_object(Bucket=place.bucket, Key=key)
        assert head["ObjectLockMode"] == "COMPLIANCE"


def test_with_remote_durability_a_flush_means_the_bucket(place: Place) -> None:
    writer = place.writer("remote", durability="remote", COUNTERFOIL_S3_UPLOAD_AFTER="3600")
    for count in (1, 3):
        assert writer.record(count) == "flushed"
        writer_names = place.names()
        assert writer.acknowledged <= writer_names
    assert writer.losses == 0
    writer.kill()
    # Nothing was left to send: the process that was killed had waited for the bucket.
    assert place.waiting() == 0


def test_sessions_go_on_in_one_log(place: Place) -> None:
    logs = set()
    for number in range(3):
        writer = place.writer(f"s{number}")
        assert writer.record(2) == "flushed"
        logs.add(writer.log)
        assert writer.close() == 0
    assert len(logs) == 1
    assert place.verify()["verdict"] == "intact"
    assert len(place.names()) == 6


def test_killed_writers_lose_nothing_they_acknowledged(place: Place) -> None:
    """50 of them, at any moment: many while a segment is on its way."""
    dice = random.Random(11)
    acknowledged: set[str] = set()
    for number in range(50):
        writer = place.writer(f"w{number}", COUNTERFOIL_S3_UPLOAD_AFTER="0.02")
        for _ in range(dice.randrange(1, 8)):
            assert writer.record(dice.randrange(1, 30)) == "flushed"
        writer.say("record 200")
        time.sleep(dice.random() * 0.15)
        writer.kill()
        acknowledged |= writer.acknowledged
    assert place.command("push").returncode == 0
    assert place.waiting() == 0
    result = place.verify()
    assert result["verdict"] in ("intact", "incomplete")
    assert codes(result) <= UNCLEAN
    assert acknowledged <= place.names()


def test_a_server_killed_ten_times_loses_nothing(place: Place, s3_bed: Any) -> None:
    dice = random.Random(12)
    writer = place.writer("steady", COUNTERFOIL_S3_UPLOAD_AFTER="0.05")
    for _ in range(10):
        for _ in range(dice.randrange(2, 12)):
            assert writer.record(5) == "flushed"
            time.sleep(dice.random() * 0.05)
        s3_bed.server.stop(kill=True)
        assert writer.record(5) == "flushed"  # goes on into the spool
        s3_bed.server.start()
    assert writer.record(5) == "flushed"
    assert writer.close() == 0
    assert place.command("push").returncode == 0
    assert place.waiting() == 0
    result = place.verify()
    assert (result["verdict"], codes(result)) == ("intact", set())
    assert place.names() == writer.acknowledged


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("refuse", "CF-S3-002"),
        ("hang", "CF-S3-002"),
        ("reset", "CF-S3-002"),
        ("lost", ""),
        ("409", "CF-S3-007"),
        ("412", ""),
        ("500", "CF-S3-011"),
        ("503", "CF-S3-007"),
        ("expired", "CF-S3-005"),
        ("denied", "CF-S3-004"),
        ("skewed", "CF-S3-006"),
    ],
)
def test_a_network_that_fails(place: Place, faulty: Faulty, mode: str, code: str) -> None:
    """Recording goes on, the backlog is told, and when the network is back all of it goes up by itself."""
    writer = place.writer("through", COUNTERFOIL_S3_UPLOAD_AFTER="0.1")
    assert writer.record(3) == "flushed"
    wait(lambda: place.waiting() == 0)
    faulty.mode = mode
    for _ in range(3):
        assert writer.record(3) == "flushed"
    assert place.waiting() > 0
    if code:
        wait(lambda: faulty.seen or mode in ("refuse", "hang"))
        if mode != "hang":  # the client waits for a minute there
            wait(lambda: code in place.command("doctor").stdout)
        told = place.command("doctor").stdout
        assert "not in the bucket yet" in told
    else:
        wait(lambda: faulty.seen)
    faulty.mode = "pass"
    assert writer.record(3) == "flushed"
    wait(lambda: place.waiting() == 0)
    assert writer.close() == 0
    result = place.verify()
    assert (result["verdict"], result["findings"]) == ("intact", [])
    assert place.names() == writer.acknowledged


def test_a_process_that_ends_while_the_network_is_gone(place: Place, faulty: Faulty) -> None:
    """It ends in time and as it would have, says what stays, and the next one sends it."""
    faulty.mode = "refuse"
    writer = place.writer("offline", COUNTERFOIL_S3_CLOSE_WAIT="4")
    assert writer.record(5) == "flushed"
    writer.say("exit 7")
    assert writer.child.wait(60) == 7
    said = (place.root / "offline.err").read_text()
    assert "not in the bucket yet" in said
    assert "CF-S3-002" in said
    pushed = place.command("push")
    assert pushed.returncode == 1
    assert "CF-S3-002" in pushed.stdout + pushed.stderr
    faulty.mode = "pass"
    later = place.writer("later")
    assert later.record(1) == "flushed"
    wait(lambda: place.waiting() == 0)
    assert later.close() == 0
    result = place.verify()
    assert (result["verdict"], result["findings"]) == ("intact", [])
    assert place.names() == writer.acknowledged | later.acknowledged


def test_a_process_that_ends_while_an_upload_hangs(place: Place, faulty: Faulty) -> None:
    """The thread that waits for the server must not change how the process ends."""
    writer = place.writer("hanging", COUNTERFOIL_S3_CLOSE_WAIT="0.5", COUNTERFOIL_S3_UPLOAD_AFTER="0.05")
    assert writer.record(1) == "flushed"
    wait(lambda: place.waiting() == 0)
    faulty.mode = "hang"
    assert writer.record(1) == "flushed"
    time.sleep(0.3)
    writer.say("exit 3")
    time.sleep(0.5)
    faulty.mode = "reset"  # about when the interpreter goes away
    assert writer.child.wait(60) == 3


def test_two_machines_with_one_home(place: Place) -> None:
    """A copied home has the same identity and the same end of the log: one goes on with it, the other with its own."""
    first = place.writer("before")
    assert first.record(3) == "flushed"
    log = first.log
    assert first.close() == 0
    copy = place.root / "copy"
    shutil.copytree(place.home, copy)
    ours, theirs = place.writer("ours"), place.writer("theirs", home=copy)
    for _ in range(3):
        assert ours.record(4) == "flushed"
        assert theirs.record(4) == "flushed"
    assert sorted((ours.log == log, theirs.log == log)) == [False, True]
    assert (ours.close(), theirs.close()) == (0, 0)
    for home in (place.home, copy):
        result = place.verify(home=home)
        assert (result["verdict"], result["findings"]) == ("intact", [])
    assert place.names() == first.acknowledged | ours.acknowledged | theirs.acknowledged


def test_two_copies_of_a_process_that_lives(place: Place) -> None:
    """A virtual machine that was copied while it ran: each has the log open, and the next key can be made once."""
    writer = place.writer("first", COUNTERFOIL_S3_UPLOAD_AFTER="3600")
    assert writer.record(3) == "flushed"
    copy = place.root / "copy"
    shutil.copytree(place.home, copy)
    assert writer.close() == 0
    # The copy's segment is another one than what was sent: it has no end yet, and is sent as the end of a dead process.
    other = place.writer("second", home=copy)
    assert other.record(3) == "flushed"
    assert other.log != writer.log
    assert other.close() == 0
    told = place.command("doctor", home=copy).stdout
    assert "another writer went on with log" in told
    assert writer.acknowledged | other.acknowledged == place.names()
    assert place.verify()["verdict"] == "intact"


def test_somebody_takes_the_next_key(place: Place) -> None:
    writer = place.writer("victim", COUNTERFOIL_S3_UPLOAD_AFTER="0.1")
    assert writer.record(2) == "flushed"
    wait(lambda: place.waiting() == 0 and place.objects())
    log, before = writer.log, writer.acknowledged
    number = len(place.objects())
    place.client.put_object(Bucket=place.bucket, Key=f"{place.prefix}/{log}/{number:08d}.seg", Body=b"mine")
    assert writer.record(2) == "flushed"

    def moved() -> bool:
        writer.record(1)
        return writer.log != log

    wait(moved)
    assert writer.close() == 0
    assert place.waiting() == 0
    told = place.command("doctor")
    assert "another writer went on with log" in told.stdout
    assert told.returncode == 1
    # What was not sent stays here, whole; the log that goes on tells how much that is.
    assert list((place.home / "spool").glob(f"*/{log}/*.seg"))
    result = place.verify()
    assert result["verdict"] != "intact"
    assert "CF-VERIFY-021" in codes(result)
    assert before <= place.names()
    body = place.client.get_object(Bucket=place.bucket, Key=f"{place.prefix}/{log}/{number:08d}.seg")["Body"]
    assert body.read() == b"mine"


def test_run_sends_what_its_application_left(place: Place) -> None:
    app = place.root / "app.py"
    app.write_text(
        "import os\n"
        "from langchain_core.language_models.fake_chat_models import FakeListChatModel\n"
        "from counterfoil import autostart\n"
        "FakeListChatModel(responses=['a']).invoke('q')\n"
        "autostart.recorder().flush()\n"
        "os._exit(5)\n"
    )
    done = place.command("run", "-e", place.uri, "app.py", COUNTERFOIL_S3_UPLOAD_AFTER="3600")
    assert done.returncode == 5
    assert "1 model call" in done.stderr
    assert "not in the bucket" not in done.stderr
    assert place.waiting() == 0
    assert len(place.objects()) == 1


def test_run_tells_what_stays(place: Place, faulty: Faulty) -> None:
    app = place.root / "app.py"
    app.write_text(
        "from langchain_core.language_models.fake_chat_models import FakeListChatModel\n"
        "FakeListChatModel(responses=['a']).invoke('q')\n"
    )
    faulty.mode = "refuse"
    done = place.command("run", "-e", place.uri, "app.py", COUNTERFOIL_S3_CLOSE_WAIT="0.3")
    assert done.returncode == 0
    assert "1 model call" in done.stderr
    assert "intact" in done.stderr
    assert "not in the bucket yet" in done.stderr
    faulty.mode = "pass"
    assert place.command("push").returncode == 0
    assert place.verify()["verdict"] == "intact"
