"""The one line that ``counterfoil run`` ends with: what this run added to the evidence, and its verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from counterfoil import keys, plugins, verification
from counterfoil.checks import LogCheck
from counterfoil.cli.progress import watched
from counterfoil.cli.rows import row
from counterfoil.entries import Event
from counterfoil.errors import CounterfoilError
from counterfoil.findings import Verification
from counterfoil.log import Entry, LogScan
from counterfoil.places import is_bucket, open_for_writing, open_written
from counterfoil.stores import FolderStore
from counterfoil.stores.s3.beside import Beside

__all__ = ["Added", "snapshot", "tell"]

_WHOLE: Final = 64 << 20
"""Evidence of at least so many bytes is not read again as a whole for one line."""
_UNREAD: Final = "not verified"
_KILLED: Final = "killed before anything was on disk"
_MODEL = ("chat", "text_completion", "embeddings")


@dataclass(slots=True)
class Added:
    """What came to the evidence since a snapshot, in sessions of one launch."""

    sessions: int = 0
    logs: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("run", "model call", "tool call", "handoff", "loss"), 0)
    )


Sizes = Mapping[tuple[str, int], int]


def snapshot(evidence: str) -> Sizes:
    """How long every segment is now; of a bucket, those that this machine keeps to go on from."""
    try:
        store = open_for_writing(evidence)
        return {
            (name, number): store.segment_size(name, number)
            for name in (store.logs() if store.exists() else [])
            for number in store.segments(name)
        }
    except CounterfoilError:
        return {}


def tell(
    evidence: str,
    before: Sizes,
    shown: str,
    *,
    launch: str,
    problem: CounterfoilError | None,
    mode: str = "observe",
    killed: bool = False,
) -> str:
    """The line; ``shown`` is the evidence as the user named it, ``problem`` what preflight found.

    ``killed`` says that a signal ended it.
    ``launch`` is what the sessions of this run name; others may record into the same place at the same time.
    """
    place = f" -> {shown}" if is_bucket(evidence) or os.path.lexists(evidence) else ""
    if problem is not None:
        return f"counterfoil: nothing was recorded ({problem.code}: {problem.message}){place}"
    store = open_written(evidence, patient=True)
    store.refresh()
    added = _added(store, before, launch)
    if not added.sessions:
        return f"counterfoil: nothing was recorded ({_KILLED if killed else _why(mode)}){place}"
    told = [
        f"{count} {_plural(name, count)}" for name, count in added.counts.items() if count or name != "loss"
    ]
    verdict, whole = _verdicts(store, added.logs)
    told.append(verdict)
    more = (
        "" if whole in ("intact", verdict) else f"; the evidence as a whole: {whole}, see counterfoil verify"
    )
    return f"counterfoil: {', '.join(told)} -> {shown}{more}"


def _added(store: FolderStore, before: Sizes, launch: str) -> Added:
    added = Added()
    if not store.exists():
        return added
    for name in store.spool.logs() if isinstance(store, Beside) else store.logs():
        events = _events(store, name, before)
        if events is None:
            continue
        ours = False
        for event in events:
            if not isinstance(event, Entry) or event.offset < before.get((name, event.segment), 0):
                continue
            if event.op == "session":
                named = _launch_of(event)
                ours = named == launch or named.startswith(f"{launch}.")
                added.sessions += ours
                added.logs += [name] * ours
            if ours:
                _count(event, added.counts)
    return added


def _events(store: FolderStore, name: str, before: Sizes) -> Iterator[Event] | None:
    """What a log holds, or of a bucket what it gained; None when that is nothing."""
    numbers = store.segments(name)
    if isinstance(store, Beside):
        known = max((number for log, number in before if log == name), default=-1)
        if known < 0:
            return LogScan(store, name).events()
        grew = known in numbers and store.segment_size(name, known) != before[name, known]
        first = known if grew else known + 1
        return LogScan(store, name).since(first) if first in numbers else None
    if all(before.get((name, number)) == store.segment_size(name, number) for number in numbers):
        return None
    return LogScan(store, name).events()


def _launch_of(entry: Entry) -> str:
    """What a session says it was launched by, empty when it says nothing."""
    named = entry.body["context"].get("launch")
    return named if type(named) is str else ""


def _count(entry: Entry, counts: dict[str, int]) -> None:
    about = row(entry)
    if about["op"] == "handoff":
        counts["handoff"] += 1
    elif about["op"] == "loss":
        count = entry.body["context"].get("count")
        counts["loss"] += count if type(count) is int else 1
    elif about["phase"] == "start":
        counts["run"] += about["call"] == about["run"]
        counts["model call"] += about["op"] in _MODEL
        counts["tool call"] += about["op"] == "execute_tool"


def _verdicts(store: FolderStore, logs: list[str]) -> tuple[str, str]:
    """Of the logs that this run wrote, and of everything; the first for both where that is much to read."""
    if isinstance(store, Beside) and not _at_hand(store, logs):
        return _UNREAD, _UNREAD
    ring, heads = keys.Keyring.load(), keys.remembered_heads()
    with watched(store):
        checks = [LogCheck(store, name, ring, heads) for name in dict.fromkeys(logs)]
        verdict = Verification([finding for check in checks for finding in check.run()]).verdict
        few = not isinstance(store, Beside) and store.size() < _WHOLE
        return verdict, verification.verify(store).verdict if few else verdict


def _at_hand(store: Beside, logs: list[str]) -> bool:
    """Whether these logs are all there, and little to read."""
    size = 0
    for name in set(logs):
        numbers = store.segments(name)
        if numbers != list(range(len(numbers))):
            return False
        size += sum(store.segment_size(name, number) for number in numbers)
    return size < _WHOLE


def _why(mode: str) -> str:
    found = plugins.loaded()
    adapters = [one.name for one in found.instrumentations()]
    if found.broken:
        return f"plugin {found.broken[0].name} is broken: {found.broken[0].reason}"
    if not adapters:
        return 'no adapter is installed: pip install "counterfoil[langchain]"'
    refusing = [one.name for one in found.instrumentations() if mode != "observe" and mode not in one.modes]
    if refusing:
        return f"mode {mode} is refused by the installed adapters: {', '.join(refusing)}; use mode observe"
    return f"no call reached the installed adapters: {', '.join(adapters)}"


def _plural(name: str, count: int) -> str:
    if count == 1:
        return name
    return "losses" if name == "loss" else f"{name}s"
