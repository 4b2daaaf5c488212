"""What a file's own header says about the weights in it, as a fact in the list: never a reason not to hash it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from counterfoil.weights import gguf, safetensors

__all__ = ["describe"]

_SUFFIX: Final = ".safetensors"


def describe(name: str, fd: int, size: int) -> dict[str, Any] | None:
    """The ``format`` of an open file, None for a file of no format that is known here; raises OSError."""

    def read(count: int, at: int) -> bytes:
        return os.pread(fd, count, at)

    if read(len(gguf.MAGIC), 0) == gguf.MAGIC:
        return _told("gguf", gguf.describe, read, size)
    if name.lower().endswith(_SUFFIX):
        return _told("safetensors", safetensors.describe, read, size)
    return None


def _told(
    kind: str,
    describer: Callable[[safetensors.Read, int], dict[str, Any]],
    read: safetensors.Read,
    size: int,
) -> dict[str, Any]:
    try:
        return {"type": kind, **describer(read, size)}
    except safetensors.Refused as exc:
        return {"refused": str(exc), "type": kind}
