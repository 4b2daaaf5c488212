"""What a chunk may stand for by its bytes, so that reading a log takes time and memory by its size."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zlib

import pytest

from counterfoil import segments
from counterfoil.errors import LogError


def _read(data: bytes) -> list[segments.Chunk]:
    return list(segments.read_chunks(io.BytesIO(data), where="here"))


@pytest.mark.parametrize(
    "data", [b"a" * 5_000_000, b"abc" * 1_000_000, bytes(20_000), os.urandom(300_000) + bytes(1 << 20), b""]
)
def test_a_writer_stays_within_what_a_reader_takes(data: bytes) -> None:
    compressor = segments.Compressor()
    packed = segments.pack_item(segments.BLOB, data)
    short = segments.pack_item(segments.BLOB, b"short")
    file = b"".join(map(compressor.chunk, (short, packed, short)))
    chunks = _read(file)
    assert [chunk.data for chunk in chunks] == [short, packed, short]
    assert all(len(chunk.data) <= 1024 * (chunk.end - chunk.start) for chunk in chunks)
    assert len(file) < max(len(data) + 1000, 1)


def test_many_small_items_are_stored_raw() -> None:
    packed = segments.pack_item(segments.BLOB, b"") * 5000
    (chunk,) = _read(segments.Compressor().chunk(packed))
    assert (chunk.form, len(segments.bounds_of(chunk, where="here"))) == (segments.RAW, 5000)


def test_a_raw_chunk_has_at_most_65536_items() -> None:
    empty = segments.pack_item(segments.BLOB, b"")
    (whole,) = _read(segments.raw_chunk(empty * 65_536))
    assert len(segments.bounds_of(whole, where="here")) == 65_536
    (more,) = _read(segments.raw_chunk(empty * 65_537))
    with pytest.raises(LogError, match="CF-LOG-011"):
        segments.bounds_of(more, where="here")


@pytest.mark.parametrize("claimed", [1 << 20, 48 << 20])
def test_what_a_chunk_inflates_to_costs_no_more_than_it_claims(claimed: int) -> None:
    """Blocks of one repeated byte stand for 128 KiB in 4 bytes: here for 6 GiB, which nobody ever holds."""
    block = (131_072 << 3 | 2).to_bytes(3, "little") + b"a"
    stored = b"\x28\xb5\x2f\xfd\x00\x58" + block * 49_152
    head = struct.pack("<B3xII", segments.ZSTD_FIRST, len(stored), claimed)
    head += struct.pack("<I", zlib.crc32(stored, zlib.crc32(head)))
    tracemalloc.start()
    try:
        with pytest.raises(segments.TornChunk, match="another length"):
            _read(head + stored)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < claimed + (80 << 20)  # what one slice of 1 KiB inflates to, twice, and a growing buffer


def test_a_chunk_that_claims_more_than_may_be_is_not_inflated() -> None:
    for length, claimed in (
        (1 << 20, segments.MAX_CHUNK + 1),
        (1_000, 1_024 * 1_016 + 1),
        (segments.MAX_CHUNK + 1, 1),
    ):
        head = struct.pack("<B3xIII", segments.ZSTD_FIRST, length, claimed, 0)
        with pytest.raises(segments.TornChunk, match="not a chunk header"):
            _read(head + bytes(100))
