"""Whether an S3 server keeps what Amazon documents of Object Lock and conditional writes: each check tries to break it.

A server that lies here makes every test of evidence in a bucket worthless, so these run before them. Objects are made
by a plain client, and once more by `counterfoil.stores.s3.bucket.Bucket` where that does the same thing.

    python lock_conformance.py --endpoint http://127.0.0.1:PORT --key KEY --secret SECRET
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.failing import BucketError
from counterfoil.stores.s3.options import Options

_EXPIRY = 6
_RACERS = 16
_ROUNDS = 5
_LONG = timedelta(days=2)


@dataclass(frozen=True)
class Row:
    """One check: who made the object, whether the server keeps its word, what it did, and whether all hangs on that."""

    name: str
    by: str
    holds: bool
    got: str
    critical: bool


def run(endpoint: str, key: str, secret: str) -> list[Row]:
    """All checks, against new buckets."""
    checks = _Checks(endpoint, key, secret)
    for check in (checks.buckets, checks.suspending, checks.arguments, checks.expiry, checks.matching):
        checks.guard(check, "client")
    for check in (checks.multipart, checks.checksums):
        checks.guard(check, "client")
    for by in ("client", "Bucket"):
        for each in (
            checks.deleting,
            checks.bypassing,
            checks.batch,
            checks.weakening,
            checks.clearing,
            checks.lengthening,
            checks.covering,
            checks.governance,
            checks.holding,
            checks.default,
            checks.creating,
            checks.racing,
        ):
            checks.guard(lambda each=each, by=by: each(by), by)
    checks.guard(checks.locking_later, "client")
    checks.guard(checks.ours, "Bucket")
    checks.guard(checks.removing, "client")
    return checks.rows


def now(span: timedelta) -> datetime:
    return datetime.now(UTC) + span


def code(call: Callable[..., Any], **arguments: Any) -> tuple[Any, Any]:
    """("ok", answer), or (status, code) of a refusal."""
    try:
        return "ok", call(**arguments)
    except ClientError as exc:
        return exc.response["ResponseMetadata"].get("HTTPStatusCode"), exc.response["Error"].get("Code")
    except BotoCoreError as exc:
        return type(exc).__name__, str(exc)[:100]


class _Checks:
    def __init__(self, endpoint: str, key: str, secret: str) -> None:
        self.endpoint, self.key, self.secret = endpoint, key, secret
        self.rows: list[Row] = []
        self.s3 = self.client()
        mark = uuid.uuid4().hex[:10]
        self.bucket, self.plain, self.defaulting = (f"{name}-{mark}" for name in ("lock", "plain", "default"))
        self.count = 0

    def client(self) -> Any:
        config = Config(
            s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, max_pool_connections=32
        )
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name="us-east-1",
            config=config,
        )

    def ours_for(self, bucket: str, mode: Any = "COMPLIANCE") -> Bucket:
        return Bucket(Address(bucket), Options(endpoint=self.endpoint, mode=mode, patience=20))

    def guard(self, check: Callable[[], None], by: str) -> None:
        try:
            check()
        except Exception as exc:
            self.say(getattr(check, "__name__", "check"), by, False, f"{type(exc).__name__}: {exc}"[:200])

    def say(self, name: str, by: str, holds: object, got: object, *, critical: bool = True) -> None:
        self.rows.append(Row(name, by, bool(holds), str(got)[:200], critical))

    # -- making and looking -------------------------------------------------------------------------------------------

    def put(
        self,
        by: str,
        body: bytes = b"x",
        *,
        bucket: str | None = None,
        mode: Any = None,
        hold: bool = False,
    ) -> tuple[str, str]:
        """A new object and its version, locked for two days where a mode is given."""
        self.count += 1
        name, place = f"object-{self.count}", bucket or self.bucket
        if by == "Bucket":
            until = None if mode is None else now(_LONG)
            ours = self.ours_for(place, mode or "COMPLIANCE")
            made = ours.put(
                name, body, sha256=hashlib.sha256(body).digest(), retain_until=until, legal_hold=hold
            )
            assert made == "created"
            return name, ours.oldest(name).version
        more: dict[str, Any] = {}
        if mode is not None:
            more = {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": now(_LONG)}
        if hold:
            more["ObjectLockLegalHoldStatus"] = "ON"
        return name, self.s3.put_object(Bucket=place, Key=name, Body=body, **more)["VersionId"]

    def alive(self, name: str, version: str, body: bytes = b"x") -> bool:
        status, found = code(self.s3.get_object, Bucket=self.bucket, Key=name, VersionId=version)
        return status == "ok" and found["Body"].read() == body

    def delete(self, name: str, version: str, **more: Any) -> Any:
        return code(self.s3.delete_object, Bucket=self.bucket, Key=name, VersionId=version, **more)[0]

    def retention(self, name: str, version: str, value: dict[str, Any], **more: Any) -> Any:
        named = {"Bucket": self.bucket, "Key": name, "VersionId": version}
        return code(self.s3.put_object_retention, **named, Retention=value, **more)[0]

    # -- buckets ------------------------------------------------------------------------------------------------------

    def buckets(self) -> None:
        status, found = code(self.s3.create_bucket, Bucket=self.bucket, ObjectLockEnabledForBucket=True)
        self.say("a bucket is made with Object Lock", "client", status == "ok", found)
        self.s3.create_bucket(Bucket=self.plain)
        status, found = code(self.s3.get_bucket_versioning, Bucket=self.bucket)
        self.say("such a bucket keeps versions at once", "client", found.get("Status") == "Enabled", found)
        self.s3.create_bucket(Bucket=self.defaulting, ObjectLockEnabledForBucket=True)
        rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
        self.s3.put_object_lock_configuration(
            Bucket=self.defaulting,
            ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule},
        )

    def suspending(self) -> None:
        suspended = {"Status": "Suspended"}
        status, _ = code(self.s3.put_bucket_versioning, Bucket=self.bucket, VersioningConfiguration=suspended)
        self.say("versions cannot be suspended", "client", status == 409, status)

    def arguments(self) -> None:
        locked = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": now(_LONG)}
        status, _ = code(self.s3.put_object, Bucket=self.plain, Key="a1", Body=b"x", **locked)
        self.say("a lock on a bucket without Object Lock is refused", "client", status == 400, status)
        past = {**locked, "ObjectLockRetainUntilDate": now(-_LONG)}
        status, _ = code(self.s3.put_object, Bucket=self.bucket, Key="a2", Body=b"x", **past)
        self.say("a lock that ended is refused", "client", status == 400, status, critical=False)
        alone = {"ObjectLockMode": "COMPLIANCE"}
        status, _ = code(self.s3.put_object, Bucket=self.bucket, Key="a3", Body=b"x", **alone)
        self.say("a mode without a date is refused", "client", status == 400, status, critical=False)

    def removing(self) -> None:
        status, _ = code(self.s3.delete_bucket, Bucket=self.bucket)
        there, _ = code(self.s3.head_bucket, Bucket=self.bucket)
        self.say("a bucket that holds something stays", "client", status == 409 and there == "ok", status)

    # -- COMPLIANCE ---------------------------------------------------------------------------------------------------

    def deleting(self, by: str) -> None:
        name, version = self.put(by, mode="COMPLIANCE")
        found = self.s3.head_object(Bucket=self.bucket, Key=name)
        locked = found.get("ObjectLockMode") == "COMPLIANCE" and found.get("ObjectLockRetainUntilDate")
        self.say("the upload's headers lock it", by, locked, found.get("ObjectLockMode"))
        status = self.delete(name, version)
        self.say("its version cannot be deleted", by, status == 403 and self.alive(name, version), status)

    def bypassing(self, by: str) -> None:
        name, version = self.put(by, mode="COMPLIANCE")
        status = self.delete(name, version, BypassGovernanceRetention=True)
        kept = status == 403 and self.alive(name, version)
        self.say("the header that passes over GOVERNANCE does not help", by, kept, status)

    def batch(self, by: str) -> None:
        name, version = self.put(by, mode="COMPLIANCE")
        named = {"Objects": [{"Key": name, "VersionId": version}]}
        status, _ = code(
            self.s3.delete_objects, Bucket=self.bucket, Delete=named, BypassGovernanceRetention=True
        )
        self.say("nor does deleting many at once", by, self.alive(name, version), status)

    def weakening(self, by: str) -> None:
        name, version = self.put(by, mode="COMPLIANCE")
        sooner = {"Mode": "COMPLIANCE", "RetainUntilDate": now(timedelta(minutes=10))}
        status = self.retention(name, version, sooner, BypassGovernanceRetention=True)
        self.say("the lock cannot be shortened", by, status == 403, status)
        lighter = {"Mode": "GOVERNANCE", "RetainUntilDate": now(2 * _LONG)}
        status = self.retention(name, version, lighter, BypassGovernanceRetention=True)
        gone = self.delete(name, version, BypassGovernanceRetention=True)
        kept = status == 403 and self.alive(name, version)
        self.say("the lock cannot be made GOVERNANCE", by, kept, (status, gone))

    def clearing(self, by: str) -> None:
        name, version = self.put(by, mode="COMPLIANCE")
        status = self.retention(name, version, {}, BypassGovernanceRetention=True)
        gone = self.delete(name, version, BypassGovernanceRetention=True)
        self.say("the lock cannot be cleared", by, self.alive(name, version), (status, gone))

    def lengthening(self, by: str) -> None:
        name, version = self.put(by, mode="COMPLIANCE")
        status = self.retention(name, version, {"Mode": "COMPLIANCE", "RetainUntilDate": now(3 * _LONG)})
        self.say("the lock can be lengthened", by, status == "ok", status, critical=False)

    def locking_later(self) -> None:
        name, version = self.put("client")
        self.retention(name, version, {"Mode": "COMPLIANCE", "RetainUntilDate": now(_LONG)})
        status = self.delete(name, version, BypassGovernanceRetention=True)
        kept = status == 403 and self.alive(name, version)
        self.say("a lock set later holds", "client", kept, status)
        name, version = self.put("client")
        self.s3.put_object_legal_hold(
            Bucket=self.bucket, Key=name, VersionId=version, LegalHold={"Status": "ON"}
        )
        status = self.delete(name, version)
        kept = status == 403 and self.alive(name, version)
        self.say("a legal hold set later holds", "client", kept, status)

    def covering(self, by: str) -> None:
        name, version = self.put(by, mode="COMPLIANCE")
        status, _ = code(self.s3.delete_object, Bucket=self.bucket, Key=name)
        found, _ = code(self.s3.get_object, Bucket=self.bucket, Key=name)
        kept = status == "ok" and found == 404 and self.alive(name, version)
        self.say("a plain delete puts a marker on it and no more", by, kept, (status, found))
        name, version = self.put(by, b"old", mode="COMPLIANCE")
        newer = self.s3.put_object(Bucket=self.bucket, Key=name, Body=b"new")["VersionId"]
        kept = newer != version and self.alive(name, version, b"old")
        self.say("a plain overwrite puts a version on it and no more", by, kept, (version, newer))

    def expiry(self) -> None:
        locked = {
            "ObjectLockMode": "COMPLIANCE",
            "ObjectLockRetainUntilDate": now(timedelta(seconds=_EXPIRY)),
        }
        version = self.s3.put_object(Bucket=self.bucket, Key="e1", Body=b"x", **locked)["VersionId"]
        before = self.delete("e1", version)
        time.sleep(_EXPIRY + 1.5)
        after = self.delete("e1", version)
        told = before == 403 and after == "ok"
        self.say(
            "the lock holds until its time and not longer", "client", told, (before, after), critical=False
        )

    # -- other locks --------------------------------------------------------------------------------------------------

    def governance(self, by: str) -> None:
        name, version = self.put(by, mode="GOVERNANCE")
        status = self.delete(name, version)
        kept = status == 403 and self.alive(name, version)
        self.say("GOVERNANCE holds without the header", by, kept, status)
        status = self.delete(name, version, BypassGovernanceRetention=True)
        gone = status == "ok" and not self.alive(name, version)
        self.say("GOVERNANCE can be passed over with it", by, gone, status, critical=False)

    def holding(self, by: str) -> None:
        name, version = self.put(by, hold=True)
        status = self.delete(name, version, BypassGovernanceRetention=True)
        kept = status == 403 and self.alive(name, version)
        self.say("a legal hold holds", by, kept, status)
        self.s3.put_object_legal_hold(
            Bucket=self.bucket, Key=name, VersionId=version, LegalHold={"Status": "OFF"}
        )
        status = self.delete(name, version)
        self.say("a legal hold can be taken off", by, status == "ok", status, critical=False)

    def default(self, by: str) -> None:
        name, version = self.put(by, bucket=self.defaulting)
        found = self.s3.head_object(Bucket=self.defaulting, Key=name).get("ObjectLockMode")
        self.say("the bucket's default locks an object", by, found == "COMPLIANCE", found)
        status, _ = code(self.s3.delete_object, Bucket=self.defaulting, Key=name, VersionId=version)
        self.say("the bucket's default holds", by, status == 403, status)

    # -- conditions ---------------------------------------------------------------------------------------------------

    def creating(self, by: str) -> None:
        for locked in (False, True):
            name = f"create-{by}-{locked}"
            first, second = self._create(by, name, b"1", locked), self._create(by, name, b"2", locked)
            body = self.s3.get_object(Bucket=self.bucket, Key=name)["Body"].read()
            told = "a conditional upload" + (" with a lock" if locked else "") + " succeeds once"
            self.say(told, by, (first, second, body) == (True, False, b"1"), (first, second, body))

    def _create(self, by: str, name: str, body: bytes, locked: bool, client: Any = None) -> bool:
        if by == "Bucket":
            until = now(_LONG) if locked else None
            bucket = client or self.ours_for(self.bucket)
            put = bucket.put(name, body, sha256=hashlib.sha256(body).digest(), retain_until=until)
            return bool(put == "created")
        more = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": now(_LONG)} if locked else {}
        status, _ = code(
            (client or self.s3).put_object, Bucket=self.bucket, Key=name, Body=body, IfNoneMatch="*", **more
        )
        return bool(status == "ok")

    def racing(self, by: str) -> None:
        clients = [self.client() if by == "client" else self.ours_for(self.bucket) for _ in range(_RACERS)]
        barrier, won = threading.Barrier(_RACERS * _ROUNDS), list[tuple[int, int]]()

        def go(racer: int, number: int) -> None:
            barrier.wait()
            if self._create(by, f"race-{by}-{number}", b"%d" % racer, False, clients[racer]):
                won.append((number, racer))

        each = [(racer, number) for racer in range(_RACERS) for number in range(_ROUNDS)]
        threads = [threading.Thread(target=go, args=one) for one in each]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, racer in won:
            body = self.s3.get_object(Bucket=self.bucket, Key=f"race-{by}-{number}")["Body"].read()
            if body != b"%d" % racer:
                won.append((-1, racer))
        once = sorted(number for number, _ in won) == list(range(_ROUNDS))
        self.say(f"of {_RACERS} creators at once one wins ({_ROUNDS} keys)", by, once, won)

    def matching(self) -> None:
        etag = self.s3.put_object(Bucket=self.bucket, Key="m1", Body=b"1")["ETag"]
        named = {"Bucket": self.bucket, "Key": "m1"}
        wrong, _ = code(self.s3.put_object, **named, Body=b"2", IfMatch=f'"{"0" * 32}"')
        right, _ = code(self.s3.put_object, **named, Body=b"3", IfMatch=etag)
        self.say("If-Match is kept", "client", (wrong, right) == (412, "ok"), (wrong, right))

    # -- other ways in ------------------------------------------------------------------------------------------------

    def multipart(self) -> None:
        named = {"Bucket": self.bucket, "Key": "mp"}
        locked = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": now(_LONG)}
        upload = self.s3.create_multipart_upload(**named, **locked)["UploadId"]
        parts = []
        for number in (1, 2):
            part = self.s3.upload_part(**named, UploadId=upload, PartNumber=number, Body=b"z" * (5 << 20))
            parts.append({"ETag": part["ETag"], "PartNumber": number})
        self.s3.complete_multipart_upload(**named, UploadId=upload, MultipartUpload={"Parts": parts})
        found = self.s3.head_object(**named)
        status = self.delete("mp", found["VersionId"])
        kept = found.get("ObjectLockMode") == "COMPLIANCE" and status == 403
        self.say("an upload in parts is locked", "client", kept, (found.get("ObjectLockMode"), status))
        upload = self.s3.create_multipart_upload(**named)["UploadId"]
        part = self.s3.upload_part(**named, UploadId=upload, PartNumber=1, Body=b"y" * (5 << 20))
        status, _ = code(
            self.s3.complete_multipart_upload,
            **named,
            UploadId=upload,
            IfNoneMatch="*",
            MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]},
        )
        told = "an upload in parts minds the condition"
        self.say(told, "client", status == 412, status, critical=False)

    def checksums(self) -> None:
        good, bad = (base64.b64encode(hashlib.sha256(one).digest()).decode() for one in (b"abc", b"abd"))
        named = {"Bucket": self.bucket, "Body": b"abc"}
        self.s3.put_object(**named, Key="k1", ChecksumSHA256=good)
        found = self.s3.head_object(Bucket=self.bucket, Key="k1", ChecksumMode="ENABLED")
        kept = found.get("ChecksumSHA256") == good
        self.say("a SHA-256 is kept and told", "client", kept, found.get("ChecksumSHA256"), critical=False)
        status, _ = code(self.s3.put_object, **named, Key="k2", ChecksumSHA256=bad)
        self.say("a wrong SHA-256 is refused", "client", status == 400, status, critical=False)

    def ours(self) -> None:
        """What `Bucket` tells is what the server keeps, and it writes nothing into a bucket that keeps nothing."""
        bucket = self.ours_for(self.bucket)
        body = os.urandom(4096)
        digest = hashlib.sha256(body).digest()
        name, version = self.put("Bucket", body, mode="COMPLIANCE", hold=True)
        told = bucket.told_of(name, version)
        midnight = (now(_LONG) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        lock = (told.lock.mode, told.lock.until, told.lock.hold)
        self.say("lock_of tells the lock", "Bucket", lock == ("COMPLIANCE", midnight, True), lock)
        self.say(
            "digest_of tells the SHA-256", "Bucket", told.sha256 == digest == bucket.digest_of(name), told
        )
        self.s3.put_object(Bucket=self.bucket, Key=name, Body=b"forged")
        self.s3.delete_object(Bucket=self.bucket, Key=name)
        # A marker's place among versions of the same second nobody can tell: the two are listed apart.
        listed = [one.version for one in bucket.versions(name) if not one.marker]
        markers = sum(one.marker for one in bucket.versions(name))
        told_first = listed[0] == version == bucket.oldest(name).version
        self.say("versions come oldest first", "Bucket", told_first and len(listed) == 2, listed)
        self.say("markers are told", "Bucket", markers == 1, markers)
        with bucket.get(name, version) as file:
            self.say("get gives the version asked for", "Bucket", file.read() == body, "other bytes")
        for place, wanted in ((self.plain, "CF-S3-010"), (f"none-{uuid.uuid4().hex[:8]}", "CF-S3-003")):
            try:
                got = self.ours_for(place).put("x", b"x", sha256=hashlib.sha256(b"x").digest())
            except BucketError as exc:
                got = exc.code  # type: ignore[assignment]
            there = code(self.s3.head_object, Bucket=place, Key="x")[0] == "ok"
            told_of = f"put refuses a bucket that keeps nothing ({wanted})"
            self.say(told_of, "Bucket", got == wanted and not there, (got, there))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--endpoint", "--key", "--secret"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    os.environ.update(AWS_ACCESS_KEY_ID=given.key, AWS_SECRET_ACCESS_KEY=given.secret)
    rows = run(given.endpoint, given.key, given.secret)
    for row in rows:
        mark = "ok  " if row.holds else "FAIL"
        print(
            f"{mark} {'!' if row.critical else ' '} {row.by:<7} {row.name}{'' if row.holds else ': ' + row.got}"
        )
    failed = [row for row in rows if not row.holds]
    critical = sum(row.critical for row in failed)
    print(f"{len(rows) - len(failed)} of {len(rows)} checks hold; critical failures: {critical}")
    return int(critical > 0)


if __name__ == "__main__":
    raise SystemExit(main())
