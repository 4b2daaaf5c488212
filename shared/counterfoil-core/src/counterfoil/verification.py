"""Says whether evidence can be believed: one of four verdicts, with every reason for it.

``broken`` (changed, cut, forged) over ``cannot-tell`` (keys or versions unknown here) over ``incomplete`` (a loss, a
gap, an unclean stop) over ``intact``. Streams the logs; "valid" always means: signed by a key pinned on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from counterfoil import keys
from counterfoil.checks import LogCheck
from counterfoil.errors import CounterfoilError
from counterfoil.findings import EXIT_CODES, Finding, Verdict, Verification
from counterfoil.reader import read
from counterfoil.stores import FolderStore

__all__ = ["EXIT_CODES", "Finding", "Verdict", "Verification", "verify"]


def verify(
    evidence: str | os.PathLike[str] | FolderStore,
    *,
    keyring: keys.Keyring | str | os.PathLike[str] | None = None,
    policy: None = None,
    run: str | None = None,
) -> Verification:
    """Check every byte of evidence; never raises for what it finds, StoreError when there is nothing to look at.

    ``keyring`` (object or file) instead of this machine's; ``run`` judges only the logs that hold that run.
    """
    reader = read(evidence)
    ring = keyring if isinstance(keyring, keys.Keyring) else keys.Keyring.load(keyring)
    out = Verification()
    names = reader.logs()
    if run is not None:
        held = {one.log for one in reader.runs() if one.id == run}
        names = [name for name in names if name in held]
    checks: dict[str, LogCheck] = {}
    try:
        heads = keys.remembered_heads()
    except CounterfoilError as exc:
        heads = {}
        out.findings.append(_finding(exc, "cannot-tell"))
    if run is None:
        # A folder without a log is no evidence, whatever else is in it.
        out.findings += _foreign(reader.store) if names else []
    for name in names:
        check = LogCheck(reader.store, name, ring, heads)
        out.findings += check.run()
        out.notes += check.notes
        checks[name] = check
        for key, count in check.counts.items():
            out.counts[key] += count
    out.counts["logs"] = len(names)
    everything = {name: check.checkpoints for name, check in checks.items()}
    for check in checks.values():
        out.findings += check.cited(everything, partial=run is not None)
    out.findings += _absent(reader.store, heads, names, partial=run is not None)
    out.findings += _copied(reader.store, heads, checks)
    if not names:
        out.findings.append(
            Finding(
                "CF-VERIFY-001",
                str(reader.store.root),
                "there is no log",
                "name the folder of a run",
                "cannot-tell",
            )
        )
    return out


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
    if store.uri not in places.values():
        return
    for name, place in sorted(places.items()):
        if place not in ("", store.uri) and os.path.isdir(os.path.join(place, name)):
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
    for origin, head in sorted(heads.items()):
        name = origin.rpartition("/")[2]
        if head.evidence == store.uri and name not in names:
            yield Finding(
                "CF-VERIFY-003",
                name,
                f"a log that was written here ({head.size} entries) is gone",
                f"restore it from a copy; if you deleted it on purpose: counterfoil keys forget {name}",
            )
