"""What a server tells of a bucket and of the versions in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

__all__ = ["BucketState", "Lock", "Told", "Version", "oldest_first", "utc", "version_of"]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a key; a delete marker has no bytes. ``latest`` is what a plain GET gives."""

    key: str
    version: str
    size: int
    modified: datetime
    etag: str
    latest: bool
    marker: bool


@dataclass(frozen=True, slots=True)
class Lock:
    """What keeps a version: ``mode`` COMPLIANCE, GOVERNANCE or None, ``until`` when, and whether a legal hold is on."""

    mode: str | None
    until: datetime | None
    hold: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What the server tells of a version; ``sha256`` (32 bytes) is None where it keeps no checksum of the whole."""

    size: int
    sha256: bytes | None
    lock: Lock


@dataclass(frozen=True, slots=True)
class BucketState:
    """What a bucket is set to; None where it may not be asked. ``days`` is the default retention of ``mode``."""

    exists: bool
    versioned: bool | None = None
    locking: bool | None = None
    mode: str | None = None
    days: int | None = None


def version_of(row: dict[str, Any], *, marker: bool) -> Version:
    """A row of a listing."""
    etag = str(row.get("ETag", "")).strip('"')
    size = 0 if marker else int(row["Size"])
    return Version(
        row["Key"], row["VersionId"], size, utc(row["LastModified"]), etag, bool(row["IsLatest"]), marker
    )


def oldest_first(rows: list[Version]) -> Iterator[Version]:
    """The versions of one key, which a listing names newest first, in the order in which they were made."""
    # The server's time, then the order of the listing: markers are listed apart, and many times are of whole seconds.
    return iter(sorted(reversed(rows), key=lambda row: row.modified))


def utc(at: datetime) -> datetime:
    """A time as the server tells it, in UTC whatever zone this machine is in."""
    return at.astimezone(UTC)
