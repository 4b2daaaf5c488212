"""Finds the entry or the stored bytes that a person named: by number, place in a run, or start of a digest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from counterfoil.cli.rows import STATEMENTS, identity, row
from counterfoil.cli.source import Choice, Source, choose
from counterfoil.digest import sha256_hex
from counterfoil.errors import ConfigError
from counterfoil.log import BlobSeen, Entry, LogScan
from counterfoil.views import Runs

__all__ = ["Found", "is_selector", "last", "select"]

_IN_RUN: Final = re.compile(r"(run|[0-9A-Fa-f]{1,64})/([0-9]{1,9})")
_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9A-Fa-f]{4,64})")
_DIGITS: Final = 16
_TOLD: Final = 8


@dataclass(frozen=True, slots=True)
class Found:
    """What was found: an entry, or the digest of stored bytes."""

    entry: Entry | None = None
    blob: str | None = None

    @property
    def name(self) -> str:
        """How to name it so that nothing else is meant."""
        if self.entry is None:
            return f"bytes {(self.blob or '')[:16]}"
        return f"{self.entry.log}/{self.entry.index} {self.entry.op} {identity(self.entry)[:16]}"


def is_selector(text: str) -> bool:
    """Whether a text has one of the forms of a selector."""
    number = text.isascii() and text.isdigit() and len(text) < _DIGITS
    return number or _IN_RUN.fullmatch(text) is not None or _DIGEST.fullmatch(text) is not None


def select(source: Source, text: str, *, run: str | None) -> Found:
    """The one thing ``text`` names; raises ConfigError (CF-CLI-020 to 022) when it names none or several."""
    place = _IN_RUN.fullmatch(text)
    if place:
        return Found(_in_run(source, text, place[1], int(place[2]), run))
    number = int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else None
    if number is not None:
        found = [Found(entry) for entry in source.entries() if entry.index == number]
        if found:
            return _one(found, text)
    digest = _DIGEST.fullmatch(text)
    if digest:
        return _one(_by_digest(source, digest[1].lower()), text)
    if number is not None:
        _missing(text)
    raise ConfigError(
        "this names no entry",
        code="CF-CLI-020",
        where=text,
        hint="give an index (12), a place in a run (run/7, 3f2a/7) or at least 4 digits of a digest",
    )


def last(source: Source, *, run: str | None, choice: Choice) -> Entry:
    """The last entry that tells what somebody did: the log's own bookkeeping is passed over.

    Statements may belong to no run; a binding, which tells of a key, is taken when there is nothing else.
    """
    wanted = source.run_id(run)
    found: Entry | None = None
    binding: Entry | None = None
    told = Runs()
    for entry in source.entries():
        about, found_run = row(entry), told.of(entry)[0]
        if wanted is not None and found_run != wanted:
            continue
        if found_run is None and about["op"] not in STATEMENTS:
            continue
        if choice(about["actor"], about["op"]):
            if about["op"] == "binding":
                binding = entry
            else:
                found = entry
    choice.check()
    found = found or binding
    if found is None:
        _missing("--last")
    return found


def _in_run(source: Source, text: str, which: str, place: int, run: str | None) -> Entry:
    runs = source.run_list()
    if which != "run" and not any(one.id.startswith(which.lower()) for one in runs):
        return _in_log(source, text, which.lower(), place)
    chosen = choose(runs, (run or "last") if which == "run" else which).id
    count, told = 0, Runs()
    for entry in source.entries():
        if told.of(entry)[0] == chosen:
            count += 1
            if count == place:
                return entry
    raise ConfigError(
        f"this run has {count} entries",
        code="CF-CLI-021",
        where=text,
        hint=f"from {which}/1 to {which}/{count}",
    )


def _in_log(source: Source, text: str, name: str, index: int) -> Entry:
    logs = [one for one in source.logs() if one.startswith(name)]
    found = [Found(entry) for entry in source.entries() if entry.log in logs and entry.index == index]
    entry = _one(found, text).entry
    assert entry is not None
    return entry


def _by_digest(source: Source, prefix: str) -> list[Found]:
    found: list[Found] = []
    blobs: set[str] = set()
    for name in source.ordered_logs():
        for event in LogScan(source.store, name).events():
            if isinstance(event, Entry):
                names = {event.digest, identity(event), sha256_hex(event.body_bytes)}
                if any(one.startswith(prefix) for one in names):
                    found.append(Found(event))
            elif isinstance(event, BlobSeen) and event.sha256.startswith(prefix):
                blobs.add(event.sha256)
    return found + [Found(blob=sha256) for sha256 in sorted(blobs)]


def _one(found: list[Found], text: str) -> Found:
    if len(found) == 1:
        return found[0]
    if not found:
        _missing(text)
    listed = "; ".join(one.name for one in found[:_TOLD])
    raise ConfigError(
        f"this names {len(found)} things", code="CF-CLI-022", where=text, hint=f"be more exact: {listed}"
    )


def _missing(text: str) -> NoReturn:
    raise ConfigError(
        "this evidence holds no such entry or bytes",
        code="CF-CLI-021",
        where=text,
        hint="counterfoil log lists the entries",
    )
