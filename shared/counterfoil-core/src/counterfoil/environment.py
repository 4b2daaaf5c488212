"""What the run ran on: exact library versions, Python, operating system and the names of environment variables.

Each item carries ``source: probed | declared | unknown``. Values of environment variables are not stored, except those
of an allow-list that cannot hold a secret.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any, Final

__all__ = ["ALLOWED", "capture", "distributions"]

ALLOWED: Final = (
    "COUNTERFOIL",
    "COUNTERFOIL_DURABILITY",
    "COUNTERFOIL_MODE",
    "COUNTERFOIL_PLUGINS",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "LANG",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "TZ",
)
"""Variables whose values are stored."""


def capture() -> dict[str, Any]:
    """The environment record's value (a few ms): JSON types only."""
    names = sorted(name for name in os.environ if _plain(name))
    return {
        "distributions": {"items": distributions(), "source": "probed"},
        "environment": {
            "names": names,
            "source": "probed",
            "values": {name: os.environ[name] for name in ALLOWED if _plain(os.environ.get(name))},
        },
        "image": _declared("COUNTERFOIL_IMAGE_DIGEST"),
        "os": {
            "machine": platform.machine(),
            "release": platform.release(),
            "source": "probed",
            "system": platform.system(),
        },
        "python": {
            "build": list(platform.python_build()),
            "implementation": platform.python_implementation(),
            "source": "probed",
            "version": platform.python_version(),
        },
    }


def distributions(paths: list[str] | None = None) -> dict[str, str]:
    """Installed distributions, name to version, read off the folder names (no metadata file is parsed)."""
    found: dict[str, str] = {}
    for entry in sys.path if paths is None else paths:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                project, _, version = name[: -len(".dist-info")].partition("-")
                if version and _plain(project) and _plain(version):
                    # The first folder on the path is the one that is imported.
                    found.setdefault(project.replace("_", "-").lower(), version)
    return dict(sorted(found.items()))


def _declared(name: str) -> dict[str, str]:
    value = os.environ.get(name)
    return {"digest": value, "source": "declared"} if value and _plain(value) else {"source": "unknown"}


def _plain(text: str | None) -> bool:
    if text is None:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def program() -> str:
    """Name of the program, without its folder."""
    return Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
