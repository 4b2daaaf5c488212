"""What the header of a safetensors file says: tensors, types, metadata; bounded, refused in words, never by a crash.

Source: the format section of the safetensors README: eight bytes little endian (N), N bytes of JSON, then the tensors'
bytes without holes or overlap.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NoReturn

from counterfoil import canonical
from counterfoil.errors import CanonicalError

__all__ = ["MAX_HEADER", "MAX_METADATA", "Refused", "describe"]

MAX_HEADER: Final = 8 << 20
"""Bytes of a header that is looked into: parsed, it takes thirty times as much."""
MAX_METADATA: Final = 4096
"""Bytes of metadata, as JCS text, that are told."""
_LENGTH: Final = 8
_DTYPE: Final = re.compile(r"[A-Za-z0-9_]{1,32}")
_BITS: Final = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
}
_MEMBERS: Final = {"dtype", "shape", "data_offsets"}
_KINDS: Final = 64
"""Types of tensors in one file."""

Read = Callable[[int, int], bytes]
"""Takes how many bytes to read, and where."""


class Refused(Exception):
    """A header that is not as its format says; the message goes into the manifest as a fact."""


def describe(read: Read, size: int) -> dict[str, Any]:
    """The facts of a file of ``size`` bytes; raises Refused."""
    start = read(_LENGTH, 0)
    if len(start) < _LENGTH:
        raise Refused("shorter than the length of its header")
    length = int.from_bytes(start, "little")
    if length > size - _LENGTH:
        raise Refused("its header is longer than the file")
    if length > MAX_HEADER:
        raise Refused("a header of more than 8 MiB is not looked into")
    data = read(length, _LENGTH)
    if len(data) != length:
        raise Refused("its header is cut")
    header = _parse(data)
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or not all(type(one) is str for one in metadata.values()):
        raise Refused("metadata that is not texts by name")
    found: dict[str, Any] = {
        "dtypes": _tensors(header, size - _LENGTH - length),
        "header": {"sha256": hashlib.sha256(data).hexdigest(), "size": length},
        "tensors": len(header),
    }
    try:
        if metadata and len(canonical.dumps(metadata)) <= MAX_METADATA:
            found["metadata"] = metadata
    except CanonicalError:
        raise Refused("metadata that is not UTF-8") from None
    return found


def _parse(data: bytes) -> dict[str, Any]:
    if data[:1] != b"{":
        raise Refused("its header is no JSON object")
    try:
        header = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_constant)
    except (ValueError, RecursionError):
        raise Refused("its header is no JSON") from None
    if type(header) is not dict:
        raise Refused("its header is no JSON object")
    return header


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused("its header names something twice")
    return found


def _constant(text: str) -> NoReturn:
    raise ValueError(text)


def _tensors(header: dict[str, Any], room: int) -> dict[str, int]:
    """How many tensors of each type; their bytes fill ``room`` exactly, end to end."""
    places: list[tuple[int, int]] = []
    kinds: Counter[str] = Counter()
    for one in header.values():
        if type(one) is not dict or one.keys() != _MEMBERS:
            raise Refused("a tensor without type, shape or place")
        dtype, shape, place = one["dtype"], one["shape"], one["data_offsets"]
        if type(dtype) is not str or _DTYPE.fullmatch(dtype) is None:
            raise Refused("a tensor whose type is no name")
        if not _naturals(shape) or not _naturals(place) or len(place) != 2 or place[0] > place[1]:
            raise Refused("a tensor whose shape or place is none")
        if len(shape) > _KINDS:
            raise Refused("a tensor of more than 64 dimensions")
        bits = _BITS.get(dtype)
        if bits is not None and math.prod(shape) * bits != (place[1] - place[0]) * 8:
            raise Refused("a tensor whose place is not as long as its shape says")
        places.append((place[0], place[1]))
        kinds[dtype] += 1
    if len(kinds) > _KINDS:
        raise Refused("tensors of more than 64 types")
    end = 0
    for start, stop in sorted(places):
        if start != end:
            raise Refused("tensors that overlap, or leave a hole")
        end = stop
    if end != room:
        raise Refused("tensors that do not fill the file")
    return dict(kinds)


def _naturals(listed: Any) -> bool:
    return type(listed) is list and all(type(one) is int and 0 <= one < 1 << 63 for one in listed)
