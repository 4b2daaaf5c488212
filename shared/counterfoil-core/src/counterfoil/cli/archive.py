"""``counterfoil archive``: old logs moved to another place, and what is kept where and until when."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from counterfoil.archived import Archived
from counterfoil.archiving import moving, times
from counterfoil.archiving.surveying import LogState, Survey, survey
from counterfoil.bundles.store import BundleStore
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, evidence_path, option
from counterfoil.cli.progress import watched
from counterfoil.errors import ArchiveError, ConfigError
from counterfoil.reader import read
from counterfoil.stores import FolderStore

__all__ = ["archive"]

_STYLES = {"archived": "bold green", "due": "bold yellow", "skipped": "bold yellow"}


def archive(
    e: E = None,
    before: Annotated[
        str | None,
        option(
            "--before", metavar="T", help="Logs whose last entry is older: a date, a moment, or an age (90d)."
        ),
    ] = None,
    to: Annotated[
        str | None,
        option("--to", metavar="PLACE", help="A folder or s3://bucket/prefix (default: E-archive beside E)."),
    ] = None,
    retain: Annotated[
        str | None,
        option("--retain", metavar="SPAN", help="How long the archive is to be kept from now: 180d, 7y."),
    ] = None,
    report: Annotated[
        bool,
        typer.Option("--report", help="Tell ages, bytes, what is due and what is archived; move nothing."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")
    ] = False,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Move old logs away, and sign where they are.

    \b
    Examples:
      counterfoil archive --report
      counterfoil archive --before 90d --dry-run
      counterfoil archive --before 2026-09-01 --to /mnt/archive --retain 7y
      counterfoil archive --before 90d --to s3://bucket/prefix --retain 365d
      counterfoil verify --archive /mnt/archive

    Only whole logs are moved, of this home's own identity, that verify and that no writer holds. A log with old and
    new entries is closed to writers, and due when its last entry is old enough. A copy is read again before anything is
    removed; a call that was interrupted is finished by the next one.
    Exit codes: 0 done, 1 something could not be archived, 2 usage or nothing could be done.
    """
    store = read(evidence_path(e, evidence)).store
    if isinstance(store, BundleStore) or type(store) is not FolderStore:
        raise ArchiveError(
            "only evidence in a folder is archived",
            code="CF-ARCHIVE-009",
            where=store.place,
            hint="a bucket keeps its objects by its own retention; a bundle is an archive already",
        )
    if before is None and not report:
        raise ConfigError(
            "older than what?",
            code="CF-ARCHIVE-010",
            where="--before",
            hint="counterfoil archive --before 90d, or --report to see ages",
        )
    until = None if before is None else times.before(before, now=time.time(), name="--before")
    kept = None if retain is None else times.span(retain, name="--retain")
    with watched(store, passes=2):
        found = survey(store, before=until)
    place = to or f"{os.path.realpath(store.root)}-archive"
    if report:
        return _report(found, json=json)
    found.refuse(str(store.root))
    if dry_run:
        return _planned(found, place, json=json)
    assert until is not None
    told = None if json else _tell
    done = moving.archive(store, to=place, before=until, retain=kept, found=found, told=told)
    if json:
        members = {
            "archived": [_archived(one) for one in done.archived],
            "closed": [_log(one) for one in done.closed],
            "finished": [_archived(one) for one in done.finished],
            "place": done.place,
            "skipped": [{**_log(one), "why": why} for one, why in done.skipped],
        }
        output.out(output.json_text(members, indent=2))
        return 1 if done.skipped else 0
    for gone in done.finished:
        output.out(f"finished {gone.name}: taken away, it is in {output.clean(gone.said.place)}")
    for one in done.closed:
        output.out(f"closed   {one.name}: its last entry is of {_day(one.last)}; writers open another log")
    for one, why in done.skipped:
        output.out(f"{output.paint('skipped', _STYLES['skipped'])}  {one.name}: {output.clean(why)}")
    size, runs = sum(one.said.bytes for one in done.archived), sum(one.said.runs for one in done.archived)
    output.out(
        f"{output.paint('archived', _STYLES['archived'])}: {_count(len(done.archived), 'log')}, {_count(runs, 'run')}, "
        f"{size} bytes in {output.clean(done.place)}"
    )
    return 1 if done.skipped else 0


