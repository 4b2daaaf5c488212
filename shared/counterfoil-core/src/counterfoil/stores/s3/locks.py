"""How the objects of evidence are kept: what was put on top of them, and whether their locks are those asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Final

from counterfoil.findings import Finding
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.failing import BucketError
from counterfoil.stores.s3.listing import Listing, segment_of
from counterfoil.stores.s3.told import BucketState, Lock, Version

__all__ = ["findings"]

_AT_ONCE: Final = 16
_BATCH: Final = 512
_GRACE: Final = timedelta(hours=1)
"""What a lock may be short of: the clocks of a writer and of the server differ, and an upload takes its time."""


def findings(
    bucket: Bucket, listing: Listing, names: Sequence[str] | None, *, retain: timedelta | None
) -> Iterator[Finding]:
    """Findings about these logs (None: all), ``retain`` from the upload on; without it, a lock must hold now."""
    wanted = None if names is None else set(names)
    yield from _touched(listing, wanted)
    state = bucket.state()
    if state.versioned is False or state.locking is False:
        yield _unlocking(bucket, state)
        return
    yield from _locks(bucket, listing, wanted, retain)


def _touched(listing: Listing, wanted: set[str] | None) -> Iterator[Finding]:
    for name, rows in sorted(listing.touched.items()):
        found = segment_of(name)
        if wanted is not None and (found is None or found[0] not in wanted):
            continue
        versions = [one for one in rows if not one.marker]
        if len(versions) > 1:
            last = versions[-1]
            others = "another version" if len(versions) == 2 else f"{len(versions) - 1} other versions"
            yield Finding(
                "CF-S3-020",
                name,
                f"{others} of this object came after the first, the last on {_when(last.modified)}",
                "somebody with rights to write did this: the first version is read; find out who",
            )
        for marker in (one for one in rows if one.marker):
            yield Finding(
                "CF-S3-021",
                name,
                f"a delete marker was put on this object on {_when(marker.modified)}",
                "somebody with rights to delete did this: versions below it are read; find out who",
            )


def _unlocking(bucket: Bucket, state: BucketState) -> Finding:
    what = "keeps no versions" if state.versioned is False else "has no Object Lock"
    return Finding(
        "CF-S3-024",
        bucket.address.uri,
        f"the bucket {what}: whoever may write can replace or delete what is in it",
        f"copy the evidence into a bucket that has it: counterfoil init makes one for {bucket.address.uri}",
        "incomplete",
    )


def _locks(
    bucket: Bucket, listing: Listing, wanted: set[str] | None, retain: timedelta | None
) -> Iterator[Finding]:
    objects = [one for one in listing.objects() if wanted is None or one[0] in wanted]
    now = datetime.now(UTC)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="counterfoil-locks") as pool:
        for start in range(0, len(objects), _BATCH):
            batch = objects[start : start + _BATCH]
            told = pool.map(lambda one: _ask(bucket, one[2]), batch)
            for (log, number, version), lock in zip(batch, told, strict=True):
                if isinstance(lock, BucketError):
                    if lock.code != "CF-S3-004":
                        raise lock
                    yield Finding(
                        "CF-S3-026",
                        bucket.address.uri,
                        "the locks of the objects may not be read with these credentials",
                        "give s3:GetObjectRetention and s3:GetObjectLegalHold: counterfoil init --print-policy",
                        "cannot-tell",
                    )
                    return
                finding = _judge(f"{log}/{number:08d}.seg", version, lock, now, retain)
                if finding is not None:
                    yield finding


def _ask(bucket: Bucket, version: Version) -> Lock | BucketError:
    try:
        return bucket.lock_of(version.key, version.version)
    except BucketError as exc:
        return exc


def _judge(
    name: str, version: Version, lock: Lock, now: datetime, retain: timedelta | None
) -> Finding | None:
    """A legal hold keeps an object as long as it is on, and somebody may take it off: it is no retention."""
    if lock.mode is None or lock.until is None:
        held = "; a legal hold is on it" if lock.hold else ""
        return _short("CF-S3-022", name, f"the object is not locked{held}")
    if lock.mode != "COMPLIANCE":
        return _short("CF-S3-022", name, f"the lock is {lock.mode}, which some may lift, and not COMPLIANCE")
    if retain is not None:
        if lock.until + _GRACE < version.modified + retain:
            kept = max(lock.until - version.modified, timedelta(0))
            return _short(
                "CF-S3-023", name, f"locked for {_days(kept)} from its upload, asked for were {_days(retain)}"
            )
    elif lock.until < now:
        return _short("CF-S3-023", name, f"the lock ended on {_when(lock.until)}")
    return None


def _short(code: str, name: str, message: str) -> Finding:
    hint = "an administrator can lengthen a lock (put-object-retention); nobody can shorten one"
    return Finding(code, name, message, hint, "incomplete")


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _days(span: timedelta) -> str:
    hours = span.days * 24 + span.seconds // 3600
    return f"{span.days} days" if span.days >= 2 else f"{hours} hours"
