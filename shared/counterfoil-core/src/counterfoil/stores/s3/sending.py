"""Sends segments of a spool to the bucket, one at a time and in order; what was sent before is not sent twice.

Objects are created once (``If-None-Match: *``). A key that is taken holds either what is to be sent, whose answer got
lost, or somebody else's segment: then the log is theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from counterfoil import keys
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.locking import lock_log, unlock
from counterfoil.stores.failed import store_error
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.spool import SpoolStore

__all__ = ["ALONE", "Sender", "taken_error"]

BUDGET: Final = 1.0
"""Seconds for which one request is tried again before its error is told."""


ALONE: Final = frozenset({"CF-S3-012", "CF-S3-013"})
"""Codes that are about one segment, and say nothing of others."""


class Sender:
    """Sends from one spool into one bucket; for one thread. ``puts`` counts the objects it created."""

    def __init__(self, spool: SpoolStore, bucket: Bucket, *, budget: float = BUDGET) -> None:
        self.spool = spool
        self.bucket = bucket
        self.puts = 0
        self._budget = budget

    def send(self, log: str, number: int) -> bool:
        """Put one segment into the bucket, as its file is now, and note that; False when its key is taken by another.

        Raises:
            StoreError: CF-S3-001..013: it is not there yet; CF-STORE-001: the file cannot be read or marked.
        """
        name = self.spool.segment_name(log, number)
        if (first := min(self.spool.pending(log), default=number)) < number:
            # What is marked as sent is removed with all before it.
            raise StoreError(
                f"segment {first} is not in the bucket yet", code="CF-S3-041", where=name, hint="report this"
            )
        key = self.bucket.address.key(name)
        try:
            with self.spool.open_segment(log, number) as file:
                data = file.read()
        except StoreError:
            if self.spool.sent(log) >= number:
                return True  # another process sent it and removed it
            raise
        digest = hashlib.sha256(data).digest()
        options = self.bucket.options
        put = self.bucket.put(
            key,
            data,
            sha256=digest,
            retain_until=options.until(),
            legal_hold=options.legal_hold,
            budget=self._budget,
        )
        self.puts += put == "created"
        theirs = put == "exists" and self.bucket.digest_of(key, budget=self._budget) != digest
        try:
            if theirs:
                self.spool.mark_taken(log, number)
            else:
                self.spool.mark_sent(log, number)
        except OSError as exc:
            if not self.spool.root.is_dir():
                return not theirs
            raise store_error(exc, "cannot note what is in the bucket", str(self.spool.root)) from exc
        return not theirs

    def follows(self, log: str, number: int) -> bool:
        """Whether a key of a log is taken; who may only write cannot tell, and the attempt to write will."""
        key = self.bucket.address.key(self.spool.segment_name(log, number))
        try:
            return any(one.key == key for one in self.bucket.versions(key))
        except StoreError as exc:
            if exc.code == "CF-S3-004":
                return False
            raise

    def send_log(
        self,
        log: str,
        *,
        upto: int | None = None,
        go_on: Callable[[], bool] = lambda: True,
        told: Callable[[], None] = lambda: None,
    ) -> bool:
        """Send all of a log that is here alone, in order, for whoever holds its lock; False when it is taken.

        ``go_on`` is asked, and ``told`` called, between segments. Raises as ``send``.
        """
        for number in self.spool.pending(log):
            if (upto is not None and number > upto) or not go_on():
                break
            if self.spool.taken(log) is not None or not self.send(log, number):
                return False
            told()
        return True

    def send_dead(
        self, log: str, *, go_on: Callable[[], bool] = lambda: True, told: Callable[[], None] = lambda: None
    ) -> bool:
        """The same for a log that nobody writes, which is locked meanwhile; False when somebody does, or it is taken.

        Raises as ``send``.
        """
        if not self.spool.pending(log) or self.spool.taken(log) is not None:
            return True
        identity = keys.load_identity()
        if identity is None:
            return False
        locks = lock_log(self.spool, log, f"{identity.keyid}/{log}")
        if not locks:
            return False
        try:
            return self.send_log(log, go_on=go_on, told=told)
        finally:
            for held in locks:
                unlock(held)


def taken_error(spool: SpoolStore, log: str, number: int) -> CounterfoilError:
    """The error for a log that somebody else went on with."""
    return StoreError(
        "another writer put a segment of its own into this log",
        code="CF-S3-040",
        where=f"{spool.name}/{spool.segment_name(log, number)}",
        hint=f"what was written since stays in {spool.root / log}; recording goes on in another log",
    )
