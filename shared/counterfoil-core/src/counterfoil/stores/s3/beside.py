"""A bucket and what this machine's spool holds of it besides: what a process that writes there reads of it."""

from __future__ import annotations

import os
import time
from typing import Any, BinaryIO, Final

from counterfoil.errors import StoreError
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.listing import Listing
from counterfoil.stores.s3.reading import S3Store
from counterfoil.stores.s3.spool import SpoolStore

__all__ = ["Beside", "beside"]

FRESH: Final = 10.0
"""Seconds for which a listing is good: others put nothing there sooner."""


class Beside(S3Store):
    """Segments that stand in the spool are read there, all others in the bucket.

    ``patient`` says whether an unreachable bucket counts as one that holds nothing.
    """

    def __init__(self, bucket: Bucket, spool: SpoolStore, *, patient: bool = False) -> None:
        super().__init__(bucket)
        self.spool = spool
        self.error: StoreError | None = None
        """What the last listing failed with, if it did."""
        self._patient = patient
        self._at = 0.0

    @property
    def listing(self) -> Listing:
        """What stands in the bucket, as of some seconds ago; raises BucketError as long as it was never listed."""
        if self._listing is None or time.monotonic() - self._at > FRESH:
            self._list()
        assert self._listing is not None
        return self._listing

    def _list(self) -> None:
        try:
            root = self.bucket.address.root
            self._listing = Listing.of(self.bucket.versions(root), root)
            self.error = None
        except StoreError as exc:
            self.error = exc
            if self._listing is None and not self._patient:
                raise
            self._listing = self._listing or Listing()
        finally:
            self._at = time.monotonic()
        self._order = None

    def refresh(self) -> None:
        """List anew at the next question."""
        self._at = 0.0

    def exists(self) -> bool:
        """Whether there is a log there, or a place for one here."""
        return self.spool.exists() or bool(self.logs())

    def logs(self) -> list[str]:
        """Log ids, sorted."""
        return sorted({*self.listing.segments, *self.spool.logs()})

    def segments(self, log: str) -> list[int]:
        """Segment numbers of a log, sorted."""
        here, sent = self._here(log), self.spool.sent(log)
        there = self.listing.segments.get(log, {})
        if sent >= 0 and sent not in there and self.error is None:
            self._list()  # it went there, and from here, since the last look
            there = self.listing.segments.get(log, {})
        return sorted({*there, *here})

    def _here(self, log: str) -> list[int]:
        """Segments in the spool; where another one has the key in the bucket, that one counts."""
        taken = self.spool.taken(log)
        return [number for number in self.spool.segments(log) if taken is None or number < taken]

    def is_segment(self, log: str, number: int) -> bool:
        """Whether there is a segment of this number."""
        return number in self.segments(log)

    def segment_size(self, log: str, number: int) -> int:
        """Bytes of a segment."""
        path = self.spool.root / self.segment_name(log, number)
        if number in self._here(log):
            try:
                return os.stat(path).st_size
            except OSError:
                self.refresh()
        return super().segment_size(log, number)

    def size(self) -> int:
        """Bytes of all segments."""
        return sum(self.segment_size(log, number) for log in self.logs() for number in self.segments(log))

    def open_segment(self, log: str, number: int) -> BinaryIO:
        """A segment opened for reading."""
        if number in self._here(log):
            try:
                return self.spool.open_segment(log, number)
            except StoreError:
                self.refresh()  # it went to the bucket this moment
        return super().open_segment(log, number)

    def elsewhere(self, log: str, number: int) -> None:
        """Other processes would look into the bucket alone."""
        return


_found: dict[tuple[Any, ...], Beside] = {}


def beside(bucket: Bucket, *, patient: bool = False) -> Beside:
    """The bucket as its writers on this machine see it; one for all in this process that ask."""
    spool = SpoolStore(bucket.name)
    key = (str(spool.root), bucket.options, patient)
    return _found.setdefault(key, Beside(bucket, spool, patient=patient))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_found.clear)
