"""``counterfoil pull``: a copy of the evidence in a bucket, as a folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from counterfoil.cli import output
from counterfoil.cli.bucketing import bucket_named, moving
from counterfoil.cli.options import Debug, Json
from counterfoil.stores.s3 import copying
from counterfoil.stores.s3.reading import S3Store

__all__ = ["pull", "told_of"]


def pull(
    source: Annotated[str, typer.Argument(metavar="BUCKET", help="s3://bucket/prefix")],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the copy goes; made if it is missing.")
    ],
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Copy evidence from a bucket into a folder.

    \b
    Examples:
      counterfoil pull s3://bucket/prefix copy/
      counterfoil verify copy/

    The oldest version of every object is taken, checked by its SHA-256, and what is there already is compared: the same
    command goes on where it was broken off, and fetches what came since. The copy is for reading: who records into it
    makes a second history of its logs.
    Exit codes: 0 copied, 2 usage, or one of both places cannot be used.
    """
    bucket = bucket_named(source)
    with moving("fetching", S3Store(bucket).size()) as told:
        done = copying.pull(bucket, folder.absolute(), told=told)
    if json:
        output.out(output.json_text(dataclasses.asdict(done), indent=2))
        return 0
    told_of(done, "fetched", str(folder))
    return 0


def told_of(done: copying.Copied, verb: str, place: str) -> None:
    """What was copied, in lines."""
    for one in done.left:
        output.note(f"note: {output.clean(one.name)} was left out: {one.why}")
    if done.touched:
        keys = "1 key has" if done.touched == 1 else f"{done.touched} keys have"
        output.note(f"note: {keys} another version or a delete marker: counterfoil verify the bucket")
    segments = "1 segment" if done.copied == 1 else f"{done.copied} segments"
    logs = "1 log" if done.logs == 1 else f"{done.logs} logs"
    output.out(
        f"{verb} {segments} of {logs}, {done.bytes} bytes, {done.present} were there already: "
        f"{output.clean(place)}"
    )
