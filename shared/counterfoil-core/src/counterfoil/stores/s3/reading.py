"""Evidence in a bucket as readers see it: the oldest version of every segment, by one listing of versions.

Whoever may write into a bucket can put a newer version, or a delete marker, on top of an object that is locked; the
version below stays. So nothing here goes by what is latest, and what was put on top is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from counterfoil.errors import StoreError
from counterfoil.findings import Finding
from counterfoil.stores.folder import FolderStore
from counterfoil.stores.s3 import locks
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.fetching import Fetching
from counterfoil.stores.s3.listing import Listing
from counterfoil.stores.s3.options import Options
from counterfoil.stores.s3.spooled import waiting
from counterfoil.stores.s3.told import Version
from counterfoil.stores.watched import counted

__all__ = ["S3Store", "one_object", "open_bucket"]


class S3Store(FolderStore):
    """Reads what stands in a bucket; what asks for a folder gets StoreError (CF-STORE-008), others BucketError."""

    lags = True

    def __init__(self, bucket: Bucket, *, listing: Listing | None = None, whole: bool = False) -> None:
        self.bucket = bucket
        self._listing = listing
        self._order: list[tuple[str, int, Version]] | None = None
        self._fetching = Fetching(bucket)
        self._whole = whole

    @property
    def root(self) -> Path:  # type: ignore[override]
        """There is no folder; raises StoreError: CF-STORE-008."""
        raise StoreError(
            "this works on a folder only, and the evidence is in a bucket",
            code="CF-STORE-008",
            where=self.place,
            hint=f"take a copy: counterfoil pull {self.place} FOLDER",
        )

    def __repr__(self) -> str:
        return f"S3Store({self.place!r})"

    @property
    def place(self) -> str:
        """The address."""
        return self.bucket.address.uri

    @property
    def uri(self) -> str:
        """The name under which this place is remembered: the address, and the server where it is not Amazon's."""
        return self.bucket.name

    @property
    def names(self) -> frozenset[str]:
        """The same."""
        return frozenset((self.uri,))

    def holds(self, path: Path) -> bool:
        """Never: no path leads there."""
        return False

    # -- what is there ------------------------------------------------------------------------------------------------

    @property
    def listing(self) -> Listing:
        """What stands under the prefix, listed once."""
        if self._listing is None:
            root = self.bucket.address.root
            self._listing = Listing.of(self.bucket.versions(root), root)
            self._order = None
        return self._listing

    def refresh(self) -> None:
        """List anew at the next question."""
        self._listing = None

    def exists(self) -> bool:
        """Whether there is anything, be it a single marker, or something that waits on this machine to be uploaded."""
        found = self.listing
        return bool(found.segments or found.touched or found.foreign) or waiting(self.bucket.name) is not None

    def logs(self) -> list[str]:
        """Log ids, sorted."""
        return sorted(self.listing.segments)

    def segments(self, log: str) -> list[int]:
        """Segment numbers of a log, sorted."""
        return sorted(self.listing.segments.get(log, ()))

    def foreign(self) -> Iterator[tuple[str, str]]:
        """(relative name, what is wrong) of every key that no segment has."""
        for name in self.listing.foreign:
            shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)
            yield shown, "does not belong to evidence"

    def is_segment(self, log: str, number: int) -> bool:
        """Always so: what is listed is an object."""
        return True

    def version(self, log: str, number: int) -> Version:
        """The version that counts; raises StoreError (CF-S3-012)."""
        try:
            return self.listing.segments[log][number]
        except KeyError:
            raise StoreError(
                "the object is not there",
                code="CF-S3-012",
                where=self.segment_name(log, number),
                hint="list its versions: a delete marker may hide it",
            ) from None

    def segment_size(self, log: str, number: int) -> int:
        """Bytes of a segment."""
        return self.version(log, number).size

    def size(self) -> int:
        """Bytes of all segments."""
        return sum(version.size for _, _, version in self.listing.objects())

    # -- reading ------------------------------------------------------------------------------------------------------

    def open_segment(self, log: str, number: int) -> BinaryIO:
        """A segment opened for reading; those that come next are fetched meanwhile."""
        version = self.version(log, number)
        file = self._fetching.open(version, self._following(log, number), whole=self._whole)
        return counted(file, self.on_read)

    def _following(self, log: str, number: int) -> Sequence[Version]:
        listing = self.listing
        if self._order is None:
            self._order = list(listing.objects())
        at = bisect_right(self._order, (log, number), key=lambda one: (one[0], one[1]))
        return [version for _, _, version in self._order[at : at + 8]]

    def elsewhere(self, log: str, number: int) -> dict[str, str | int | None] | None:
        """The address of a segment, its version fixed; credentials are found where it is read, by the usual chain."""
        try:
            version = self.version(log, number)
        except StoreError:
            return None
        options = self.bucket.options
        return {
            "s3": self.place,
            "endpoint": options.endpoint,
            "region": options.region,
            "version": version.version,
            "size": version.size,
        }

    # -- judging ------------------------------------------------------------------------------------------------------

    def doubts(self, names: Sequence[str] | None, *, retain: timedelta | None) -> Iterator[Finding]:
        """Findings about versions, markers and locks of these logs (None: all)."""
        if retain is None:
            retain = self.bucket.options.retain
        return locks.findings(self.bucket, self.listing, names, retain=retain)

    def waiting(self, log: str, segment: int | str) -> str | None:
        """The spool of this machine, when it holds a segment that has yet to be sent."""
        folder = waiting(self.bucket.name, log, segment)
        return None if folder is None else str(folder)


def one_object(told: dict[str, Any], log: str, number: int) -> S3Store:
    """A store that holds one segment alone, by what ``S3Store.elsewhere`` told of it, and fetches it as a whole.

    Raises:
        ConfigError: CF-CONFIG-013 to 015: the address or a setting is none, or a package is missing here.
    """
    bucket = _bucket(told["s3"], told["endpoint"], told["region"])
    key = bucket.address.key(f"{log}/{number:08d}.seg")
    version = Version(key, told["version"], told["size"], datetime.min.replace(tzinfo=UTC), "", True, False)
    return S3Store(bucket, listing=Listing(segments={log: {number: version}}), whole=True)


@lru_cache(maxsize=8)
def _bucket(uri: str, endpoint: str | None, region: str | None) -> Bucket:
    """One client for all segments that this process is given: to begin one takes long, and asks for credentials."""
    return Bucket(Address.parse(uri), replace(Options.load(), endpoint=endpoint, region=region))


def open_bucket(uri: str) -> S3Store:
    """The evidence at an ``s3://`` address; nothing is asked of the server yet.

    Raises:
        ConfigError: CF-CONFIG-013 and -015: the address or a setting is none; CF-CONFIG-014: a package is missing.
    """
    return S3Store(Bucket(Address.parse(uri)))
