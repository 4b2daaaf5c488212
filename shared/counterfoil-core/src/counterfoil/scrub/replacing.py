"""Puts repaired files in the place of damaged ones: the originals are kept first, each file changes in one step."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from counterfoil._files import open_regular
from counterfoil._folders import sync_folder
from counterfoil.errors import StoreError

__all__ = ["Planned", "replace_files", "staging"]

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Planned:
    """A file to put in place: where (relative), its new content, and what stood there when that was decided."""

    path: str
    new: Path
    seen: str | None
    """SHA-256 of the file that is replaced; None when there was none."""


@contextlib.contextmanager
def staging(root: Path, *, repair: bool) -> Iterator[Path]:
    """A folder for new files, gone afterwards; for a repair beside the evidence, so that renaming is one step.

    Raises:
        StoreError: CF-SCRUB-003: it cannot be made, or lies on another file system than the evidence.
    """
    place = Path(os.path.realpath(root))
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.scrub-", dir=place.parent if repair else None))
    except OSError as exc:
        _failed(place.parent, exc)
    try:
        if repair and folder.stat().st_dev != place.stat().st_dev:
            raise StoreError(
                "files cannot be replaced in one step: the evidence is a file system of its own",
                code="CF-SCRUB-003",
                where=str(place),
                hint="copy the evidence into a folder, repair the copy, and compare",
            )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replace_files(root: Path, planned: Sequence[Planned], keep: Path) -> None:
    """Keep every original under ``keep``, then replace each; nothing is replaced before all are kept and synced.

    Raises:
        StoreError: CF-SCRUB-003: something cannot be read or written; CF-SCRUB-007: a file changed meanwhile.
    """
    for one in planned:
        target = root / one.path
        try:
            if _sha256(target) != one.seen:
                _changed(target)
            if one.seen is not None and _copy(target, keep / one.path) != one.seen:
                _changed(target)
            with one.new.open("rb") as file:
                os.fsync(file.fileno())
        except OSError as exc:
            _failed(target, exc)
    for one in planned:
        target = root / one.path
        try:
            os.chmod(one.new, 0o600)
            os.replace(one.new, target)
            sync_folder(target.parent)
        except OSError as exc:
            _failed(target, exc)


def _sha256(path: Path) -> str | None:
    try:
        with open_regular(path) as file:
            hasher = hashlib.sha256()
            while piece := file.read(_PIECE):
                hasher.update(piece)
            return hasher.hexdigest()
    except FileNotFoundError:
        return None


def _copy(path: Path, new: Path) -> str:
    """Put a copy on disk, where there is no file yet; the SHA-256 of what was copied."""
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hasher = hashlib.sha256()
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as out, open_regular(path) as file:
        while piece := file.read(_PIECE):
            hasher.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(fd)
    sync_folder(new.parent)
    return hasher.hexdigest()


def _changed(path: Path) -> NoReturn:
    raise StoreError(
        "the file changed while it was looked at, and stays as it is",
        code="CF-SCRUB-007",
        where=str(path),
        hint="somebody writes here: try again when nobody does",
    )


def _failed(path: Path, exc: OSError) -> NoReturn:
    raise StoreError(
        f"a repair cannot be written: {exc.strerror or exc}",
        code="CF-SCRUB-003",
        where=str(path),
        hint="check owner, permissions and free space here and at the folder for the originals",
    ) from exc
