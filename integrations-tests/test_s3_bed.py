"""The S3 server that the other tests stand on, and what every upload stands on: of two who create a key one wins."""

from __future__ import annotations

import multiprocessing
import queue
import time
import uuid
from typing import Any

import fencing
import pytest

pytestmark = pytest.mark.s3


def test_the_server_keeps_what_amazon_documents(s3_bed: Any) -> None:
    assert len(s3_bed.rows) == 60
    assert [row for row in s3_bed.rows if not row.holds] == []


def test_of_two_writers_one_wins_every_segment(s3_place: Any) -> None:
    """A thousand keys, each created by two processes at one moment through ``Bucket.put``."""
    context = multiprocessing.get_context("spawn")
    barriers = [context.Barrier(2) for _ in range(fencing.LANES)]
    results = context.Queue()
    bucket = f"fence-{uuid.uuid4().hex[:8]}"
    s3_place.admin.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    arguments = (bucket, s3_place.server.endpoint, barriers, results)
    both = [context.Process(target=fencing.create, args=(me, *arguments)) for me in (1, 2)]
    for process in both:
        process.start()
    told = collected(results, both)
    for process in both:
        process.join(30)
    won = {me: set(names) for me, names, _ in told}
    assert [failed for _, _, failed in told if failed] == []
    assert won[1] & won[2] == set()
    assert won[1] | won[2] == set(range(fencing.NAMES))
    for name in range(0, fencing.NAMES, 7):
        found = s3_place.admin.get_object(Bucket=bucket, Key=fencing.key(name))["Body"].read()
        assert found == fencing.body(1 if name in won[1] else 2, name)
    versions = s3_place.admin.list_object_versions(Bucket=bucket, MaxKeys=1000)
    assert len(versions["Versions"]) == fencing.NAMES


def collected(results: Any, both: list[Any]) -> list[Any]:
    """What both processes tell; a process that ends without a word is a failure at once."""
    told: list[Any] = []
    deadline = time.monotonic() + 240
    while len(told) < len(both):
        try:
            told.append(results.get(timeout=1))
        except queue.Empty:
            ended = [process.exitcode for process in both if process.exitcode not in (None, 0)]
            if ended or time.monotonic() > deadline:
                for process in both:
                    process.kill()
                pytest.fail(f"the processes did not end well: {ended}")
    return told
