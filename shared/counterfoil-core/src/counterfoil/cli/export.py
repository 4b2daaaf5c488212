"""``counterfoil export``: evidence in formats that other people's tools read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from counterfoil import keys, verification
from counterfoil.checks import LogCheck
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, evidence_path, option
from counterfoil.cli.progress import watched
from counterfoil.cli.source import open_source
from counterfoil.columns import Columns, export_columns
from counterfoil.errors import ConfigError, LogError
from counterfoil.findings import EXIT_CODES, Verification
from counterfoil.stores import FolderStore
from counterfoil.tlog import exporting

__all__ = ["export"]

_TOLD = 8


def export(
    e: E = None,
    tlog: Annotated[
        Path | None, option("--tlog", metavar="FOLDER", help="Write C2SP tlog-tiles there.")
    ] = None,
    parquet: Annotated[
        Path | None, option("--parquet", metavar="FOLDER", help="Write Apache Parquet there.")
    ] = None,
    log: Annotated[
        str | None, option("--log", metavar="LOG", help="Only this log: its name or its start.")
    ] = None,
    broken: Annotated[
        bool, typer.Option("--broken", help="Broken evidence too: each log up to the fault.")
    ] = False,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Write the logs as other tools read them.

    \b
    Examples:
      counterfoil export --tlog public/
      counterfoil export evidence/ --tlog public/ --log 0619169410d38f62
      counterfoil export evidence/ --tlog public/ --json
      counterfoil export evidence/ --parquet columns/

    --tlog: each log goes to FOLDER/<log>: checkpoint, tile/<level>/..., tile/entries/... (C2SP tlog-tiles): all entries
    up to the last checkpoint. Exporting again into the same folder adds what came since.
    --parquet: entries/<log>.parquet, blobs/<log>.parquet and checkpoints/<log>.parquet below FOLDER, for DuckDB, Spark
    and the like, which can hash every entry again. Exporting again writes these files anew.
    Neither holds the stored prompts and answers. The evidence is verified before: broken evidence is refused.
    Exit codes: 0 exported, 3 broken, 4 exported but incomplete, 5 exported but the key is not pinned here, 2 usage.
    """
    if (tlog is None) == (parquet is None):
        raise ConfigError(
            "say how to export" if tlog is None else "one export at a time",
            code="CF-CLI-001",
            where="export",
            hint="counterfoil export --tlog FOLDER, or --parquet FOLDER",
        )
    source = open_source(evidence_path(e, evidence))
    exporting.check_source(source.store)
    names = source.logs() if log is None else [_choose(source.logs(), log)]
    store = source.store
    with watched(store):
        verdict = _verdict(store, None if log is None else names[0])
        if verdict == "broken" and not broken:
            output.report(
                LogError(
                    "the evidence is broken, nothing was exported",
                    code="CF-EXPORT-006",
                    where=store.place,
                    hint="counterfoil verify says why; --broken exports what stands before the fault",
                )
            )
            return 3
        if parquet is not None:
            columns = [export_columns(store, name, parquet) for name in names]
            return _told_columns(columns, verdict, json=json)
        done = [exporting.export_log(store, name, tlog or "") for name in names]
    if json:
        members = ("log", "origin", "size", "root", "vkey", "folder", "written", "kept")
        logs = [{key: getattr(one, key) for key in members} for one in done]
        output.out(output.json_text({"verdict": verdict, "logs": logs}, indent=2))
        return EXIT_CODES[verdict]
    for one in done:
        entries = "1 entry" if one.size == 1 else f"{one.size} entries"
        output.out(
            f"exported {output.clean(one.folder)}: {entries}, {one.written} new files, {one.kept} kept"
        )
        output.out(f"vkey {one.vkey}")
    if verdict != "intact":
        output.note(f"{verdict}: counterfoil verify says why")
    return EXIT_CODES[verdict]


def _told_columns(done: list[Columns], verdict: str, *, json: bool) -> int:
    if json:
        logs = [asdict(one) for one in done]
        output.out(output.json_text({"verdict": verdict, "logs": logs}, indent=2))
        return EXIT_CODES[verdict]
    for one in done:
        entries = "1 entry" if one.entries == 1 else f"{one.entries} entries"
        output.out(f"exported {one.log} to {output.clean(one.folder)}: {entries}, {one.blobs} blobs")
    if verdict != "intact":
        output.note(f"{verdict}: counterfoil verify says why")
    return EXIT_CODES[verdict]


def _verdict(store: FolderStore, name: str | None) -> str:
    """The verdict on all evidence, or on one log alone."""
    if name is None:
        return verification.verify(store).verdict
    own = keys.Keyring.load()
    check = LogCheck(store, name, own, keys.remembered_heads(), own=own.own)
    return Verification(findings=check.run()).verdict


def _choose(names: list[str], wanted: str) -> str:
    found = [name for name in names if wanted and name.startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    raise ConfigError(
        "more than one log begins like this" if found else "there is no such log",
        code="CF-EXPORT-007",
        where=wanted,
        hint=f"logs: {', '.join((found or names)[:_TOLD])}",
    )
