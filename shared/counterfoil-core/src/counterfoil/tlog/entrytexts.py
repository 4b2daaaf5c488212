"""The exact bytes of a log's entries, which are the leaves of its tree."""

from __future__ import annotations

from collections.abc import Iterator

from counterfoil.digest import sha256_hex
from counterfoil.entries import ZERO, Entry, Problem, entry_bytes
from counterfoil.errors import LogError
from counterfoil.log import LogScan
from counterfoil.stores import FolderStore

__all__ = ["entry_texts"]


def entry_texts(store: FolderStore, name: str, size: int) -> Iterator[bytes]:
    """The first ``size`` entries of a log as they were hashed, in order.

    Raises:
        LogError: the fault that ends the log before (its own code); CF-LOG-022: a record of a later version, which is
            not given out; CF-LOG-017: an entry does not have its digest; CF-LOG-024: the log has fewer entries.
    """
    prev, count = ZERO, 0
    for event in LogScan(store, name).events():
        if count >= size:
            break
        if isinstance(event, Entry):
            text = entry_bytes(event.body_bytes, event.index, prev)
            prev = event.digest
            if sha256_hex(text) != prev:
                raise LogError(
                    "the hash chain is broken", code="CF-LOG-017", where=f"{name} entry {event.index}"
                )
            count += 1
            yield text
        elif isinstance(event, Problem):
            raise LogError(event.message, code=event.code, where=event.where, hint="counterfoil verify")
    if count < size:
        raise LogError(
            f"the log has {count} entries, not {size}",
            code="CF-LOG-024",
            where=name,
            hint="it changed while it was read: try again",
        )
