"""Says whether evidence can be believed: one of four verdicts, with every reason for it.

``broken`` (changed, cut, forged) over ``cannot-tell`` (keys or versions unknown here) over ``incomplete`` (a loss, a
gap, an unclean stop) over ``intact``. Streams the logs; "valid" always means: signed by a key pinned on this machine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from counterfoil import evidence_checks, keys, trust
from counterfoil.archived import Archived, largest
from counterfoil.bundles.store import BundleStore
from counterfoil.bundles.verifying import verify_bundle
from counterfoil.checks import LogCheck
from counterfoil.dsse import Check
from counterfoil.engines import Engine
from counterfoil.engines.choosing import check_workers, choose, one_process
from counterfoil.engines.pool import PoolEngine
from counterfoil.errors import CounterfoilError, KeyringError, StoreError
from counterfoil.evidence_checks import Outcome
from counterfoil.findings import EXIT_CODES, Finding, Findings, Verdict, Verification
from counterfoil.log import Entry, LogScan, Problem
from counterfoil.parts import judge_part
from counterfoil.proving import Proven
from counterfoil.reader import read
from counterfoil.sidebyside import Elsewhere, SideBySide, enough
from counterfoil.signatures import Signatures
from counterfoil.stores import FolderStore
from counterfoil.stores.joined import JoinedStore
from counterfoil.tlog.continuing import Continuation, continues, parse_checkpoint
from counterfoil.trust import Policy
from counterfoil.trust_checks import Heads, Shared
from counterfoil.views import Runs

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
    archives: Sequence[str | os.PathLike[str] | FolderStore] = (),
    full: bool = False,
    jobs: int | None = None,
    engine: str | Engine | None = None,
    scheduler: str | None = None,
    retain: timedelta | None = None,
) -> Verification:
    """Check every byte of evidence, or of a bundle; never raises for what it finds, StoreError when there is nothing.

    ``keyring`` (object or file) instead of this machine's; ``policy`` (file, its bytes, or object): its keys take the
    place of the pinned ones, TrustError (CF-TRUST-001 to 003) when it is none; ``run`` judges only the logs that hold
    that run or cannot be read to their end (a bundle is judged as a whole); ``checkpoints`` are notes kept elsewhere
    which the evidence must continue: each becomes a finding or a member of ``continues``, NoteError when one is no
    checkpoint; ``archives`` are places that logs of this evidence went to, judged with it as one: each archived log
    must be in one of them as it was; ``full`` computes signatures again that were found valid before; ``jobs``
    processes read segments side by side (default: as many as there are cores, where there is much to read);
    ``retain`` is how long the objects of evidence in a bucket must be locked from their upload on (default: the
    setting, else the locks must hold now). ``engine`` (``pool``, ``dask``, ``ray``, or one of one's own) reads them on
    other workers, those at ``scheduler`` if that is named: the outcome is the same, and ``elsewhere`` of the result
    tells who did the work. EngineError when that cannot begin.
    """
    for note in checkpoints:
        parse_checkpoint(note)
    reader = read(evidence)
    ring = keyring if isinstance(keyring, keys.Keyring) else keys.Keyring.load(keyring)
    with contextlib.ExitStack() as closing:
        known = None if full else closing.enter_context(Signatures())
        judging = Judging(ring, check=None if known is None else known.check, jobs=jobs, retain=retain)
        if engine is not None or scheduler is not None:
            judging.engine = closing.enter_context(_begun(reader.store, engine or "pool", scheduler, jobs))
        if policy is not None:
            judging.believe(policy)
        if isinstance(reader.store, BundleStore):
            out = Verification(list(judging.doubts))
            verify_bundle(reader.store.root, judging.ring, out, shared=judging.begin(), kept=checkpoints)
            return out
        store = reader.store
        if archives:
            store = JoinedStore(store, [read(one).store for one in archives])
        return settled(store, judging, run, checkpoints).result


@contextlib.contextmanager
def _begun(
    store: FolderStore, engine: str | Engine, scheduler: str | None, jobs: int | None
) -> Iterator[Engine]:
    """An engine whose workers see this evidence; one that was given stays open."""
    if isinstance(store, BundleStore):
        raise one_process(store)
    if not isinstance(engine, str):
        check_workers(engine, store)
        yield engine
        return
    found = choose(engine, scheduler=scheduler, jobs=jobs)
    now = True
    try:
        check_workers(found, store)
        yield found
        now = False
    finally:
        found.close(now=now)


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
    jobs: int | None = 1
    engine: Engine | None = None
    elsewhere: Elsewhere | None = None
    retain: timedelta | None = None
    doubts: list[Finding] = field(default_factory=list)

    def believe(self, policy: str | os.PathLike[str] | bytes | Policy) -> None:
        """Go by a policy; one that is not believed turns nothing off and keeps the verdict from being `intact`."""
        found = trust.read(policy)
        try:
            self.policy = trust.load(found, keyring=self.ring)
        except KeyringError as exc:
            # Which policy was believed before is not known, whatever is wrong with the home.
            message = f"this machine cannot tell which policy was believed before: {exc.message} ({exc.code})"
            self.doubts.append(
                Finding("CF-KEYS-008", exc.where or "", message, exc.hint or "", "cannot-tell")
            )
        except CounterfoilError as exc:
            self.doubts.append(_finding(exc, "cannot-tell"))
        else:
            self.ring = self.policy.keyring

    def begin(self) -> Shared:
        """What the checks of all logs share in one pass."""
        return Shared(Heads(), self.policy, self.check)


def settled(
    store: FolderStore, judging: Judging, run: str | None = None, kept: Sequence[bytes | str] = ()
) -> Examined:
    """``examine``, again where it found something while somebody was writing."""
    before = _picture(store)
    seen = examine(store, judging, run, kept)
    for _ in range(_AGAIN):
        if seen.result.verdict == "intact":
            break
        store.refresh()
        after = _picture(store)
        if after == before:
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
    found, notes = Findings(), Findings()
    found.extend(judging.doubts)
    shared = judging.begin()
    checks: dict[str, LogCheck] = {}
    outcomes: dict[str, Outcome] = {}
    heads: dict[str, keys.Head] = {}
    own = None
    try:
        # Before the logs are listed: what is remembered is in them, what comes later need not be remembered.
        heads = keys.remembered_heads()
        own = keys.Keyring.load().own
    except CounterfoilError as exc:
        found.add(_finding(exc, "cannot-tell"))
    names = store.logs()
    if run is None:
        # A folder without a log is no evidence, whatever else is in it.
        found.extend(evidence_checks.foreign(store) if names else ())
    else:
        wanted = {parse_checkpoint(note)[1].origin.rpartition("/")[2] for note in kept}
        names = [name for name in names if name in wanted or _in_scope(store, name, heads, run)]
    found.extend(store.doubts(None if run is None else names, retain=judging.retain))
    for check in _judged(store, names, judging, heads, own, shared):
        checks[check.name] = check
        outcomes[check.name] = Outcome(
            check.name,
            check.origin,
            check.checkpoints,
            check.cites,
            check.statements.is_blind or check.scan.unread,
            evidence_checks.is_apart(check),
            check.findings.has("broken"),
        )
        if check.scan.unread:
            shared.acceptances.leave_out(check.origin)
    archived = largest(one for check in checks.values() for one in check.statements.archived)
    parts = _left_over(store, archived, outcomes, found) if run is None else []
    for name, check in checks.items():
        if name in parts:
            del outcomes[name]  # what it says stands in the archive
            continue
        found.extend(check.findings)
        notes.extend(check.notes)
        for key, count in check.counts.items():
            out.counts[key] += count
    out.counts["logs"] = len(outcomes)
    # What cannot be read may tell of an archive.
    partial = run is not None or any(check.scan.unread for check in checks.values())
    for one in outcomes.values():
        found.extend(evidence_checks.cited(one, outcomes, archived, partial=partial, lags=store.lags))
    if run is None:
        found.extend(evidence_checks.unlike(outcomes, archived))
        found.extend(evidence_checks.interrupted(name) for name in parts)
        notes.extend(evidence_checks.kept_elsewhere(archived, [one.origin for one in outcomes.values()]))
    known = {one.origin: one.checkpoints for one in outcomes.values() if not one.blind}
    found.extend(shared.heads.findings(known, lags=store.lags))
    found.extend(shared.acceptances.findings())
    found.extend(evidence_checks.absent(store, heads, outcomes, archived, partial=partial))
    found.extend(evidence_checks.copied(store, heads, outcomes))
    for note in kept:
        went = continues(store, checks, note)
        if isinstance(went, Continuation):
            out.continues.append(went)
        else:
            found.add(went)
    if not names:
        found.add(
            Finding(
                "CF-VERIFY-001",
                store.place,
                "there is no log",
                "name the folder of a run",
                "cannot-tell",
            )
        )
    out.findings, out.notes = found.whole(), notes.whole()
    out.elsewhere = judging.elsewhere
    return Examined(out, checks, {name: check.findings.whole() for name, check in checks.items()})


def _left_over(
    store: FolderStore, archived: dict[str, Archived], outcomes: dict[str, Outcome], found: Findings
) -> list[str]:
    """Archived logs of which only a part is still here; what is wrong in the archives is said."""
    try:
        if isinstance(store, JoinedStore):
            found.extend(evidence_checks.in_archives(store.archives, archived))
        here = {name: one.origin for name, one in outcomes.items()}
        return evidence_checks.left_over(store, archived, here)
    except StoreError as exc:
        found.add(_finding(exc, "cannot-tell"))
        return []


def _judged(
    store: FolderStore,
    names: list[str],
    judging: Judging,
    heads: dict[str, keys.Head],
    own: str | None,
    shared: Shared,
) -> Iterator[LogCheck]:
    """The checks of all logs, done; with several jobs their segments are read side by side."""
    jobs = enough(store) if judging.jobs is None else judging.jobs
    if judging.engine is None and jobs < 2:
        for name in names:
            check = LogCheck(store, name, judging.ring, heads, own=own, shared=shared)
            check.run()
            yield check
        return
    proven = Proven(shared.check)
    shared.check = proven.check
    engine = judging.engine or PoolEngine(jobs=jobs)
    done = judging.elsewhere = Elsewhere(engine.name)
    now = True
    try:
        with SideBySide(store, names, engine=engine, told=store.on_read, done=done) as ahead:
            for name in names:
                check = LogCheck(store, name, judging.ring, heads, own=own, shared=shared)
                check.note_check = proven.note
                for step, part in ahead.parts(name):
                    if part is not None and judge_part(check, part, proven):
                        done.taken += 1
                    else:
                        done.here += 1
                        for event in check.scan.read(step):
                            check.take(event)
                    del part  # before the next one is unpacked
                    if check.scan.broken:
                        ahead.skip(name)
                        break
                check.finish()
                yield check
        now = False
    finally:
        if judging.engine is None:
            engine.close(now=now)


def _in_scope(store: FolderStore, name: str, heads: dict[str, keys.Head], run: str) -> bool:
    """Whether a log holds a run, or could: one that cannot be read to its end may hold any run behind it."""
    scan, told = LogScan(store, name), Runs()
    for event in scan.events():
        if isinstance(event, Entry):
            if told.of(event)[0] == run:
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
