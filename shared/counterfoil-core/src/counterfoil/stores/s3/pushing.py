"""Sends what processes that are gone left in a spool: for `counterfoil push` and for the end of `counterfoil run`."""

from __future__ import annotations

from collections.abc import Callable

from counterfoil import keys, locking
from counterfoil.errors import CounterfoilError
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.sending import ALONE, Sender
from counterfoil.stores.s3.spool import Backlog, SpoolStore

__all__ = ["backlog_of", "push"]


def push(
    bucket: Bucket, *, go_on: Callable[[], bool] = lambda: True, told: Callable[[], None] = lambda: None
) -> tuple[int, Backlog, CounterfoilError | None]:
    """Send all that no writer of this machine holds; what one holds, its own process sends.

    Returns how many objects were created, what is left, and what the sending stopped at. ``go_on`` is asked, and
    ``told`` called, between segments. A segment that cannot be sent holds up its own log alone; a bucket that fails,
    everything.
    """
    spool = SpoolStore(bucket.name)
    sender = Sender(spool, bucket)
    failed: CounterfoilError | None = None
    for name in spool.logs():
        if not go_on():
            break
        try:
            sender.send_dead(name, go_on=go_on, told=told)
        except CounterfoilError as exc:
            failed = exc
            if exc.code not in ALONE:
                break
    spool.note_error(failed)
    return sender.puts, backlog_of(spool), failed


def backlog_of(spool: SpoolStore) -> Backlog:
    """What is not in the bucket yet, and how much of it has a writer now."""
    identity = keys.load_identity()
    live = (
        frozenset()
        if identity is None
        else frozenset(name for name in spool.logs() if locking.is_live(f"{identity.keyid}/{name}"))
    )
    return spool.backlog(live=live)
