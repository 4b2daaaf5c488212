"""Chunks have one checksum, whoever computes it."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import zlib
from collections.abc import Callable

import pytest

from counterfoil import _checksum


@pytest.fixture(params=["as installed", "without zlib-ng"])
def crc32(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    if request.param == "without zlib-ng":
        monkeypatch.setitem(sys.modules, "zlib_ng", None)
        monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    monkeypatch.delitem(sys.modules, "counterfoil._checksum")
    return importlib.import_module("counterfoil._checksum").crc32


def test_it_is_the_crc_32_of_the_specification(crc32: Callable[..., int]) -> None:
    assert crc32(b"123456789") == 0xCBF43926
    assert crc32(b"") == 0


def test_it_is_zlibs_for_every_length_and_in_parts(crc32: Callable[..., int]) -> None:
    chance = random.Random("checksums")
    for size in (*range(1, 130), 4095, 4096, 4097, 70_001):
        data = chance.randbytes(size)
        cut = chance.randrange(size + 1)
        assert crc32(data) == zlib.crc32(data)
        assert crc32(memoryview(data)[cut:], crc32(data[:cut])) == zlib.crc32(data)


def test_the_fast_one_is_taken_where_it_is_installed() -> None:
    assert (_checksum.crc32 is zlib.crc32) == (importlib.util.find_spec("zlib_ng") is None)
