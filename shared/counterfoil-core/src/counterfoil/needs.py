"""Packages that only an engine or an export needs: imported when they are asked for, never before."""

from __future__ import annotations

import importlib
from typing import Any

from counterfoil.errors import ConfigError

__all__ = ["needed"]


def needed(name: str, *, extra: str) -> Any:
    """The module of a package that an extra brings; raises ConfigError (CF-CONFIG-020) where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        missing = exc.name or name
        raise ConfigError(
            f"{extra} needs a package that is not installed: {missing.partition('.')[0]}",
            code="CF-CONFIG-020",
            where=extra,
            hint=f'pip install "counterfoil[{extra}]"',
        ) from exc
