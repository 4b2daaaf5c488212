"""The two clients of a bucket: boto3 for what is asked rarely, obstore for the bytes.

obstore sends lock headers per store only, so there is one store for each day until which objects are kept. It does not
live through a fork: a child whose parent used it goes on with boto3 alone.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from counterfoil._files import read_given
from counterfoil.errors import ConfigError
from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.failing import failure
from counterfoil.stores.s3.options import Options

__all__ = ["Clients", "end_of_day", "lock_headers", "missing"]

_CONNECT: Final = 5
_READ: Final = 60
_POOL: Final = 32
_STORES: Final = 8
"""Stores kept: those of a few days until which objects are kept."""
_AMAZON: Final = (".amazonaws.com", ".amazonaws.com.cn")
_DEFAULT_REGION: Final = "us-east-1"
_CA_LIMIT: Final = 4 << 20
_used_in: list[int] = []
"""The process in which obstore was first used; its threads are of no other."""


class Clients:
    """Clients of one bucket, made when they are needed, and anew after ``renew``; safe for threads and after forks."""

    def __init__(self, address: Address, options: Options) -> None:
        self._bucket = address.bucket
        self._where = address.uri
        self._options = options
        self._lock = threading.RLock()
        self._session: Any = None
        self._s3: Any = None
        self._region: str | None = None
        self._stores: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._pid = os.getpid()

    def renew(self) -> None:
        """Look for credentials anew: they may have been renewed in a file or a variable."""
        with self._lock:
            self._session = self._s3 = None
            self._stores.clear()

    @property
    def s3(self) -> Any:
        """The boto3 client."""
        with self._lock:
            self._mind_forks()
            if self._s3 is None:
                self._s3 = self._make_s3()
            return self._s3

    def store(self, headers: dict[str, str]) -> Any | None:
        """The obstore store that sends these headers; None in a child of a process that used obstore already."""
        if not _used_in:
            _used_in.append(os.getpid())
        if _used_in[0] != os.getpid():
            return None
        key = tuple(f"{name}:{value}" for name, value in sorted(headers.items()))
        with self._lock:
            self._mind_forks()
            found = self._stores.get(key)
            if found is None:
                found = self._stores[key] = self._make_store(headers)
            self._stores.move_to_end(key)
            while len(self._stores) > _STORES:
                self._stores.popitem(last=False)
            return found

    def learn_region(self, region: str | None) -> None:
        """Go by the region in which the bucket said to be."""
        with self._lock:
            if region and region != self._region:
                self._region = region
                self._stores.clear()

    # -- making them --------------------------------------------------------------------------------------------------

    def _mind_forks(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._session = self._s3 = None
            self._stores.clear()

    def _boto_session(self) -> Any:
        if self._session is None:
            try:
                import boto3
            except ImportError as exc:
                raise missing() from exc
            try:
                self._session = boto3.Session()
            except Exception as exc:
                raise self._failed(exc) from None
        return self._session

    def _make_s3(self) -> Any:
        from botocore.config import Config

        session = self._boto_session()
        endpoint = self._options.endpoint
        config = Config(
            s3={"addressing_style": "path" if endpoint else "auto"},
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=_CONNECT,
            read_timeout=_READ,
            max_pool_connections=_POOL,
        )
        region = self._options.region or session.region_name or _DEFAULT_REGION
        try:
            return session.client("s3", region_name=region, endpoint_url=endpoint, config=config)
        except Exception as exc:
            raise self._failed(exc) from None

    def _make_store(self, headers: dict[str, str]) -> Any:
        try:
            from obstore.store import S3Store
        except ImportError as exc:
            raise missing() from exc
        meta = self.s3.meta
        host = str(meta.endpoint_url).partition("://")[2].partition("/")[0].partition(":")[0]
        amazon = host.endswith(_AMAZON)
        more: dict[str, Any] = {} if amazon else {"endpoint": str(meta.endpoint_url)}
        client: dict[str, Any] = {
            "allow_http": str(meta.endpoint_url).startswith("http://"),
            "connect_timeout": f"{_CONNECT}s",
            "timeout": f"{_READ}s",
            "default_headers": headers,
        }
        if bundle := os.environ.get("AWS_CA_BUNDLE"):
            try:
                client["root_certificate"] = read_given(bundle, limit=_CA_LIMIT)
            except (OSError, ValueError) as exc:
                raise self._failed(exc) from None
        try:
            return S3Store(
                self._bucket,
                region=self._region or str(meta.region_name),
                checksum_algorithm="sha256",
                virtual_hosted_style_request=amazon and "." not in self._bucket,
                client_options=client,  # type: ignore[arg-type]
                retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=_READ)},
                credential_provider=self._credentials(),
                **more,
            )
        except Exception as exc:
            raise self._failed(exc) from None

    def _credentials(self) -> Callable[[], Any]:
        """What obstore asks for credentials: whatever boto3 finds, so that both go by one chain."""
        held = self._boto_session().get_credentials()
        if held is None:
            from botocore.exceptions import NoCredentialsError

            raise self._failed(NoCredentialsError())

        def give() -> dict[str, Any]:
            frozen = held.get_frozen_credentials()
            return {
                "access_key_id": frozen.access_key,
                "secret_access_key": frozen.secret_key,
                "token": frozen.token,
                "expires_at": datetime.now(UTC) + timedelta(minutes=1),
            }

        return give

    def _failed(self, exc: Exception) -> Exception:
        return failure(exc, doing="reach the bucket", where=self._where)


def lock_headers(mode: str, until: datetime | None, *, legal_hold: bool) -> dict[str, str]:
    """The headers that lock an object; ``until`` is rounded up to the end of its day, so that stores are few."""
    headers = {}
    if until is not None:
        headers["x-amz-object-lock-mode"] = mode
        headers["x-amz-object-lock-retain-until-date"] = f"{end_of_day(until):%Y-%m-%dT%H:%M:%SZ}"
    if legal_hold:
        headers["x-amz-object-lock-legal-hold"] = "ON"
    return headers


def end_of_day(until: datetime) -> datetime:
    """The midnight (UTC) that ends the day of a time, itself at midnight."""
    until = until.astimezone(UTC)
    day = until.replace(hour=0, minute=0, second=0, microsecond=0)
    return day if day == until else day + timedelta(days=1)


def missing() -> ConfigError:
    """The error for a machine without the clients."""
    return ConfigError(
        "evidence in a bucket needs packages that are not installed",
        code="CF-CONFIG-014",
        hint='pip install "counterfoil[s3]"',
    )
