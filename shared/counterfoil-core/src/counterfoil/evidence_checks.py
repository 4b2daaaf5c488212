"""Checks of an evidence as a whole: what logs say of each other, what is remembered of them, what is foreign."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from counterfoil import keys
from counterfoil.archived import Archived, same_files
from counterfoil.choosing import is_here, places_of, stands
from counterfoil.citations import Cited
from counterfoil.findings import Finding
from counterfoil.stores import FolderStore

if TYPE_CHECKING:
    from counterfoil.checks import LogCheck

__all__ = [
    "UNREAD",
    "Outcome",
    "absent",
    "behind",
    "cited",
    "copied",
    "foreign",
    "in_archives",
    "interrupted",
    "is_apart",
    "kept_elsewhere",
    "left_over",
    "on_its_way",
    "unlike",
]


UNREAD: Final = {
    "CF-STORE-001": "check the path and the disk",
    "CF-STORE-006": "verify as a user who may read it",
    "CF-S3-001": "verify again",
    "CF-S3-002": "check the network and the endpoint, then verify again",
    "CF-S3-004": "verify with credentials that may read it",
    "CF-S3-005": "renew the credentials, then verify again",
    "CF-S3-006": "set the clock, then verify again",
    "CF-S3-007": "verify again later",
    "CF-S3-008": "verify with credentials that may read it",
    "CF-S3-009": "verify with credentials that may read it",
    "CF-S3-011": "verify again later",
}
"""What keeps a log from being read, and what to do: nothing is said of the log by that."""


class Outcome(NamedTuple):
    """What of a log concerns the others: checkpoints (size to root; unless it is blind to them), notes it cites.

    ``apart``: it was ended to be kept apart from the logs it cites; ``broken``: it has a fault of its own.
    """

    name: str
    origin: str
    checkpoints: dict[int, str]
    seen: list[Cited]
    blind: bool = False
    apart: bool = False
    broken: bool = False

    @property
    def end(self) -> int:
        """Entries that its checkpoints cover."""
        return max(self.checkpoints, default=0)


def is_apart(check: LogCheck) -> bool:
    """Whether a log's identity ended it to keep it apart from the logs it cites, under a checkpoint."""
    return 0 <= check.last_word < max(check.checkpoints, default=0)


def cited(
    one: Outcome,
    everything: Mapping[str, Outcome],
    archived: Mapping[str, Archived],
    *,
    partial: bool,
    lags: bool,
) -> Iterator[Finding]:
    """Findings about other logs whose last checkpoint a session of this log cites; ``archived`` by origin.

    ``lags``: logs come to this place one after the other, so that what is cited may still be on its way.
    """
    for name, _, told in one.seen:
        here = everything.get(name)
        elsewhere = archived.get(told[0]) if here is None and len(told) == 3 else None
        if len(told) == 3 and elsewhere is not None and elsewhere.name == name:
            if not partial and not elsewhere.had(told[1], told[2]):
                yield _another(one.name, name)
            continue
        if here is None and one.apart:
            continue
        if lags and len(told) == 3 and not partial and told[1] > (0 if here is None else here.end):
            if here is None or not here.blind:
                yield behind(one.name, name, told[1], 0 if here is None else here.end)
            continue
        if here is None:
            if not partial:
                yield Finding(
                    "CF-VERIFY-004",
                    name,
                    f"log {one.name} cites a log that is gone",
                    "restore it from a copy",
                )
            continue
        if len(told) == 2:
            yield Finding(told[0], name, told[1], "the citing log was not written by Counterfoil")
            continue
        if here.blind:
            continue
        origin, size, root = told
        if here.checkpoints.get(size) != root or not origin.endswith(f"/{name}"):
            yield _another(one.name, name)


def _another(citing: str, name: str) -> Finding:
    message = f"log {citing} cites another history of it"
    return Finding("CF-VERIFY-005", name, message, "restore it from a copy")


def left_over(store: FolderStore, archived: Mapping[str, Archived], here: Mapping[str, str]) -> list[str]:
    """Archived logs of which only a part is here, every file as it was: their removal was interrupted.

    ``here`` is the origin of each log, empty where none can be read. Raises StoreError.
    """
    found = []
    for one in archived.values():
        if here.get(one.name) not in ("", one.origin):
            continue
        numbers = [number for number in store.segments(one.name) if store.is_segment(one.name, number)]
        if len(numbers) < len(one.manifest.segments) and not same_files(store, one, numbers):
            found.append(one.name)
    return sorted(found)


def interrupted(name: str) -> Finding:
    """The finding for what is left of an archived log (CF-VERIFY-071)."""
    message = "only a part of an archived log is left here: taking it away was interrupted"
    return Finding("CF-VERIFY-071", name, message, "run counterfoil archive again", "incomplete")


def unlike(outcomes: Mapping[str, Outcome], archived: Mapping[str, Archived]) -> Iterator[Finding]:
    """Logs that are here although they were archived, and are not what was archived (CF-VERIFY-005)."""
    for origin, one in sorted(archived.items()):
        log = outcomes.get(one.name)
        if log is None or log.origin != origin or log.blind or log.broken:
            continue
        if log.checkpoints.get(one.size) != one.said.log.root:
            message = "an archive statement tells another history of it, or a longer one"
            yield Finding("CF-VERIFY-005", one.name, message, "restore it from the archive")


