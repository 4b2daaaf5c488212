"""The list of a tree's files and the one hash over it, computed as OpenSSF model-signing does.

The root is SHA-256 over the files' SHA-256 digests, in the order of the files' names, compared name by name of their
paths. It says nothing of the names themselves; the list's own digest does. Source: ``shared/spec/weights.md``.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from counterfoil import canonical
from counterfoil.errors import CounterfoilError, WeightsError

if TYPE_CHECKING:
    from counterfoil.statements import Weights

__all__ = [
    "MAX_LIST",
    "MEDIA_WEIGHTS",
    "FileEntry",
    "dump",
    "is_name",
    "load",
    "order_of",
    "root_of",
    "says",
]

MEDIA_WEIGHTS: Final = "application/vnd.counterfoil.weights+json"
MAX_LIST: Final = 64 << 20
"""Bytes of a list."""
_MAX_NAME: Final = 4096
_MAX_SIZE: Final = (1 << 53) - 1
_HEX64: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: path below the tree's folder (of a single file its name), SHA-256, size, and what else is known."""

    name: str
    sha256: str
    size: int
    facts: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The element of the list."""
        return {**self.facts, "name": self.name, "sha256": self.sha256, "size": self.size}


def order_of(name: str) -> list[str]:
    """What names are sorted by: ``a/b`` comes before ``a-b``, as among paths."""
    return name.split("/")


def root_of(files: Iterable[FileEntry]) -> str:
    """The root over files in their order; the caller sorted them."""
    hasher = hashlib.sha256()
    for file in files:
        hasher.update(bytes.fromhex(file.sha256))
    return hasher.hexdigest()


def dump(files: Iterable[FileEntry]) -> bytes:
    """The list's bytes; raises WeightsError (CF-WEIGHTS-008) for one that no reader would take."""
    data = canonical.dumps([file.to_dict() for file in files])
    if len(data) > MAX_LIST:
        raise WeightsError(
            "the list of the files is longer than 64 MiB",
            code="CF-WEIGHTS-008",
            hint="name a folder that holds one model",
        )
    return data


def load(data: bytes) -> list[FileEntry]:
    """The files of a stored list; raises WeightsError (CF-WEIGHTS-020) when it is none."""
    try:
        listed = canonical.loads_canonical(data, max_bytes=MAX_LIST)
    except CounterfoilError as exc:
        raise _no_list(exc.message) from exc
    if type(listed) is not list or not listed:
        raise _no_list("no files in it")
    files = [_entry(one) for one in listed]
    orders = [order_of(file.name) for file in files]
    if any(first >= second for first, second in itertools.pairwise(orders)):
        raise _no_list("names out of order, or twice")
    return files


def says(predicate: Weights, data: bytes) -> list[FileEntry]:
    """The files behind a manifest; raises WeightsError (CF-WEIGHTS-020) where the list is not what it says of it."""
    files = load(data)
    told = (predicate.files.count, predicate.files.size, predicate.root)
    if told != (len(files), sum(file.size for file in files), root_of(files)):
        raise _no_list("another root, or another number of files or bytes, than the manifest says")
    return files


def _entry(one: Any) -> FileEntry:
    if type(one) is not dict or not one.keys() >= {"name", "sha256", "size"}:
        raise _no_list("a file without name, digest and size")
    name, sha256, size = one["name"], one["sha256"], one["size"]
    if type(name) is not str or not is_name(name):
        raise _no_list("a name that is no path below a folder")
    if type(sha256) is not str or _HEX64.fullmatch(sha256) is None:
        raise _no_list("a digest that is none")
    if type(size) is not int or not 0 <= size <= _MAX_SIZE:
        raise _no_list("a size that is none")
    facts = {key: value for key, value in one.items() if key not in ("name", "sha256", "size")}
    return FileEntry(name, sha256, size, facts)


def is_name(name: str) -> bool:
    """Whether a text is a path that stays below a folder."""
    if not 0 < len(name) <= _MAX_NAME or "\0" in name:
        return False
    return all(part not in ("", ".", "..") for part in name.split("/"))


def _no_list(why: str) -> WeightsError:
    return WeightsError(
        f"the list of a manifest's files cannot be used: {why}",
        code="CF-WEIGHTS-020",
        hint="counterfoil verify says whether the evidence is damaged",
    )