def _tell(text: str) -> None:
    if not text.endswith(("ending it", "signing", "reading the copy", "taking it away")):
        output.note(text)


def _planned(found: Survey, place: str, *, json: bool) -> int:
    due, mixed = found.of("due"), found.of("mixed")
    rest = found.of("live", "waiting", "unfit", "foreign")
    if json:
        members = {
            "closed": [_log(one) for one in mixed],
            "due": [_log(one) for one in due],
            "finished": [_log(one) for one in found.of("left")],
            "place": place,
            "skipped": [{**_log(one), "why": one.why} for one in rest],
        }
        output.out(output.json_text(members, indent=2))
        return 1 if rest else 0
    for one in found.of("left"):
        output.out(f"would finish  {one.name}")
    for one in due:
        output.out(f"would archive {one.name}: {_count(one.runs, 'run')}, {one.bytes} bytes, {_range(one)}")
    for one in mixed:
        output.out(f"would close   {one.name}: {_range(one)}")
    for one in rest:
        output.out(f"would skip    {one.name}: {output.clean(one.why)}")
    output.out(f"{_count(len(due), 'log')}, {sum(one.bytes for one in due)} bytes to {output.clean(place)}")
    return 1 if rest else 0


def _report(found: Survey, *, json: bool) -> int:
    now = time.time()
    if json:
        members = {
            "archived": [{**_archived(one), "ended": _ended(one, now)} for one in found.archived],
            "findings": [
                {"code": one.code, "where": one.where, "message": one.message} for one in found.wrong
            ],
            "logs": [_log(one) for one in found.logs],
        }
        output.out(output.json_text(members, indent=2))
        return 0
    for one in found.logs:
        state = output.paint(one.state, _STYLES.get(one.state, "bold"))
        closed = ", closed" if one.closed else ""
        output.out(
            f"{one.name} {state:<8} {_count(one.runs, 'run')}, {one.bytes} bytes, {_range(one)}, "
            f"{_age(one, now)}{closed}{f': {output.clean(one.why)}' if one.why else ''}"
        )
    for gone in found.archived:
        until = "no end told" if gone.said.retain is None else f"until {_day(gone.said.retain * 1000)}"
        over = output.paint(" (over)", "bold yellow") if _ended(gone, now) else ""
        output.out(
            f"{gone.name} archived {_count(gone.said.runs, 'run')}, {gone.said.bytes} bytes, "
            f"{_day(gone.said.first * 1000)} to {_day(gone.said.last * 1000)}, in {output.clean(gone.said.place)}, "
            f"kept {until}{over}"
        )
    for finding in found.wrong:
        output.out(f"{finding.code} {output.clean(finding.where)}: {output.clean(finding.message)}")
    here, there = sum(one.bytes for one in found.logs), sum(one.said.bytes for one in found.archived)
    logs, gone_logs = _count(len(found.logs), "log"), _count(len(found.archived), "log")
    output.out(f"{logs} here, {here} bytes; {gone_logs} archived, {there} bytes")
    return 0


def _log(one: LogState) -> dict[str, Any]:
    names = ("state", "why", "bytes", "entries", "runs", "first", "last", "closed")
    return {"log": one.name, "origin": one.origin, **{name: getattr(one, name) for name in names}}


def _archived(one: Archived) -> dict[str, Any]:
    names = ("bytes", "runs", "first", "last", "issued", "place", "retain", "verdict")
    head = {"entries": one.size, "root": one.said.log.root, "segments": len(one.manifest.segments)}
    return {
        "log": one.name,
        "origin": one.origin,
        **head,
        **{name: getattr(one.said, name) for name in names},
    }


def _ended(one: Archived, now: float) -> bool:
    return one.said.retain is not None and one.said.retain / 1000 < now


def _range(one: LogState) -> str:
    return f"{_day(one.first)} to {_day(one.last)}"


def _age(one: LogState, now: float) -> str:
    days = int((now - one.last / 1_000_000) // 86_400) if one.last else 0
    return f"{_count(max(days, 0), 'day')} old"


def _day(at: int) -> str:
    if not at:
        return "no time"
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "a time nobody can tell"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
