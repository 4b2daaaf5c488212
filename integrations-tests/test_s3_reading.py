"""Evidence in a bucket, read by every command and by the interface, and by processes side by side."""

from __future__ import annotations

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import seaweed
from recording import record

import counterfoil
from counterfoil import keys, verification
from counterfoil.cli import main
from counterfoil.errors import BundleError, ConfigError, StoreError
from counterfoil.stores import open_store
from counterfoil.stores.s3 import copying, fetching
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.options import Options

pytestmark = pytest.mark.s3


@pytest.fixture
def filled(s3_place: Any) -> Any:
    """A bucket with a copy of the folder ``evidence``: three sessions of two runs each."""
    folder = s3_place.folder / "evidence"
    for _ in range(3):
        record(folder, runs=2)
    push(s3_place, folder)
    return s3_place


def push(place: Any, folder: Path) -> copying.Copied:
    store = open_store(folder)
    return copying.push(store, Bucket(Address.parse(place.uri)))


def test_a_bucket_is_judged_as_the_folder_is(filled: Any) -> None:
    here, there = (counterfoil.verify(place) for place in (filled.folder / "evidence", filled.uri))
    assert (there.verdict, there.findings, there.notes) == ("intact", [], [])
    assert there.counts == here.counts


def test_processes_side_by_side_open_the_bucket_themselves(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    judge = verification.judge_part

    def judged(*arguments: Any) -> bool:
        done.append(judge(*arguments))
        return done[-1]

    monkeypatch.setattr(verification, "judge_part", judged)
    found = counterfoil.verify(filled.uri, jobs=2)
    assert found.verdict == "intact"
    assert done == [True, True, True]
    assert found.counts == counterfoil.verify(filled.folder / "evidence").counts


def test_large_objects_are_looked_into_before_they_are_fetched(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limits so low that every object is large, of few bytes in memory and few files."""
    for name, value in {"_WHOLE": 0, "_SMALL": 512, "_IN_MEMORY": 1, "_ON_DISK": 1, "_FILES": 1}.items():
        monkeypatch.setattr(fetching, name, value)
    fetched: list[str] = []
    beginning = Bucket.beginning

    def looked(self: Bucket, key: str, version: str, **more: Any) -> bytes:
        fetched.append(key)
        return beginning(self, key, version, **more)

    monkeypatch.setattr(Bucket, "beginning", looked)
    assert counterfoil.verify(filled.uri).verdict == "intact"
    assert fetched
    assert len(counterfoil.read(filled.uri).runs()) == 6


def test_commands_read_a_bucket_as_they_read_a_folder(
    filled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str) -> str:
        code = main(list(words))
        text = capsys.readouterr()
        assert (code, text.err) in ((0, ""), (1, "")), text.err
        return text.out

    folder, uri = str(filled.folder / "evidence"), filled.uri
    for words in (
        ("log", "--json"),
        ("handoffs", "--json", "--hops"),
        ("graph", "--json"),
        ("graph", "--mermaid"),
        ("graph", "--dot"),
        ("show", "run/1", "--json", "-e"),
        ("environment", "--json"),
        ("verify", "--json"),
    ):
        assert told(*words, uri) == told(*words, folder), words
    differ = [json.loads(told("diff", place, "--json")) for place in (uri, folder)]
    for one in differ:
        for side in ("left", "right"):
            one[side].pop("evidence")
    assert differ[0] == differ[1]


def test_a_page_is_the_same_from_both_but_for_place_and_time(filled: Any) -> None:
    pages = []
    for place in (filled.uri, str(filled.folder / "evidence")):
        out = filled.folder / "case.html"
        assert main(["report", place, "--force", "-o", str(out)]) == 0
        text = re.sub(r"Verified [-0-9 :]+ UTC", "", out.read_text(encoding="utf-8"))
        pages.append(text.replace(place, "PLACE"))
    assert pages[0] == pages[1]


def test_a_bundle_and_an_export_are_the_same_from_both(filled: Any) -> None:
    out = filled.folder
    for place, name in ((filled.uri, "there"), (out / "evidence", "here")):
        assert main(["bundle", str(place), "--run", "2", "-o", str(out / f"{name}.bundle")]) == 0
        assert main(["export", str(place), "--tlog", str(out / name)]) == 0
    assert (out / "there.bundle").read_bytes() == (out / "here.bundle").read_bytes()
    files = sorted(path.relative_to(out / "here") for path in (out / "here").rglob("*") if path.is_file())
    assert files
    for path in files:
        assert (out / "there" / path).read_bytes() == (out / "here" / path).read_bytes()


def test_a_damaged_folder_is_mended_from_a_bucket(filled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = filled.folder / "evidence"
    path = sorted(folder.glob("*/*.seg"))[1]
    before = path.read_bytes()
    path.write_bytes(before[:300] + bytes([before[300] ^ 1]) + before[301:])
    assert counterfoil.verify(folder).verdict == "broken"
    done = main(["scrub", str(folder), "--mirror", filled.uri, "--repair"])
    assert done == 1, capsys.readouterr().out
    assert path.read_bytes() == before
    assert filled.uri in capsys.readouterr().out
    assert counterfoil.verify(folder).verdict == "intact"


def test_what_needs_a_folder_says_so(filled: Any) -> None:
    with pytest.raises(ConfigError) as failed:
        counterfoil.scrub.scrubbing.scrub(filled.uri)
    assert failed.value.code == "CF-SCRUB-011"
    with pytest.raises(StoreError) as refused:
        open_store(filled.uri).prepare()
    assert refused.value.code == "CF-STORE-008"


def test_a_place_without_evidence_and_a_bucket_that_is_none(s3_place: Any) -> None:
    for uri, code in (
        (s3_place.uri, "CF-STORE-002"),
        ("s3://counterfoil-nobody-made-this/team/evidence", "CF-S3-003"),
    ):
        with pytest.raises(StoreError) as failed:
            counterfoil.verify(uri)
        assert failed.value.code == code


def test_what_a_server_that_is_gone_means(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_S3_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("counterfoil.stores.s3.failing._FIRST_WAIT", 100.0)
    with pytest.raises(StoreError) as failed:
        counterfoil.verify(filled.uri)
    assert failed.value.code == "CF-S3-002"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("AWS_ACCESS_KEY_ID", "nobody", "CF-S3-008"), ("AWS_SECRET_ACCESS_KEY", "wrong-secret", "CF-S3-008")],
)
def test_wrong_credentials_are_told_and_never_shown(
    filled: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    code: str,
) -> None:
    monkeypatch.setenv(name, value)
    assert main(["verify", filled.uri]) == 2
    told = capsys.readouterr()
    assert code in told.err
    assert value not in told.err + told.out


def test_another_machine_reads_with_its_own_pins(filled: Any) -> None:
    identity = keys.load_identity()
    assert identity is not None
    keys.set_home(filled.folder / "elsewhere")
    assert counterfoil.verify(filled.uri).verdict == "cannot-tell"
    found = counterfoil.verify(filled.uri, keyring=keys.Keyring.of([identity.public]))
    assert found.verdict == "intact"
    assert [one.code for one in found.notes] == ["CF-VERIFY-062"]


def test_a_lock_shorter_than_asked_for_is_told(filled: Any) -> None:
    found = counterfoil.verify(filled.uri, retain=timedelta(days=365))
    assert found.verdict == "incomplete"
    assert [one.code for one in found.findings] == ["CF-S3-023"] * 3
    assert counterfoil.verify(filled.uri, retain=timedelta(days=2)).verdict == "intact"


def test_objects_without_a_lock_or_of_a_lesser_one_are_told(s3_place: Any) -> None:
    folder = s3_place.folder / "evidence"
    for _ in range(3):
        record(folder)
    s3_place.become(seaweed.ADMIN)
    store, address = open_store(folder), Address.parse(s3_place.uri)
    (log,) = store.logs()
    held = Bucket(address, Options(endpoint=s3_place.server.endpoint, legal_hold=True))
    lesser = Options(endpoint=s3_place.server.endpoint, mode="GOVERNANCE", retain=timedelta(days=1))
    for number, (bucket, until) in enumerate(
        ((held, None), (Bucket(address, lesser), lesser.until()), (Bucket(address), None))
    ):
        with store.open_segment(log, number) as file:
            data = file.read()
        name = store.segment_name(log, number)
        assert (
            bucket.put(
                address.key(name),
                data,
                sha256=hashlib.sha256(data).digest(),
                retain_until=until,
                legal_hold=bucket is held,
            )
            == "created"
        )
    found = counterfoil.verify(s3_place.uri)
    assert found.verdict == "incomplete"
    assert [(one.code, one.where[-12:]) for one in found.findings] == [
        ("CF-S3-022", f"{number:08d}.seg") for number in range(3)
    ]
    assert "legal hold" in found.findings[0].message
    assert "GOVERNANCE" in found.findings[1].message


def test_a_bucket_that_keeps_nothing_is_one_finding(s3_place: Any) -> None:
    folder = s3_place.folder / "evidence"
    record(folder)
    record(folder)
    s3_place.become(seaweed.ADMIN)
    s3_place.admin.create_bucket(Bucket=f"{s3_place.name}-plain")
    uri = f"s3://{s3_place.name}-plain"
    for path in folder.glob("*/*.seg"):
        key = f"{path.parent.name}/{path.name}"
        s3_place.admin.put_object(Bucket=f"{s3_place.name}-plain", Key=key, Body=path.read_bytes())
    found = counterfoil.verify(uri)
    assert (found.verdict, [one.code for one in found.findings]) == ("incomplete", ["CF-S3-024"])
    with pytest.raises(StoreError) as refused:
        copying.push(open_store(folder), Bucket(Address(f"{s3_place.name}-plain", "other")))
    assert refused.value.code == "CF-S3-010"


def test_many_logs_under_one_prefix_list_and_verify(s3_place: Any) -> None:
    """More keys than one page of a listing, by writers each with a log of its own."""
    folder = s3_place.folder / "evidence"
    record(folder)
    data = next(folder.glob("*/*.seg")).read_bytes()
    bucket = Bucket(Address.parse(s3_place.uri))

    def put(number: int) -> None:
        key = s3_place.key(f"{number:016x}/00000000.seg")
        s3_place.admin.put_object(Bucket=s3_place.name, Key=key, Body=data)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, range(1100)))
    store = open_store(s3_place.uri)
    assert len(store.logs()) == 1100
    assert store.size() == 1100 * len(data)
    assert sum(1 for _ in bucket.versions(bucket.address.root)) == 1100


def test_one_run_is_judged_by_its_logs_alone(filled: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What was put on top of another log's objects is none of its business."""
    (log,) = open_store(filled.uri).logs()
    assert main(["verify", filled.uri, "--run", "last"]) == 0
    other = {"Bucket": filled.name, "Key": filled.key("0" * 16 + "/00000000.seg")}
    filled.admin.delete_object(**other)
    assert main(["verify", filled.uri, "--run", "last"]) == 0
    own = {"Bucket": filled.name, "Key": filled.key(f"{log}/00000000.seg")}
    filled.admin.delete_object(**own)
    assert main(["verify", filled.uri, "--run", "last"]) == 3
    told = capsys.readouterr().out
    assert f"CF-S3-021 {log}/00000000.seg" in told
    assert "0" * 16 + "/" not in told


def test_bundles_stay_out_of_buckets(filled: Any) -> None:
    assert main(["bundle", filled.uri, "-o", str(filled.folder / "a.bundle")]) == 0
    with pytest.raises(BundleError):
        counterfoil.bundle(filled.folder / "a.bundle", filled.folder / "b.bundle")