def in_archives(archives: Sequence[FolderStore], archived: Mapping[str, Archived]) -> Iterator[Finding]:
    """Archived logs that none of these archives holds as they were (CF-VERIFY-073). Raises StoreError."""
    for _, one in sorted(archived.items()):
        count = len(one.manifest.segments)
        wrong = list(range(count))
        for place in archives:
            numbers = place.segments(one.name)
            if numbers:
                wrong = same_files(place, one, sorted({*numbers, *range(count)}))
            if not wrong:
                break
        if wrong:
            where = archives[0].segment_name(one.name, wrong[0])
            message = (
                f"{len(wrong)} of {count} segments of an archived log are not in the archive as they were"
            )
            yield Finding(
                "CF-VERIFY-073", where, message, f"it went to {one.said.place}: restore it from a copy"
            )


def kept_elsewhere(archived: Mapping[str, Archived], here: Iterable[str]) -> Iterator[Finding]:
    """Notes that say how much of this evidence is archived, and where; ``here`` are logs by origin."""
    places: dict[str, list[Archived]] = {}
    for origin in archived.keys() - set(here):
        places.setdefault(archived[origin].said.place, []).append(archived[origin])
    for place, ones in sorted(places.items()):
        runs, size = sum(one.said.runs for one in ones), sum(one.said.bytes for one in ones)
        logs = "1 log" if len(ones) == 1 else f"{len(ones)} logs"
        less = sum(one.said.verdict != "intact" for one in ones)
        told = f"; {less} of them not intact" if less else ""
        in_runs = "1 run" if runs == 1 else f"{runs} runs"
        message = f"{logs} of this evidence ({in_runs}, {size} bytes) archived there{told}"
        hint = "check both together: counterfoil verify --archive PLACE"
        yield Finding("CF-VERIFY-072", place, message, hint, "intact")


def behind(log: str, name: str, size: int, end: int) -> Finding:
    """The finding for a log that is cited further than it stands in a place where logs arrive part by part."""
    return Finding(
        "CF-S3-027",
        name,
        f"log {log} cites entry {size} of this log, of which {end} entries are here",
        "its writer has not uploaded them yet, or they were deleted: counterfoil push on the machine that wrote it",
        "incomplete",
    )


def on_its_way(store: FolderStore, name: str, head: keys.Head | None, end: int) -> Finding | None:
    """The finding for entries behind ``end`` that this machine remembers and still has to bring here."""
    if head is None or head.size <= end:
        return None
    spool = store.waiting(name, head.segment)
    if spool is None:
        return None
    count = head.size - end
    what = f"entry {end} is" if count == 1 else f"entries {end} to {head.size - 1} are"
    return Finding(
        "CF-S3-025",
        name,
        f"{what} not in the bucket yet ({count}): they wait in {spool}",
        "they are uploaded by the next process that records there, or by counterfoil push",
        "incomplete",
    )


def foreign(store: FolderStore) -> Iterator[Finding]:
    """Files in the evidence that are none of its own (CF-VERIFY-002), so that nobody slips anything in beside the logs.

    Raises:
        StoreError: CF-STORE-001, 006: the folder cannot be listed.
    """
    for name, wrong in store.foreign():
        yield Finding(
            "CF-VERIFY-002",
            name,
            f"{name} {wrong}",
            "every byte inside evidence is evidence: find out who put it there",
        )


def copied(
    store: FolderStore, heads: dict[str, keys.Head], outcomes: Mapping[str, Outcome]
) -> Iterator[Finding]:
    """Logs of other evidence among those that were written here; evidence moved or copied as a whole is none.

    Nor is a log that its identity ended to keep it elsewhere.
    """
    places = {name: heads[one.origin].evidence for name, one in outcomes.items() if one.origin in heads}
    if store.names.isdisjoint(places.values()):
        return
    for name, place in sorted(places.items()):
        if place and place not in store.names and not outcomes[name].apart and os.path.isdir(place):
            how = "copied" if os.path.isdir(os.path.join(place, name)) else "moved"
            yield Finding(
                "CF-VERIFY-006",
                name,
                f"a log that was written in {place}, which is still there",
                f"it was {how} in here: find out by whom",
            )


def absent(
    store: FolderStore,
    heads: dict[str, keys.Head],
    outcomes: Mapping[str, Outcome],
    archived: Mapping[str, Archived],
    *,
    partial: bool,
) -> Iterator[Finding]:
    """Logs that this machine remembers in this evidence and that are gone (CF-VERIFY-003).

    ``heads`` are the remembered ones by origin, ``outcomes`` the logs that are there by name: what is remembered is an
    identity's log, and another one by that name is not it; what is ``archived`` with that head is not gone. With
    ``partial`` (one run was asked for) nothing is said, since not all logs were looked for.
    """
    if partial:
        return
    here = {name: one.origin for name, one in outcomes.items()}
    places = places_of(store, heads, here)
    for origin, head in sorted(heads.items()):
        name = origin.rpartition("/")[2]
        if is_here(head, here) or (origin in archived and archived[origin].had(head.size, head.root)):
            continue
        if head.evidence in store.names:
            if name in here and here[name] not in heads:
                continue  # said of the log that stands there (CF-VERIFY-053)
        elif head.evidence not in places or stands(head):
            continue
        if (later := on_its_way(store, name, head, 0)) is not None:
            yield later
            continue
        entries = "1 entry" if head.size == 1 else f"{head.size} entries"
        yield Finding(
            "CF-VERIFY-003",
            name,
            f"a log that was written here ({entries}) is gone",
            f"restore it from a copy; if you deleted it on purpose: counterfoil keys forget {name}",
        )
