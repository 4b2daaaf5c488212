"""A segment file is a row of checksummed chunks that hold items, so that a torn tail is seen and cut cleanly by a
reader.

Chunk (``shared/spec/log.md``), little endian, header 16 bytes::

    u8 form | 3 zero bytes | u32 length | u32 raw length | u32 CRC-32 over the first 12 bytes and the stored bytes

Forms: 0 raw (length = raw length), 1 the first flush of a zstd stream, 2 a further flush of the same stream.
Decompressed, a chunk is a row of items: ``u8 kind | u32 length | bytes``. Kinds: 1 entry, 2 blob, 3 note.
An item never crosses a chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

import zstandard

from counterfoil._checksum import crc32
from counterfoil.errors import LogError

__all__ = [
    "BLOB",
    "CHUNK_HEADER",
    "ENTRY",
    "FRAME",
    "ITEM_HEADER",
    "MAX_CHUNK",
    "MAX_ITEMS",
    "NOTE",
    "NOTE_HEAD",
    "RAW",
    "ZSTD_FIRST",
    "ZSTD_NEXT",
    "Chunk",
    "Compressor",
    "Item",
    "TornChunk",
    "bounds_of",
    "items",
    "items_at",
    "pack_item",
    "raw_chunk",
    "raw_parts",
    "read_chunks",
    "stands_alone",
]

ENTRY: Final = 1
BLOB: Final = 2
NOTE: Final = 3

RAW: Final = 0
ZSTD_FIRST: Final = 1
ZSTD_NEXT: Final = 2

CHUNK_HEADER: Final = struct.Struct("<B3xIII")
_CHECKED: Final = struct.Struct("<B3xII")
ITEM_HEADER: Final = struct.Struct("<BI")
NOTE_HEAD: Final = CHUNK_HEADER.size + ITEM_HEADER.size
"""Bytes in front of a checkpoint's text: its chunk's and its item's header."""

FRAME: Final = 1 << 20
"""Raw bytes after which a new zstd stream begins: damage costs at most the rest of one stream."""
MAX_CHUNK: Final = 320 << 20
MAX_ITEMS: Final = 1 << 16
EXPANSION: Final = 1024
"""Raw bytes that a chunk may stand for by byte of the file: reading a log takes time by its size, whoever wrote it."""
_EVEN: Final = 4096
"""Raw bytes of a block, of which none is stored in fewer than 4 bytes: so nothing expands too far."""
LEVEL: Final = 3
_SLICE: Final = 1024
_TRUSTED: Final = 1 << 20
"""Stored bytes of a chunk that are read without asking whether the file has them."""


class Chunk(NamedTuple):
    """One chunk as read: where it starts and ends in the file, its form and its decompressed bytes."""

    start: int
    end: int
    form: int
    data: bytes


class Header(NamedTuple):
    """What stands before a chunk's stored bytes."""

    form: int
    length: int
    raw_length: int
    checksum: int


class Item(NamedTuple):
    """One item of a chunk; ``data`` is the bytes behind its header."""

    kind: int
    data: bytes


class TornChunk(LogError):
    """The bytes from ``offset`` on are no whole chunk: a torn tail, or damage."""

    def __init__(self, message: str, *, offset: int, where: str) -> None:
        super().__init__(message, code="CF-LOG-010", where=f"{where} byte {offset}")
        self.offset = offset


def pack_item(kind: int, data: bytes) -> bytes:
    """Item bytes: header and data."""
    return ITEM_HEADER.pack(kind, len(data)) + data


def _header(form: int, stored: bytes, raw_length: int) -> bytes:
    checked = _CHECKED.pack(form, len(stored), raw_length)
    return checked + struct.pack("<I", crc32(stored, crc32(checked)))


def raw_chunk(data: bytes) -> bytes:
    """A chunk of form raw."""
    return b"".join(raw_parts(data))


def raw_parts(data: bytes) -> tuple[bytes, bytes]:
    """The same, header and bytes, to be written one behind the other."""
    return _header(RAW, data, len(data)), data


