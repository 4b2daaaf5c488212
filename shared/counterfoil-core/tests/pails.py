"""A bucket in memory, with the calls of the real one: for what needs no server. What a bucket promises is shown on one.

``pails`` are the buckets by URI; ``counterfoil.places.bucket_of`` is made to give them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from counterfoil import places
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.failing import BucketError
from counterfoil.stores.s3.options import Options
from counterfoil.stores.s3.told import Version

_START = datetime(2026, 1, 1, tzinfo=UTC)


class Pail:
    """``faults`` are taken one by one: each is what the next request fails with, a function to call, or nothing.

    ``down`` fails every request, ``bad`` is a part of keys that cannot be put. ``puts`` are the keys created.
    """

    def __init__(self, uri: str, options: Options | None = None) -> None:
        self.address = Address.parse(uri)
        self.options = options or Options(upload_after=3600.0, close_wait=5.0, patience=0.0)
        self.objects: dict[str, list[bytes]] = {}
        self.puts: list[str] = []
        self.faults: list[str | Callable[[], None] | None] = []
        self.down: str | None = None
        self.bad = ""
        self.lost_answers = 0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.address.uri

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
        self._request()
        assert isinstance(data, bytes)
        assert hashlib.sha256(data).digest() == sha256
        if self.bad and self.bad in key:
            raise failed("CF-S3-013")
        with self._lock:
            if key in self.objects:
                return "exists"
            self.objects[key] = [data]
            self.puts.append(key)
            if self.lost_answers:
                self.lost_answers -= 1
                raise failed("CF-S3-002")
        return "created"

    def digest_of(self, key: str, version: str | None = None, *, budget: float | None = None) -> bytes:
        self._request()
        return hashlib.sha256(self.objects[key][0]).digest()

    def versions(self, prefix: str) -> Iterator[Version]:
        self._request()
        for key in sorted(self.objects):
            if key.startswith(prefix):
                for number, data in enumerate(self.objects[key]):
                    at = _START + timedelta(seconds=number)
                    yield Version(key, str(number), len(data), at, "", number == 0, marker=False)

    def get(self, key: str, version: str, **more: Any) -> Any:
        import io

        self._request()
        return io.BytesIO(self.objects[key][int(version)])

    def _request(self) -> None:
        fault = self.down or (self.faults.pop(0) if self.faults else None)
        if callable(fault):
            fault()
        elif fault is not None:
            raise failed(fault)

    # -- what a test asks ---------------------------------------------------------------------------------------------

    def dump(self, folder: Path) -> Path:
        """The oldest versions as a folder of evidence."""
        for key, versions in self.objects.items():
            path = folder / key.removeprefix(self.address.root)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(versions[0])
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / ".gitignore").write_bytes(b"*\n")
        return folder

    def logs(self) -> dict[str, list[int]]:
        """Segment numbers by log."""
        found: dict[str, list[int]] = {}
        for key in sorted(self.objects):
            log, _, name = key.removeprefix(self.address.root).partition("/")
            found.setdefault(log, []).append(int(name[:8]))
        return found


def failed(code: str) -> BucketError:
    """What a bucket fails with."""
    return BucketError("cannot: it is made to fail", code=code, where="pail", hint="mend the test")


@pytest.fixture
def pail(monkeypatch: pytest.MonkeyPatch) -> Pail:
    """The bucket behind ``s3://pail/p``."""
    found = Pail("s3://pail/p")
    monkeypatch.setattr(places, "bucket_of", lambda evidence, patience=None: found)
    return found
