"""What a log holds under its digests, for the checks: blobs with sizes, composites whose parts are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from counterfoil.digest import MEDIA_FOLD, MEDIA_JSON, Reference
from counterfoil.errors import CounterfoilError
from counterfoil.log import BlobSeen, read_blob
from counterfoil.stores import FolderStore

__all__ = ["Stored"]

_ANY_SIZE: Final = -1
"""Size in the reference to the node before, which a node of a message list does not tell."""
_REF: Final = re.compile(
    rb'\{"\$ref":\{"media":"((?:[^"\\]++|\\.)*+)","sha256":"([0-9a-f]{64})","size":([0-9]{1,20})\}\}'
)
"""A reference in a composite, which is canonical JSON: there it reads just so, and no string holds a bare quote."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_PREVIOUS: Final = re.compile(rb',"n":[0-9]{1,20},"parent":"([0-9a-f]{64})?"\}\Z')
"""How a node of a message list ends: with the one before it, if there is one."""
_LACKING_MAX: Final = 256
"""Lacking parts remembered of one composite; one that lacks more is never taken for whole."""
_LIST_MAX: Final = 64 << 20
"""Bytes of a list that is parsed; all of it stands in memory many times over."""
_NEVER: Final = 1 << 62
_AS_FOLD: Final = b"f"
_Part = tuple[bytes, int, bytes]
"""Digest, size and, for what must be whole itself, the key under which it stands in ``_hollow`` while it is not."""
_CITABLE: Final = re.compile(rb'[0-9a-f]{64}/[0-9a-f]{16}\n|\[\{"log":"|\[\{"digest":"')
"""How a checkpoint begins, a list of references to such (what a session cites of the other logs), a list of parents."""


class Stored:
    """Blobs, records and statements of one log, by digest, as far as they have passed by.

    A composite that lacks parts is told when each of them comes, so that nothing is ever walked twice.
    """

    def __init__(self, store: FolderStore, name: str) -> None:
        self._store = store
        self._name = name
        self._blobs: dict[bytes, int] = {}
        self._hollow: dict[bytes, int] = {}
        self._absent: dict[bytes, list[tuple[bytes, _Part]]] = {}
        self._unfilled: dict[bytes, list[bytes]] = {}
        self._citable: dict[str, tuple[int, int, int, int]] = {}
        self._digests: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._blobs)

    def blob(self, blob: BlobSeen) -> None:
        """Note a blob that passes by."""
        data, digest = blob.data, bytes.fromhex(blob.sha256)
        if digest in self._blobs:
            return
        self._blobs[digest] = len(data)
        if _CITABLE.match(data):
            self._citable[blob.sha256] = blob.place
        if data[:1] in (b"{", b"["):
            self._composite(digest, data)
        for whole, part in self._absent.pop(digest, ()):
            # Of another size it is another thing: what cites it stays hollow.
            if part[1] in (len(data), _ANY_SIZE):
                if part[2] in self._hollow:
                    self._unfilled.setdefault(part[2], []).append(whole)
                else:
                    self._filled(whole)

    def _composite(self, digest: bytes, data: bytes) -> None:
        """Note a composite whose parts are not all there; it matters only if it is cited as one."""
        lacking: set[_Part] = set()
        for part in _parts(data):
            if not self._has(part):
                lacking.add(part)
                if len(lacking) > _LACKING_MAX:
                    break
        self._wait(digest, lacking)
        if data.startswith(b'{"add":'):
            found = _PREVIOUS.search(data, max(0, len(data) - 128))
            if found is None:
                self._hollow[digest + _AS_FOLD] = _NEVER
                return
            if found[1]:
                parent = bytes.fromhex(found[1].decode())
                part = (parent, _ANY_SIZE, parent + _AS_FOLD)
                if not self._has(part):
                    lacking.add(part)
            self._wait(digest + _AS_FOLD, lacking)

    def _wait(self, whole: bytes, lacking: set[_Part]) -> None:
        if not lacking:
            return
        hopeless = any(part[0] in self._blobs and not self._fits(part) for part in lacking)
        if hopeless or len(lacking) > _LACKING_MAX:
            self._hollow[whole] = _NEVER
            return
        self._hollow[whole] = len(lacking)
        for part in lacking:
            if part[0] in self._blobs:
                self._unfilled.setdefault(part[2], []).append(whole)
            else:
                self._absent.setdefault(part[0], []).append((whole, part))

    def _filled(self, whole: bytes) -> None:
        """One part of a composite is there now: its bytes may have come later, or earlier as somebody's text."""
        stack = [whole]
        while stack:
            whole = stack.pop()
            self._hollow[whole] -= 1
            if not self._hollow[whole]:
                del self._hollow[whole]
                stack += self._unfilled.pop(whole, ())

    def there(self, ref: Reference) -> bool:
        """Whether the bytes under a reference, and all that a composite cites, are stored."""
        return self._has(_part(bytes.fromhex(ref.sha256), ref.size, ref.media))

    def _fits(self, part: _Part) -> bool:
        return part[1] in (self._blobs.get(part[0], _ANY_SIZE - 1), _ANY_SIZE)

    def _has(self, part: _Part) -> bool:
        return part[0] in self._blobs and self._fits(part) and part[2] not in self._hollow

    def read(self, ref: Reference) -> bytes:
        """Bytes of a checkpoint, or list of such, stored before; empty when they are something else."""
        place = self._citable.get(ref.sha256)
        if self._blobs.get(bytes.fromhex(ref.sha256), 0) > _LIST_MAX:
            return b""
        try:
            return b"" if place is None else read_blob(self._store, self._name, place)
        except CounterfoilError:
            return b""

    def knows(self, digest: str) -> bool:
        """Whether a record or statement of this digest has passed by."""
        # `fromhex` alone would take spaces and capitals too, which no writer and no other reader takes.
        return _DIGEST.fullmatch(digest) is not None and bytes.fromhex(digest) in self._digests

    def add(self, digest: str) -> None:
        """Note a record's or statement's digest."""
        self._digests.add(bytes.fromhex(digest))


def _part(digest: bytes, size: int, media: str) -> _Part:
    if media == MEDIA_JSON:
        return digest, size, digest
    return digest, size, digest + _AS_FOLD if media == MEDIA_FOLD else b""


def _parts(data: bytes) -> Iterator[_Part]:
    for found in _REF.finditer(data):
        # A media type of any length may stand there; only two of them matter.
        media = found[1].decode() if found.end(1) - found.start(1) <= 64 and found[1].isascii() else ""
        yield _part(bytes.fromhex(found[2].decode()), int(found[3]), media)
