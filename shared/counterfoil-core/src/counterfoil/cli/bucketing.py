"""What commands about a bucket share: which one, what it is set to as people read it, progress of copying."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from counterfoil.cli import output
from counterfoil.errors import ConfigError
from counterfoil.settings import Settings
from counterfoil.stores.s3.address import SCHEME, Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.options import Options, duration
from counterfoil.stores.s3.setting_up import SetUp, policies

__all__ = ["bucket_named", "bucket_of", "lines", "members", "moving", "policies_of", "settings_lines"]

PATIENCE: Final = 1.0


def bucket_of(wanted: Settings) -> Bucket | None:
    """The bucket that settings name as evidence, with their options; None for a folder."""
    if not wanted.evidence.startswith(SCHEME):
        return None
    options = Options.load()
    if wanted.s3_retain is not None:
        options = replace(options, retain=duration(wanted.s3_retain, name="s3_retain"))
    return Bucket(Address.parse(wanted.evidence), options)


def bucket_named(text: str, *, retain: str | None = None) -> Bucket:
    """The bucket behind an argument; raises ConfigError (CF-CONFIG-013, 015)."""
    options = Options.load()
    if retain is not None:
        options = replace(options, retain=duration(retain, name="--retain"))
    return Bucket(Address.parse(text), options)


def policies_of(evidence: str) -> dict[str, Any]:
    """The rights that evidence in a bucket needs; raises ConfigError (CF-CLI-084) for a folder."""
    if not evidence.startswith(SCHEME):
        raise ConfigError(
            "rights are for a bucket, and this evidence is in a folder",
            code="CF-CLI-084",
            where="--print-policy",
            hint="name a bucket: s3://bucket/prefix",
        )
    return policies(Address.parse(evidence), legal_hold=Options.load().legal_hold)


def members(made: SetUp) -> dict[str, Any]:
    """What was set up, as JSON tells it."""
    state = made.state
    return {
        "versioned": state.versioned,
        "object_lock": state.locking,
        "mode": state.mode,
        "days": state.days,
        "done": list(made.done),
        "lacking": list(made.lacking),
    }


def lines(made: SetUp) -> Iterator[str]:
    """The same, as people read it."""
    for one in made.done:
        yield f"bucket    {one}"
    state = made.state
    locking = (
        "Object Lock" if state.locking else "no Object Lock" if state.locking is False else "lock unknown"
    )
    kept = f"default retention {state.mode}, {state.days} days" if state.mode else "no default retention"
    versions = (
        "versions kept" if state.versioned else "no versions" if state.versioned is False else "unknown"
    )
    yield f"bucket    {versions}, {locking}, {kept}"
    for one in made.lacking:
        yield f"lacking   {one}"


def settings_lines(wanted: Settings) -> str:
    """What a settings file says of a bucket; nothing for a folder."""
    if not wanted.evidence.startswith(SCHEME):
        return ""
    options = Options.load()
    told = {"s3_endpoint": options.endpoint, "s3_region": options.region, "s3_retain": wanted.s3_retain}
    return "".join(
        f"{name} = {output.json_text(value)}\n" for name, value in told.items() if value is not None
    )


@contextlib.contextmanager
def moving(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how far copying is, after a second and to a person only; gives what hears of bytes, on any thread."""
    began, lock = time.monotonic(), threading.Lock()
    shown = sys.stderr is not None and sys.stderr.isatty()
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
    task = progress.add_task(what, total=total)
    started = False

    def told(size: int) -> None:
        nonlocal started
        with lock:
            progress.advance(task, size)
            if shown and not started and time.monotonic() >= began + PATIENCE:
                started = True
                progress.start()

    try:
        yield told
    finally:
        if started:
            progress.stop()
