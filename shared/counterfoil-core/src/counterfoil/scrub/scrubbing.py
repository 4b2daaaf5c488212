"""Finds damaged bytes in evidence, and repairs them from other copies of it.

Repair never believes a copy: bytes are taken only where the log's own signed checkpoints give their SHA-256, and only
if the whole log verifies with them and still has every checkpoint that is known here. The damaged originals are kept.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from counterfoil import keys
from counterfoil.bundles.store import BundleStore
from counterfoil.errors import ConfigError, StoreError
from counterfoil.findings import Finding
from counterfoil.reader import read
from counterfoil.scrub.filebytes import FileBytes
from counterfoil.scrub.locating import Damage, locate, unlocated
from counterfoil.scrub.mending import oversized
from counterfoil.scrub.repairing import Mender
from counterfoil.scrub.replacing import Planned, replace_files, staging
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import GITIGNORE
from counterfoil.verification import Examined, Judging, settled, verify

__all__ = ["Damage", "Scrub", "check_source", "scrub"]

_TAIL: Final = "CF-VERIFY-024"
_MISSING: Final = ("CF-VERIFY-003", "CF-VERIFY-004")
_CUT: Final = "CF-VERIFY-005"

Result = Literal["clean", "repaired", "findings", "damaged"]


@dataclass(slots=True)
class Scrub:
    """What a scrub found and did; ``verdict`` is that of ``verify`` after a repair."""

    evidence: str
    logs: int
    files: int
    bytes: int
    damage: list[Damage] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    kept: str | None = None
    verdict: str | None = None

    @property
    def result(self) -> Result:
        """``damaged`` when something remains that no copy mends; ``findings``: mendable, or an unfinished tail."""
        states = {one.state for one in self.damage}
        if "remains" in states:
            return "damaged"
        if states & {"repairable", "tail"}:
            return "findings"
        return "repaired" if states else "clean"


def scrub(
    evidence: str | os.PathLike[str] | FolderStore,
    *,
    mirrors: Sequence[str | os.PathLike[str] | FolderStore] = (),
    repair: bool = False,
    keep: str | os.PathLike[str] | None = None,
    keyring: keys.Keyring | None = None,
) -> Scrub:
    """Read all of it, tell every damage, and with ``repair`` mend what ``mirrors`` (other copies) can mend.

    Originals go to ``keep``, by default a new folder under ``$COUNTERFOIL_HOME/scrub``.

    Raises:
        StoreError: nothing to read; CF-SCRUB-003, CF-SCRUB-007: a repair could not be written.
        ConfigError: CF-SCRUB-001: a mirror is this evidence; CF-SCRUB-002: ``keep`` is inside it; CF-SCRUB-008: a
            bundle; CF-SCRUB-011: a bucket.
    """
    store = read(evidence).store
    if store.lags:
        raise ConfigError(
            "objects in a bucket are never overwritten, so nothing there can be mended",
            code="CF-SCRUB-011",
            where=store.place,
            hint="counterfoil verify tells what is damaged; a bucket is a good --mirror for a folder",
        )
    copies = [_mirror(mirror) for mirror in mirrors]
    _check_places(store, copies, keep)
    ring = keys.Keyring.load() if keyring is None else keyring
    seen = settled(store, Judging(ring))
    names = store.logs()
    sizes: list[int] = []
    for name in names:
        for number in store.segments(name):
            with contextlib.suppress(StoreError):  # what is no file has been found and told
                sizes.append(store.segment_size(name, number))
    out = Scrub(store.place, len(names), len(sizes), sum(sizes))
    for copy in copies:
        out.notes += _of_mirror(copy, sorted({*names, *_missing(seen)}))
    with staging(store.root, repair=repair) as stage:
        mender = Mender(store, copies, ring, seen, stage)
        plans = _ignored(store, seen, stage, out)
        for name in sorted({*names, *_missing(seen)}):
            plans += _log(store, seen, mender, name, out)
        out.damage += [unlocated(one) for one in _general(seen, names)]
        if repair and plans:
            out.kept = _repair(store, mender, plans, keep)
    if out.kept is not None:
        after = verify(store, keyring=ring, full=True)
        out.verdict = after.verdict
        out.damage += [unlocated(one) for one in _again(after.findings, out)]
    return out


def _mirror(mirror: str | os.PathLike[str] | FolderStore) -> FolderStore:
    try:
        return read(mirror).store
    except StoreError as exc:
        raise StoreError(
            f"the mirror cannot be used: {exc.message}",
            code=exc.code,
            where=exc.where,
            hint="name a folder that holds another copy of this evidence",
        ) from exc


def _of_mirror(copy: FolderStore, names: Sequence[str]) -> Iterator[Finding]:
    """What a mirror cannot help with, told even where nothing needs help."""
    there = set(copy.logs()).intersection(names)
    where = copy.place
    if not there:
        message = "the mirror holds no log of this evidence"
        yield Finding("CF-SCRUB-010", where, message, "name another copy of this evidence", "intact")
    for name in sorted(there):
        for file in oversized(copy, name):
            message = "a segment of the mirror is larger than any can be, and is not used"
            yield Finding("CF-SCRUB-009", f"{where}/{file}", message, "find out who wrote it", "intact")


Plan = tuple[str, list[Planned], list[Damage]]


def _log(store: FolderStore, seen: Examined, mender: Mender, name: str, out: Scrub) -> list[Plan]:
    """Damage of one log, and the files that would mend it."""
    found = seen.found.get(name, [])
    broken = [one for one in found if one.verdict == "broken"]
    cut = [one for one in seen.result.findings if one.code == _CUT and one.where == name]
    tail = [one for one in found if one.code == _TAIL]
    if name in seen.checks and not (broken or cut or tail):
        return []
    check = seen.checks.get(name)
    damage = locate(store, name, [*broken, *cut, *(one for one in _lost(seen) if one.where == name)], tail)
    out.damage += damage
    if mender.is_live(name):
        for one in damage:
            one.hint = "a writer is recording into this log: stop it, then scrub again (CF-SCRUB-004)"
        return []
    planned, sources, why = mender.mend(name, longer=bool(cut) or check is None)
    if not planned:
        for one in damage:
            one.hint = why
        return []
    known = {one.file for one in damage}
    for plan in planned:
        # Whole files that are missing or too short at a checkpoint have no bytes to point at.
        if plan.path not in known and not any(one.file is None for one in damage):
            damage.append(Damage("CF-LOG-010", plan.path, None, None, "not as the log's checkpoints say"))
            out.damage.append(damage[-1])
    for one in damage:
        one.state, one.sources = "repairable", sources
        for plan in planned:
            if plan.path == one.file and plan.seen is not None:
                one.compare(FileBytes.at(store.root / plan.path), FileBytes.at(plan.new))
    return [(name, planned, damage)]


def _ignored(store: FolderStore, seen: Examined, stage: Path, out: Scrub) -> list[Plan]:
    """The one file whose content is always the same; what else does not belong here is told and not touched."""
    plans: list[Plan] = []
    for one in seen.result.findings:
        if one.code != "CF-VERIFY-002":
            continue
        damage = Damage(one.code, one.where, None, None, one.message, hint=one.hint)
        out.damage.append(damage)
        path = store.root / ".gitignore"
        if one.where == ".gitignore" and not path.is_symlink() and path.is_file() | (not path.exists()):
            new = stage / "gitignore"
            new.write_bytes(GITIGNORE)
            old = FileBytes.at(path).sha256() if path.is_file() else None
            damage.state, damage.sources = "repairable", ["the format"]
            plans.append(("", [Planned(".gitignore", new, old)], [damage]))
    return plans


def _repair(
    store: FolderStore,
    mender: Mender,
    plans: list[Plan],
    keep: str | os.PathLike[str] | None,
) -> str | None:
    """Folder of the originals, None when nothing could be replaced."""
    done = False
    folder = Path(os.path.abspath(keep)) if keep is not None else _new_keep(store)
    for name, planned, damage in plans:
        with mender.locked(name) as held:
            if not held:
                for one in damage:
                    one.state = "remains"
                    one.hint = "a writer holds this log: stop it, then scrub again (CF-SCRUB-004)"
                continue
            replace_files(store.root, planned, folder)
            done = True
        for one in damage:
            one.state = "repaired"
    return str(folder) if done else None


def _new_keep(store: FolderStore) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    folder = keys.home() / "scrub"
    place, number = folder / f"{stamp}-{Path(store.uri).name}", 1
    while place.exists():
        number += 1
        place = folder / f"{stamp}-{number}-{Path(store.uri).name}"
    return place


def check_source(store: FolderStore) -> None:
    """Refuse what is no copy of evidence; raises ConfigError (CF-SCRUB-008)."""
    if isinstance(store, BundleStore):
        raise ConfigError(
            "a bundle is no copy of evidence: it holds a part, in another form",
            code="CF-SCRUB-008",
            where=store.place,
            hint="counterfoil verify tells whether it is damaged; cut it again from the evidence",
        )


def _check_places(
    store: FolderStore, copies: Sequence[FolderStore], keep: str | os.PathLike[str] | None
) -> None:
    root = Path(store.uri)
    for one in (store, *copies):
        check_source(one)
    for copy in copies:
        place = Path(copy.uri)
        if place == root or root in place.parents or place in root.parents:
            raise ConfigError(
                "a mirror is this evidence itself, or one is inside the other",
                code="CF-SCRUB-001",
                where=copy.place,
                hint="name another copy of it",
            )
    if keep is not None:
        place = Path(os.path.realpath(keep))
        if any(
            inside == place or inside in place.parents
            for inside in (root, *(Path(one.uri) for one in copies))
        ):
            raise ConfigError(
                "the folder for the originals is inside the evidence, or inside a mirror",
                code="CF-SCRUB-002",
                where=str(place),
                hint="every byte inside evidence is evidence: name a folder elsewhere",
            )


def _lost(seen: Examined) -> list[Finding]:
    return [one for one in seen.result.findings if one.code in _MISSING]


def _missing(seen: Examined) -> set[str]:
    return {one.where for one in _lost(seen)} - seen.checks.keys()


def _general(seen: Examined, names: list[str]) -> list[Finding]:
    """Broken findings about no single log that scrub knows nothing better about."""
    own = {id(one) for found in seen.found.values() for one in found}
    known = {"CF-VERIFY-002", _CUT, *_MISSING}
    nothing = not names and not _missing(seen)
    return [
        one
        for one in seen.result.findings
        if id(one) not in own and one.code not in known and (one.verdict == "broken" or nothing)
    ]


def _again(findings: Sequence[Finding], out: Scrub) -> list[Finding]:
    """What is still broken after a repair and was not told before."""
    told = {(one.code, one.file) for one in out.damage if one.state == "remains"}
    files = {one.file for one in out.damage if one.state == "remains"}
    return [
        one
        for one in findings
        if one.verdict == "broken"
        and (one.code, one.where) not in told
        and one.where.partition(" ")[0] not in files
        and not any(file and file.startswith(one.where.partition(" ")[0]) for file in files)
    ]
