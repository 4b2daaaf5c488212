"""An archive in a bucket: the same segments as objects under Object Lock."""

from __future__ import annotations

from datetime import UTC, datetime

from counterfoil.errors import ArchiveError
from counterfoil.stores import FolderStore
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.failing import BucketError
from counterfoil.stores.s3.options import Options

__all__ = ["BucketPlace"]


class BucketPlace:
    """Objects are created, never replaced; one that is there already must be ours."""

    def __init__(self, text: str, bucket: Bucket | None = None) -> None:
        self._address = Address.parse(text)
        self._options = Options.load()
        self._bucket = Bucket(self._address, self._options) if bucket is None else bucket

    @property
    def uri(self) -> str:
        """The address, in its one spelling."""
        return self._address.uri

    @property
    def name(self) -> str:
        """The address, with its server where that is not Amazon's."""
        return self._bucket.name

    def prepare(self) -> None:
        """Nothing: the first object asks whether the bucket keeps versions."""

    def put(self, store: FolderStore, log: str, pieces: list[tuple[str, int]], *, until: int | None) -> None:
        """Create an object a segment; raises BucketError, ArchiveError (CF-ARCHIVE-005) when another one is there."""
        kept = self._options.until() if until is None else datetime.fromtimestamp(until, UTC)
        for number, (sha256, _) in enumerate(pieces):
            name = store.segment_name(log, number)
            digest = bytes.fromhex(sha256)
            key = self._address.key(name)
            done = self._bucket.put(
                key,
                store.root / name,
                sha256=digest,
                retain_until=kept,
                legal_hold=self._options.legal_hold,
            )
            if done == "exists" and self._bucket.digest_of(key) != digest:
                raise ArchiveError(
                    "the archive holds another object under a segment's name",
                    code="CF-ARCHIVE-005",
                    where=f"{self.uri}/{name}",
                    hint="nothing there was touched: name another prefix, and find out what that one holds",
                )

    def wrong(self, log: str, pieces: list[tuple[str, int]]) -> list[int]:
        """Segments whose oldest version is not the one that should be there; raises BucketError."""
        found = []
        for number, (sha256, _) in enumerate(pieces):
            try:
                if self._bucket.digest_of(self._address.key(f"{log}/{number:08d}.seg")).hex() == sha256:
                    continue
            except BucketError as exc:
                if exc.code != "CF-S3-012":
                    raise
            found.append(number)
        return found
