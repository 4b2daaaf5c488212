"""A zone that nothing can tell from another is not taken for one: such a time has no exact form."""

from __future__ import annotations

import datetime as dt
import importlib.resources
import io
import zoneinfo
from pathlib import Path

from counterfoil import values
from counterfoil.payloads import plain_digest


class Silent(dt.tzinfo):
    """A zone that tells no offset of a time without a date, as dateutil's do."""

    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta | None:
        return None if moment is None else dt.timedelta(hours=1)

    def dst(self, moment: dt.datetime | None) -> dt.timedelta | None:
        return None

    def tzname(self, moment: dt.datetime | None) -> str | None:
        return None


def _file(name: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        path = Path(folder) / name
        if path.is_file():
            return path.read_bytes()
    data: bytes = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    return data


def _unnamed(name: str) -> zoneinfo.ZoneInfo:
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(_file(name)))


def test_a_time_whose_zone_tells_nothing_is_not_exact() -> None:
    for zone in (_unnamed("Europe/Berlin"), _unnamed("Asia/Tokyo"), Silent()):
        time = dt.time(12, tzinfo=zone)
        assert "$opaque" in values.encode(time)["tz"]  # type: ignore[index, call-overload]
        assert plain_digest(time) is None
        assert values.encode(time) != values.encode(dt.time(12))


def test_a_moment_tells_its_offset_and_of_what_class_its_zone_is() -> None:
    berlin, tokyo = (
        dt.datetime(2026, 7, 1, tzinfo=_unnamed(name)) for name in ("Europe/Berlin", "Asia/Tokyo")
    )
    assert values.encode(berlin) == {"$datetime": "2026-07-01T00:00:00+02:00", "tz": "zoneinfo.ZoneInfo"}
    assert plain_digest(berlin) != plain_digest(tokyo)


def test_a_zone_with_a_key_is_told_by_it() -> None:
    time = dt.time(12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    assert values.encode(time) == {"$time": "12:00:00", "zone": "Europe/Berlin"}
    assert plain_digest(time) is not None
