"""Says whether evidence can be believed: one of four verdicts, with every reason for it.

``broken`` (changed, cut, forged) over ``cannot-tell`` (keys or versions unknown here) over ``incomplete`` (a loss, a
gap, an unclean stop) over ``intact``. Streams the logs; "valid" always means: signed by a key pinned on this machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from counterfoil import keys
from counterfoil.checks import LogCheck
from counterfoil.choosing import moved_with
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.findings import EXIT_CODES, Finding, Verdict, Verification
from counterfoil.log import Entry, LogScan, Problem
from counterfoil.reader import read
from counterfoil.stores import FolderStore
from counterfoil.views import run_of

__all__ = ["EXIT_CODES", "Finding", "Verdict", "Verification", "verify"]

_AGAIN: Final = 3
"""Times that evidence is read again because somebody wrote to it meanwhile."""


def verify(
    evidence: str | os.PathLike[str] | FolderStore,
    *,
    keyring: keys.Keyring | str | os.PathLike[str] | None = None,
    policy: None = None,
    run: str | None = None,
) -> Verification:
    """Check every byte of evidence; never raises for what it finds, StoreError when there is nothing to look at.

    ``keyring`` (object or file) instead of this machine's; ``run`` judges only the logs that hold
    that run or cannot be read to their end.
    """
    reader = read(evidence)
    ring = keyring if isinstance(keyring, keys.Keyring) else keys.Keyring.load(keyring)
    before = _picture(reader.store)
    out = _once(reader.store, ring, run)
    for _ in range(_AGAIN):
        after = _picture(reader.store)
        if out.verdict == "intact" or after == before:
            break
        # Somebody records meanwhile, and what was read first does not fit what was read last.
        before = after
        out = _once(reader.store, ring, run)
    return out


def _once(store: FolderStore, ring: keys.Keyring, run: str | None) -> Verification:
    out = Verification()
    checks: dict[str, LogCheck] = {}
    heads: dict[str, keys.Head] = {}
    own = None
    try:
        # Before the logs are listed: what is remembered is in them, what comes later need not be remembered.
        heads = keys.remembered_heads()
        own = keys.Keyring.load().own
    except CounterfoilError as exc:
        out.findings.append(_finding(exc, "cannot-tell"))
    names = store.logs()
    if run is None:
        # A folder without a log is no evidence, whatever else is in it.
        out.findings += _foreign(store) if names else []
    else:
        names = [name for name in names if _in_scope(store, name, heads, run)]
    for name in names:
        check = LogCheck(store, name, ring, heads, own=own)
        out.findings += check.run()
        out.notes += check.notes
        checks[name] = check
        for key, count in check.counts.items():
            out.counts[key] += count
    out.counts["logs"] = len(names)
    everything = {name: check.checkpoints for name, check in checks.items()}
    for check in checks.values():
        out.findings += check.cited(everything, partial=run is not None)
    out.findings += _absent(store, heads, names, partial=run is not None)
    out.findings += _copied(store, heads, checks)
    if not names:
        out.findings.append(
            Finding(
                "CF-VERIFY-001",
                str(store.root),
                "there is no log",
                "name the folder of a run",
                "cannot-tell",
            )
        )
    return out


def _in_scope(store: FolderStore, name: str, heads: dict[str, keys.Head], run: str) -> bool:
    """Whether a log holds a run, or could: one that cannot be read to its end may hold any run behind it."""
    scan = LogScan(store, name)
    for event in scan.events():
        if isinstance(event, Entry):
            if run_of(event)[0] == run:
                return True
        elif isinstance(event, Problem) and not event.torn:
            return True
    return any(
        head.size > scan.covered for origin, head in heads.items() if origin.rpartition("/")[2] == name
    )


def _picture(store: FolderStore) -> dict[tuple[str, int], int]:
    """Sizes of all segments; what vanishes meanwhile has none."""
    found: dict[tuple[str, int], int] = {}
    for name in store.logs():
        for number in store.segments(name):
            with contextlib.suppress(StoreError):
                found[name, number] = store.segment_size(name, number)
    return found


def _finding(exc: CounterfoilError, verdict: Verdict) -> Finding:
    return Finding(exc.code, exc.where or "", exc.message, exc.hint or "", verdict)


def _foreign(store: FolderStore) -> Iterator[Finding]:
    for name, wrong in store.foreign():
        yield Finding(
            "CF-VERIFY-002",
            name,
            f"{name} {wrong}",
            "every byte inside evidence is evidence: find out who put it there",
        )


def _copied(
    store: FolderStore, heads: dict[str, keys.Head], checks: dict[str, LogCheck]
) -> Iterator[Finding]:
    """Logs of other evidence among those that were written here; evidence moved or copied as a whole is none."""
    places = {name: heads[check.origin].evidence for name, check in checks.items() if check.origin in heads}
    if store.names.isdisjoint(places.values()):
        return
    for name, place in sorted(places.items()):
        if place and place not in store.names and os.path.isdir(os.path.join(place, name)):
            yield Finding(
                "CF-VERIFY-006",
                name,
                f"a log that was written in {place}",
                "it was copied in here: find out by whom",
            )


def _absent(
    store: FolderStore, heads: dict[str, keys.Head], names: list[str], *, partial: bool
) -> Iterator[Finding]:
    if partial:
        return
    moved = moved_with(store, heads)
    for origin, head in sorted(heads.items()):
        name = origin.rpartition("/")[2]
        if name not in names and (head.evidence in store.names or head in moved):
            entries = "1 entry" if head.size == 1 else f"{head.size} entries"
            yield Finding(
                "CF-VERIFY-003",
                name,
                f"a log that was written here ({entries}) is gone",
                f"restore it from a copy; if you deleted it on purpose: counterfoil keys forget {name}",
            )
