"""What ``counterfoil run`` does about evidence in a bucket when its application has ended: it sends what is left."""

from __future__ import annotations

import sys
import threading
import time
from typing import Final

from rich.console import Console

from counterfoil.errors import CounterfoilError
from counterfoil.places import bucket_of, is_bucket
from counterfoil.settings import Settings
from counterfoil.stores.s3.pushing import backlog_of, push
from counterfoil.stores.s3.spool import Backlog, SpoolStore

__all__ = ["send", "settings_for"]

PATIENCE: Final = 1.0
_SETTINGS: Final = (
    "s3_endpoint",
    "s3_region",
    "s3_mode",
    "s3_retain",
    "s3_legal_hold",
    "s3_upload_after",
    "s3_close_wait",
)


def settings_for(evidence: str, settings: Settings) -> dict[str, str]:
    """The settings of a bucket as variables, for an application that changes its folder before it reads any file."""
    if not is_bucket(evidence):
        return {}
    found = ((name, getattr(settings, name)) for name in _SETTINGS)
    return {f"COUNTERFOIL_{name.upper()}": str(value) for name, value in found if value is not None}


def send(evidence: str) -> str | None:
    """Send what the application left in the spool, for as long as closing may wait; the line that says what stays."""
    if not is_bucket(evidence):
        return None
    try:
        bucket = bucket_of(evidence)
        spool = SpoolStore(bucket.name)
        if not backlog_of(spool).segments:
            return _told(spool, spool.backlog(), None)
        ends = time.monotonic() + bucket.options.close_wait
        failed: list[CounterfoilError | None] = []
        # A bucket that hangs would hold this command for as long: the thread ends with it.
        sender = threading.Thread(
            target=lambda: failed.append(push(bucket, go_on=lambda: time.monotonic() < ends)[2]), daemon=True
        )
        sender.start()
        _wait(sender, ends)
        return _told(spool, backlog_of(spool), failed[0] if failed else None)
    except CounterfoilError as exc:
        return f"counterfoil: what is not in the bucket yet cannot be told: {exc}"


def _wait(sender: threading.Thread, ends: float) -> None:
    sender.join(min(PATIENCE, max(0.0, ends - time.monotonic())))
    if not sender.is_alive():
        return
    if sys.stderr is not None and sys.stderr.isatty():
        with Console(file=sys.stderr).status("sending what is not in the bucket yet"):
            sender.join(max(0.0, ends - time.monotonic()))
    else:
        sender.join(max(0.0, ends - time.monotonic()))


def _told(spool: SpoolStore, left: Backlog, failed: CounterfoilError | None) -> str | None:
    lines = []
    if left.segments:
        why = str(failed) if failed is not None else left.error
        lines.append(f"counterfoil: {left}{f': {why}' if why else ''}; `counterfoil push` sends it")
    lines += [
        f"counterfoil: another writer went on with log {one.log}: {one.segments} segments of it stay in "
        f"{spool.root / one.log}"
        for one in left.stranded
    ]
    return "\n".join(lines) or None
