"""Writes logs in the layout of C2SP tlog-tiles, so that any tool for transparency logs can read and check them.

A log goes into ``FOLDER/<log>/``: ``checkpoint`` (the note as it was signed), ``tile/<level>/...``,
``tile/entries/...``. Nothing is signed anew and nothing that is there is ever written over with other bytes, except a
checkpoint by one of the same log that continues it.

Source: C2SP tlog-tiles, tlog-checkpoint (https://c2sp.org); ``shared/spec/tiles.md``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from counterfoil import keys, notes
from counterfoil._files import read_regular
from counterfoil.bundles.store import BundleStore
from counterfoil.entries import CheckpointSeen, Entry
from counterfoil.errors import ConfigError, CounterfoilError, LogError, StoreError
from counterfoil.log import LogScan
from counterfoil.stores import FolderStore
from counterfoil.tlog.entrytexts import entry_texts
from counterfoil.tlog.tiles import TileWriter

__all__ = ["CHECKPOINT", "Exported", "check_place", "check_source", "export_log"]

CHECKPOINT: Final = "checkpoint"


@dataclass(frozen=True, slots=True)
class Exported:
    """One log as exported: its last checkpoint, the verifier key for it, and how many files came new or were there."""

    log: str
    origin: str
    size: int
    root: str
    vkey: str
    folder: str
    written: int
    kept: int


@dataclass(slots=True)
class _Signed:
    """The last valid checkpoint of a log."""

    note: bytes
    checkpoint: notes.Checkpoint
    vkey: str


def export_log(store: FolderStore, name: str, to: str | os.PathLike[str]) -> Exported:
    """Write the entries under the last valid checkpoint of a log to ``to``/``name``; ask ``verify`` before.

    Raises:
        LogError: CF-EXPORT-001: no valid checkpoint; CF-EXPORT-003: another checkpoint is there already;
            and those of ``entry_texts``.
        ConfigError: CF-EXPORT-008: a bundle.
        StoreError: CF-EXPORT-002: a file with other bytes is there already; CF-EXPORT-004: the folder is evidence;
            CF-EXPORT-005: it cannot be written; CF-EXPORT-009: a link is in it.
    """
    folder = Path(os.path.abspath(to)) / name
    check_source(store)
    check_place(store, Path(os.path.realpath(to)))
    _refuse_links(folder, folder)
    signed = _signed(store, name)
    earlier = _earlier(folder / CHECKPOINT, signed)
    target = _Target(folder)
    tiles = TileWriter(target.put)
    passed = earlier is None
    for text in entry_texts(store, name, signed.checkpoint.size):
        tiles.add(text)
        if earlier is not None and tiles.tree.size == earlier.size:
            passed = tiles.tree.root() == earlier.root
    if not passed:
        _refuse_checkpoint(folder)
    tiles.finish()
    if tiles.tree.root() != signed.checkpoint.root:
        raise LogError(
            "the entries do not give the root of the checkpoint",
            code="CF-VERIFY-050",
            where=name,
            hint="counterfoil verify",
        )
    # Last: who sees the checkpoint finds all that it covers.
    target.put(CHECKPOINT, signed.note, replace=True)
    checkpoint = signed.checkpoint
    return Exported(
        name,
        checkpoint.origin,
        checkpoint.size,
        checkpoint.root.hex(),
        signed.vkey,
        str(folder),
        target.written,
        target.kept,
    )


def _signed(store: FolderStore, name: str) -> _Signed:
    """The last checkpoint that is signed by the log's own identity and fits the entries before it."""
    found: _Signed | None = None
    vkey = ""
    scan = LogScan(store, name)
    for event in scan.events():
        if isinstance(event, Entry) and not vkey and scan.first is not None:
            vkey = _vkey(scan.first, name)
        elif isinstance(event, CheckpointSeen) and vkey:
            with contextlib.suppress(CounterfoilError):
                checkpoint = notes.parse_own_checkpoint(event.note, vkey)
                if (checkpoint.size, checkpoint.root) == (event.size, event.root):
                    found = _Signed(event.note, checkpoint, vkey)
    if found is None:
        raise LogError(
            "the log has no valid checkpoint, so there is nothing to export",
            code="CF-EXPORT-001",
            where=name,
            hint="close the recording, or counterfoil verify",
        )
    return found


