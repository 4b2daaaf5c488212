"""`counterfoil init`, `push` and `pull`: made once, gone on with, never weakened, never mixed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import seaweed
from recording import one_run, record

import counterfoil
from counterfoil import keys
from counterfoil.cli import main
from counterfoil.errors import StoreError
from counterfoil.recorder import Recorder
from counterfoil.stores import open_store
from counterfoil.stores.s3 import copying
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket

pytestmark = pytest.mark.s3


@pytest.fixture
def folder(s3_place: Any) -> Path:
    """Three sessions of two runs."""
    path: Path = s3_place.folder / "evidence"
    for _ in range(3):
        record(path, runs=2)
    return path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files."""
    files = [sorted(path.relative_to(root) for path in root.rglob("*")) for root in (one, other)]
    return files[0] == files[1] and all(
        (one / name).read_bytes() == (other / name).read_bytes()
        for name in files[0]
        if (one / name).is_file()
    )


# -- there and back ---------------------------------------------------------------------------------------------------


def test_there_and_back_is_the_same(s3_place: Any, folder: Path, command: Any) -> None:
    assert command("push", folder, s3_place.uri)[0] == 0
    assert s3_place.keys() == [f"{path.parent.name}/{path.name}" for path in sorted(folder.glob("*/*.seg"))]
    assert counterfoil.verify(s3_place.uri).verdict == "intact"
    assert command("pull", s3_place.uri, "copy")[0] == 0
    assert same(folder, s3_place.folder / "copy")
    assert os.stat(s3_place.folder / "copy").st_mode & 0o077 == 0
    assert counterfoil.verify("copy").verdict == "intact"
    # Both go on where they were: nothing is created, or written, twice.
    for words in (("push", folder, s3_place.uri), ("pull", s3_place.uri, "copy")):
        code, out, _ = command(*words, "--json")
        told = json.loads(out)
        assert (code, told["copied"], told["present"]) == (0, 0, 3)
    versions = s3_place.admin.list_object_versions(Bucket=s3_place.name)["Versions"]
    assert len(versions) == 3


