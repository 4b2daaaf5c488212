"""Evidence for those who write it: the folder itself, or for a bucket the spool whose segments go on to it."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from counterfoil.errors import ConfigError
from counterfoil.stores import FolderStore, open_store

if TYPE_CHECKING:
    from counterfoil.stores.s3.bucket import Bucket

_WAITED_FOR: Final = 3.0
"""Seconds for which reading is tried while somebody waits, who has what he wrote in any case."""

__all__ = ["bucket_of", "check_durability", "is_bucket", "open_for_writing", "open_written"]


def is_bucket(evidence: str | os.PathLike[str]) -> bool:
    """Whether evidence is named by the address of a bucket."""
    return os.fspath(evidence).startswith("s3://")


def bucket_of(evidence: str | os.PathLike[str], *, patience: float | None = None) -> Bucket:
    """The bucket behind an address; nothing is asked of it yet. ``patience`` (seconds) instead of the usual one.

    Raises:
        ConfigError: CF-CONFIG-013 to 015: the address or a setting is none, or a package is missing.
    """
    from counterfoil.stores.s3.address import Address
    from counterfoil.stores.s3.bucket import Bucket
    from counterfoil.stores.s3.clients import missing
    from counterfoil.stores.s3.options import Options

    if any(importlib.util.find_spec(name) is None for name in ("boto3", "obstore")):
        raise missing()
    address, options = Address.parse(os.fspath(evidence)), Options.load()
    return Bucket(address, options if patience is None else replace(options, patience=patience))


def open_for_writing(evidence: str | os.PathLike[str]) -> FolderStore:
    """The store that a writer writes into; nothing is made or asked yet.

    Raises:
        ConfigError: those of ``open_store`` and ``bucket_of``.
    """
    if not is_bucket(evidence):
        return open_store(os.fspath(evidence))
    from counterfoil.stores.s3.uploading import spool_for

    return spool_for(bucket_of(evidence))


def open_written(evidence: str | os.PathLike[str], *, patient: bool = False) -> FolderStore:
    """The store that a process reads which writes there itself: what is still on its way counts.

    With ``patient`` a bucket that cannot be reached counts as one that holds nothing.

    Raises:
        ConfigError: as ``open_for_writing``.
    """
    if not is_bucket(evidence):
        return open_store(os.fspath(evidence))
    from counterfoil.stores.s3.beside import beside

    return beside(bucket_of(evidence, patience=_WAITED_FOR), patient=patient)


def check_durability(evidence: str | os.PathLike[str], durability: str) -> None:
    """Refuse to wait for a bucket where there is none; raises ConfigError (CF-CONFIG-016)."""
    if durability == "remote" and not is_bucket(evidence):
        raise ConfigError(
            "durability remote waits for a bucket, and the evidence is in a folder",
            code="CF-CONFIG-016",
            where=os.fspath(evidence),
            hint="use durability call, or evidence at s3://bucket/prefix",
        )
