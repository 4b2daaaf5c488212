"""Whether the wall clock was set by somebody who knows, and how far off it may be: times in a log are claims."""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any, Final

__all__ = ["capture"]

_UNSYNCHRONISED: Final = 0x0040  # STA_UNSYNC of <sys/timex.h>
_NANOSECONDS: Final = 0x2000  # STA_NANO


class _Timex(ctypes.Structure):
    """struct timex of Linux, up to what is read here; padded far beyond its real size."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def capture() -> dict[str, Any]:
    """``synchronised``, ``offset``, ``error``, ``max_error`` (microseconds) from adjtimex, which needs no rights."""
    if not sys.platform.startswith("linux"):
        return {"source": "unknown"}
    adjtimex = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    found = _Timex()
    if adjtimex is None or adjtimex(ctypes.byref(found)) < 0:
        return {"source": "unknown"}
    return {
        "error": found.esterror,
        "max_error": found.maxerror,
        "offset": found.offset // 1000 if found.status & _NANOSECONDS else found.offset,
        "resolution": round(time.get_clock_info("time").resolution * 1_000_000_000),
        "source": "probed",
        "synchronised": not found.status & _UNSYNCHRONISED,
    }
