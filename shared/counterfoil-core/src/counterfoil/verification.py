"""Says whether evidence can be believed: one of four verdicts, with every reason for it.

``broken`` (changed, cut, forged) over ``cannot-tell`` (keys or versions unknown here) over ``incomplete`` (a loss, a
gap, an unclean stop) over ``intact``. Streams the logs; "valid" always means: signed by a key pinned on this machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterfoil import keys, trust
from counterfoil.bundles.store import BundleStore
from counterfoil.bundles.verifying import verify_bundle
from counterfoil.checks import LogCheck
from counterfoil.choosing import moved_with
from counterfoil.continuing import Continuation, continues, parse_checkpoint
from counterfoil.dsse import Check
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.findings import EXIT_CODES, Finding, Verdict, Verification
from counterfoil.log import Entry, LogScan, Problem
from counterfoil.reader import read
from counterfoil.signatures import Signatures
from counterfoil.stores import FolderStore
from counterfoil.trust import Policy
from counterfoil.trust_checks import Heads, Shared
from counterfoil.views import run_of

__all__ = ["EXIT_CODES", "Examined", "Finding", "Judging", "Verdict", "Verification", "settled", "verify"]

_AGAIN: Final = 3
"""Times that evidence is read again because somebody wrote to it meanwhile."""


def verify(
    evidence: str | os.PathLike[str] | FolderStore,
    *,
    keyring: keys.Keyring | str | os.PathLike[str] | None = None,
    policy: str | os.PathLike[str] | bytes | Policy | None = None,
    run: str | None = None,
    checkpoints: Sequence[bytes | str] = (),
    full: bool = False,
) -> Verification:
    """Check every byte of evidence, or of a bundle; never raises for what it finds, StoreError when there is nothing.

    ``keyring`` (object or file) instead of this machine's; ``policy`` (file, its bytes, or object): its keys take the
    place of the pinned ones, TrustError (CF-TRUST-001 to 003) when it is none; ``run`` judges only the logs that hold
    that run or cannot be read to their end (a bundle is judged as a whole); ``checkpoints`` are notes kept elsewhere
    which the evidence must continue: each becomes a finding or a member of ``continues``, NoteError when one is no
    checkpoint; ``full`` computes signatures again that were found valid before.
    """
    for note in checkpoints:
        parse_checkpoint(note)
    reader = read(evidence)
    ring = keyring if isinstance(keyring, keys.Keyring) else keys.Keyring.load(keyring)
    with contextlib.nullcontext() if full else Signatures() as known:
        judging = Judging(ring, check=None if known is None else known.check)
        if policy is not None:
            judging.believe(policy)
        if isinstance(reader.store, BundleStore):
            out = Verification()
            verify_bundle(reader.store.root, judging.ring, out, shared=judging.begin(out), kept=checkpoints)
            return out
        return settled(reader.store, judging, run, checkpoints).result


@dataclass(frozen=True, slots=True)
class Examined:
    """One look at evidence: what is said of it, and of each log the check and its own findings."""

    result: Verification
    checks: dict[str, LogCheck]
    found: dict[str, list[Finding]]


@dataclass(slots=True)
class Judging:
    """By whose word evidence is judged: pinned keys, or those of a policy that is believed here."""

    ring: keys.Keyring
    check: Check | None = None
    policy: Policy | None = None
    doubts: list[Finding] = field(default_factory=list)

    def believe(self, policy: str | os.PathLike[str] | bytes | Policy) -> None:
        """Go by a policy; one that is not believed turns nothing off and keeps the verdict from being `intact`."""
        found = trust.read(policy)
        try:
            self.policy = trust.load(found, keyring=self.ring)
        except CounterfoilError as exc:
            self.doubts.append(_finding(exc, "cannot-tell"))
        else:
            self.ring = self.policy.keyring

    def begin(self, out: Verification) -> Shared:
        """What the checks of all logs share in one pass."""
        out.findings += self.doubts
        return Shared(Heads(), self.policy, self.check)


def settled(
    store: FolderStore, judging: Judging, run: str | None = None, kept: Sequence[bytes | str] = ()
) -> Examined:
    """``examine``, again where it found something while somebody was writing."""
    before = _picture(store)
    seen = examine(store, judging, run, kept)
    for _ in range(_AGAIN):
        after = _picture(store)
        if seen.result.verdict == "intact" or after == before:
            break
        # Somebody records meanwhile, and what was read first does not fit what was read last.
        before = after
        seen = examine(store, judging, run, kept)
    return seen


def examine(
    store: FolderStore, judging: Judging, run: str | None = None, kept: Sequence[bytes | str] = ()
) -> Examined:
    """One pass of ``verify``, for who needs the parts."""
    out = Verification()
    parts: dict[str, list[Finding]] = {}
    shared = judging.begin(out)
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
        wanted = {parse_checkpoint(note)[1].origin.rpartition("/")[2] for note in kept}
        names = [name for name in names if name in wanted or _in_scope(store, name, heads, run)]
    for name in names:
        check = LogCheck(store, name, judging.ring, heads, own=own, shared=shared)
        parts[name] = check.run()
        out.findings += parts[name]
        out.notes += check.notes
        checks[name] = check
        for key, count in check.counts.items():
            out.counts[key] += count
    out.counts["logs"] = len(names)
    everything = {name: check.checkpoints for name, check in checks.items()}
    for check in checks.values():
        out.findings += check.cited(everything, partial=run is not None)
    out.findings += shared.heads.findings({check.origin: check.checkpoints for check in checks.values()})
    out.findings += _absent(store, heads, names, partial=run is not None)
    out.findings += _copied(store, heads, checks)
    for note in kept:
        found = continues(store, checks, note)
        if isinstance(found, Continuation):
            out.continues.append(found)
        else:
            out.findings.append(found)
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
    return Examined(out, checks, parts)


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
