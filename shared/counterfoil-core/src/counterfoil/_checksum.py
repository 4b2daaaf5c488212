"""CRC-32 as chunks have it: by zlib-ng where that is installed (thirty times as fast), else by zlib; one result.

The checksum finds accidents; what was changed on purpose is found by SHA-256.
"""

from __future__ import annotations

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:  # no wheel for this machine
    from zlib import crc32

__all__ = ["crc32"]
