"""SHA-256 of many files on all cores.

``hashlib`` lets go of the interpreter's lock while it works, so threads are enough; the largest files begin first, so
that no core ends long before the others. Files are read, not mapped: cutting a file kills who has it mapped.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from counterfoil.weights import facts, remembered
from counterfoil.weights.walking import Found, Problem

__all__ = ["Hashed", "cores", "hash_files", "times"]

PIECE: Final = 1 << 20
"""Bytes read at once: as much as a core's own cache holds, and enough that the calls cost nothing."""

Count = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Hashed:
    """A file's digest; ``cached`` if it was remembered and not computed now."""

    found: Found
    sha256: str
    size: int
    cached: bool = False
    format: dict[str, Any] | None = None


def cores() -> int:
    """How many cores this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def hash_files(
    files: Iterable[Found],
    *,
    cached: bool = False,
    described: bool = False,
    threads: int | None = None,
    count: Count | None = None,
) -> tuple[dict[str, Hashed], list[Problem]]:
    """Digests by name, and what could not be hashed: unreadable, gone, or changed meanwhile.

    With ``cached`` digests remembered in the home are believed; what was hashed is noted there either way. With
    ``described`` the headers of files are looked into. ``count`` hears from any thread how many bytes were done. A
    KeyboardInterrupt stops all threads.
    """
    work = _Work(
        sorted(files, key=lambda one: one.status.st_size), cached, described, count or (lambda size: None)
    )
    number = min(threads or cores(), len(work.left)) or 1
    helpers = [
        threading.Thread(target=work.run, name=f"counterfoil-hash-{one}", daemon=True)
        for one in range(1, number)
    ]
    try:
        for helper in helpers:
            helper.start()
        work.run()
        for helper in helpers:
            helper.join()
    finally:
        work.stop.set()
        for helper in helpers:
            if helper.ident is not None:
                helper.join()
    if work.failed is not None:
        raise work.failed
    remembered.sweep()
    return work.done, sorted(work.problems, key=lambda one: one.name)


@contextlib.contextmanager
def _buffer() -> Iterator[memoryview]:
    """Room for a piece: on large pages, where there are such, the kernel copies a tenth faster into it."""
    with mmap.mmap(-1, max(2 * PIECE, 1 << 22)) as room:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel may be built without them
                room.madvise(mmap.MADV_HUGEPAGE)
        with memoryview(room) as whole, whole[:PIECE] as view:
            yield view


class _Work:
    """Files that are left, taken from the end by whoever is free."""

    def __init__(self, left: list[Found], cached: bool, described: bool, count: Count) -> None:
        self.left = left
        self.stop = threading.Event()
        self.done: dict[str, Hashed] = {}
        self.problems: list[Problem] = []
        self.failed: BaseException | None = None
        self._cached = cached
        self._described = described
        self._count = count

    def run(self) -> None:
        with _buffer() as buffer:
            self._all(buffer)

    def _all(self, buffer: memoryview) -> None:
        while not self.stop.is_set():
            try:
                found = self.left.pop()
            except IndexError:
                return
            try:
                outcome = self._one(found, buffer)
            except OSError as exc:
                outcome = _problem(found.name, exc)
            except BaseException as exc:
                self.failed = exc
                self.stop.set()
                return
            if isinstance(outcome, Problem):
                self.problems.append(outcome)
            elif outcome is not None:
                self.done[found.name] = outcome

    def _one(self, found: Found, buffer: memoryview) -> Hashed | Problem | None:
        # Without O_NONBLOCK a named pipe that took the file's place would wait for a writer for ever.
        fd = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode) or times(before) != times(found.status):
                return _changed(found.name)
            known = remembered.recall(before) if self._cached else None
            if known is not None:
                self._count(before.st_size)
                digest = known
            else:
                digest = self._hash(fd, before.st_size, buffer)
            described = facts.describe(found.name, fd, before.st_size) if digest and self._described else None
            if self.stop.is_set():
                return None
            # Whoever replaces a file leaves the one that is read here as it was: so the place is looked at, too.
            for after in (os.fstat(fd), os.stat(found.path, follow_symlinks=False)):
                if not digest or times(after) != times(before):
                    return _changed(found.name)
        finally:
            os.close(fd)
        if known is None:
            remembered.remember(before, digest)
        return Hashed(found, digest, before.st_size, known is not None, described)

    def _hash(self, fd: int, size: int, buffer: memoryview) -> str:
        """The digest of an open file; empty when it is not as long as it was, or all is stopped."""
        hasher, left = hashlib.sha256(), size
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        # What grows is read no further than it was long: a file may grow for as long as it is read.
        while left >= 0 and (read := os.readv(fd, [buffer])):
            hasher.update(buffer[:read])
            left -= read
            self._count(read)
            if self.stop.is_set():
                return ""
        return "" if left else hasher.hexdigest()


def times(status: os.stat_result) -> tuple[int, ...]:
    """What is the same of a file that nobody changed."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _changed(name: str) -> Problem:
    return Problem(name, "CF-WEIGHTS-006", "it changed while it was hashed", "wait until nobody writes it")


def _problem(name: str, exc: OSError) -> Problem:
    if exc.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ESTALE, errno.ENOTDIR):
        return _changed(name)
    message = f"it cannot be read: {exc.strerror or type(exc).__name__}"
    return Problem(name, "CF-WEIGHTS-005", message, "check who may read it, and the disk")
