"""Objects fetched for reading, a few kept: small ones in memory, others in files that have no name.

Evidence is opened often and read in order, so what comes next is fetched ahead, and of a large object that is only
looked into its beginning alone.
"""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import BinaryIO, Final, cast

from counterfoil.errors import CounterfoilError
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.told import Version

__all__ = ["Fetching"]

_SMALL: Final = 256 << 10
"""Bytes up to which an object is kept in memory, and of the beginning of a larger one."""
_WHOLE: Final = 1 << 20
"""Bytes up to which an object is fetched at once; of a larger one that may be looked into only, the beginning is."""
_IN_MEMORY: Final = 64 << 20
_ON_DISK: Final = 512 << 20
_FILES: Final = 64
_AHEAD: Final = 8
_BUFFER: Final = 64 << 10


class _Kept:
    """One object's bytes: in memory, or in a file that goes when the last reader lets go."""

    __slots__ = ("data", "fd", "size")

    def __init__(self, size: int, data: bytes | None, fd: int) -> None:
        self.size = size
        self.data = data
        self.fd = fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class Fetching:
    """Opens versions of objects of one bucket; safe for threads."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._coming: dict[tuple[str, str], Future[_Kept]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def open(self, version: Version, following: Sequence[Version], *, whole: bool = False) -> BinaryIO:
        """A version opened for reading; ``following`` are fetched meanwhile. ``whole``: it will be read to its end."""
        if whole or version.size <= _WHOLE:
            kept = self._get(version)
            self._fetch_ahead(following)
            return _opened(kept)
        with self._lock:
            known = self._kept.get(_key(version))
        if known is not None:
            return _opened(known)
        self._fetch_ahead(following)
        raw = _Begun(version.size, lambda: self._beginning(version), lambda: self._get(version))
        return cast("BinaryIO", io.BufferedReader(raw, _BUFFER))

    def _beginning(self, version: Version) -> bytes:
        return self._bucket.beginning(version.key, version.version, size=_SMALL)

    def _get(self, version: Version) -> _Kept:
        key = _key(version)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
            coming = self._coming.get(key)
        if coming is not None:
            try:
                return coming.result()
            except CounterfoilError:
                pass  # what failed in the background is tried once more, and told, by who needs it
        return self._load(version)

    def _load(self, version: Version) -> _Kept:
        # What is larger than any segment is read as far as one goes: the reader finds what is wrong with it.
        file = self._bucket.get(version.key, version.version)
        with file:
            if version.size <= _SMALL:
                data = file.read()
                kept = _Kept(len(data), data, -1)
            else:
                kept = _Kept(os.fstat(file.fileno()).st_size, None, os.dup(file.fileno()))
        with self._lock:
            self._kept[_key(version)] = kept
            self._kept.move_to_end(_key(version))
            self._make_room()
        return kept

    def _make_room(self) -> None:
        memory = sum(one.size for one in self._kept.values() if one.data is not None)
        disk = sum(one.size for one in self._kept.values() if one.data is None)
        files = sum(one.data is None for one in self._kept.values())
        for key, one in list(self._kept.items())[:-1]:
            if memory > _IN_MEMORY and one.data is not None:
                memory -= one.size
            elif (disk > _ON_DISK or files > _FILES) and one.data is None:
                disk, files = disk - one.size, files - 1
            else:
                continue
            del self._kept[key]

    def _fetch_ahead(self, following: Sequence[Version]) -> None:
        with self._lock:
            for version in following[:_AHEAD]:
                key = _key(version)
                if version.size > _WHOLE or key in self._kept or key in self._coming:
                    continue
                if len(self._coming) >= 2 * _AHEAD:
                    return
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="counterfoil-fetch")
                future = self._coming[key] = self._pool.submit(self._load, version)
                future.add_done_callback(partial(self._came, key))

    def _came(self, key: tuple[str, str], _: Future[_Kept]) -> None:
        with self._lock:
            self._coming.pop(key, None)


class _Bytes(io.RawIOBase):
    """An object that is kept, read at a place of its own."""

    def __init__(self, kept: _Kept) -> None:
        self._kept = kept
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._kept.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        got = os.preadv(self._kept.fd, [buffer], self._at)
        self._at += got
        return got


class _Begun(io.RawIOBase):
    """A large object of which the beginning is fetched first, and all of it when more is asked for."""

    def __init__(self, size: int, beginning: Callable[[], bytes], whole: Callable[[], _Kept]) -> None:
        self._size = size
        self._beginning = beginning
        self._load = whole
        self._head: bytes | None = None
        self._whole: _Kept | None = None
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._whole is None and self._at < _SMALL:
            if self._head is None:
                self._head = self._beginning()
            piece = self._head[self._at : self._at + len(buffer)]
            buffer[: len(piece)] = piece
            self._at += len(piece)
            if piece:
                return len(piece)
        if self._at >= self._size:
            return 0
        if self._whole is None:
            self._whole = self._load()
        got = os.preadv(self._whole.fd, [buffer], self._at)
        self._at += got
        return got


def _opened(kept: _Kept) -> BinaryIO:
    if kept.data is not None:
        return io.BytesIO(kept.data)
    return cast("BinaryIO", io.BufferedReader(_Bytes(kept), _BUFFER))


def _key(version: Version) -> tuple[str, str]:
    return version.key, version.version
