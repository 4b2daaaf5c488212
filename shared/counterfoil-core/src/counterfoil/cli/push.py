"""``counterfoil push``: a folder of evidence into a bucket, or what still waits on this machine."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Annotated, Any

import typer

from counterfoil.bundles.store import BundleStore
from counterfoil.cli import output
from counterfoil.cli.bucketing import bucket_named, moving
from counterfoil.cli.options import Debug, Json, option
from counterfoil.cli.pull import told_of
from counterfoil.errors import ConfigError, CounterfoilError
from counterfoil.reader import read
from counterfoil.stores.s3.address import SCHEME
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.copying import push as push_folder
from counterfoil.stores.s3.pushing import push as push_spool
from counterfoil.stores.s3.spool import Backlog, spools

__all__ = ["push"]


def push(
    source: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="A folder of evidence, or a bucket.", show_default=False),
    ] = None,
    target: Annotated[
        str | None, typer.Argument(metavar="BUCKET", help="s3://bucket/prefix", show_default=False)
    ] = None,
    retain: Annotated[
        str | None,
        option(
            "--retain", metavar="TIME", help="How long the objects are locked: 365d (default: the setting)."
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Upload evidence into a bucket.

    \b
    Examples:
      counterfoil push                                what waits on this machine for any bucket
      counterfoil push s3://bucket/prefix             what waits for this one
      counterfoil push evidence/ s3://bucket/prefix   a folder

    An object is made once and never replaced: what is there already is compared, so the same command goes on where it
    was broken off. A log that somebody writes into goes without its last segment.
    Exit codes: 0 all of it is there, 1 something is left, 2 usage, or the bucket cannot be used.
    """
    if source is not None and target is not None:
        return _folder(source, target, retain, json=json)
    if source is not None and not source.startswith(SCHEME):
        raise ConfigError(
            "a folder is pushed into a bucket, and none is named",
            code="CF-CLI-085",
            where=source,
            hint="counterfoil push FOLDER s3://bucket/prefix",
        )
    return _spooled(source, retain, json=json)


def _folder(source: str, target: str, retain: str | None, *, json: bool) -> int:
    if source.startswith(SCHEME) or not target.startswith(SCHEME):
        raise ConfigError(
            "a folder is pushed into a bucket",
            code="CF-CLI-085",
            where=f"{source} {target}",
            hint="counterfoil push FOLDER s3://bucket/prefix; the other way it is counterfoil pull",
        )
    bucket = bucket_named(target, retain=retain)
    store = read(source).store
    if isinstance(store, BundleStore) or not store.logs():
        raise ConfigError(
            "this is no folder of evidence with a log",
            code="CF-CLI-007",
            where=source,
            hint="name the folder that a run wrote",
        )
    with moving("sending", store.size()) as told:
        done = push_folder(store, bucket, told=told)
    state = bucket.state()
    locked = bucket.options.retain is not None or state.mode is not None
    if json:
        output.out(output.json_text({**dataclasses.asdict(done), "locked": locked}, indent=2))
        return int(bool(done.left))
    if not locked:
        output.note("note: the objects are not locked: give --retain, or the bucket a default retention")
    told_of(done, "sent", bucket.address.uri)
    return int(bool(done.left))


def _spooled(place: str | None, retain: str | None, *, json: bool) -> int:
    named = None if place is None else bucket_named(place, retain=retain)
    waiting: list[Bucket] = [named] if named is not None else []
    if named is None:
        for spool in spools():
            address, _, endpoint = spool.name.partition(" at ")
            one = bucket_named(address, retain=retain)
            options = dataclasses.replace(one.options, endpoint=endpoint or None)
            waiting.append(Bucket(one.address, options))
    results: list[dict[str, Any]] = []
    worst = 0
    for bucket in waiting:
        with moving("sending", None) as told:
            puts, left, error = push_spool(bucket, told=partial(told, 0))
        worst = max(worst, int(bool(left.segments or left.stranded or error)))
        results.append(_members(bucket, puts, left, error))
        if not json:
            _print(bucket, puts, left, error)
    if json:
        output.out(output.json_text({"places": results}, indent=2))
    elif not waiting:
        output.out("nothing waits on this machine for a bucket")
    return worst


def _members(bucket: Bucket, puts: int, left: Backlog, error: CounterfoilError | None) -> dict[str, Any]:
    return {
        "place": bucket.name,
        "sent": puts,
        "left": dataclasses.asdict(left),
        "error": None if error is None else {"code": error.code, "message": error.message},
    }


def _print(bucket: Bucket, puts: int, left: Backlog, error: CounterfoilError | None) -> None:
    sent = "1 segment" if puts == 1 else f"{puts} segments"
    output.out(
        f"{output.clean(bucket.name)}: {sent} sent" + (f"; {left}" if left.segments else ", nothing waits")
    )
    for one in left.stranded:
        output.note(
            f"note: another writer went on with log {one.log} from segment {one.segment}: "
            f"{one.segments} segments of it stay here"
        )
    if error is not None:
        for line in output.plain_error("error", error.code, error.where, error.message, error.hint):
            output.note(line)
