"""An archive statement, and what is refused of one."""

from __future__ import annotations

from typing import Any, Final

from making.logs import AT, IDENTITY

ISSUED: Final = AT // 1000
ARCHIVE: Final[dict[str, Any]] = {
    "bytes": 4711,
    "first": ISSUED - 2000,
    "issued": ISSUED,
    "last": ISSUED - 1000,
    "log": {"origin": f"{IDENTITY.keyid}/{'b' * 16}", "root": "a" * 64, "size": 7},
    "manifest": {"sha256": "c" * 64, "size": 242},
    "place": "/archive",
    "runs": 1,
    "verdict": "intact",
}
ARCHIVED: Final = {"digest": {"sha256": "c" * 64}, "name": f"{IDENTITY.keyid}/{'b' * 16}"}
REFUSED: Final[list[tuple[str, dict[str, Any]]]] = [
    ("with a sender", {"sender": {"actor": "team", "key": IDENTITY.keyid}}),
    ("of a broken log", {"verdict": "broken"}),
    ("nowhere", {"place": ""}),
    ("of no entries", {"log": {**ARCHIVE["log"], "size": 0}}),
    ("with an empty list", {"manifest": {"sha256": "c" * 64, "size": 0}}),
    ("with a list of a media type", {"manifest": {**ARCHIVE["manifest"], "media": "x"}}),
    ("of fewer runs than none", {"runs": -1}),
]