@contextmanager
def broken_after(count: int, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[None]:
    """What is called goes well so many times, and then never again."""
    real, left = getattr(owner, name), [count]

    def call(*arguments: Any, **more: Any) -> Any:
        if not left[0]:
            raise StoreError("the cable is out", code="CF-S3-002", where="here", hint="put it in")
        left[0] -= 1
        return real(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call)
        yield


def test_what_is_broken_off_goes_on(
    s3_place: Any, folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, owner, name in (
        (("push", folder, s3_place.uri), Bucket, "put"),
        (("pull", s3_place.uri, "copy"), Bucket, "get"),
    ):
        for done in (1, 1):
            with broken_after(done, monkeypatch, owner, name):
                code, _, err = command(*words)
            assert (code, "CF-S3-002" in err) == (2, True)
            assert [path.name for path in s3_place.folder.glob(".copy*")] == []
        code, out, _ = command(*words, "--json")
        told = json.loads(out)
        assert (code, told["copied"], told["present"]) == (0, 1, 2)
    assert same(folder, s3_place.folder / "copy")


def test_what_came_since_is_fetched(s3_place: Any, folder: Path, command: Any) -> None:
    command("push", folder, s3_place.uri)
    command("pull", s3_place.uri, "copy")
    record(folder)
    assert json.loads(command("push", folder, s3_place.uri, "--json")[1])["copied"] == 1
    assert json.loads(command("pull", s3_place.uri, "copy", "--json")[1])["copied"] == 1
    assert same(folder, s3_place.folder / "copy")


@pytest.mark.parametrize("what", ["flipped", "longer", "shorter"])
def test_other_histories_are_not_mixed(s3_place: Any, folder: Path, command: Any, what: str) -> None:
    command("push", folder, s3_place.uri)
    shutil.copytree(folder, "other")
    path = sorted(Path("other").glob("*/*.seg"))[1]
    data = path.read_bytes()
    path.write_bytes(
        {"flipped": data[:-1] + bytes([data[-1] ^ 1]), "longer": data + b"x", "shorter": data[:-1]}[what]
    )
    record(Path("other"))
    keys_before, files = s3_place.keys(), sorted(Path("other").rglob("*"))
    for words in (("push", "other", s3_place.uri), ("pull", s3_place.uri, "other")):
        code, _, err = command(*words)
        assert (code, "CF-S3-030" in err) == (2, True)
    # Nothing that comes after it was copied either.
    log = path.parent.name
    assert [name for name in s3_place.keys() if name not in keys_before and name.startswith(log)] == []
    assert sorted(Path("other").rglob("*")) == files


def test_a_log_that_is_written_goes_without_its_end(s3_place: Any, folder: Path, command: Any) -> None:
    recorder = Recorder(folder)
    one_run(recorder)
    assert recorder.flush()
    code, _, err = command("push", folder, s3_place.uri)
    assert code == 1
    assert "a writer has it open" in err
    assert len(s3_place.keys()) == 3
    one_run(recorder)
    recorder.close()
    assert command("push", folder, s3_place.uri)[0] == 0
    assert len(s3_place.keys()) == 4
    assert counterfoil.verify(s3_place.uri).verdict == "intact"


def test_no_writer_goes_on_with_a_log_while_it_is_pushed(
    s3_place: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    put = Bucket.put

    def look(self: Bucket, key: str, *arguments: Any, **more: Any) -> Any:
        fd = os.open(folder / key.split("/")[-2], os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(False)
        except BlockingIOError:
            held.append(True)
        finally:
            os.close(fd)
        return put(self, key, *arguments, **more)

    monkeypatch.setattr(Bucket, "put", look)
    copying.push(open_store(folder), Bucket(Address.parse(s3_place.uri)))
    assert held == [True] * 3
    record(folder)
    assert len(open_store(folder).logs()) == 1


def test_objects_that_nothing_locks_are_told(
    s3_place: Any, folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COUNTERFOIL_S3_RETAIN")
    code, _, err = command("push", folder, s3_place.uri)
    assert (code, "not locked" in err) == (0, True)
    code, _out, err = command("push", folder, f"{s3_place.uri}/more", "--retain", "3d")
    assert (code, err) == (0, "")
    named = {"Bucket": s3_place.name, "Prefix": "team/evidence/more/"}
    row = s3_place.admin.list_object_versions(**named)["Versions"][0]
    found = s3_place.admin.head_object(Bucket=s3_place.name, Key=row["Key"])
    assert found["ObjectLockMode"] == "COMPLIANCE"
    assert 3 <= (found["ObjectLockRetainUntilDate"] - row["LastModified"]).total_seconds() / 86_400 <= 4


def test_what_is_read_must_be_what_the_server_names(
    s3_place: Any, folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("push", folder, s3_place.uri)
    monkeypatch.setattr(Bucket, "digest_of", lambda *_, **__: b"\0" * 32)
    code, _, err = command("pull", s3_place.uri, "copy")
    assert (code, "CF-S3-014" in err) == (2, True)
    assert [path for path in Path("copy").rglob("*.seg")] == []


def test_what_cannot_be_copied_says_why(s3_place: Any, folder: Path, command: Any) -> None:
    Path("empty").mkdir()
    for words, code in (
        (("push", "empty", s3_place.uri), "CF-CLI-007"),
        (("push", "nothing", s3_place.uri), "CF-STORE-002"),
        (("push", folder), "CF-CLI-085"),
        (("push", s3_place.uri, folder), "CF-CLI-085"),
        (("push", folder, "s3://x"), "CF-CONFIG-013"),
        (("pull", s3_place.uri, "copy"), "CF-S3-012"),
        (("pull", folder, "copy"), "CF-CONFIG-013"),
    ):
        done, _, err = command(*words)
        assert (done, code in err) == (2, True), (words, err)
    assert not Path("copy").exists()


# -- setting up -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(s3_place: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address in a bucket that is not there, and rights to make it."""
    monkeypatch.delenv("COUNTERFOIL_S3_RETAIN")
    s3_place.become(seaweed.ADMIN)
    return f"s3://made-{uuid.uuid4().hex[:10]}/team/evidence"


def test_a_bucket_is_made_once_and_records_go_there(
    s3_place: Any, fresh: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = Address.parse(fresh).bucket
    assert "CF-CLI-086" in command("init", fresh)[2]
    code, out, _ = command("init", fresh, "--retain", "30d", "--json")
    told = json.loads(out)["bucket"]
    assert code == 0
    assert told["done"] == [
        "made the bucket, with versioning and Object Lock",
        "set the default retention: COMPLIANCE, 30 days",
    ]
    assert (told["versioned"], told["object_lock"], told["mode"], told["days"], told["lacking"]) == (
        True,
        True,
        "COMPLIANCE",
        30,
        [],
    )
    # Once more, nothing is done: not while it is empty, not when it holds something.
    assert json.loads(command("init", fresh, "--retain", "30d", "--json")[1])["bucket"]["done"] == []
    written = tomllib.loads(Path("counterfoil.toml").read_text())
    assert (written["evidence"], written["s3_retain"]) == (fresh, "30d")
    assert written["s3_endpoint"] == s3_place.server.endpoint
    s3_place.become(seaweed.WRITER)
    record(fresh)
    assert counterfoil.verify(fresh).verdict == "intact"
    row = s3_place.admin.list_object_versions(Bucket=name)["Versions"][0]
    found = s3_place.admin.head_object(Bucket=name, Key=row["Key"])
    assert (found["ObjectLockRetainUntilDate"] - row["LastModified"]).days >= 30


def test_an_existing_bucket_is_looked_at_and_left_as_it_is(
    s3_place: Any, fresh: str, command: Any, folder: Path
) -> None:
    admin = s3_place.admin
    plain = Address.parse(fresh).bucket
    admin.create_bucket(Bucket=plain)
    code, out, _ = command("init", fresh, "--retain", "30d", "--json")
    told = json.loads(out)["bucket"]
    assert (code, told["done"], len(told["lacking"])) == (1, [], 2)
    Path("counterfoil.toml").unlink()
    # It has Object Lock and holds something, perhaps somebody else's: a default would lock that for good.
    admin.put_object(Bucket=s3_place.name, Key="somebody/else", Body=b"x")
    code, out, _ = command("init", s3_place.uri, "--retain", "30d", "--json")
    told = json.loads(out)["bucket"]
    assert (code, told["done"], told["mode"], told["lacking"]) == (0, [], None, [])
    Path("counterfoil.toml").unlink()
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 9}}
    admin.put_object_lock_configuration(
        Bucket=s3_place.name, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    code, out, _ = command("init", s3_place.uri, "--json")
    told = json.loads(out)["bucket"]
    assert (code, told["mode"], told["days"], len(told["lacking"])) == (1, "GOVERNANCE", 9, 1)


def test_rights_that_are_missing_are_told(s3_place: Any, command: Any) -> None:
    s3_place.become(seaweed.READER)
    made = f"s3://made-{uuid.uuid4().hex[:10]}/team/evidence"
    code, _, err = command("init", made, "--retain", "30d")
    assert (code, "CF-S3-0" in err) == (2, True)
    assert not Path("counterfoil.toml").exists()


def test_the_rights_are_printed_and_nothing_is_done(
    s3_place: Any, fresh: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = command("init", fresh, "--print-policy")
    told = json.loads(out)
    assert code == 0
    assert set(told) == {"writer", "reader", "admin", "bucket"}
    allowed = {
        role: {action for one in policy["Statement"] if one["Effect"] == "Allow" for action in one["Action"]}
        for role, policy in told.items()
    }
    for role in ("writer", "reader", "admin"):
        assert not any("Delete" in action or "Bypass" in action or "*" in action for action in allowed[role])
    assert "s3:PutObjectLegalHold" not in allowed["writer"]
    assert "s3:PutObject" not in allowed["reader"] | allowed["admin"]
    monkeypatch.setenv("COUNTERFOIL_S3_LEGAL_HOLD", "true")
    assert "s3:PutObjectLegalHold" in command("init", fresh, "--print-policy")[1]
    assert not Path("counterfoil.toml").exists()
    assert "CF-CLI-084" in command("init", "folder", "--print-policy")[2]
    assert "CF-CLI-084" in command("init", "folder", "--retain", "3d")[2]


# -- what is not there yet --------------------------------------------------------------------------------------------


def test_entries_that_wait_on_this_machine_are_no_cut(
    s3_place: Any, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    """They are in the spool and remembered; a machine that remembers nothing sees a log that ends earlier."""
    record(s3_place.uri)
    identity = keys.load_identity()
    assert identity is not None
    monkeypatch.setenv("COUNTERFOIL_S3_CLOSE_WAIT", "0.2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    record(s3_place.uri)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", seaweed.WRITER[1])
    found = counterfoil.verify(s3_place.uri)
    assert found.verdict == "incomplete"
    assert {one.code for one in found.findings} == {"CF-S3-025"}
    assert all(str(keys.home() / "spool") in one.message for one in found.findings)
    keys.set_home(s3_place.folder / "elsewhere")
    elsewhere = counterfoil.verify(s3_place.uri, keyring=keys.Keyring.of([identity.public]))
    assert elsewhere.verdict in ("intact", "incomplete")
    assert not [one for one in elsewhere.findings if one.verdict == "broken"]
    keys.set_home(s3_place.folder / "home")
    code, _, err = command("push", s3_place.uri)
    assert (code, err) == (0, "")
    assert counterfoil.verify(s3_place.uri).verdict == "intact"


def test_a_log_that_is_cited_further_than_it_is_here_is_late_or_deleted(s3_place: Any) -> None:
    """A second log's session cites the first one's end, and gets here before it."""
    folder = s3_place.folder / "evidence"
    record(folder)
    recorder = Recorder(folder)
    one_run(recorder)
    assert recorder.flush()
    other = Recorder(folder)
    one_run(other)
    other.close()
    recorder.close()
    store = open_store(folder)
    assert len(store.logs()) == 2
    first = max(store.logs(), key=lambda log: len(store.segments(log)))
    identity = keys.load_identity()
    assert identity is not None
    for log in store.logs():
        for number in store.segments(log)[: 1 if log == first else None]:
            path = folder / store.segment_name(log, number)
            key = s3_place.key(store.segment_name(log, number))
            s3_place.admin.put_object(Bucket=s3_place.name, Key=key, Body=path.read_bytes())
    keys.set_home(s3_place.folder / "elsewhere")
    found = counterfoil.verify(s3_place.uri, keyring=keys.Keyring.of([identity.public]))
    told = {(one.code, one.where) for one in found.findings if one.code != "CF-S3-022"}
    assert (found.verdict, told) == ("incomplete", {("CF-S3-027", first)})
