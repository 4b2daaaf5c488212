"""What a chunk may stand for by its bytes, so that reading a log takes time and memory by its size."""

from __future__ import annotations

import io
import os

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
