"""A bucket as evidence needs it: create an object once, read its versions, ask for their locks. It deletes nothing.

Every operation is tried again within a budget while that can help, and ends in one error with a stable code.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeVar, cast

from counterfoil._files import read_given
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.clients import Clients, lock_headers
from counterfoil.stores.s3.failing import BucketError, persist, told
from counterfoil.stores.s3.options import Options
from counterfoil.stores.s3.told import BucketState, Lock, Told, Version, oldest_first, utc, version_of

__all__ = ["LARGEST", "Bucket", "BucketState", "Lock", "Told", "Version"]

LARGEST: Final = 80 << 20
"""Bytes of an object that is read or written: a segment of 64 MiB, its last chunk and its checkpoint."""
T = TypeVar("T")


class Bucket:
    """The objects of one evidence; methods raise BucketError (CF-S3-001..013) and are safe for threads.

    ``key`` is always whole, prefix included: ``address.key(name)``.
    """

    def __init__(self, address: Address, options: Options | None = None) -> None:
        self.address = address
        self.options = Options.load() if options is None else options
        self.clients = Clients(address, self.options)
        self._checked = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Bucket({self.name!r})"

    @property
    def name(self) -> str:
        """What this place is remembered by: one bucket's name may stand for another place at another server."""
        endpoint = self.options.endpoint
        return self.address.uri if endpoint is None else f"{self.address.uri} at {endpoint}"

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        key: str,
        data: Path | bytes,
        *,
        sha256: bytes,
        retain_until: datetime | None = None,
        legal_hold: bool = False,
        budget: float | None = None,
    ) -> Literal["created", "exists"]:
        """Create an object, with its checksum and its lock, if there is none of this key.

        ``exists`` says that the key is taken, perhaps by an earlier attempt of this very call whose answer got lost:
        compare ``digest_of``. ``retain_until`` is rounded up to the end of its day (UTC); None leaves it to the
        bucket's default. ``budget``: seconds, ``options.patience`` unless given.

        Raises:
            BucketError: CF-S3-001..011; CF-S3-013: the bytes are not those of ``sha256``, or too many.
        """
        body = data if isinstance(data, bytes) else self._read(data)
        if len(body) > LARGEST or hashlib.sha256(body).digest() != sha256:
            raise BucketError(
                "what is to be stored is not what was named, or too large",
                code="CF-S3-013",
                where=key,
                hint="the file changed under its uploader: verify it where it is",
            )
        headers = lock_headers(self.options.mode, retain_until, legal_hold=legal_hold)

        def create() -> Literal["created", "exists"]:
            self._mind_the_bucket()
            try:
                self._create(key, body, sha256, headers)
            except Exception as exc:
                if told(exc)[0] == 412:
                    return "exists"
                raise
            return "created"

        return self._persist(create, doing="store an object", where=key, budget=budget)

    def _create(self, key: str, body: bytes, sha256: bytes, headers: dict[str, str]) -> None:
        store = self.clients.store(headers)
        if store is not None:
            store.put(key, body, mode="create", use_multipart=False)
            return
        lock: dict[str, Any] = {}
        if "x-amz-object-lock-mode" in headers:
            lock["ObjectLockMode"] = headers["x-amz-object-lock-mode"]
            lock["ObjectLockRetainUntilDate"] = headers["x-amz-object-lock-retain-until-date"]
        if "x-amz-object-lock-legal-hold" in headers:
            lock["ObjectLockLegalHoldStatus"] = "ON"
        checksum = base64.b64encode(sha256).decode()
        self.clients.s3.put_object(
            Bucket=self.address.bucket, Key=key, Body=body, IfNoneMatch="*", ChecksumSHA256=checksum, **lock
        )

    def _mind_the_bucket(self) -> None:
        """Refuse a bucket that keeps no versions, before the first object: some servers make one that is missing."""
        with self._lock:
            if self._checked:
                return
            state = self._state()
            if not state.exists:
                raise self._unfit("CF-S3-003", "there is no such bucket")
            if state.versioned is False or state.locking is False:
                raise self._unfit("CF-S3-010", "the bucket has no versioning or no Object Lock")
            self._checked = True

    def _unfit(self, code: str, message: str) -> BucketError:
        hint = f"make one: counterfoil init {self.address.uri}"
        return BucketError(message, code=code, where=self.address.uri, hint=hint)

    def _read(self, path: Path) -> bytes:
        try:
            return read_given(path, limit=LARGEST)
        except (OSError, ValueError) as exc:
            raise BucketError(
                f"the file to be stored cannot be read: {getattr(exc, 'strerror', None) or type(exc).__name__}",
                code="CF-S3-013",
                where=str(path),
                hint="check the file and the disk",
            ) from exc

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, key: str, version: str, *, limit: int = LARGEST, budget: float | None = None) -> BinaryIO:
        """A version's bytes in a temporary file that has no name, opened at its start.

        Raises:
            BucketError: CF-S3-001..012; CF-S3-013: it has more than ``limit`` bytes.
        """

        def fetch() -> BinaryIO:
            file = cast("BinaryIO", tempfile.TemporaryFile(prefix="counterfoil-"))
            try:
                size = 0
                for chunk in self._chunks(key, version):
                    size += len(chunk)
                    if size > limit:
                        raise BucketError(
                            f"the object has more than {limit:,} bytes",
                            code="CF-S3-013",
                            where=key,
                            hint="no segment is as large: find out who put it there",
                        )
                    file.write(chunk)
                file.seek(0)
            except BaseException:
                file.close()
                raise
            return file

        return self._persist(fetch, doing="read an object", where=key, budget=budget)

    def beginning(self, key: str, version: str, *, size: int, budget: float | None = None) -> bytes:
        """The first ``size`` bytes of a version, which must have as many."""

        def fetch() -> bytes:
            store = self.clients.store({})
            if store is not None:
                return bytes(store.get(key, options={"version": version, "range": (0, size)}).bytes())
            named = {"Bucket": self.address.bucket, "Key": key, "VersionId": version}
            return cast(
                "bytes", self.clients.s3.get_object(Range=f"bytes=0-{size - 1}", **named)["Body"].read(size)
            )

        return self._persist(fetch, doing="read an object", where=key, budget=budget)

    def _chunks(self, key: str, version: str) -> Iterator[Any]:
        store = self.clients.store({})
        if store is not None:
            yield from store.get(key, options={"version": version}).stream(min_chunk_size=1 << 20)
            return
        found = self.clients.s3.get_object(Bucket=self.address.bucket, Key=key, VersionId=version)
        yield from found["Body"].iter_chunks(1 << 20)

    def versions(self, prefix: str) -> Iterator[Version]:
        """Every version and delete marker of the keys that begin with a text: by key, oldest first within a key.

        Raises:
            BucketError: CF-S3-001..012; CF-S3-015: the pages do not go on, or not in the order of the keys.
        """
        marks: dict[str, str] = {}
        pending: list[Version] = []
        while True:
            page = self._persist(
                partial(self._list, prefix, marks),
                doing="list the bucket",
                where=self.address.uri,
            )
            rows = [version_of(row, marker=False) for row in page.get("Versions", ())]
            rows += [version_of(row, marker=True) for row in page.get("DeleteMarkers", ())]
            rows.sort(key=lambda row: row.key.encode())  # stable: newest first within a key, as S3 lists them
            for row in rows:
                if pending and pending[0].key != row.key:
                    if row.key.encode() < pending[0].key.encode():
                        # Versions of one key that stand apart would each look like the first one.
                        raise self._no_listing("it comes back to keys that were passed")
                    yield from oldest_first(pending)
                    pending = []
                pending.append(row)
            if not page.get("IsTruncated"):
                break
            following = {"KeyMarker": page.get("NextKeyMarker") or ""}
            if page.get("NextVersionIdMarker"):
                following["VersionIdMarker"] = page["NextVersionIdMarker"]
            if not following["KeyMarker"] or following == marks:
                raise self._no_listing("it names no page that follows")
            marks = following
        yield from oldest_first(pending)

    def _no_listing(self, why: str) -> BucketError:
        return BucketError(
            f"the bucket's listing of versions is none: {why}",
            code="CF-S3-015",
            where=self.address.uri,
            hint="ask whoever runs the server: keys come sorted, and every page names the next",
        )

    def _list(self, prefix: str, marks: dict[str, str]) -> dict[str, Any]:
        found = self.clients.s3.list_object_versions(Bucket=self.address.bucket, Prefix=prefix, **marks)
        return cast("dict[str, Any]", found)

    def told_of(self, key: str, version: str, *, with_lock: bool = True, budget: float | None = None) -> Told:
        """What the server tells of a version: size, checksum, lock. One request; two where it names no lock.

        Without ``with_lock`` the lock may be missing for want of the right to read it.

        Raises:
            BucketError: CF-S3-004 also where the lock may not be read: it cannot be told from none.
        """
        named = {"Bucket": self.address.bucket, "Key": key, "VersionId": version}

        def ask() -> Told:
            found = self.clients.s3.head_object(ChecksumMode="ENABLED", **named)
            lock = Lock(
                found.get("ObjectLockMode"),
                _until(found.get("ObjectLockRetainUntilDate")),
                found.get("ObjectLockLegalHoldStatus") == "ON",
            )
            if lock.mode is None and with_lock:
                # The head leaves a lock out for who may not read it, and says nothing of that.
                try:
                    held = self.clients.s3.get_object_retention(**named).get("Retention", {})
                    lock = Lock(held.get("Mode"), _until(held.get("RetainUntilDate")), lock.hold)
                except Exception as exc:
                    if told(exc)[0] not in (400, 404):
                        raise
            checksum = found.get("ChecksumSHA256") or ""
            whole = found.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT" and "-" not in checksum
            digest = base64.b64decode(checksum) if whole else b""
            return Told(int(found["ContentLength"]), digest if len(digest) == 32 else None, lock)

        return self._persist(ask, doing="ask about an object", where=key, budget=budget)

    def lock_of(self, key: str, version: str) -> Lock:
        """What keeps a version from being deleted."""
        return self.told_of(key, version).lock

    def digest_of(self, key: str, version: str | None = None, *, budget: float | None = None) -> bytes:
        """SHA-256 (32 bytes) of a version: the checksum the server keeps, else that of its bytes.

        Without ``version``: of the oldest version, which is what readers go by.
        """
        if version is None:
            version = self.oldest(key).version
        found = self.told_of(key, version, with_lock=False, budget=budget).sha256
        if found is not None:
            return found
        with self.get(key, version, budget=budget) as file:
            return hashlib.file_digest(cast("BufferedReader", file), "sha256").digest()

    def oldest(self, key: str) -> Version:
        """The oldest version of a key that has bytes.

        Raises:
            BucketError: CF-S3-012: there is none.
        """
        for one in self.versions(key):
            if one.key == key and not one.marker:
                return one
        raise BucketError("the object is not there", code="CF-S3-012", where=key, hint="list its versions")

    def state(self) -> BucketState:
        """What the bucket is set to."""
        return self._persist(self._state, doing="ask about the bucket", where=self.address.uri)

    def _state(self) -> BucketState:
        s3, named = self.clients.s3, {"Bucket": self.address.bucket}
        try:
            headers = s3.head_bucket(**named)["ResponseMetadata"].get("HTTPHeaders", {})
        except Exception as exc:
            if told(exc)[0] == 404:
                return BucketState(exists=False)
            if told(exc)[0] != 403:
                raise
            # Who may list a prefix only may not ask this; the region is told all the same.
            response: Any = getattr(exc, "response", {})
            headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        self.clients.learn_region(headers.get("x-amz-bucket-region"))
        versioned: bool | None = None
        try:
            versioned = s3.get_bucket_versioning(**named).get("Status") == "Enabled"
        except Exception as exc:
            if told(exc)[1] != "AccessDenied":
                raise
        try:
            found = s3.get_object_lock_configuration(**named).get("ObjectLockConfiguration", {})
        except Exception as exc:
            status, code = told(exc)
            if code == "AccessDenied":
                return BucketState(True, versioned)
            if status == 404:
                return BucketState(True, versioned, False)
            raise
        rule = found.get("Rule", {}).get("DefaultRetention", {})
        days = rule.get("Days") or (rule["Years"] * 365 if rule.get("Years") else None)
        return BucketState(
            True, versioned, found.get("ObjectLockEnabled") == "Enabled", rule.get("Mode"), days
        )

    def _persist(self, what: Callable[[], T], *, doing: str, where: str, budget: float | None = None) -> T:
        patience = self.options.patience if budget is None else budget
        return persist(what, renew=self.clients.renew, doing=doing, where=where, patience=patience)


def _until(at: datetime | None) -> datetime | None:
    return None if at is None else utc(at)
