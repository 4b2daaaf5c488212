"""Switches of numeric libraries that decide whether two runs can be equal at all; read only where they are loaded."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["capture", "state"]


def capture() -> dict[str, Any]:
    """``torch``: versions and determinism flags, when the application imported it. Nothing is imported here."""
    torch = _torch()
    return {"source": "probed", **({"torch": torch} if torch else {})}


def state() -> tuple[object, ...]:
    """The same, to compare: cheap enough for the end of every run."""
    return tuple(sorted(_torch().items()))


def _torch() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "are_deterministic_algorithms_enabled"):
        return {}  # not there, or still being imported
    found = {
        "cuda": _read(torch, "version.cuda"),
        "cudnn_benchmark": _read(torch, "backends.cudnn.benchmark"),
        "cudnn_deterministic": _read(torch, "backends.cudnn.deterministic"),
        "cudnn_tf32": _read(torch, "backends.cudnn.allow_tf32"),
        "default_dtype": _read(torch, "get_default_dtype", call=True),
        "deterministic": _read(torch, "are_deterministic_algorithms_enabled", call=True),
        "deterministic_warn_only": _read(torch, "is_deterministic_algorithms_warn_only_enabled", call=True),
        "git": _read(torch, "version.git_version"),
        "hip": _read(torch, "version.hip"),
        "matmul_precision": _read(torch, "get_float32_matmul_precision", call=True),
        "matmul_tf32": _read(torch, "backends.cuda.matmul.allow_tf32"),
        "threads": _read(torch, "get_num_threads", call=True),
        "version": _read(torch, "__version__"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _read(torch: object, path: str, *, call: bool = False) -> bool | int | str | None:
    """One switch; nothing where this release does not have it, or does not want to say."""
    try:
        value: Any = torch
        for name in path.split("."):
            value = getattr(value, name)
        value = value() if call else value
    except Exception:
        return None
    if isinstance(value, bool | int) or value is None:
        return value
    return str(value)
