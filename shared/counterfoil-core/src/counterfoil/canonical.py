"""One JSON value has one byte form (RFC 8785), so that its SHA-256 names it.

``rfc8785`` is the definition. Plain values take a guarded fast path through orjson that gives the same bytes; it is
tried against known answers at import and switched off on any difference (``fast_path_enabled``). A value must not
change while it is written: another thread's change may be in the bytes, or in them by half.

Two rules are stricter than ``rfc8785``, so that the outcome never depends on the caller's stack or on a
``str`` subclass: nesting beyond ``MAX_DEPTH_WRITE`` and two keys with equal text are refused.
What ``dumps`` writes for a double from 1e16 up is an integer text that ``loads`` refuses: stored bytes are
hashed as they are, never read and written again.

Source: RFC 8785 (JCS), RFC 7493 (I-JSON); ``shared/spec/canonical.md``.
"""

from __future__ import annotations

from counterfoil._ijson import MAX_DEPTH_READ, loads, loads_canonical, loads_plain
from counterfoil._jcs import MAX_INTEGER, dumps, dumps_record, fast_path_enabled
from counterfoil._jcs_fast import MAX_DEPTH_WRITE

__all__ = [
    "MAX_DEPTH_READ",
    "MAX_DEPTH_WRITE",
    "MAX_INTEGER",
    "dumps",
    "dumps_record",
    "fast_path_enabled",
    "loads",
    "loads_canonical",
    "loads_plain",
]
