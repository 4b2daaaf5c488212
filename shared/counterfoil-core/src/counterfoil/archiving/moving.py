"""Archives logs, so that a stop at any moment loses nothing and the next call goes on from there.

Each log in this order: it is ended by its identity, held against writers, verified, copied, the copy synced and read
again; then the statement that says all that is signed into a log that stays, on disk and under a checkpoint; only then
is the log taken away, and this machine's memory of it moved.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterfoil import keys, locking, records, statements
from counterfoil._folders import sync_folder
from counterfoil.archived import Archived, Manifest, largest, same_files
from counterfoil.archiving.ending import OneLog, end_log, opening
from counterfoil.archiving.facts import Facts, facts_of
from counterfoil.archiving.places import Place, open_place, pieces_of
from counterfoil.archiving.surveying import LogState, Survey, survey
from counterfoil.checks import LogCheck
from counterfoil.choosing import Only
from counterfoil.digest import sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import ArchiveError, CounterfoilError, StoreError
from counterfoil.evidence_checks import is_apart
from counterfoil.findings import Verification
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import store_error
from counterfoil.writer import Writer

__all__ = ["Moved", "archive"]

_TOGETHER: Final = 32
"""Logs that are held, and stated, at the same time: each holds two locks."""


@dataclass(slots=True)
class Moved:
    """What was done: ``archived``, ``finished`` (interrupted before), ``closed`` to writers, ``skipped`` and why."""

    place: str
    archived: list[Archived] = field(default_factory=list)
    finished: list[Archived] = field(default_factory=list)
    closed: list[LogState] = field(default_factory=list)
    skipped: list[tuple[LogState, str]] = field(default_factory=list)


def archive(
    store: FolderStore,
    *,
    to: str,
    before: int,
    retain: int | None = None,
    found: Survey | None = None,
    told: Callable[[str], None] | None = None,
) -> Moved:
    """Move the logs whose last entry is older than ``before`` (Unix microseconds) to ``to``, a folder or ``s3://``.

    ``retain``: seconds for which the archive is to be kept, from now. ``found`` is a survey that was made just now.
    ``told`` hears what is done next.

    Raises:
        ArchiveError: CF-ARCHIVE-001: there is no identity; 002: the evidence does not verify; 003 and 004: the place
            cannot be an archive; 005: it holds other bytes; 006 to 008: a log changed, or could not be stated.
        StoreError, LogError, KeyringError: what the disk, the bucket, the log or the home says.
    """
    identity = keys.load_identity()
    if identity is None:
        raise ArchiveError(
            "there is no identity here that could sign for a log",
            code="CF-ARCHIVE-001",
            where=str(keys.home()),
            hint="archive with the home that recorded this evidence",
        )
    found = survey(store, before=before) if found is None else found
    found.refuse(str(store.root))
    place = open_place(to, store)
    out = Moved(place.uri)
    mover = _Mover(store, identity, place, found, out, told or (lambda _: None))
    mover.finish()
    for one in found.of("mixed", "due"):
        keys.close_log(one.origin)
        if one.state == "mixed":
            out.closed.append(one)
    out.skipped += [(one, one.why) for one in found.of("live", "waiting", "unfit", "foreign")]
    due = found.of("due")
    if due:
        place.prepare()
    try:
        for at in range(0, len(due), _TOGETHER):
            mover.move(due[at : at + _TOGETHER], retain)
    finally:
        mover.close()
    return out


class _Mover:
    """One call of ``archive``: the log that gets the statements is opened when the first is signed."""

    def __init__(
        self,
        store: FolderStore,
        identity: keys.SigningKey,
        place: Place,
        found: Survey,
        out: Moved,
        told: Callable[[str], None],
    ) -> None:
        self._store, self._identity, self._place = store, identity, place
        self._found, self._out, self._told = found, out, told
        self._writer: Writer | None = None

    # -- what was interrupted -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Take away what was archived by a call that was killed; its copy is read again before."""
        by_name = {one.name: one for one in self._found.of("left")}
        for one in self._found.archived:
            shutil.rmtree(_beside(self._store, one.name), ignore_errors=True)
            if one.name not in by_name:
                self._remember_moved(one)
                continue
            place = open_place(one.said.place, self._store)
            try:
                wrong = bool(place.wrong(one.name, list(one.manifest.segments)))
                why = f"it was archived, but {one.said.place} does not hold it as it was"
            except StoreError as exc:
                wrong, why = True, f"it was archived, and {one.said.place} cannot be asked: {exc.message}"
            if wrong:
                self._out.skipped.append((by_name[one.name], why))
                continue
            locks = locking.lock_log(self._store, one.name, one.origin)
            if not locks:
                self._out.skipped.append((by_name[one.name], "a writer has it"))
                continue
            try:
                # What was put back and written on is more than the archive has.
                if same_files(self._store, one, self._store.segments(one.name)):
                    self._out.skipped.append((by_name[one.name], "it was archived, and is another one now"))
                    continue
                self._take_away(one, place)
            finally:
                for lock in locks:
                    locking.unlock(lock)
            self._out.finished.append(one)

    # -- some logs ----------------------------------------------------------------------------------------------------

    def move(self, some: list[LogState], retain: int | None) -> None:
        """Archive logs that are due: all are copied and stated before the first is taken away."""
        held: list[int] = []
        try:
            signed = []
            for one in some:
                self._told(f"{one.name}: ending it")
                if not self._found.facts[one.name].ended:
                    end_log(self._store, self._identity, one.name)
                locks = locking.lock_log(self._store, one.name, one.origin)
                held += locks
                found = self._copy(one, retain) if locks else None
                if found is not None:
                    signed.append(found)
                elif not locks:
                    self._out.skipped.append((one, "a writer has it"))
            if signed:
                self._stated(signed)
            for done in signed:
                self._told(f"{done.name}: taking it away")
                self._take_away(done, self._place)
                self._out.archived.append(done)
        finally:
            for lock in held:
                locking.unlock(lock)

    def _copy(self, one: LogState, retain: int | None) -> Archived | None:
        """Verify a log that is held, copy it, read the copy, and sign; None where it cannot be."""
        ring = keys.Keyring.load()
        # Before and behind what is verified: what is signed is that, whoever writes to these files meanwhile.
        pieces = pieces_of(self._store, one.name)
        check = LogCheck(self._store, one.name, ring, keys.remembered_heads(), own=ring.own)
        judged = Verification(check.run())
        facts = facts_of(self._store, one.name)
        # What was written meanwhile is looked at by the next call.
        younger = facts.last > one.last
        if (
            younger
            or judged.verdict not in ("intact", "incomplete")
            or not facts.ended
            or not is_apart(check)
        ):
            self._out.skipped.append((one, "it changed meanwhile"))
            return None
        numbers = self._store.segments(one.name)
        if numbers != list(range(len(numbers))) or check.scan.index != check.scan.covered:
            self._out.skipped.append((one, "it does not end in a checkpoint"))
            return None
        self._told(f"{one.name}: copying {one.bytes} bytes")
        until = None if retain is None else int(time.time()) + retain
        self._place.put(self._store, one.name, pieces, until=until)
        self._told(f"{one.name}: reading the copy")
        if self._place.wrong(one.name, pieces) or pieces_of(self._store, one.name) != pieces:
            raise ArchiveError(
                "the copy is not what was copied",
                code="CF-ARCHIVE-006",
                where=one.name,
                hint="nothing was removed: check the disk of the archive, then archive again",
            )
        manifest = Manifest(dict(check.checkpoints), tuple(sorted(facts.runs)), tuple(pieces))
        self._told(f"{one.name}: signing")
        return self._state(one, manifest, facts, judged.verdict, until)

    def _state(
        self, one: LogState, manifest: Manifest, facts: Facts, verdict: str, until: int | None
    ) -> Archived:
        """Sign the statement, and give it to the log that stays."""
        writer = self._open()
        data = manifest.to_bytes()
        sha256 = sha256_hex(data)
        size = max(manifest.checkpoints)
        predicate = {
            "bytes": sum(size for _, size in manifest.segments),
            "first": facts.first // 1000,
            "issued": records.now() // 1000,
            "last": facts.last // 1000,
            "log": {"origin": one.origin, "root": manifest.checkpoints[size], "size": size},
            "manifest": {"sha256": sha256, "size": len(data)},
            "place": self._place.uri,
            "runs": len(manifest.runs),
            "verdict": verdict,
        }
        if until is not None:
            predicate["retain"] = until * 1000
        subject = {"digest": {"sha256": sha256}, "name": one.origin}
        payload = statements.build(statements.ARCHIVE, subject, predicate)
        said = statements.parse(payload).predicate
        assert isinstance(said, statements.Archive)
        body = Envelope.sign(payload, self._identity).to_bytes()
        if not (writer.blob(sha256, data) and writer.entry(body)):
            raise self._unsaid(one.name)
        return Archived(said, manifest)

    def _stated(self, signed: list[Archived]) -> None:
        """Put the statements on disk and under a checkpoint, and read there that they hold."""
        writer = self._open()
        writer.checkpoint()
        if not writer.flush():
            raise self._unsaid(signed[0].name)
        check = LogCheck(self._store, writer.log, keys.Keyring.load(), {})
        check.run()
        told = largest(check.statements.archived)
        bad = check.findings.has("broken") or check.findings.has("cannot-tell")
        covered = check.scan.covered == check.scan.index
        for one in signed:
            if bad or not covered or one.origin not in told or told[one.origin].said != one.said:
                raise self._unsaid(one.name)

    def _unsaid(self, name: str) -> ArchiveError:
        why = None if self._writer is None else self._writer.error
        return ArchiveError(
            f"the statement about a log could not be written: {why or 'it is not in its log'}",
            code="CF-ARCHIVE-008",
            where=name,
            hint="the log is still here, and its copy stays: mend what is said, then archive again",
        )

    def _open(self) -> Writer:
        """The log of the statements: the one of earlier calls, else a new one; no application writes into it."""
        if self._writer is None:
            names = [one.name for one in self._found.of("index")]
            only = Only(names[-1]) if names else Only(secrets.token_hex(8), new=True)
            keys.close_log(f"{self._identity.keyid}/{only.name}")
            try:
                self._writer = self._writing(only)
            except CounterfoilError as exc:
                if exc.code != "CF-LOG-037":
                    raise
                only = Only(secrets.token_hex(8), new=True)  # the earlier one is held, or was damaged
                keys.close_log(f"{self._identity.keyid}/{only.name}")
                self._writer = self._writing(only)
        return self._writer

    def _writing(self, only: Only) -> Writer:
        return OneLog(self._store, self._identity, only=only, opening=opening)

    def close(self) -> None:
        """End the session of the log of the statements."""
        if self._writer is not None:
            self._writer.close()

    # -- taking it away -----------------------------------------------------------------------------------------------

    def _take_away(self, one: Archived, place: Place) -> None:
        root = self._store.root
        folder, beside = root / one.name, _beside(self._store, one.name)
        try:
            try:
                os.rename(folder, beside)
            except OSError:
                # A file system of its own: file by file. What is left after a kill is known for what it is.
                for path in sorted(folder.iterdir(), reverse=True):
                    path.unlink()
                folder.rmdir()
            sync_folder(root)
            shutil.rmtree(beside, ignore_errors=True)
        except OSError as exc:
            raise store_error(exc, "cannot take an archived log away", str(folder)) from exc
        self._move_head(one, place.name)

    def _remember_moved(self, one: Archived) -> None:
        """A call that was killed between the last two steps left the head where it was."""
        kept = keys.remembered_head(one.origin)
        if kept is None or kept.evidence not in self._store.names or _stands_here(self._store, one.name):
            return
        if one.had(kept.size, kept.root):
            self._move_head(one, open_place(one.said.place, self._store).name)

    def _move_head(self, one: Archived, place: str) -> None:
        kept = keys.remembered_head(one.origin)
        if kept is not None and kept.evidence == place:
            return
        keys.remember_head(
            one.origin,
            size=one.size,
            root=one.said.log.root,
            evidence=place,
            segment=len(one.manifest.segments) - 1,
            offset=one.manifest.segments[-1][1],
        )


def _beside(store: FolderStore, name: str) -> Path:
    root = Path(os.path.realpath(store.root))
    return root.parent / f".{root.name}.{name}.gone"


def _stands_here(store: FolderStore, name: str) -> bool:
    return os.path.lexists(store.root / name)
