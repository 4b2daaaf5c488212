"""Old logs archived into a real bucket: locked, read back as evidence, and found out when somebody tampers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from recording import one_run

import counterfoil
from counterfoil import keys, records
from counterfoil.archiving import moving
from counterfoil.archiving.moving import archive
from counterfoil.cli import main
from counterfoil.errors import ArchiveError
from counterfoil.recorder import Recorder
from counterfoil.stores import FolderStore

pytestmark = pytest.mark.s3


@pytest.fixture
def old(s3_place: Any) -> tuple[Path, int, list[str]]:
    """Evidence in a folder: two old logs and a young one; what is old, and which logs."""
    folder = s3_place.folder / "evidence"
    several = [Recorder(folder) for _ in range(2)]
    names = [recorder.open().log for recorder in several]
    for recorder, name in zip(several, names, strict=True):
        one_run(recorder)
        recorder.close()
        keys.close_log(f"{keys.load_or_create_identity().keyid}/{name}")
    before = records.now() + 1
    young = Recorder(folder)
    one_run(young)
    young.close()
    return folder, before, sorted(names)


def codes(found: Any) -> list[str]:
    return [one.code for one in found.findings]


def test_logs_go_into_a_bucket_and_both_are_intact(s3_place: Any, old: Any, capsys: Any) -> None:
    folder, before, names = old
    done = archive(FolderStore(folder), to=s3_place.uri, before=before, retain=3 * 86_400)
    assert [one.name for one in done.archived] == names
    assert {key.partition("/")[0] for key in s3_place.keys()} == set(names)
    assert not set(names) & set(FolderStore(folder).logs())
    for name in s3_place.keys():
        lock = s3_place.admin.get_object_retention(Bucket=s3_place.name, Key=s3_place.key(name))["Retention"]
        assert lock["Mode"] == "COMPLIANCE"
    here = counterfoil.verify(folder)
    assert (here.verdict, [one.where for one in here.notes]) == ("intact", [s3_place.uri])
    assert counterfoil.verify(s3_place.uri).verdict == "intact"
    both = counterfoil.verify(folder, archives=[s3_place.uri])
    assert (both.verdict, codes(both), both.counts["runs"]) == ("intact", [], 3)
    assert main(["verify", str(folder), "--archived"]) == 0
    assert capsys.readouterr().out.startswith("intact: 4 logs")
    places = {head.evidence for head in keys.remembered_heads().values() if head.origin[-16:] in names}
    assert len(places) == 1
    assert places.pop().startswith(s3_place.uri)


def test_what_was_put_in_between_is_gone_on_with(s3_place: Any, old: Any, monkeypatch: Any) -> None:
    """Everything is in the bucket, and the call ends before it says so; the next one creates nothing twice."""
    folder, before, names = old

    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(moving._Mover, "_stated", stops)
        with pytest.raises(KeyboardInterrupt):
            archive(FolderStore(folder), to=s3_place.uri, before=before)
    assert counterfoil.verify(folder).verdict == "intact"
    archive(FolderStore(folder), to=s3_place.uri, before=before)
    versions = s3_place.admin.list_object_versions(Bucket=s3_place.name)["Versions"]
    assert len(versions) == len(s3_place.keys())
    both = counterfoil.verify(folder, archives=[s3_place.uri])
    assert (both.verdict, codes(both)) == ("intact", [])
    assert set(names) <= {key.partition("/")[0] for key in s3_place.keys()}


def test_another_object_under_a_segments_name_stops_it(s3_place: Any, old: Any) -> None:
    folder, before, names = old
    key = s3_place.key(f"{names[0]}/00000000.seg")
    s3_place.admin.put_object(Bucket=s3_place.name, Key=key, Body=b"taken")
    with pytest.raises(ArchiveError) as caught:
        archive(FolderStore(folder), to=s3_place.uri, before=before)
    assert caught.value.code == "CF-ARCHIVE-005"
    assert set(names) < set(FolderStore(folder).logs())
    assert counterfoil.verify(folder).verdict == "intact"


def test_a_newer_version_on_an_archived_segment_is_found(s3_place: Any, old: Any) -> None:
    folder, before, names = old
    archive(FolderStore(folder), to=s3_place.uri, before=before, retain=3 * 86_400)
    key = s3_place.key(f"{names[0]}/00000000.seg")
    s3_place.admin.put_object(Bucket=s3_place.name, Key=key, Body=io.BytesIO(b"other"))
    found = counterfoil.verify(folder, archives=[s3_place.uri])
    assert found.verdict == "broken"
    assert "CF-VERIFY-073" not in codes(found)  # the oldest version is still what was archived
