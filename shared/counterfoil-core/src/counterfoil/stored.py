"""What a log holds under its digests, for the checks: blobs with sizes, composites whose parts are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson

from counterfoil.digest import MEDIA_FOLD, MEDIA_JSON, Reference, is_reference
from counterfoil.errors import CounterfoilError
from counterfoil.log import BlobSeen, read_blob
from counterfoil.stores import FolderStore

__all__ = ["Stored"]

_COMPOSITE: Final = (MEDIA_JSON, MEDIA_FOLD)
_ANY_SIZE: Final = -1
"""Size in the reference to the node before, which a node of a message list does not tell."""
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_CITABLE: Final = re.compile(rb'[0-9a-f]{64}/[0-9a-f]{16}\n|\[\{"log":"|\[\{"digest":"')
"""How a checkpoint begins, a list of references to such (what a session cites of the other logs), a list of parents."""


class Stored:
    """Blobs, records and statements of one log, by digest, as far as they have passed by."""

    def __init__(self, store: FolderStore, name: str) -> None:
        self._store = store
        self._name = name
        self._blobs: dict[bytes, int] = {}
        self._hollow: dict[str, list[Reference]] = {}
        self._citable: dict[str, tuple[int, int, int, int]] = {}
        self._digests: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._blobs)

    def blob(self, blob: BlobSeen) -> None:
        """Note a blob that passes by."""
        data = blob.data
        self._blobs.setdefault(bytes.fromhex(blob.sha256), len(data))
        if _CITABLE.match(data):
            self._citable[blob.sha256] = blob.place
        if data[:1] in (b"{", b"[") and (b'"$ref"' in data or data.startswith(b'{"add":')):
            self._composite(blob.sha256, data)

    def _composite(self, sha256: str, data: bytes) -> None:
        """Note a composite whose parts are not all there; it matters only if it is cited as one."""
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        cited = list(_inner(value))
        if data.startswith(b'{"add":') and type(value) is dict and value.get("parent"):
            parent = value["parent"]
            if type(parent) is not str or not _HEX64.fullmatch(parent):
                parent = "0" * 64
            cited.append(Reference(parent, _ANY_SIZE, MEDIA_FOLD))
        lacking = [ref for ref in cited if not self.there(ref)]
        if lacking:
            self._hollow[sha256] = lacking

    def there(self, ref: Reference) -> bool:
        """Whether the bytes under a reference, and all that a composite cites, are stored."""
        if self._lacks(ref):
            return False
        return ref.media not in _COMPOSITE or ref.sha256 not in self._hollow or self._filled(ref.sha256)

    def _lacks(self, ref: Reference) -> bool:
        found = self._blobs.get(bytes.fromhex(ref.sha256))
        return found is None or ref.size not in (found, _ANY_SIZE)

    def _filled(self, sha256: str) -> bool:
        """Whether what a composite lacked is there now: its bytes may have come earlier, as somebody's text."""
        stack = [sha256]
        while stack:
            lacking = self._hollow.get(stack[-1], [])
            if any(self._lacks(ref) for ref in lacking):
                return False
            deeper = [ref.sha256 for ref in lacking if ref.media in _COMPOSITE and ref.sha256 in self._hollow]
            if deeper:
                stack += deeper
            else:
                self._hollow.pop(stack.pop(), None)
        return True

    def read(self, ref: Reference) -> bytes:
        """Bytes of a checkpoint, or list of such, stored before; empty when they are something else."""
        place = self._citable.get(ref.sha256)
        try:
            return b"" if place is None else read_blob(self._store, self._name, place)
        except CounterfoilError:
            return b""

    def knows(self, digest: str) -> bool:
        """Whether a record or statement of this digest has passed by."""
        try:
            return bytes.fromhex(digest) in self._digests
        except ValueError:
            return False

    def add(self, digest: str) -> None:
        """Note a record's or statement's digest."""
        self._digests.add(bytes.fromhex(digest))


def _inner(value: object) -> Iterator[Reference]:
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if node.keys() == {"$ref"} and is_reference(node["$ref"]):
                yield Reference.from_dict(node["$ref"])
            else:
                stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