def _vkey(session: dict[str, object], name: str) -> str:
    context = session.get("context")
    spki = context.get("spki") if isinstance(context, dict) else None
    try:
        public = keys.PublicKey.from_text(spki)
    except CounterfoilError:
        return ""
    return notes.vkey(f"{public.keyid}/{name}", public)


def check_source(store: FolderStore) -> None:
    """Refuse what has no tiles; raises ConfigError (CF-EXPORT-008)."""
    if isinstance(store, BundleStore):
        raise ConfigError(
            "a bundle holds a part of a log, which has no tiles",
            code="CF-EXPORT-008",
            where=store.place,
            hint="export the evidence that it was cut from",
        )


def check_place(store: FolderStore, to: Path) -> None:
    """Refuse a folder (without links) inside the evidence; raises StoreError (CF-EXPORT-004)."""
    if store.holds(to):
        raise StoreError(
            "the folder for the export is inside the evidence",
            code="CF-EXPORT-004",
            where=str(to),
            hint="every byte inside evidence is evidence: name a folder elsewhere",
        )


def _earlier(path: Path, signed: _Signed) -> notes.Checkpoint | None:
    """The checkpoint of an export that is there already; it must be one of the same log that is not longer."""
    try:
        data = read_regular(path, most=notes.MAX_NOTE + 1)
    except FileNotFoundError:
        return None
    except OSError as exc:
        _failed(path, exc)
    try:
        earlier = notes.parse_own_checkpoint(data, signed.vkey)
    except CounterfoilError:
        _refuse_checkpoint(path.parent)
    if not 0 < earlier.size <= signed.checkpoint.size:
        _refuse_checkpoint(path.parent)
    return earlier


def _refuse_checkpoint(folder: Path) -> NoReturn:
    raise LogError(
        "a checkpoint that this log does not continue is there already",
        code="CF-EXPORT-003",
        where=str(folder / CHECKPOINT),
        hint="it is another log, another history or a longer one: keep it, and name another folder",
    )


class _Target:
    """A folder that takes files once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        self.kept = 0
        self._made: set[Path] = set()

    def put(self, path: str, data: bytes, *, replace: bool = False) -> None:
        place = self.folder / path
        try:
            if place.parent not in self._made:
                _refuse_links(place.parent, self.folder)
            try:
                same = read_regular(place, most=len(data) + 1) == data
            except FileNotFoundError:
                pass
            else:
                if same:
                    self.kept += 1
                    return
                if not replace:
                    raise StoreError(
                        "a file with other bytes is there already",
                        code="CF-EXPORT-002",
                        where=str(place),
                        hint="it was changed, cut, or is of another log: name another folder",
                    )
            if place.parent not in self._made:
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._made.add(place.parent)
            _write(place, data)
        except OSError as exc:
            _failed(place, exc)
        self.written += 1


def _refuse_links(place: Path, top: Path) -> None:
    """No folder of an export is a link: what is behind it may be evidence, or anybody's."""
    for folder in (place, *place.parents):
        if folder.is_symlink():
            raise StoreError(
                "a link is in the place of a folder of the export",
                code="CF-EXPORT-009",
                where=str(folder),
                hint="remove the link, or name another folder",
            )
        if folder == top:
            return


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _failed(path: Path, exc: OSError) -> NoReturn:
    raise StoreError(
        f"the export cannot be written: {exc.strerror or exc}",
        code="CF-EXPORT-005",
        where=str(path),
        hint="check the folder and the disk",
    ) from exc