class Compressor:
    """Turns item bytes into chunks of one running zstd stream, a new stream every FRAME raw bytes."""

    __slots__ = ("_raw", "_stream", "_zstd")

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False, write_content_size=False)
        self._stream: Any = None
        self._raw = 0

    def chunk(self, data: bytes) -> bytes:
        """One flushed chunk holding ``data``; a reader needs the stream's earlier chunks only."""
        return b"".join(self.parts(data, count=_count(data)))

    def parts(self, data: bytes, *, count: int) -> tuple[bytes, bytes]:
        """The same of ``count`` items, header and bytes, to be written one behind the other."""
        form = ZSTD_NEXT
        if self._stream is None or self._raw >= FRAME:
            self._stream, self._raw, form = self._zstd.compressobj(), 0, ZSTD_FIRST
        stored: bytes = self._stream.compress(data) + self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        self._raw += len(data)
        if not _fits(len(stored), len(data)):
            self._stream, self._raw, form = self._zstd.compressobj(), len(data), ZSTD_FIRST
            stored = self._evenly(data)
        if count > CHUNK_HEADER.size + len(stored):
            self._stream = None
            return raw_parts(data)
        return _header(form, stored, len(data)), stored

    def _evenly(self, data: bytes) -> bytes:
        """Stored bytes for what is all the same, in blocks that are too short to stand for much."""
        view, stored = memoryview(data), bytearray()
        for at in range(0, len(data), _EVEN):
            stored += self._stream.compress(view[at : at + _EVEN])
            stored += self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        return bytes(stored)


def _count(data: bytes) -> int:
    """How many items stand in the raw bytes of a chunk."""
    at = count = 0
    while at + ITEM_HEADER.size <= len(data):
        at += ITEM_HEADER.size + int(ITEM_HEADER.unpack_from(data, at)[1])
        count += 1
    return count


def _fits(length: int, raw_length: int) -> bool:
    return raw_length <= EXPANSION * (CHUNK_HEADER.size + length)


def read_chunks(
    file: BinaryIO, *, where: str, start: int = 0, end: int | None = None, hasher: Any = None
) -> Iterator[Chunk]:
    """Whole chunks from ``start`` (the start of a raw chunk or of a stream) up to ``end``.

    While a chunk is yielded, ``hasher`` (if given) has seen the file's bytes up to that chunk's start.
    Raises TornChunk at the first byte that is no whole, checksummed, decompressible chunk; memory is one chunk.
    """
    file.seek(start)
    offset = start
    stream: Any = None
    while end is None or offset < end:
        head = file.read(CHUNK_HEADER.size)
        if not head:
            return
        if len(head) < CHUNK_HEADER.size:
            raise TornChunk("a chunk header is cut", offset=offset, where=where)
        found = header(head)
        if found is None:
            raise TornChunk("not a chunk header", offset=offset, where=where)
        form, length, raw_length, checksum = found
        stop = offset + CHUNK_HEADER.size + length
        if end is not None and stop > end:
            raise TornChunk("a chunk runs past the end", offset=offset, where=where)
        # Reading allocates before it looks: a header must not claim a gigabyte that is not there.
        stored = file.read(length) if length <= _TRUSTED or stop <= _size(file) else b""
        if len(stored) < length:
            raise TornChunk("a chunk is cut", offset=offset, where=where)
        if crc32(stored, crc32(head[:12])) != checksum:
            raise TornChunk("a chunk's checksum does not match", offset=offset, where=where)
        if form == RAW:
            data = stored
            if length != raw_length:
                raise TornChunk("a raw chunk's lengths differ", offset=offset, where=where)
        else:
            if form == ZSTD_FIRST:
                stream = zstandard.ZstdDecompressor().decompressobj()
            if stream is None:
                raise TornChunk("a stream has no beginning", offset=offset, where=where)
            if not _whole_blocks(stored, first=form == ZSTD_FIRST):
                raise TornChunk("a chunk does not end where a block does", offset=offset, where=where)
            data = _inflate(stream, stored, raw_length, offset, where)
        yield Chunk(offset, stop, form, data)
        if hasher is not None:
            hasher.update(head)
            hasher.update(stored)
        offset = stop


