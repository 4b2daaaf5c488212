"""How a bucket is reached and what is asked of it, from the settings and the usual AWS variables."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from urllib.parse import urlsplit

from counterfoil import settings
from counterfoil.errors import ConfigError

__all__ = ["LockMode", "Options", "duration"]

LockMode = Literal["COMPLIANCE", "GOVERNANCE"]

_DURATION: Final = re.compile(r"([0-9]{1,6})([smhdy])\Z")
_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "y": timedelta(days=365),
}
_LONGEST: Final = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Options:
    """``retain`` None: the bucket's own default decides. ``patience`` is the budget of one operation, in seconds."""

    endpoint: str | None = None
    region: str | None = None
    mode: LockMode = "COMPLIANCE"
    retain: timedelta | None = None
    legal_hold: bool = False
    upload_after: float = 10.0
    close_wait: float = 30.0
    patience: float = 30.0

    def until(self, now: datetime | None = None) -> datetime | None:
        """Until when an object written now is kept; None when the bucket's own default decides."""
        if self.retain is None:
            return None
        return (datetime.now(UTC) if now is None else now) + self.retain

    @classmethod
    def load(cls) -> Options:
        """The options from settings file and environment.

        ``AWS_ENDPOINT_URL_S3`` and ``AWS_ENDPOINT_URL`` count where ``s3_endpoint`` is not set.

        Raises:
            ConfigError: CF-CONFIG-001 and -002 of the settings; CF-CONFIG-015: an endpoint or a duration is none.
        """
        found = settings.load()
        endpoint = (
            found.s3_endpoint
            or os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL")
            or None
        )
        return cls(
            endpoint=None if endpoint is None else _endpoint(endpoint),
            region=found.s3_region or None,
            mode=found.s3_mode,
            retain=None if found.s3_retain is None else duration(found.s3_retain, name="s3_retain"),
            legal_hold=found.s3_legal_hold,
            upload_after=found.s3_upload_after,
            close_wait=found.s3_close_wait,
        )


def duration(text: str, *, name: str) -> timedelta:
    """A duration as people write it: ``90s``, ``12h``, ``365d``, ``7y`` (years of 365 days).

    Raises:
        ConfigError: CF-CONFIG-015: it is none, is nothing, or is more than 100 years.
    """
    match = _DURATION.match(text)
    if match:
        found = int(match[1]) * _UNITS[match[2]] if int(match[1]) < 4_000_000 else timedelta.max
        if timedelta(0) < found <= _LONGEST:
            return found
    raise ConfigError(
        f"{name} is no duration of up to 100 years: {text[:40]!a}",
        code="CF-CONFIG-015",
        where=name,
        hint="write a number and s, m, h, d or y: 365d",
    )


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
        port_fits = parts.port is None or 0 < parts.port < 65_536
    except ValueError:
        parts, port_fits = urlsplit(""), False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_fits or not plain:
        # Not repeated: a user and a password may stand in it.
        raise ConfigError(
            "the endpoint of the bucket is no http or https address without user, query and fragment",
            code="CF-CONFIG-015",
            where="s3_endpoint",
            hint="write https://host:port",
        )
    return text.rstrip("/")
