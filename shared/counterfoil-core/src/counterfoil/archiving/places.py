"""Where archived logs go: a folder that is evidence itself, or a bucket. Nothing that is there is ever replaced."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from pathlib import Path
from typing import Final, Protocol

from counterfoil._folders import sync_folder
from counterfoil.errors import ArchiveError, StoreError
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import store_error

__all__ = ["FolderPlace", "Piece", "Place", "open_place", "pieces_of"]

Piece = tuple[str, int]
"""SHA-256 and size of a segment."""
_BLOCK: Final = 1 << 20
_NOT_THERE: Final = (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
"""How a file system says that nothing can be renamed from beside the archive into it."""


class Place(Protocol):
    """What the mover asks of a place."""

    @property
    def uri(self) -> str:
        """The address that stands in statements."""

    @property
    def name(self) -> str:
        """The name under which heads are remembered for it."""

    def prepare(self) -> None:
        """Make it; raises StoreError or ArchiveError where it cannot take logs."""

    def put(self, store: FolderStore, log: str, pieces: list[Piece], *, until: int | None) -> None:
        """Copy a log's segments there, synced; what is there already stays. ``until``: seconds, kept as long."""

    def wrong(self, log: str, pieces: list[Piece]) -> list[int]:
        """Segments that are not there as they should be; read from the place itself."""


def open_place(text: str, evidence: FolderStore) -> Place:
    """The place of that path or address.

    Raises:
        ArchiveError: CF-ARCHIVE-003: a folder that the evidence lies in, or that lies in it.
        ConfigError: no such address can be, or the extra for buckets is missing.
    """
    if text.startswith("s3://"):
        from counterfoil.archiving.buckets import BucketPlace

        return BucketPlace(text)
    root, own = Path(os.path.realpath(text)), Path(os.path.realpath(evidence.root))
    if root == own or root in own.parents or own in root.parents:
        raise ArchiveError(
            "an archive cannot be the evidence itself, a part of it, or a folder around it",
            code="CF-ARCHIVE-003",
            where=str(root),
            hint="name a folder beside it",
        )
    return FolderPlace(root)


def pieces_of(store: FolderStore, log: str) -> list[Piece]:
    """SHA-256 and size of each segment as they are now; raises StoreError."""
    found = []
    for number in store.segments(log):
        hasher, size = hashlib.sha256(), 0
        with store.open_segment(log, number) as file:
            while data := file.read(_BLOCK):
                hasher.update(data)
                size += len(data)
        found.append((hasher.hexdigest(), size))
    return found


class FolderPlace:
    """A folder; a log comes into it in one step where its file system has one for that."""

    def __init__(self, root: Path) -> None:
        self._store = FolderStore(root)
        self._root = root

    @property
    def uri(self) -> str:
        """The resolved path."""
        return self._store.uri

    @property
    def name(self) -> str:
        """The resolved path."""
        return self._store.uri

    def prepare(self) -> None:
        """Make the folder; raises ArchiveError (CF-ARCHIVE-004) when something else is in it."""
        if self._store.exists():
            there = set(os.listdir(self._root))
            alien = next((name for name, _ in self._store.foreign() if name != ".gitignore"), None)
            if alien is not None or (there and ".gitignore" not in there):
                raise ArchiveError(
                    f"the archive holds something else: {alien or 'a folder without .gitignore'}",
                    code="CF-ARCHIVE-004",
                    where=str(self._root),
                    hint="name another folder, or an empty one",
                )
        self._store.prepare()

    def put(self, store: FolderStore, log: str, pieces: list[Piece], *, until: int | None) -> None:
        """Copy and sync; raises ArchiveError (CF-ARCHIVE-005) when other bytes are there, StoreError."""
        folder = self._root / log
        try:
            if not folder.exists() and self._put_at_once(store, log, pieces):
                return
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._root)
            for number, piece in enumerate(pieces):
                path = folder / f"{number:08d}.seg"
                if _is_begun(path, store, log, number):
                    path.unlink()  # what a killed process had copied of it
                if not path.exists():
                    _copy(store, log, number, path, piece)
            sync_folder(folder)
        except OSError as exc:
            raise store_error(exc, "cannot write the archive", str(folder)) from exc
        wrong = self.wrong(log, pieces)
        if wrong:
            raise ArchiveError(
                "the archive holds other bytes under a segment's name",
                code="CF-ARCHIVE-005",
                where=str(folder / f"{wrong[0]:08d}.seg"),
                hint="nothing there was touched: name another archive, and find out what that one holds",
            )

    def _put_at_once(self, store: FolderStore, log: str, pieces: list[Piece]) -> bool:
        """Copy beside the archive, then rename; False where that cannot be done."""
        beside = self._root.parent / f".{self._root.name}.{log}.part"
        try:
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir(mode=0o700)
            if beside.stat().st_dev != self._root.stat().st_dev:
                return False
            for number, piece in enumerate(pieces):
                _copy(store, log, number, beside / f"{number:08d}.seg", piece)
            sync_folder(beside)
            os.rename(beside, self._root / log)
            sync_folder(self._root)
        except OSError as exc:
            if exc.errno not in _NOT_THERE:
                raise
            return False
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return True

    def wrong(self, log: str, pieces: list[Piece]) -> list[int]:
        """Segments that are not there as they should be, read from the disk again."""
        found = []
        numbers = self._store.segments(log) if log in self._store.logs() else []  # a link is no log
        for number, piece in enumerate(pieces):
            with contextlib.suppress(StoreError, OSError):
                if number in numbers and _read(self._store, log, number) == piece:
                    continue
            found.append(number)
        return found + [number for number in numbers if number >= len(pieces)]


def _copy(store: FolderStore, log: str, number: int, path: Path, piece: Piece) -> None:
    hasher = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with store.open_segment(log, number) as file, open(os.open(path, flags, 0o600), "wb") as out:
        while data := file.read(_BLOCK):
            hasher.update(data)
            out.write(data)
        out.flush()
        os.fsync(out.fileno())
    if hasher.hexdigest() != piece[0]:
        path.unlink()
        raise ArchiveError(
            "a segment changed while it was copied",
            code="CF-ARCHIVE-006",
            where=store.segment_name(log, number),
            hint="nothing of it was removed: run counterfoil verify, then archive again",
        )


def _read(store: FolderStore, log: str, number: int) -> Piece:
    """What the disk holds, not what memory still has of it."""
    hasher, size = hashlib.sha256(), 0
    with store.open_segment(log, number) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while data := file.read(_BLOCK):
            hasher.update(data)
            size += len(data)
    return hasher.hexdigest(), size


def _is_begun(path: Path, store: FolderStore, log: str, number: int) -> bool:
    """Whether a file is the beginning of a segment and no more: a copy that was interrupted."""
    try:
        size = os.lstat(path).st_size
    except FileNotFoundError:
        return False
    if size >= store.segment_size(log, number):
        return False
    with store.open_segment(log, number) as ours, open(path, "rb") as theirs:
        while data := theirs.read(_BLOCK):
            if ours.read(len(data)) != data:
                return False
    return True
