"""Evidence in a folder: ``<log id>/<segment>.seg`` and a ``.gitignore``, nothing else.

Every byte inside is evidence, so there is no cache, lock or index here (those live in the Counterfoil home).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from counterfoil._folders import make_folders, sync_folder
from counterfoil.errors import StoreError
from counterfoil.stores.failed import gone, store_error
from counterfoil.stores.place import Place
from counterfoil.stores.remote import Remote
from counterfoil.stores.watched import counted

__all__ = ["GITIGNORE", "FolderStore", "gone", "store_error"]

GITIGNORE: Final = b"*\n"
_LOG = re.compile(r"[0-9a-f]{16}\Z")
_SEGMENT = re.compile(r"([0-9]{8})\.seg\Z")


class FolderStore(Place):
    """A folder (mode 0700) with one sub-folder a log; every OSError comes back as StoreError with a code."""

    remote: Remote | None = None
    """Where its logs go on to, if they do."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def written(self) -> FolderStore:
        """Where all that was written here can be read."""
        return self if self.remote is None else self.remote.written()

    def __repr__(self) -> str:
        return f"FolderStore({str(self.root)!r})"

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.root)

    @property
    def uri(self) -> str:
        """The name under which this place is remembered: the resolved path."""
        return _name(os.path.realpath(self.root))

    @property
    def names(self) -> frozenset[str]:
        """Names under which this place may be remembered: a folder moved behind a link keeps the one it had."""
        return frozenset((self.uri, _name(os.path.abspath(self.root))))

    # -- reading ------------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether there is a folder; raises StoreError: CF-STORE-003: the path is something else, or cannot be read."""
        try:
            if self.root.is_dir():
                return True
            if self.root.exists():
                if not os.access(self.root, os.R_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                raise StoreError(
                    "the evidence path is neither a folder nor a bundle",
                    code="CF-STORE-003",
                    where=str(self.root),
                    hint="name the folder a run wrote, or a whole bundle: this may be one that was cut short",
                )
        except OSError as exc:
            raise self._failed("look at", self.root, exc) from exc
        return False

    def logs(self) -> list[str]:
        """Log ids in this evidence, sorted."""
        return sorted(
            name
            for name in self._names(self.root)
            if _LOG.match(name) and _is(self.root / name, stat.S_IFDIR)
        )

    def segments(self, log: str) -> list[int]:
        """Segment numbers of a log, sorted."""
        found = (_SEGMENT.match(name) for name in self._names(self.root / log))
        return sorted(int(match[1]) for match in found if match)

    def foreign(self) -> Iterator[tuple[str, str]]:
        """(relative path, what is wrong) of everything inside that Counterfoil did not write."""
        names = sorted(self._names(self.root))
        for name in names:
            if name == ".gitignore":
                if self._read_small(self.root / name) != GITIGNORE:
                    yield name, "is not the one Counterfoil writes"
            elif not _LOG.match(name) or not _is(self.root / name, stat.S_IFDIR):
                yield _printable(name), "does not belong to evidence"
        if ".gitignore" not in names:
            yield ".gitignore", "is missing"
        for log in self.logs():
            for name in sorted(self._names(self.root / log)):
                if not _SEGMENT.match(name) or not _is(self.root / log / name, stat.S_IFREG):
                    yield f"{log}/{_printable(name)}", "does not belong to evidence"

    def segment_name(self, log: str, number: int) -> str:
        """Relative name of a segment, as findings tell it."""
        return f"{log}/{number:08d}.seg"

    def is_segment(self, log: str, number: int) -> bool:
        """Whether what has a segment's name is a regular file."""
        return _is(self.root / self.segment_name(log, number), stat.S_IFREG)

    def open_segment(self, log: str, number: int) -> BinaryIO:
        """A segment opened for reading."""
        path = self.root / self.segment_name(log, number)
        try:
            return counted(_open_regular(path), self.on_read)
        except OSError as exc:
            raise self._failed("read", path, exc) from exc

    def segment_size(self, log: str, number: int) -> int:
        """Bytes of a segment."""
        path = self.root / self.segment_name(log, number)
        try:
            return path.stat().st_size
        except OSError as exc:
            raise self._failed("read", path, exc) from exc

    def size(self) -> int:
        """Bytes of all files and folders in this evidence, as ``du -b`` counts them."""
        total = 0
        for folder, _, names in os.walk(self.root):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                with contextlib.suppress(FileNotFoundError):
                    total += os.lstat(path).st_size
        return total

    def holds(self, path: Path) -> bool:
        """Whether a path (without links) is the folder, or inside it."""
        return path.is_relative_to(os.path.realpath(self.root))

    def elsewhere(self, log: str, number: int) -> dict[str, str | int | None] | None:
        """The folder's path; None for what a subclass put in the place of files."""
        return {"folder": str(self.root)} if type(self) is FolderStore else None

    # -- writing ------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the folder and its ``.gitignore``; raises StoreError when that cannot be done."""
        try:
            if make_folders(self.root):
                os.chmod(self.root, 0o700)
            if not os.access(self.root, os.W_OK | os.X_OK):
                read_only = os.statvfs(self.root).f_flag & os.ST_RDONLY
                raise OSError(
                    *((errno.EROFS, "read-only file system") if read_only else (errno.EACCES, "no access"))
                )
            if not self.logs():
                self._write_ignore(self.root / ".gitignore")
                sync_folder(self.root.parent)  # whoever made the folder may have been killed before this
            sync_folder(self.root)
        except OSError as exc:
            raise self._failed("write", self.root, exc) from exc

    def create_segment(self, log: str, number: int) -> int:
        """A new segment's file descriptor for appending; it must not exist yet.

        Raises StoreError: CF-STORE-007: the log's folder, which earlier segments are in, is gone.
        """
        path = self.root / self.segment_name(log, number)
        if number and not path.parent.is_dir():
            raise gone(path.parent)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not _is(path.parent, stat.S_IFDIR):
                raise OSError(errno.ENOTDIR, "a log's folder is none")
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise self._failed("write", path, exc) from exc
        try:
            sync_folder(path.parent)
            sync_folder(self.root)
        except OSError as exc:
            os.close(fd)
            self.remove_segment(log, number)
            raise self._failed("write", path, exc) from exc
        return fd

    def hold(self, log: str) -> int | None:
        """Hold a log's folder against writers that keep their locks elsewhere (a copied home); None when it is held.

        The lock is the kernel's and leaves no byte. It reaches as far as the file system carries ``flock``: where it
        does not, the folder is held by nobody.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self.root / log, flags)
        except OSError as exc:
            raise self._failed("write", self.root / log, exc) from exc
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            pass
        return fd

    def sync(self, log: str, number: int, *, reread: bool = False, settled: float | None = None) -> None:
        """Put a segment as it is now on disk, with its name: what another process wrote may be in memory only.

        With ``reread`` what the disk did not take of an earlier write is dropped from memory, so that reading the file
        again tells what is stored. A file that nobody wrote to for ``settled`` seconds is there
        already. Raises OSError.
        """
        path = self.root / self.segment_name(log, number)
        with _open_regular(path) as file:
            if settled is not None and time.time() - os.fstat(file.fileno()).st_mtime > settled:
                return
            try:
                os.fsync(file.fileno())
            except OSError as exc:
                if exc.errno not in (errno.EROFS, errno.EINVAL, errno.ENOTSUP):
                    raise
            finally:
                if reread and hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        sync_folder(path.parent)
        sync_folder(self.root)

    def in_place(self, log: str, number: int, fd: int) -> bool:
        """Whether an open segment is still the file of its name: not removed, moved, or hidden by another."""
        try:
            there = os.lstat(self.root / self.segment_name(log, number))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return os.path.samestat(there, os.fstat(fd))

    def room(self) -> int | None:
        """Bytes that the disk has left for this user, as far as it says."""
        try:
            found = os.statvfs(self.root)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize if found.f_blocks else None

    def remove_segment(self, log: str, number: int) -> bool:
        """Take back a segment of which no byte was ever acknowledged; False when it has to stay."""
        path = self.root / self.segment_name(log, number)
        try:
            os.unlink(path)
        except OSError:
            return False
        return True

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _write_ignore(self, path: Path) -> None:
        """In place, so that a kill leaves no other file; what a killed process began is completed before any log is."""
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            if GITIGNORE.startswith(
                os.pread(fd, 64, 0).rstrip(b"\0")
            ):  # zeros: the power failed before it was synced
                os.pwrite(fd, GITIGNORE, 0)
                os.fsync(fd)
        finally:
            os.close(fd)

    def _names(self, folder: Path) -> list[str]:
        try:
            return os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise self._failed("read", folder, exc) from exc

    def _read_small(self, path: Path) -> bytes | None:
        try:
            with _open_regular(path) as file:
                return file.read(64)
        except PermissionError as exc:
            raise self._failed("read", path, exc) from exc
        except OSError:
            return None

    def _failed(self, verb: str, path: Path, exc: OSError) -> StoreError:
        return store_error(exc, f"cannot {verb} the evidence", str(path))


def _open_regular(path: Path) -> BinaryIO:
    """Open a file that is one: a pipe or a link to a device put in its place would never end."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return open(fd, "rb")
    except OSError:
        os.close(fd)
        raise


def _is(path: Path, kind: int) -> bool:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode) == kind
    except OSError:
        return False


def _printable(name: str) -> str:
    """A name as findings tell it: what a terminal would obey, or cannot show, is escaped."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def _name(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        return quote(os.fsencode(path))  # a name that is no UTF-8 is remembered in a text that is
    return path
