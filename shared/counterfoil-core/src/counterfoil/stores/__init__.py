"""Places that hold evidence: a folder today, other stores by URI scheme through the same few calls."""

from __future__ import annotations

import re
from pathlib import Path

from counterfoil.errors import ConfigError, StoreError
from counterfoil.stores.folder import FolderStore

__all__ = ["FolderStore", "address_of", "check_exists", "open_store"]

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")


def open_store(evidence: str | Path | FolderStore) -> FolderStore:
    """The store behind an evidence path or URI.

    Raises:
        ConfigError: CF-CONFIG-010: an unknown scheme; CF-CONFIG-011: an empty path; CF-CONFIG-012: a NUL in it.
    """
    if isinstance(evidence, FolderStore):
        return evidence
    text = str(evidence)
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


def address_of(store: FolderStore) -> str | None:
    """What ``open_store`` finds the same place by in another process; None where only this object can read it.

    A bundle, or a folder with files put in the place of others, has none. A store by URI says it as ``address``.
    """
    told = getattr(store, "address", None)
    if isinstance(told, str):
        return told
    return str(store.root) if getattr(store, "by_path", type(store) is FolderStore) else None


def check_exists(store: FolderStore) -> None:
    """Refuse a place with no evidence; raises StoreError (CF-STORE-002)."""
    if not store.exists():
        raise StoreError(
            "there is no evidence here",
            code="CF-STORE-002",
            where=str(store.root),
            hint="name the folder a run wrote, or set COUNTERFOIL",
        )
