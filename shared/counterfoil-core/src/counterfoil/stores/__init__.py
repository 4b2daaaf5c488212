"""Places that hold evidence: a folder, or a bucket by its URI, through the same few calls."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from counterfoil.errors import ConfigError, StoreError
from counterfoil.stores.folder import FolderStore

__all__ = ["FolderStore", "check_exists", "open_elsewhere", "open_store"]

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")


def open_store(evidence: str | Path | FolderStore) -> FolderStore:
    """The store behind an evidence path or URI.

    Raises:
        ConfigError: CF-CONFIG-010: an unknown scheme; CF-CONFIG-011: an empty path; CF-CONFIG-012: a NUL in it;
            CF-CONFIG-013 to 015: no address of a bucket.
    """
    if isinstance(evidence, FolderStore):
        return evidence
    text = str(evidence)
    if text.startswith("s3://"):
        from counterfoil.stores.s3.reading import open_bucket  # it needs packages that not everybody has

        return open_bucket(text)
    if _SCHEME.match(text):
        raise ConfigError(
            f"no store is installed for {text.split('://')[0]}://",
            code="CF-CONFIG-010",
            where=text,
            hint="use a folder, or install the package that brings this store",
        )
    if "\0" in text:
        raise ConfigError("the evidence path holds a NUL", code="CF-CONFIG-012", hint="name a folder")
    if not text:
        raise ConfigError("the evidence path is empty", code="CF-CONFIG-011", hint="name a folder")
    return FolderStore(Path(text).absolute())


def open_elsewhere(told: dict[str, Any], log: str, number: int) -> FolderStore:
    """A store with the segment that a place told of (``Place.elsewhere``), in the process that reads it.

    Raises ConfigError as ``open_store`` does; KeyError or TypeError for what no place tells.
    """
    if "s3" in told:
        from counterfoil.stores.s3.reading import one_object

        return one_object(told, log, number)
    return FolderStore(Path(told["folder"]))


def check_exists(store: FolderStore) -> None:
    """Refuse a place with no evidence; raises StoreError (CF-STORE-002)."""
    if not store.exists():
        raise StoreError(
            "there is no evidence here",
            code="CF-STORE-002",
            where=store.place,
            hint="name the place a run wrote into, or set COUNTERFOIL",
        )