def header(head: bytes) -> Header | None:
    """The header of a chunk, None where these bytes can be none."""
    if len(head) < CHUNK_HEADER.size:
        return None
    found = Header(*CHUNK_HEADER.unpack(head))
    sane = found.form <= ZSTD_NEXT and max(found.length, found.raw_length) <= MAX_CHUNK
    return found if sane and head[1:4] == b"\0\0\0" and _fits(found.length, found.raw_length) else None


def _size(file: BinaryIO) -> int:
    at = file.tell()
    size = file.seek(0, 2)
    file.seek(at)
    return size


_HEAD: Final = b"\x28\xb5\x2f\xfd\x00"
"""How a frame begins: its magic, and a descriptor that says of nothing that it is there. The window follows."""
_RLE: Final = 1
_NO_BLOCK: Final = 3


def _whole_blocks(stored: bytes, *, first: bool) -> bool:
    """Whether stored bytes are whole blocks of an unended frame, behind its header if they are its first.

    The decompressor keeps what it cannot use yet, and would take blocks that are cut anywhere (RFC 8878, 3.1.1.2).
    """
    at, size = 0, len(stored)
    if first:
        # No checksum, content size or dictionary: decompressors differ in what they make of a wrong one.
        if stored[:5] != _HEAD or size < 6:
            return False
        at = 6
    while at + 3 <= size:
        word = stored[at] | stored[at + 1] << 8 | stored[at + 2] << 16
        kind = word >> 1 & 3
        if word & 1 or kind == _NO_BLOCK:
            return False
        at += 3 + (1 if kind == _RLE else word >> 3)
    return at == size


def _inflate(stream: Any, stored: bytes, raw_length: int, offset: int, where: str) -> bytes:
    data = bytearray()
    try:
        # Small slices bound what a crafted chunk can expand to before its declared length is found wrong.
        for i in range(0, len(stored), _SLICE):
            data += stream.decompress(stored[i : i + _SLICE])
            if len(data) > raw_length:
                break
    except zstandard.ZstdError as exc:
        raise TornChunk("a chunk does not decompress", offset=offset, where=where) from exc
    if len(data) != raw_length or stream.eof or stream.unused_data:
        raise TornChunk("a chunk decompresses to another length", offset=offset, where=where)
    return bytes(data)


def items(chunk: Chunk, *, where: str) -> Iterator[Item]:
    """Items of a chunk, one at a time; raises LogError (CF-LOG-011) at once when they do not fill it exactly.

    A chunk of nothing but empty items would stand for very many, so their number has a limit: one a byte of the file.
    """
    return items_at(chunk, bounds_of(chunk, where=where))


def items_at(chunk: Chunk, bounds: list[tuple[int, int, int]]) -> Iterator[Item]:
    """The same, where their bounds are known."""
    data = chunk.data
    return (Item(kind, data[begin:end]) for kind, begin, end in bounds)


def bounds_of(chunk: Chunk, *, where: str) -> list[tuple[int, int, int]]:
    """Kind, begin and end of the items of a chunk; raises LogError (CF-LOG-011) when they do not fill it exactly."""
    data, size = chunk.data, len(chunk.data)
    unpack, header, most = ITEM_HEADER.unpack_from, ITEM_HEADER.size, min(MAX_ITEMS, chunk.end - chunk.start)
    bounds: list[tuple[int, int, int]] = []
    offset = 0
    while offset < size:
        if offset + header > size:
            raise LogError("an item header is cut", code="CF-LOG-011", where=f"{where} byte {chunk.start}")
        kind, length = unpack(data, offset)
        begin = offset + header
        offset = begin + length
        if not ENTRY <= kind <= NOTE or offset > size:
            raise LogError("not an item", code="CF-LOG-011", where=f"{where} byte {chunk.start}")
        if len(bounds) == most:
            raise LogError(f"more than {most} items", code="CF-LOG-011", where=f"{where} byte {chunk.start}")
        bounds.append((kind, begin, offset))
    return bounds


def stands_alone(chunk: Chunk) -> bool:
    """Whether a raw chunk holds exactly one item."""
    data = chunk.data
    return (
        chunk.form == RAW
        and len(data) >= ITEM_HEADER.size
        and ITEM_HEADER.size + int(ITEM_HEADER.unpack_from(data)[1]) == len(data)
    )
