"""The most memory that this process ever had.

``ru_maxrss`` will not do in a child: on Linux it starts with the peak of the process that began it.
"""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path


def peak() -> int:
    """Bytes."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[1]) << 10  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
