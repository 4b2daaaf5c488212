"""What a thief with credentials can do to evidence in a bucket: nothing that stays unseen, and nothing to what is kept.

With the writer's own rights little is left to try. With an administrator's, who may do everything but change a lock,
the first version of every object stays, and all that was put on top of it is told.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import seaweed
from botocore.exceptions import ClientError
from recording import record

import counterfoil
from counterfoil import keys
from counterfoil.cli import main
from counterfoil.stores import open_store
from counterfoil.stores.s3 import copying
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket

pytestmark = pytest.mark.s3


class Scene:
    """Evidence of three segments in a bucket, and a thief at its middle one."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.folder = place.folder / "evidence"
        for _ in range(3):
            record(self.folder)
        copying.push(open_store(self.folder), Bucket(Address.parse(place.uri)))
        self.names = place.keys()
        self.name = self.names[1]
        self.named = {"Bucket": place.name, "Key": place.key(self.name)}
        self.bytes = place.admin.get_object(**self.named)["Body"].read()
        self.version = place.admin.head_object(**self.named)["VersionId"]

    def kept(self) -> bool:
        """Whether the version that was uploaded is there, byte for byte, and still locked."""
        found = self.place.admin.get_object(**self.named, VersionId=self.version)
        return (
            found["Body"].read() == self.bytes
            and found["ObjectLockMode"] == "COMPLIANCE"
            and found["ObjectLockRetainUntilDate"] > datetime.now(UTC) + timedelta(days=1)
        )

    def judged(self) -> tuple[str, list[tuple[str, str]]]:
        """The verdict, and of each finding code and place: the same here and on a machine that remembers nothing."""
        identity = keys.load_identity()
        assert identity is not None
        here = counterfoil.verify(self.place.uri)
        keys.set_home(self.place.folder / "elsewhere")
        there = counterfoil.verify(self.place.uri, keyring=keys.Keyring.of([identity.public]))
        keys.set_home(self.place.folder / "home")
        assert here.findings == there.findings
        return here.verdict, [(one.code, one.where) for one in here.findings]


@pytest.fixture
def scene(s3_place: Any) -> Scene:
    return Scene(s3_place)


def refused(call: Any, **arguments: Any) -> bool:
    try:
        call(**arguments)
    except ClientError as exc:
        return bool(exc.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 403, 409))
    return False


def attempts(thief: Any, scene: Scene) -> dict[str, bool]:
    """Everything that would take something away; whether the server refused it."""
    version = {**scene.named, "VersionId": scene.version}
    bucket = {"Bucket": scene.place.name}
    sooner = datetime.now(UTC) + timedelta(seconds=30)
    many = {"Objects": [{"Key": scene.named["Key"], "VersionId": scene.version}]}
    done = {
        "delete the version": refused(thief.delete_object, **version),
        "delete it past governance": refused(thief.delete_object, **version, BypassGovernanceRetention=True),
        "shorten its lock": refused(
            thief.put_object_retention, **version, Retention={"Mode": "COMPLIANCE", "RetainUntilDate": sooner}
        ),
        "downgrade its lock": refused(
            thief.put_object_retention,
            **version,
            Retention={"Mode": "GOVERNANCE", "RetainUntilDate": sooner + timedelta(days=9)},
            BypassGovernanceRetention=True,
        ),
        "suspend versions": refused(
            thief.put_bucket_versioning, **bucket, VersioningConfiguration={"Status": "Suspended"}
        ),
        "delete the bucket": refused(thief.delete_bucket, **bucket),
    }
    # These may be answered with success; what counts is what they did.
    refused(thief.put_object_retention, **version, Retention={}, BypassGovernanceRetention=True)
    refused(thief.delete_objects, **bucket, Delete=many, BypassGovernanceRetention=True)
    done["clear its lock"] = done["delete many"] = scene.kept()
    return done


@pytest.mark.parametrize("who", [seaweed.WRITER, seaweed.ADMIN], ids=["writer", "admin"])
def test_nothing_takes_away_what_is_locked(scene: Scene, who: tuple[str, str]) -> None:
    done = attempts(scene.place.server.client(who), scene)
    assert [name for name, held in done.items() if not held] == []
    assert scene.kept()
    assert scene.judged() == ("intact", [])


