"""Whole evidence from a folder into a bucket and back: every object created once, every copy checked by its SHA-256.

What is there already is compared and kept, so either way can be broken off and begun again. One log is one history:
where a segment of it has other bytes on the other side, nothing more of it is copied.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterfoil._folders import sync_folder
from counterfoil.errors import StoreError
from counterfoil.stores.failed import store_error
from counterfoil.stores.folder import FolderStore
from counterfoil.stores.s3.bucket import LARGEST, Bucket
from counterfoil.stores.s3.failing import BucketError
from counterfoil.stores.s3.listing import Listing
from counterfoil.stores.s3.told import Version

__all__ = ["Copied", "Left", "pull", "push"]

_AT_ONCE: Final = 8
"""Logs that are copied at the same time; the segments of one go in order, so that a beginning of it is there."""


@dataclass(frozen=True, slots=True)
class Left:
    """A segment that was not copied, and why."""

    name: str
    why: str


@dataclass(slots=True)
class Copied:
    """What was done: segments and bytes copied, segments that were there already, and what was left out."""

    logs: int = 0
    copied: int = 0
    bytes: int = 0
    present: int = 0
    touched: int = 0
    left: list[Left] = field(default_factory=list)

    def add(self, other: Copied) -> None:
        """Add what was done for one log."""
        self.logs += other.logs
        self.copied += other.copied
        self.bytes += other.bytes
        self.present += other.present
        self.left += other.left


def push(store: FolderStore, bucket: Bucket, *, told: Callable[[int], None] = lambda _: None) -> Copied:
    """Create an object for every segment of a folder. ``told`` hears, on any thread, how many bytes were dealt with.

    A log that a writer holds goes without its last segment, which is still being written. Of any other log the last
    segment goes too: nobody writes into it again, for a writer that goes on begins the next one.

    Raises:
        BucketError: CF-S3-001..013; CF-S3-030: a segment has other bytes there; StoreError: a file cannot be read.
    """
    listing = Listing.of(bucket.versions(bucket.address.root), bucket.address.root)
    out = Copied(touched=len(listing.touched))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="counterfoil-push") as pool:
        jobs = [
            pool.submit(_push_log, store, bucket, name, listing.segments.get(name, {}), told)
            for name in store.logs()
        ]
        try:
            for job in jobs:
                out.add(job.result())
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return out


def _push_log(
    store: FolderStore, bucket: Bucket, log: str, there: dict[int, Version], told: Callable[[int], None]
) -> Copied:
    out = Copied(logs=1)
    with _held(store, log) as free:
        numbers = store.segments(log)
        left = [] if free else numbers[-1:]
        for number in numbers[: len(numbers) - len(left)]:
            name = store.segment_name(log, number)
            size = store.segment_size(log, number)
            data = _bytes_of(store, log, number)
            digest = hashlib.sha256(data).digest()
            known = there.get(number)
            key = bucket.address.key(name)
            if known is None:
                options = bucket.options
                put = bucket.put(
                    key, data, sha256=digest, retain_until=options.until(), legal_hold=options.legal_hold
                )
                same = put == "created" or bucket.digest_of(key) == digest
            else:
                put, same = "exists", known.size == size and bucket.digest_of(key, known.version) == digest
            if not same:
                raise _other(name, "in the bucket", "in the folder")
            out.copied += put == "created"
            out.present += put == "exists"
            out.bytes += len(data) if put == "created" else 0
            told(len(data))
    out.left += [Left(store.segment_name(log, number), "a writer has it open") for number in left]
    return out


@contextlib.contextmanager
def _held(store: FolderStore, log: str) -> Iterator[bool]:
    """Keep writers out of a log meanwhile; False when one is in it."""
    try:
        held = store.hold(log)
    except StoreError:
        yield True  # a folder that cannot be locked can be read all the same
        return
    try:
        yield held is not None
    finally:
        if held is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(held, fcntl.LOCK_UN)
            os.close(held)


def _bytes_of(store: FolderStore, log: str, number: int) -> bytes:
    try:
        with store.open_segment(log, number) as file:
            data = file.read(LARGEST + 1)
    except OSError as exc:
        raise store_error(exc, "cannot read the evidence", store.segment_name(log, number)) from exc
    if len(data) > LARGEST:
        raise BucketError(
            "the segment is larger than any that a writer makes",
            code="CF-S3-013",
            where=store.segment_name(log, number),
            hint="verify the folder first",
        )
    return data


def pull(bucket: Bucket, folder: Path, *, told: Callable[[int], None] = lambda _: None) -> Copied:
    """Copy the oldest version of every segment into a folder, which is made if it is not there.

    A file gets its name when all of it is on disk and has the digest that the server keeps; until then it stands beside
    the folder.

    Raises:
        BucketError: CF-S3-001..013; CF-S3-012 when there is nothing; CF-S3-030: a segment has other bytes in the
            folder; StoreError: the folder cannot be written.
    """
    listing = Listing.of(bucket.versions(bucket.address.root), bucket.address.root)
    if not listing.segments:
        raise BucketError(
            "there is no evidence here",
            code="CF-S3-012",
            where=bucket.address.uri,
            hint="name the bucket and prefix that was recorded into",
        )
    store = FolderStore(folder)
    store.prepare()
    out = Copied(touched=len(listing.touched))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="counterfoil-pull") as pool:
        jobs = [
            pool.submit(_pull_log, bucket, store, log, numbers, told)
            for log, numbers in sorted(listing.segments.items())
        ]
        try:
            for job in jobs:
                out.add(job.result())
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return out


def _pull_log(
    bucket: Bucket, store: FolderStore, log: str, there: dict[int, Version], told: Callable[[int], None]
) -> Copied:
    out = Copied(logs=1)
    have = set(store.segments(log))
    for number, version in sorted(there.items()):
        name = store.segment_name(log, number)
        if number in have:
            data = _bytes_of(store, log, number)
            same = len(data) == version.size
            if not same or hashlib.sha256(data).digest() != bucket.digest_of(version.key, version.version):
                raise _other(name, "in the folder", "in the bucket")
            out.present += 1
        else:
            with bucket.get(version.key, version.version) as file:
                data = file.read()
            digest = hashlib.sha256(data).digest()
            if len(data) != version.size or digest != (bucket.digest_of(version.key, version.version)):
                raise BucketError(
                    "what was read is not what the server says it keeps",
                    code="CF-S3-014",
                    where=name,
                    hint="try again; if it stays so, the server lies or its disk fails",
                )
            _place(store, name, data)
            out.copied += 1
            out.bytes += len(data)
        told(version.size)
    return out


def _place(store: FolderStore, name: str, data: bytes) -> None:
    """A file with all of its bytes, or none: it is written beside the folder, where nothing is evidence."""
    target = store.root / name
    beside = store.root.parent / f".{store.root.name}.{secrets.token_hex(8)}"
    try:
        try:
            fd = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            target.parent.mkdir(mode=0o700, exist_ok=True)
            os.link(beside, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
        sync_folder(target.parent)
        sync_folder(store.root)
    except OSError as exc:
        raise store_error(exc, "cannot write the evidence", str(target)) from exc


def _other(name: str, here: str, there: str) -> BucketError:
    return BucketError(
        f"this segment has other bytes {here} than {there}: damage, or two histories of one log",
        code="CF-S3-030",
        where=name,
        hint="verify both; a damaged folder is mended by counterfoil scrub --mirror, of two histories keep both",
    )
