"""The S3 server that the other tests stand on, and what every upload stands on: of two who create a key one wins."""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from typing import Any

import pytest

pytestmark = pytest.mark.s3

_NAMES = 1000
_LANES = 25


def test_the_server_keeps_what_amazon_documents(s3_bed: Any) -> None:
    assert len(s3_bed.rows) == 60
    assert [row for row in s3_bed.rows if not row.holds] == []


def creator(me: int, bucket: str, endpoint: str, barriers: list[Any], results: Any) -> None:
    """Create every name at the moment the other process does; tell which were won."""
    import hashlib

    from counterfoil.stores.s3.address import Address
    from counterfoil.stores.s3.bucket import Bucket
    from counterfoil.stores.s3.options import Options

    ours = Bucket(Address(bucket), Options(endpoint=endpoint, patience=60))
    won: list[int] = []
    failed: list[str] = []

    def lane(number: int) -> None:
        for name in range(number, _NAMES, _LANES):
            body = f"{me}:{name}".encode() * 50
            barriers[number].wait(120)
            try:
                put = ours.put(f"log/{name:08d}.seg", body, sha256=hashlib.sha256(body).digest())
            except Exception as exc:
                failed.append(f"{name}: {exc}")
            else:
                if put == "created":
                    won.append(name)

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(_LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((me, won, failed))


def test_of_two_writers_one_wins_every_segment(s3_place: Any) -> None:
    """A thousand keys, each created by two processes at one moment through ``Bucket.put``."""
    context = multiprocessing.get_context("spawn")
    barriers = [context.Barrier(2) for _ in range(_LANES)]
    results = context.Queue()
    bucket = f"fence-{uuid.uuid4().hex[:8]}"
    s3_place.admin.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    arguments = (bucket, s3_place.server.endpoint, barriers, results)
    both = [context.Process(target=creator, args=(me, *arguments)) for me in (1, 2)]
    for process in both:
        process.start()
    told = [results.get(timeout=240) for _ in both]
    for process in both:
        process.join(30)
    won = {me: set(names) for me, names, _ in told}
    assert [failed for _, _, failed in told if failed] == []
    assert won[1] & won[2] == set()
    assert won[1] | won[2] == set(range(_NAMES))
    for name in range(0, _NAMES, 7):
        found = s3_place.admin.get_object(Bucket=bucket, Key=f"log/{name:08d}.seg")["Body"].read()
        assert found == f"{1 if name in won[1] else 2}:{name}".encode() * 50
    versions = s3_place.admin.list_object_versions(Bucket=bucket, MaxKeys=1000)
    assert len(versions["Versions"]) == _NAMES
