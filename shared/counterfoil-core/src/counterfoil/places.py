"""Evidence for those who write it: the folder itself, or for a bucket the spool whose segments go on to it."""

from __future__ import annotations

import importlib.util
import os

from counterfoil.stores import FolderStore, open_store

__all__ = ["is_bucket", "open_for_writing"]


def is_bucket(evidence: str | os.PathLike[str]) -> bool:
    """Whether evidence is named by the address of a bucket."""
    return os.fspath(evidence).startswith("s3://")


def open_for_writing(evidence: str | os.PathLike[str]) -> FolderStore:
    """The store that a writer writes into; nothing is made or asked yet.

    Raises:
        ConfigError: those of ``open_store``; for a bucket CF-CONFIG-013 to 015.
    """
    if not is_bucket(evidence):
        return open_store(os.fspath(evidence))
    from counterfoil.stores.s3.address import Address
    from counterfoil.stores.s3.bucket import Bucket
    from counterfoil.stores.s3.clients import missing
    from counterfoil.stores.s3.uploading import spool_for

    if any(importlib.util.find_spec(name) is None for name in ("boto3", "obstore")):
        raise missing()
    return spool_for(Bucket(Address.parse(os.fspath(evidence))))
