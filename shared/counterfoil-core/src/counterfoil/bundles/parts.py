"""What the blobs of a bundle cite of each other, found while their bytes pass by."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from counterfoil import shapes
from counterfoil.digest import MEDIA_FOLD, MEDIA_JSON, MEDIA_TEXT, Reference
from counterfoil.shapes import NODE_END, REFERENCE, Shape, shape_of

__all__ = ["BlobGraph", "Finder", "Held", "Part", "part_from", "part_of"]

PLAIN: Final = 0
AS_VALUE: Final = 1
AS_FOLD: Final = 2
AS_TEXT: Final = 3
ANY_SIZE: Final = -1
"""Size in the reference to the node before, which a node of a message list does not tell."""
_BEGIN: Final = b'{"$ref":{"media":"'
_TAIL: Final = 128
BAD_NODE: Final = b"?"
"""In place of the digest of the node before, where a node of a message list does not end as one."""

Part = tuple[bytes, int, int]
"""Digest, size (or ``ANY_SIZE``), and as what it is cited: ``PLAIN``, ``AS_VALUE``, ``AS_FOLD``, ``AS_TEXT``."""


def part_of(ref: Reference) -> Part:
    """A reference as a part."""
    return bytes.fromhex(ref.sha256), ref.size, _form(ref.media)


def _form(media: str) -> int:
    return _FORMS.get(media, PLAIN)


_CITED: Final = {shapes.TEXT: AS_TEXT, shapes.VALUE: AS_VALUE, shapes.FOLD: AS_FOLD}


def part_from(cited: shapes.Part) -> Part:
    """A part as the checks of a log name it."""
    return cited.digest, cited.size, _CITED.get(cited.need, PLAIN)


_FORMS: Final = {MEDIA_JSON: AS_VALUE, MEDIA_FOLD: AS_FOLD, MEDIA_TEXT: AS_TEXT}
_VALUE_MAX: Final = 64 << 20
"""Bytes of a blob that is looked at as a value; a longer one is none here."""


class Finder:
    """Finds the references in one blob whose bytes come in pieces, and whether the whole is a text or a stored value.

    Kept are an unfinished reference and what may be a value.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._composite: bool | None = None
        self._node = False
        self._left = b""
        self._rescan = 0
        self._end = b""
        self._all: bytearray | None = bytearray()
        self._text: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        self._look(piece)
        if self._composite is None and piece:
            self._composite = piece[:1] in (b"{", b"[")
        if not self._composite:
            return
        self._end = (self._end + piece)[-_TAIL:]
        self._left += piece
        # A reference that goes on and on is looked at again only when it has doubled: no text costs a square.
        if len(self._left) >= self._rescan:
            self._find()

    def _look(self, piece: bytes, *, final: bool = False) -> None:
        if self._text is not None:
            try:
                self._text.decode(piece, final)
            except UnicodeDecodeError:
                self._text = None
        if self._all is not None:
            self._all += piece
            short = len(self._all) <= 32
            if not short and (self._all[0] not in b"{[" or len(self._all) > _VALUE_MAX):
                self._all = None

    def _find(self) -> None:
        end = 0
        for found in REFERENCE.finditer(self._left):
            media = found[1].decode() if found.end(1) - found.start(1) <= 64 and found[1].isascii() else ""
            self.parts.append((bytes.fromhex(found[2].decode()), int(found[3]), _form(media)))
            end = found.end()
        begun = self._left.find(_BEGIN, end)
        if begun < 0:
            begun = max(end, len(self._left) - len(_BEGIN))
        self._left = self._left[begun:]
        self._rescan = 2 * len(self._left) if len(self._left) > 4096 else 0

    def done(self, head: bytes) -> Held:
        """What is known of the whole blob, which began with ``head``; its size is not."""
        self._look(b"", final=True)
        held = Held(text=self._text is not None)
        held.shape = None if self._all is None else shape_of(bytes(self._all))
        if self._composite:
            self._find()
            held.parts = tuple(dict.fromkeys(self.parts))
            if head.startswith(b'{"add":'):
                found = NODE_END.search(self._end)
                held.before = BAD_NODE if found is None else bytes.fromhex((found[1] or b"").decode())
        return held


@dataclass(slots=True)
class Held:
    """One blob: size, line, place in the file, what it cites, and the node before it.

    ``before`` is None where the blob is no node of a message list, empty for a first node.
    """

    size: int = 0
    line: int = 0
    offset: int = 0
    parts: tuple[Part, ...] = ()
    before: bytes | None = None
    text: bool = False
    shape: Shape | None = None


class BlobGraph:
    """Blobs by digest; says what is there with all its parts, and what is reached from given references."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, Held] = {}
        self._whole: dict[tuple[bytes, int], bool] = {}

    def there(self, ref: Reference) -> bool:
        """Whether the bytes under a reference, and all that a composite cites, are there."""
        return self.holds(part_of(ref))

    def holds(self, first: Part) -> bool:
        """The same of a part."""
        if not self._fits(first):
            return False
        stack = [first]  # message lists are chains of any length: no recursion
        while stack:
            digest, _, form = stack[-1]
            if (digest, form) in self._whole:
                stack.pop()
                continue
            parts = self._parts(digest, form)
            lacking = parts is None or not all(self._fits(one) for one in parts)
            states = [] if lacking or parts is None else [self._whole.get((one[0], one[2])) for one in parts]
            if lacking or False in states:
                self._whole[digest, form] = False
            elif None in states:
                # Hashes make no circle: what a part cites is never what cites it.
                stack += [one for one, state in zip(parts or (), states, strict=True) if state is None]
            else:
                self._whole[digest, form] = True
        return self._whole[first[0], first[2]]

    def reach(self, first: Iterable[Part]) -> set[bytes]:
        """Digests of the blobs that are reached from references; what is not there ends the way.

        Only what is cited as a value or a fold, and is one, has parts: no text is followed, whatever it spells.
        """
        stack = [(digest, form) for digest, _, form in first]
        seen: set[tuple[bytes, int]] = set()
        while stack:
            digest, form = one = stack.pop()
            held = self.blobs.get(digest)
            if one in seen or held is None:
                continue
            seen.add(one)
            if held.shape is None or form not in (AS_VALUE, AS_FOLD):
                continue
            stack += [(part, cited) for part, _, cited in held.parts]
            if form == AS_FOLD and held.shape.parent is not None:
                stack.append((held.shape.parent.digest, AS_FOLD))
        return {digest for digest, _ in seen}

    def _fits(self, part: Part) -> bool:
        held = self.blobs.get(part[0])
        return held is not None and part[1] in (held.size, ANY_SIZE)

    def _parts(self, digest: bytes, form: int) -> tuple[Part, ...] | None:
        """Parts of a blob that is there, as what it is cited; None where it cannot be that."""
        held = self.blobs[digest]
        if form in (PLAIN, AS_TEXT):
            return () if form == PLAIN or held.text else None
        if held.shape is None:
            return None
        if form == AS_VALUE:
            return held.parts
        number, parent = held.shape
        if not number:
            return None
        if parent is not None:
            before = self.blobs.get(parent.digest)
            if before is None or before.shape is None or before.shape.number != parent.need:
                return None
        if held.before == BAD_NODE:
            return None
        return (*held.parts, (held.before, ANY_SIZE, AS_FOLD)) if held.before else held.parts
