"""What the header of a GGUF file says: architecture, name, quantisation, tensors; bounded, refused in words.

Source: the GGUF page of the ggml project, versions 2 and 3, either byte order.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any, Final

from counterfoil.weights.safetensors import Read, Refused

__all__ = ["MAGIC", "describe"]

MAGIC: Final = b"GGUF"
_MAX_HEADER: Final = 64 << 20
_PIECE: Final = 1 << 20
_MAX_KEYS: Final = 1 << 16
_MAX_TENSORS: Final = 1 << 18
_MAX_ITEMS: Final = 1 << 22
"""Texts in arrays, in all: each takes a step."""
_MAX_TEXT: Final = 1024
_DIMENSIONS: Final = 8
_NESTED: Final = 4

_STRING: Final = 8
_ARRAY: Final = 9
_WIDTHS: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXTS: Final = {"general.architecture": "architecture", "general.name": "name"}
_FILE_TYPE: Final = "general.file_type"

_TYPES: Final = {
    **{0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1"},
    **{10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS"},
    **{18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16"},
    **{26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"},
}
_FILES: Final = {
    **{0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S"},
    **{12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K"},
    **{19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL"},
    **{26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16"},
    **{36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE"},
}


def describe(read: Read, size: int) -> dict[str, Any]:
    """The facts of a file of ``size`` bytes that begins with the magic number; raises Refused."""
    header = _Header(read, size)
    header.skip(len(MAGIC))
    version = header.number(4)
    if version not in (2, 3):
        header.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (2, 3):
        raise Refused("of a version that is not known here")
    tensors, keys = header.number(8), header.number(8)
    if tensors > _MAX_TENSORS or keys > _MAX_KEYS:
        raise Refused("more tensors or metadata than are looked at")
    found: dict[str, Any] = {"metadata": keys, "tensors": tensors, "version": version}
    seen: set[bytes] = set()
    for _ in range(keys):
        key = header.text()
        if key in seen:
            raise Refused("metadata that names something twice")
        seen.add(key)
        _value(header, key.decode("utf-8", "replace"), header.number(4), found)
    kinds: Counter[str] = Counter()
    for _ in range(tensors):
        header.text()
        dimensions = header.number(4)
        if dimensions > _DIMENSIONS:
            raise Refused("a tensor of more than 8 dimensions")
        header.skip(8 * dimensions)
        kind = header.number(4)
        kinds[_TYPES.get(kind, f"type {kind}")] += 1
        if header.number(8) > size:
            raise Refused("a tensor beyond the file")
    if len(kinds) > len(_TYPES) * 2:
        raise Refused("tensors of too many types")
    found["dtypes"] = dict(kinds)
    return found


def _value(header: _Header, key: str, kind: int, found: dict[str, Any]) -> None:
    if kind == _STRING:
        data = header.text()
        if key in _TEXTS:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                raise Refused("metadata that is not UTF-8") from None
            if len(text) <= _MAX_TEXT:
                found[_TEXTS[key]] = text
    elif key == _FILE_TYPE and kind == 4:
        number = header.number(4)
        found["quantisation"] = _FILES.get(number, f"type {number}")
    elif kind == _ARRAY:
        header.array(0)
    elif kind in _WIDTHS:
        header.skip(_WIDTHS[kind])
    else:
        raise Refused("metadata of a type that is not known here")


class _Header:
    """The bytes of a header in their order, read as far as they are needed."""

    def __init__(self, read: Read, size: int) -> None:
        self.order = "<"
        self._read = read
        self._size = size
        self._data = bytearray()
        self._at = 0
        self._items = 0

    def skip(self, count: int) -> int:
        """Pass over bytes; where they begin."""
        at, end = self._at, self._at + count
        if end > len(self._data):
            self._more(end)
        self._at = end
        return at

    def _more(self, end: int) -> None:
        if end > self._size:
            raise Refused("its header goes beyond the file")
        if end > _MAX_HEADER:
            raise Refused("a header of more than 64 MiB is not looked into")
        while len(self._data) < end:
            piece = self._read(_PIECE, len(self._data))
            if not piece:
                raise Refused("its header is cut")
            self._data += piece

    def number(self, width: int) -> int:
        """An unsigned integer of 4 or 8 bytes."""
        at = self.skip(width)
        found: int = struct.unpack_from(self.order + ("I" if width == 4 else "Q"), self._data, at)[0]
        return found

    def text(self) -> bytes:
        """A text's bytes."""
        length = self.number(8)
        at = self.skip(length)
        return bytes(self._data[at : at + length])

    def array(self, depth: int) -> None:
        """Pass over an array."""
        kind, count = self.number(4), self.number(8)
        if kind in _WIDTHS:
            self.skip(_WIDTHS[kind] * count)
            return
        self._items += count
        if self._items > _MAX_ITEMS or depth >= _NESTED:
            raise Refused("arrays that are too long or too deep")
        if kind == _STRING:
            for _ in range(count):
                self.skip(self.number(8))
        elif kind == _ARRAY:
            for _ in range(count):
                self.array(depth + 1)
        else:
            raise Refused("an array of a type that is not known here")