def test_the_writers_rights_do_not_delete_and_do_not_touch_other_keys(scene: Scene) -> None:
    thief = scene.place.server.client(seaweed.WRITER)
    assert refused(thief.delete_object, **scene.named)
    assert refused(thief.put_object, Bucket=scene.place.name, Key="elsewhere/x", Body=b"x")
    rule = {"ObjectLockEnabled": "Enabled"}
    named = {"Bucket": scene.place.name, "ObjectLockConfiguration": rule}
    assert refused(thief.put_object_lock_configuration, **named)


def test_the_readers_rights_read_and_do_nothing_else(scene: Scene) -> None:
    scene.place.become(seaweed.READER)
    assert counterfoil.verify(scene.place.uri).verdict == "intact"
    reader = scene.place.server.client(seaweed.READER)
    assert refused(reader.put_object, **scene.named, Body=b"x")
    assert refused(reader.delete_object, **scene.named)
    attempts(reader, scene)
    assert scene.kept()


def test_a_newer_version_is_told_and_not_read(scene: Scene) -> None:
    """The writer's own credentials are enough for that, where the bucket's policy does not demand the condition."""
    thief = scene.place.server.client(seaweed.WRITER)
    until = datetime.now(UTC) + timedelta(days=900)
    forged = scene.bytes[:200] + b"forged" + scene.bytes[206:]
    lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until}
    thief.put_object(**scene.named, Body=forged, **lock)
    assert scene.place.admin.get_object(**scene.named)["Body"].read() == forged
    assert scene.judged() == ("broken", [("CF-S3-020", scene.name)])
    assert scene.kept()
    # What is read is what was uploaded first.
    assert len(counterfoil.read(scene.place.uri).runs()) == 3
    assert main(["pull", scene.place.uri, "copy"]) == 0
    assert counterfoil.verify("copy").verdict == "intact"


def test_an_equal_newer_version_is_told_as_well(scene: Scene) -> None:
    """Nobody who does as this product does makes one: whoever did it may write, and tried something."""
    scene.place.server.client(seaweed.WRITER).put_object(**scene.named, Body=scene.bytes)
    assert scene.judged() == ("broken", [("CF-S3-020", scene.name)])


def test_a_delete_marker_hides_nothing(scene: Scene) -> None:
    scene.place.admin.delete_object(**scene.named)
    assert refused_to_read(scene)
    assert scene.judged() == ("broken", [("CF-S3-021", scene.name)])
    assert scene.kept()


def refused_to_read(scene: Scene) -> bool:
    try:
        scene.place.admin.get_object(**scene.named)
    except ClientError as exc:
        return bool(exc.response["ResponseMetadata"]["HTTPStatusCode"] == 404)
    return False


def test_a_conditional_upload_above_a_marker_is_told(scene: Scene) -> None:
    """The hole that Object Lock leaves: above a marker `If-None-Match: *` succeeds, and GET gives what is forged."""
    scene.place.admin.delete_object(**scene.named)
    scene.place.server.client(seaweed.WRITER).put_object(**scene.named, Body=b"forged", IfNoneMatch="*")
    assert scene.place.admin.get_object(**scene.named)["Body"].read() == b"forged"
    verdict, found = scene.judged()
    assert (verdict, sorted(found)) == ("broken", [("CF-S3-020", scene.name), ("CF-S3-021", scene.name)])
    assert scene.kept()
    assert main(["push", str(scene.folder), scene.place.uri]) == 0  # what is compared is what was there first


def test_markers_and_versions_on_everything_are_told_of_everything(scene: Scene) -> None:
    for name in scene.names:
        named = {"Bucket": scene.place.name, "Key": scene.place.key(name)}
        scene.place.admin.delete_object(**named)
        scene.place.admin.put_object(**named, Body=b"")
        scene.place.admin.delete_object(**named)
    verdict, found = scene.judged()
    assert verdict == "broken"
    assert sorted(found) == sorted(
        (code, name) for name in scene.names for code in ("CF-S3-020", "CF-S3-021", "CF-S3-021")
    )


