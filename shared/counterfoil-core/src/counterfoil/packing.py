"""What stands between a writer's queue and its file: a group of items chained and compressed in memory, and its sync.

A group that is made leaves the file alone, so that it can be made while the disk is still busy with the one before.
"""

from __future__ import annotations

import hashlib
import operator
import os
import threading
from typing import Any, Final

from counterfoil import log, segments, tree

__all__ = ["BLOB", "ENTRY", "Group", "Item", "Packer", "Syncing", "entries_in", "packed_already", "size_of"]

CHUNK: Final = 1 << 20
"""Bytes of items after which a group goes on in another chunk."""

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


def entries_in(items: list[Item]) -> int:
    """How many of them are entries."""
    return list(map(_kind, items)).count(ENTRY)


class Group:
    """Items that are written and synced together, what was before them, and what is so once they are on disk."""

    __slots__ = ("before", "blobs", "done", "end", "head", "items", "segment", "syncing")

    def __init__(self, items: list[Item], before: tuple[int, str, int, list[bytes], int]) -> None:
        self.items = items
        self.before = before
        self.blobs: list[str] = []
        self.done: list[tuple[int, str, bytes]] = []
        self.head: dict[str, Any] | None = None
        self.segment = self.end = 0
        self.syncing: Syncing | None = None


class Syncing(threading.Thread):
    """One sync of a file, beside the writer's own thread; ``error`` is what it failed with, once joined."""

    def __init__(self, fd: int) -> None:
        super().__init__(name="counterfoil-sync", daemon=True)
        self._fd = fd
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            os.fdatasync(self._fd)
        except Exception as exc:
            self.error = exc


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

    def _pack(self, items: list[Item], group: Group) -> list[bytes]:
        """The chunks of a group. Blobs that are compressed already stand in a raw chunk before those that cite them."""
        chunks: list[bytes] = []
        parts: list[bytes] = []
        plain: list[bytes] = []
        head, blobs, done = segments.ITEM_HEADER.pack, self._blobs, group.done if self._sealed else None
        size = 0
        for item in items:
            if size >= CHUNK or len(parts) >= segments.MAX_ITEMS:
                self._cut(chunks, parts, plain)
                size = 0
            data = item[-1]
            size += len(data)
            if item[0] == ENTRY:
                parts += self._link(data)
                if done is not None:
                    done.append((self._index - 1, self._prev, data))
            elif item[1] not in blobs:
                blobs.add(item[1])
                group.blobs.append(item[1])
                target = plain if packed_already(data) else parts
                target += (head(segments.BLOB, len(data)), data)
        self._cut(chunks, parts, plain)
        return chunks

    def _cut(self, chunks: list[bytes], parts: list[bytes], plain: list[bytes]) -> None:
        """End the chunks that were gathered."""
        if plain:
            chunks.append(segments.raw_chunk(b"".join(plain)))
            plain.clear()
        if parts:
            chunks.append(self._compressor.chunk(b"".join(parts), count=len(parts) // 2))
            parts.clear()

    def _write(self, chunk: bytes) -> None:
        self._out.append(chunk)
        self._file_hash.update(chunk)
        self._offset += len(chunk)

    def _put_out(self) -> None:
        view = memoryview(b"".join(self._out))
        self._out.clear()
        while view:
            view = view[os.write(self._fd, view) :]

    def _chain(self, body: bytes) -> bytes:
        return b"".join(self._link(body))

    def _link(self, body: bytes) -> tuple[bytes, bytes]:
        data = log.entry_bytes(body, self._index, self._prev)
        self._prev = hashlib.sha256(data).hexdigest()
        self._tree.add(data)
        self._index += 1
        return segments.ITEM_HEADER.pack(segments.ENTRY, len(data)), data


def packed_already(data: bytes) -> bool:
    """Whether bytes say that they are compressed, so that doing it again would only take time."""
    return data.startswith(_PACKED) and _HOLE not in data
