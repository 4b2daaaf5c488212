"""Proposes the files that would mend a damaged log, and lets nothing pass that does not verify."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from counterfoil import keys
from counterfoil.checks import LogCheck
from counterfoil.errors import CounterfoilError
from counterfoil.locking import is_live, lock_log, unlock
from counterfoil.scrub.damage import Copy
from counterfoil.scrub.identifying import Known
from counterfoil.scrub.mending import Patched, assemble, claims, expected, read_copy
from counterfoil.scrub.replacing import Planned
from counterfoil.stores import FolderStore
from counterfoil.verification import Examined

__all__ = ["Mender"]

_NO_MIRROR: Final = "another copy can mend it: counterfoil scrub --mirror COPY"
_NOTHING: Final = "no mirror holds these bytes undamaged (CF-SCRUB-005)"


class Mender:
    """Mends the logs of one evidence from its mirrors; new files go into a folder of their own."""

    def __init__(
        self,
        store: FolderStore,
        mirrors: Sequence[FolderStore],
        ring: keys.Keyring,
        seen: Examined,
        stage: Path,
    ) -> None:
        self._store = store
        self._mirrors = list(mirrors)
        self._ring = ring
        self._seen = seen
        self._stage = stage
        self._known: dict[str, Known] = {}
        try:
            self._heads = keys.remembered_heads()
        except CounterfoilError:
            self._heads = {}  # verification has told it already

    def mend(self, name: str, *, longer: bool) -> tuple[list[Planned], list[str], str]:
        """Files to replace, the mirrors they come from, and without any why there are none."""
        if not self._mirrors:
            return [], [], _NO_MIRROR
        known = self._vouchers(name)
        local, copies = self._heads_of([self._store], name), self._heads_of(self._mirrors, name)
        wrong = known.identify(self._ring, local, copies)
        if wrong is not None:
            return [], [], f"the mirrors are not used: {wrong} (CF-SCRUB-006)"
        why = _NOTHING
        longer = longer or self._is_short(name, known)
        groups = [self._mirrors, *([one] for one in self._mirrors if len(self._mirrors) > 1)]
        for cut, further, mirrors in itertools.product(
            (False, True) if self._is_broken(name) else (False,), (True,) if longer else (False, True), groups
        ):
            files, sources = self._propose(name, known, mirrors, longer=further, cut=cut)
            if not files:
                continue
            patched = {(name, number): path for number, path in files.items()}
            check = LogCheck(Patched(self._store.root, patched), name, self._ring, self._heads)
            broken = [one for one in check.run() if one.verdict == "broken"]
            if broken:
                why = f"{_NOTHING}: with the mirrors' bytes still {broken[0].code} {broken[0].message}"
                continue
            missed = known.misses(check)
            if missed is not None:
                why = f"the mirrors are not used: {missed} (CF-SCRUB-006)"
                continue
            return [self._planned(name, number, path) for number, path in sorted(files.items())], sources, ""
        return [], [], why

    def is_live(self, name: str) -> bool:
        """Whether a writer on this machine has the log open now."""
        return any(is_live(origin) for origin in self._vouchers(name).origins)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[bool]:
        """Holds a log against writers while its files are replaced; False when one has it."""
        if not name:
            yield True
            return
        (origin,) = self._known[name].origins
        folder = self._store.root / name
        made = not folder.exists()
        if made:
            folder.mkdir(mode=0o700)
        locks = lock_log(self._store, name, origin)
        try:
            yield bool(locks)
        finally:
            for lock in locks:
                unlock(lock)
            if made:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)  # only if nothing came into it

    def _vouchers(self, name: str) -> Known:
        if name in self._known:
            return self._known[name]
        known = self._known[name] = Known(name)
        check = self._seen.checks.get(name)
        if check is not None and check.origin:
            known.origins.add(check.origin)
        for origin, head in self._heads.items():
            if origin.endswith(f"/{name}") and (head.evidence == self._store.uri or origin in known.origins):
                known.head(head)
        for number in self._store.segments(name):
            copy = read_copy(self._store, name, number, "")
            for note in copy.notes() if copy is not None else ():
                known.note(note)
        for other in self._seen.checks.values():
            for cited in other.cites:
                if cited.log == name:
                    known.note(cited.note)
        return known

    def _is_short(self, name: str, known: Known) -> bool:
        """Whether the log is known to have been longer, or its last segment does not end behind a checkpoint."""
        numbers = self._store.segments(name)
        last = read_copy(self._store, name, numbers[-1], "") if numbers else None
        if last is None or not last.ends_clean():
            return True
        check = self._seen.checks.get(name)
        covered = max(check.checkpoints, default=0) if check is not None else 0
        return not self._is_broken(name) and any(size > covered for size, _ in known.kept)

    def _is_broken(self, name: str) -> bool:
        """Whether the log is; else what stands behind its last checkpoint may be what a killed writer left."""
        return any(one.verdict == "broken" for one in self._seen.found.get(name, ()))

    def _propose(
        self, name: str, known: Known, mirrors: list[FolderStore], *, longer: bool, cut: bool
    ) -> tuple[dict[int, Path], list[str]]:
        """What the segments should be; ``cut`` takes bytes away that stand where a segment is known to have ended."""
        files: dict[int, Path] = {}
        sources: list[str] = []
        numbers = set(expected(self._store.segments(name)))
        if longer:
            numbers |= {number for mirror in mirrors for number in mirror.segments(name)}
        heads = self._heads_of([self._store, *mirrors], name)
        whole = claims(body for copy in heads for body in copy.openings())
        for number in sorted(numbers):
            own = read_copy(self._store, name, number, "")
            others = [read_copy(one, name, number, one.place) for one in mirrors]
            last = number == max(numbers)

            def ends(offset: int, number: int = number, last: bool = last) -> bool:
                # The next segment goes on behind a checkpoint of this one, else it does not verify.
                return cut and (not last or (number, offset) in known.ends)

            proposal = assemble(
                number,
                own,
                [copy for copy in others if copy is not None],
                whole.get(number, set()),
                signed=known.signed,
                longer=longer,
                ends=ends,
            )
            if proposal.same(own):
                continue
            path = self._stage / f"{name}-{number:08d}-{int(longer)}{int(cut)}.seg"
            proposal.write(path)
            files[number] = path
            sources += [one for one in proposal.sources if one not in sources]
        return files, sources

    def _heads_of(self, stores: Sequence[FolderStore], name: str) -> Iterator[Copy]:
        """First chunks of all segments of a log, in these places."""
        for store in stores:
            for number in store.segments(name):
                copy = read_copy(store, name, number, "", head=True)
                if copy is not None:
                    yield copy

    def _planned(self, name: str, number: int, path: Path) -> Planned:
        own = read_copy(self._store, name, number, "")
        seen = None if own is None else own.data.sha256()
        return Planned(self._store.segment_name(name, number), path, seen)
