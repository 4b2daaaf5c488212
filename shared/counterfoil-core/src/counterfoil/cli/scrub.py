"""``counterfoil scrub``: bit rot found, located, and mended from other copies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, evidence_path, option
from counterfoil.cli.progress import watched
from counterfoil.errors import ConfigError
from counterfoil.reader import read
from counterfoil.scrub.scrubbing import Damage, Scrub, check_source
from counterfoil.scrub.scrubbing import scrub as scrub_evidence

__all__ = ["scrub"]

_EXIT = {"clean": 0, "repaired": 1, "findings": 1, "damaged": 3}
_STYLES = {
    "clean": "bold green",
    "repaired": "bold green",
    "findings": "bold yellow",
    "damaged": "bold red",
}
_LEVELS = {"remains": "damaged", "repairable": "mendable", "repaired": "repaired", "tail": "tail"}


def scrub(
    e: E = None,
    mirror: Annotated[
        list[str] | None,
        option(
            "--mirror",
            metavar="COPY",
            help="Another copy of this evidence, a bucket too; may be given again.",
        ),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what the copies given by --mirror can mend.")
    ] = False,
    keep: Annotated[
        Path | None,
        option(
            "--keep",
            metavar="FOLDER",
            help="Where damaged originals are kept (default: a new folder under $COUNTERFOIL_HOME/scrub).",
        ),
    ] = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Find damaged bytes, and mend them from other copies.

    \b
    Examples:
      counterfoil scrub
      counterfoil scrub evidence/ --mirror /backup/evidence
      counterfoil scrub evidence/ --mirror /backup/evidence --mirror /mnt/evidence --repair

    Reads every byte. A line for each damage: file, bytes, and the entries lost with them. Only bytes that the log's own
    signed checkpoints vouch for are taken from a copy, and only if all of the log verifies with them; nothing is thrown
    away, and a log that a writer holds is left alone.
    Exit codes: 0 clean, 1 found and repaired, or to be repaired, 3 damage remains, 2 usage.
    """
    store = read(evidence_path(e, evidence)).store
    check_source(store)
    with watched(store):
        done = scrub_evidence(store, mirrors=mirror or (), repair=repair, keep=keep)
    if [one.code for one in done.damage] == ["CF-VERIFY-001"]:
        raise ConfigError(
            "there is no log in this evidence, and none is remembered",
            code="CF-CLI-007",
            where=done.evidence,
            hint="name the folder that a run wrote",
        )
    if json:
        output.out(output.json_text(_members(done), indent=2))
        return _EXIT[done.result]
    for one in done.damage:
        for line in output.plain_error(_LEVELS[one.state], one.code, _place(one), _message(one), _hint(one)):
            output.out(line)
    for note in done.notes:
        for line in output.plain_error("note", note.code, note.where, note.message, note.hint):
            output.out(line)
    if done.kept is not None:
        output.out(f"originals kept in {output.clean(done.kept)}; verify: {done.verdict}")
    output.out(_summary(done))
    return _EXIT[done.result]


def _members(done: Scrub) -> dict[str, Any]:
    names = ("code", "file", "start", "end", "message", "state", "sources", "hint", "at", "wrong")
    damage = [
        {**{key: getattr(one, key) for key in names}, "entries": _entries(one) and [one.first, one.last]}
        for one in done.damage
    ]
    whole = ("evidence", "logs", "files", "bytes", "kept", "verdict")
    notes = [{key: getattr(one, key) for key in ("code", "where", "message", "hint")} for one in done.notes]
    return {
        "result": done.result,
        "damage": damage,
        "notes": notes,
        **{key: getattr(done, key) for key in whole},
    }


def _place(one: Damage) -> str:
    file = one.file or ""
    return file if one.start is None else f"{file} bytes {one.start}-{one.end}"


def _message(one: Damage) -> str:
    lost = _entries(one)
    if one.at is not None:
        lost = (
            f"{one.wrong} wrong from byte {one.at} on; {lost}"
            if one.wrong != 1
            else f"byte {one.at} is wrong; {lost}"
        )
        lost = lost.removesuffix("; ")
    return f"{one.message}; {lost}" if lost else one.message


def _entries(one: Damage) -> str:
    if one.first is None:
        return ""
    if one.last is None:
        return f"entries from {one.first} on cannot be read"
    if one.first == one.last:
        return f"entry {one.first} cannot be read"
    return f"entries {one.first}-{one.last} cannot be read"


def _hint(one: Damage) -> str | None:
    if one.state == "repairable":
        return f"--repair mends it from {', '.join(one.sources)}"
    if one.state == "repaired":
        return None if not one.sources else f"taken from {', '.join(one.sources)}"
    if one.state == "tail":
        return f"behind the last checkpoint, as an unclean stop leaves it; {one.hint}"
    return one.hint or None


def _summary(done: Scrub) -> str:
    count = len(done.damage)
    told = f"{count} {'damage' if count == 1 else 'damages'}, " if count else ""
    logs = "1 log" if done.logs == 1 else f"{done.logs} logs"
    files = "1 segment" if done.files == 1 else f"{done.files} segments"
    return f"{output.paint(done.result, _STYLES[done.result])}: {told}{logs}, {files}, {done.bytes} bytes"
