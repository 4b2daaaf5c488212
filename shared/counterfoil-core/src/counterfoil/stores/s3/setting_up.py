"""Makes a bucket that keeps what it gets, or says what an existing one lacks; nothing is ever weakened.

A bucket that holds anything is left as it is: a default retention in COMPLIANCE mode would lock other people's objects
for good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from counterfoil.errors import ConfigError
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.failing import failure, told
from counterfoil.stores.s3.told import BucketState

__all__ = ["SetUp", "policies", "set_up"]


@dataclass(frozen=True, slots=True)
class SetUp:
    """The bucket as it is now, what was done to it, and what it lacks."""

    state: BucketState
    done: tuple[str, ...]
    lacking: tuple[str, ...]


def set_up(bucket: Bucket, *, retain: timedelta | None) -> SetUp:
    """Make the bucket with versioning, Object Lock and a default retention, unless it is there.

    Raises:
        ConfigError: CF-CLI-086: it has to be made, and nobody said for how long it keeps what it gets.
        BucketError: CF-S3-001..011.
    """
    done: list[str] = []
    state = bucket.state()
    if not state.exists:
        if retain is None:
            raise ConfigError(
                "the bucket has to be made, and how long it keeps what it gets is not said",
                code="CF-CLI-086",
                where=bucket.address.uri,
                hint="--retain 365d: until then nobody, not its owner either, can delete or change an object",
            )
        if _create(bucket):
            done.append("made the bucket, with versioning and Object Lock")
        state = bucket.state()
    if retain is not None and state.locking and state.mode is None and _is_empty(bucket):
        days = max(1, math.ceil(retain / timedelta(days=1)))
        _lock_by_default(bucket, days)
        done.append(f"set the default retention: COMPLIANCE, {days} days")
        state = bucket.state()
    return SetUp(state, tuple(done), tuple(_lacking(bucket, state, retain)))


def _create(bucket: Bucket) -> bool:
    s3 = bucket.clients.s3
    named: dict[str, Any] = {"Bucket": bucket.address.bucket, "ObjectLockEnabledForBucket": True}
    region = str(s3.meta.region_name)
    if region != "us-east-1":
        named["CreateBucketConfiguration"] = {"LocationConstraint": region}
    try:
        s3.create_bucket(**named)
    except Exception as exc:
        if told(exc)[1] == "BucketAlreadyOwnedByYou":
            return False
        raise failure(exc, doing="make the bucket", where=bucket.address.uri) from None
    return True


def _lock_by_default(bucket: Bucket, days: int) -> None:
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": days}}
    try:
        bucket.clients.s3.put_object_lock_configuration(
            Bucket=bucket.address.bucket,
            ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule},
        )
    except Exception as exc:
        raise failure(exc, doing="set the default retention", where=bucket.address.uri) from None


def _is_empty(bucket: Bucket) -> bool:
    try:
        found = bucket.clients.s3.list_object_versions(Bucket=bucket.address.bucket, MaxKeys=1)
    except Exception as exc:
        raise failure(exc, doing="list the bucket", where=bucket.address.uri) from None
    return not found.get("Versions") and not found.get("DeleteMarkers")


def _lacking(bucket: Bucket, state: BucketState, retain: timedelta | None) -> list[str]:
    if state.versioned is None or state.locking is None:
        return [
            "the rights to ask how the bucket is set (s3:GetBucketVersioning, GetBucketObjectLockConfiguration)"
        ]
    found = []
    if not state.versioned:
        found.append("versioning: aws s3api put-bucket-versioning, Status=Enabled")
    if not state.locking:
        found.append("Object Lock: aws s3api put-object-lock-configuration, ObjectLockEnabled=Enabled")
    wanted = bucket.options.retain if retain is None else retain
    if state.mode == "GOVERNANCE":
        found.append("COMPLIANCE: the default retention is GOVERNANCE, which some may lift")
    elif state.mode is None and bucket.options.retain is None and retain is None:
        found.append("a retention: neither the bucket has a default, nor is s3_retain set")
    elif state.mode is not None and state.days is not None and wanted is not None:
        if timedelta(days=state.days) < wanted and bucket.options.retain is None:
            found.append(f"a longer default retention: it is {state.days} days")
    return found


# -- rights -----------------------------------------------------------------------------------------------------------


def policies(address: Address, *, legal_hold: bool = False) -> dict[str, Any]:
    """The least rights of who writes, who reads and who administers, as IAM policies, and a policy for the bucket.

    Nobody gets a right to delete, nor one to pass over a lock; the bucket's own policy refuses both to everybody, and
    any upload that would put a second version on top of an object. Whoever may set a legal hold may take it off, so
    writers get that right only where they need it.
    """
    whole = f"arn:aws:s3:::{address.bucket}"
    objects = f"{whole}/{address.root}*"
    listing = _allow(whole, "ListBucket", "ListBucketVersions")
    listing["Condition"] = {"StringLike": {"s3:prefix": [f"{address.root}*"]}}
    asking = _allow(whole, "GetBucketVersioning", "GetBucketObjectLockConfiguration")
    reading = _allow(objects, "GetObjectVersion", "GetObjectRetention", "GetObjectLegalHold")
    holding = ("PutObjectLegalHold",) if legal_hold else ()
    locks = ("GetObjectRetention", "PutObjectRetention", "GetObjectLegalHold", "PutObjectLegalHold")
    settings = ("Versioning", "ObjectLockConfiguration", "Policy")
    deleting = ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:BypassGovernanceRetention"]
    everybody = {"Effect": "Deny", "Principal": "*", "Resource": objects}
    unconditional = {"Null": {"s3:if-none-match": "true"}}
    return {
        "writer": _policy(
            _allow(objects, "PutObject", "PutObjectRetention", *holding), reading, listing, asking
        ),
        "reader": _policy(reading, listing, asking),
        "admin": _policy(
            _allow(whole, "CreateBucket", "ListBucket", "ListBucketVersions"),
            _allow(whole, *(f"{verb}Bucket{name}" for name in settings for verb in ("Get", "Put"))),
            _allow(objects, "GetObjectVersion", *locks),
        ),
        "bucket": _policy(
            {**everybody, "Action": deleting},
            {**everybody, "Action": "s3:PutObject", "Condition": unconditional},
        ),
    }


def _policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(resource: str, *actions: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": [f"s3:{one}" for one in actions], "Resource": resource}
