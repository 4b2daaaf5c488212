"""What is in evidence by age: which logs can be archived now, which cannot and why, and what was archived before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from counterfoil import keys, locking, verification
from counterfoil.archived import Archived, largest
from counterfoil.archiving.facts import Facts, facts_of
from counterfoil.errors import ArchiveError
from counterfoil.findings import Finding
from counterfoil.stores import FolderStore

__all__ = ["LogState", "State", "Survey", "survey"]

State = Literal["due", "young", "mixed", "live", "waiting", "index", "foreign", "unfit", "left"]
_GRACE: Final = 24 * 3600 + 600
"""Seconds after its end for which a handoff may still be taken somewhere, by clocks that differ."""

_WHY: Final[dict[str, str]] = {
    "due": "",
    "young": "its last entry is not older",
    "mixed": "some of its entries are older, its last one is not: no writer goes on with it from now on",
    "live": "a writer has it",
    "waiting": "a handoff in it can still be accepted",
    "index": "it tells what was archived",
    "foreign": "another identity's: only that one can archive it",
    "unfit": "it does not verify",
    "left": "it was archived: what is left of it here goes",
}


@dataclass(frozen=True, slots=True)
class LogState:
    """One log: ``first`` and ``last`` entry in Unix microseconds, ``closed`` to the writers of this home."""

    name: str
    origin: str
    state: State
    why: str
    bytes: int
    entries: int
    runs: int
    first: int
    last: int
    closed: bool


@dataclass(slots=True)
class Survey:
    """The logs here, those archived before (the newest statement of each), and what is wrong with the whole."""

    logs: list[LogState]
    archived: list[Archived]
    wrong: list[Finding] = field(default_factory=list)
    facts: dict[str, Facts] = field(default_factory=dict)

    def of(self, *states: State) -> list[LogState]:
        """The logs in one of these states."""
        return [one for one in self.logs if one.state in states]

    def refuse(self, evidence: str) -> None:
        """Raise ArchiveError (CF-ARCHIVE-002) where something is wrong that is not one log's own."""
        if self.wrong:
            first = self.wrong[0]
            raise ArchiveError(
                f"the evidence does not verify: {first.code} {first.message}",
                code="CF-ARCHIVE-002",
                where=f"{evidence} {first.where}".rstrip(),
                hint="nothing was archived: see counterfoil verify",
            )


def survey(
    store: FolderStore, *, before: int | None = None, told: Callable[[str], None] | None = None
) -> Survey:
    """Verify evidence and say of each log what can be done with it; ``before`` in Unix microseconds.

    Without ``before`` nothing is due. Raises StoreError, KeyringError.
    """
    ring = keys.Keyring.load()
    seen = verification.settled(store, verification.Judging(ring, jobs=None))
    heads = {name: check.origin for name, check in seen.checks.items()}
    archived = largest(one for check in seen.checks.values() for one in check.statements.archived)
    left = {one.where for one in seen.result.findings if one.code == "CF-VERIFY-071"}
    bad: dict[str, list[Finding]] = {name: [] for name in heads}
    wrong: list[Finding] = []
    for finding in seen.result.findings:
        if finding.verdict in ("broken", "cannot-tell"):
            name = finding.where[:16]
            own = name in bad and finding in seen.found.get(name, ())
            (bad[name] if own or (name in bad and finding.code in _OF_ONE) else wrong).append(finding)
    logs, facts = [], {}
    for name, origin in sorted(heads.items()):
        if told is not None:
            told(name)
        facts[name] = found = facts_of(store, name)
        whole = origin in archived and name not in left and found.ended
        state: State
        if name in left or (whole and not bad[name]):
            state = "left"
        else:
            state = _state(origin, ring.own, found, before, unfit=bool(bad[name]))
        why = _WHY[state]
        if state == "unfit":
            why = f"{why}: {bad[name][0].code}" if bad[name] else f"{why}: no session tells whose it is"
        logs.append(_told(store, name, origin or archived_origin(name, archived), state, why, found))
    return Survey(logs, sorted(archived.values(), key=lambda one: (one.said.first, one.name)), wrong, facts)


_OF_ONE: Final = frozenset({"CF-VERIFY-005", "CF-VERIFY-006", "CF-VERIFY-048"})
"""Codes of the whole that name the log that is at fault."""


def archived_origin(name: str, archived: dict[str, Archived]) -> str:
    """The origin of what is left of a log, by the statement that archived it."""
    return next((origin for origin, one in archived.items() if one.name == name), "")


def _state(origin: str, own: str | None, found: Facts, before: int | None, *, unfit: bool) -> State:
    if own is None or (origin and origin.partition("/")[0] != own):
        return "foreign"
    if unfit or not origin:
        return "unfit"
    if found.archived:
        return "index"
    if locking.is_live(origin):
        return "live"
    if before is None or found.first >= before or not found.last:
        return "young"
    if found.last >= before:
        return "mixed"
    if found.open_until and found.open_until / 1000 + _GRACE > time.time():
        return "waiting"
    return "due"


def _told(store: FolderStore, name: str, origin: str, state: State, why: str, found: Facts) -> LogState:
    size = sum(store.segment_size(name, number) for number in store.segments(name))
    closed = bool(origin) and os.path.lexists(keys.home()) and keys.is_closed(origin)
    if state == "mixed" and closed:
        why = "some of its entries are older, its last one is not: it is closed to writers"
    return LogState(
        name, origin, state, why, size, found.entries, len(found.runs), found.first, found.last, closed
    )