def test_a_segment_put_behind_the_end_is_no_part_of_the_log(scene: Scene) -> None:
    """A key that nobody took yet can be taken with the writer's credentials, but not with the writer's signature."""
    log = scene.name.partition("/")[0]
    thief = scene.place.server.client(seaweed.WRITER)
    named = {"Bucket": scene.place.name, "Key": scene.place.key(f"{log}/00000003.seg")}
    until = datetime.now(UTC) + timedelta(days=2)
    lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until}
    thief.put_object(**named, Body=scene.bytes, IfNoneMatch="*", **lock)
    verdict, found = scene.judged()
    assert verdict == "broken"
    assert {where.partition(" ")[0] for _, where in found} <= {log, f"{log}/00000003.seg"}


def test_a_foreign_key_is_told(scene: Scene) -> None:
    names = (".gitignore", "readme.txt", f"{'0' * 16}/00000000.seg.tmp", "a b.seg")
    for name in names:
        named = {"Bucket": scene.place.name, "Key": scene.place.key(name)}
        scene.place.admin.put_object(**named, Body=b"x")
    verdict, found = scene.judged()
    assert (verdict, sorted(found)) == ("broken", [("CF-VERIFY-002", name) for name in sorted(names)])


def test_a_segment_whose_lock_ran_out_and_that_was_deleted_is_missed(s3_place: Any) -> None:
    """Uploaded without a lock, as if its time were over: then a version can be deleted, and the chain shows it."""
    folder = s3_place.folder / "evidence"
    for _ in range(3):
        record(folder)
    for path in sorted(folder.glob("*/*.seg")):
        name = f"{path.parent.name}/{path.name}"
        s3_place.admin.put_object(
            Bucket=s3_place.name, Key=s3_place.key(name), Body=path.read_bytes(), ChecksumAlgorithm="SHA256"
        )
    names = s3_place.keys()
    named = {"Bucket": s3_place.name, "Key": s3_place.key(names[1])}
    version = s3_place.admin.head_object(**named)["VersionId"]
    s3_place.admin.delete_object(**named, VersionId=version)
    found = counterfoil.verify(s3_place.uri)
    assert found.verdict == "broken"
    assert ("CF-LOG-012", names[1]) in [(one.code, one.where) for one in found.findings]


def test_a_tail_that_was_deleted_is_missed_where_it_is_remembered(s3_place: Any) -> None:
    """Nothing of it waits on this machine any more, so that it is no upload which is late."""
    folder = s3_place.folder / "evidence"
    for _ in range(2):
        record(folder)
    first = sorted(folder.glob("*/*.seg"))[0]
    key = s3_place.key(f"{first.parent.name}/{first.name}")
    s3_place.admin.put_object(Bucket=s3_place.name, Key=key, Body=first.read_bytes())
    found = counterfoil.verify(s3_place.uri)
    assert "CF-VERIFY-052" in [one.code for one in found.findings]
    assert found.verdict == "broken"


def test_an_object_that_no_segment_can_be_is_not_read_for_ever(scene: Scene, monkeypatch: Any) -> None:
    monkeypatch.setattr("counterfoil.stores.s3.bucket.LARGEST", len(scene.bytes) - 1)
    monkeypatch.setattr(Bucket.get, "__kwdefaults__", {"limit": len(scene.bytes) - 1, "budget": None})
    found = counterfoil.verify(scene.place.uri)
    assert found.verdict == "broken"
    assert "CF-S3-013" in [one.code for one in found.findings]


def test_what_the_server_keeps_is_checked_by_its_own_digest(scene: Scene) -> None:
    """The lock's bytes and the checksum that was sent with them are what the server tells."""
    found = scene.place.admin.head_object(**scene.named, ChecksumMode="ENABLED")
    assert base64.b64decode(found["ChecksumSHA256"]) == hashlib.sha256(scene.bytes).digest()
