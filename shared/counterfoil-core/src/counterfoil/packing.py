"""What stands between a writer's queue and its file: a group of items chained and compressed in memory, and its sync.

A group that is made leaves the file alone, so that it can be made while the disk is still busy with the one before.
"""

from __future__ import annotations

import hashlib
import operator
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from counterfoil import log, segments, tree

__all__ = [
    "BLOB",
    "ENTRY",
    "Beside",
    "Group",
    "Item",
    "Packer",
    "entries_in",
    "first_of",
    "packed_already",
    "put_out",
    "size_of",
]

CHUNK: Final = 1 << 20
"""Bytes of items after which a group goes on in another chunk."""

JOINED: Final = 1 << 16
"""Bytes up to which a group is one write; of a larger one each chunk is its own, for copying costs more."""

BLOB: Final = 0
ENTRY: Final = 1

_PACKED: Final = (
    b"\x28\xb5\x2f\xfd",
    b"\x1f\x8b\x08",
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"\xfd7zXZ\0",
    b"BZh",
)
"""How zstd, gzip, PNG, JPEG, xz and bzip2 begin."""
_HOLE: Final = bytes(16)
"""Readers may take it for a part of a hole that a power failure left: it never stands in a file as it is."""


Item = tuple[Any, ...]
"""(BLOB, SHA-256, bytes) or (ENTRY, bytes of the body)."""
_kind, _data = operator.itemgetter(0), operator.itemgetter(-1)


def size_of(items: list[Item]) -> int:
    """Bytes of items."""
    return sum(map(len, map(_data, items)))


def first_of(items: list[Item], limit: int) -> list[Item]:
    """The first items of no more than so many bytes, one at least; all when they fit."""
    if size_of(items) > limit:
        size = 0
        for number, item in enumerate(items):
            size += len(item[-1])
            if size > limit and number:
                return items[:number]
    return items[:]


def entries_in(items: list[Item]) -> int:
    """How many of them are entries."""
    return list(map(_kind, items)).count(ENTRY)


class Group:
    """Items that are written and synced together, what was before them, and what is so once they are on disk."""

    __slots__ = ("before", "blobs", "done", "end", "flight", "head", "items", "segment", "size")

    def __init__(self, items: list[Item], before: tuple[int, str, int, list[bytes], int]) -> None:
        self.items = items
        self.before = before
        self.blobs: list[str] = []
        self.done: list[tuple[int, str, bytes]] = []
        self.head: dict[str, Any] | None = None
        self.segment = self.end = self.size = 0
        self.flight: Beside | None = None


def put_out(fd: int, out: list[bytes]) -> None:
    """Write bytes and sync them; raises OSError."""
    for data in [b"".join(out)] if sum(map(len, out)) < JOINED else out:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    os.fdatasync(fd)


class Beside(threading.Thread):
    """One job beside the writer's own thread, begun at once; raises RuntimeError when no thread can be started."""

    def __init__(self, job: Callable[..., None], *arguments: Any) -> None:
        super().__init__(name="counterfoil-disk", daemon=True)
        self._job, self._arguments = job, arguments
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._job(*self._arguments)
        except Exception as exc:
            self._error = exc

    def finish(self) -> None:
        """Wait for its end; raises what it failed with."""
        self.join()
        if self._error is not None:
            raise self._error


class Packer:
    """The state of a log's end, and how items become chunks behind it."""

    _index: int
    _prev: str
    _tree: tree.Tree
    _blobs: set[str]
    _sealed: Any
    _compressor: segments.Compressor
    _file_hash: Any
    _offset: int
    _fd: int
    _out: list[bytes]
    """Made, and not written yet; ``_offset`` and ``_file_hash`` are those behind it."""

    def _pack(self, items: list[Item], group: Group) -> None:
        """Make the chunks of a group. Blobs that are compressed already stand in raw chunks before what cites them."""
        parts: list[bytes] = []
        plain: list[bytes] = []
        # The same as ``_chain``, without a call an entry: the writer's inmost loop.
        index, prev, add, sha256 = self._index, self._prev, self._tree.add, hashlib.sha256
        head, blobs, done = segments.ITEM_HEADER.pack, self._blobs, group.done if self._sealed else None
        size, full = 0, CHUNK
        for item in items:
            if size >= full or len(parts) >= segments.MAX_ITEMS:
                self._cut(parts, plain)
                parts, plain, full = [], [], size + CHUNK
            data = item[-1]
            size += len(data)
            if item[0] == ENTRY:
                entry = log.entry_bytes(data, index, prev)
                prev = sha256(entry).hexdigest()
                add(entry)
                parts += (head(segments.ENTRY, len(entry)), entry)
                if done is not None:
                    done.append((index, prev, data))
                index += 1
            elif item[1] not in blobs:
                blobs.add(item[1])
                group.blobs.append(item[1])
                target = plain if packed_already(data) else parts
                target += (head(segments.BLOB, len(data)), data)
        self._cut(parts, plain)
        self._index, self._prev, group.size = index, prev, size

    def _cut(self, parts: list[bytes], plain: list[bytes]) -> None:
        """End the chunks that were gathered."""
        if plain:
            self._write(*segments.raw_parts(b"".join(plain)))
        if parts:
            self._write(*self._compressor.parts(b"".join(parts), count=len(parts) // 2))

    def _write(self, *parts: bytes) -> None:
        for part in parts:
            self._out.append(part)
            self._file_hash.update(part)
            self._offset += len(part)

    def _chain(self, body: bytes) -> bytes:
        """One entry, as an item."""
        data = log.entry_bytes(body, self._index, self._prev)
        self._prev = hashlib.sha256(data).hexdigest()
        self._tree.add(data)
        self._index += 1
        return segments.pack_item(segments.ENTRY, data)


def packed_already(data: bytes) -> bool:
    """Whether bytes say that they are compressed, so that doing it again would only take time."""
    return data.startswith(_PACKED) and _HOLE not in data
