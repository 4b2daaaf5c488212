"""What a log holds under its digests, for the checks: blobs and what they are, composites whose parts are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from counterfoil.alike import ValueMould, value_mould
from counterfoil.before import Before, NotAlone
from counterfoil.citations import MAX_LIST, Told, may_be_checkpoint, told_by
from counterfoil.digest import INLINE, Reference
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.frames import MAGIC
from counterfoil.log import BlobSeen, read_blob
from counterfoil.moulds import Known
from counterfoil.packed import ROW, Digests, Passed
from counterfoil.shapes import ANY, CITED, FOLD, TEXT, VALUE, Part, is_text, need_of, parts_of, shape_of
from counterfoil.stores import FolderStore
from counterfoil.stores.folder import store_error

__all__ = ["HANDOFF", "LIST", "RECORD", "STATEMENT", "Stored"]

RECORD: Final = 0
"""What a digest is of; what comes later here is the more special."""
STATEMENT: Final = 1
HANDOFF: Final = 2

_LACKING_MAX: Final = 256
"""Lacking parts remembered of one composite; one that lacks more is never taken for whole."""
_HELD: Final = 4 << 20
"""Bytes of parts of streams that are kept at hand."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_LATELY: Final = 4096
"""References remembered as there: an end repeats what its start cites."""
LIST: Final = re.compile(rb"\[\{|\[\]\Z")
"""How a list of what a session cites of the other logs begins, and a list of parents."""

# The number that a digest has: size (31 bits), whether the bytes are text, whether they are a whole value, and the
# number of the node that they are.
_SIZE: Final = (1 << 31) - 1
_TEXT: Final = 1 << 31
_VALUE: Final = 1 << 32
_NODE: Final = 33


class Stored:
    """Blobs, records and statements of one log, by digest, as far as they have passed by.

    A composite that lacks parts is told when each of them comes, so that nothing is ever walked twice. With ``before``
    only a part of the log passes by: what is not in it is believed to stand before it, and noted there.
    """

    def __init__(
        self,
        store: FolderStore | None,
        name: str,
        *,
        before: Before | None = None,
        known: Known | None = None,
    ) -> None:
        self.blobs = Digests()
        self.citable: dict[bytes, tuple[int, int, int, int]] = {}
        self.noted: dict[bytes, bytes] = {}
        self.weights: dict[str, str] = {}
        """Manifests of weights that passed by, and the root that each tells."""
        self.lists_weights = True
        """Whether the lists of their files have to be here."""
        self._store = store
        self._name = name
        self._before = before
        self.rows = bytearray()
        self.known_rows = bytearray()
        self._statements = Digests()
        self._passed = Passed()
        self.lately: set[bytes] = set()
        self._moulds = (known or Known()).of(value_mould)
        self._hollow: dict[tuple[bytes, bool], list[int]] = {}
        self._absent: dict[bytes, list[tuple[tuple[bytes, bool], Part]]] = {}
        self._unfilled: dict[tuple[bytes, bool], list[tuple[tuple[bytes, bool], Part]]] = {}
        self._held: dict[bytes, bytes] = {}
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self.blobs)

    def clear(self) -> None:
        """Forget everything."""
        self.blobs, self._statements, self._passed = Digests(), Digests(), Passed()
        for held in (self.citable, self.noted, self.weights, self._hollow, self._absent, self._unfilled):
            held.clear()
        self.lately.clear()
        self._held.clear()
        self._held_bytes = 0

    # -- blobs --------------------------------------------------------------------------------------------------------

    def blob(self, blob: BlobSeen) -> None:
        """Note a blob that passes by."""
        data, digest = blob.data, bytes.fromhex(blob.sha256)
        if digest in self.blobs:
            return
        if data[:1] == b"{":
            got = self._moulds.match(data)
            bits = 0 if got is None else self._short(*got)
            if bits:
                self._add(digest, len(data) | _TEXT | bits)
                return
        number = len(data) | (_TEXT if is_text(data) else 0)
        if LIST.match(data):
            self.citable[digest] = blob.place
        elif data.startswith(MAGIC):
            self.citable[digest] = blob.place
            self._hold(digest, data)
        elif may_be_checkpoint(data):
            # To look for it later would take the way through all that stands before it.
            self.noted[digest] = data
        shape = shape_of(data)
        if shape is not None and data[:1] == b"{":
            self._moulds.learn(data, shape)
        waits: list[tuple[tuple[bytes, bool], set[Part], int]] = []
        if shape is not None:
            lacking = self._lacking(data)
            if lacking is not None:
                number |= self._bits(lacking, (digest, False), _VALUE, waits)
                if shape.number:
                    parent = shape.parent
                    more = lacking if parent is None or self._state(parent) else lacking | {parent}
                    number |= self._bits(more, (digest, True), shape.number << _NODE, waits)
        self._add(digest, number, waits)

    def _short(self, mould: ValueMould, found: re.Match[bytes]) -> int:
        """What an object is by its text; 0 where it has to be read, because something lacks or is long."""
        for at in mould.inside:
            if len(found[at]) >= INLINE:
                return 0
        for at in mould.cited:
            if found[at] not in self.lately and not self.cites(found[at]):
                return 0
        if mould.first:
            return _VALUE | 1 << _NODE
        if not mould.number:
            return _VALUE
        number, parent = int(found[mould.number]), bytes.fromhex(found[mould.parent].decode())
        return _VALUE | number << _NODE if number > 1 and self._state(Part(parent, -1, number - 1)) else 0

    def _add(
        self, digest: bytes, number: int, waits: Iterable[tuple[tuple[bytes, bool], set[Part], int]] = ()
    ) -> None:
        self.blobs.add(digest, number)
        if self._before is not None:
            self.rows += ROW.pack(digest, number)
        for key, parts, bits in waits:
            self._wait(key, parts, bits)
        for key, part in self._absent.pop(digest, ()):
            self._arrived(key, part)

    def _lacking(self, data: bytes) -> set[Part] | None:
        """Parts of a value that are not there; None when it can never be whole."""
        lacking: set[Part] = set()
        for part in parts_of(data):
            if not self._state(part):
                lacking.add(part)
                if len(lacking) > _LACKING_MAX:
                    return None
        return lacking

    def _bits(
        self,
        lacking: set[Part],
        key: tuple[bytes, bool],
        bits: int,
        waits: list[tuple[tuple[bytes, bool], set[Part], int]],
    ) -> int:
        if not lacking:
            return bits
        if len(lacking) <= _LACKING_MAX:
            waits.append((key, lacking, bits))
        return 0

    def _wait(self, key: tuple[bytes, bool], lacking: set[Part], bits: int) -> None:
        """Note a composite whose parts are not all there; it matters only if it is cited as one."""
        states = {part: self._state(part) for part in lacking}
        if False in states.values():
            return  # of another size or kind it is another thing: what cites it stays hollow
        self._hollow[key] = [len(lacking), bits]
        for part in lacking:
            if part.digest in self.blobs:
                self._unfilled.setdefault((part.digest, _as_node(part)), []).append((key, part))
            else:
                self._absent.setdefault(part.digest, []).append((key, part))

    def _arrived(self, key: tuple[bytes, bool], part: Part) -> None:
        state = self._state(part)
        if state:
            self._filled(key)
        elif state is None:
            self._unfilled.setdefault((part.digest, _as_node(part)), []).append((key, part))
        else:
            self._hollow.pop(key, None)

    def _filled(self, key: tuple[bytes, bool]) -> None:
        """One part of a composite is there now: its bytes may have come later, or earlier as somebody's text."""
        stack = [key]
        while stack:
            key = stack.pop()
            waiting = self._hollow.get(key)
            if waiting is None:
                continue
            waiting[0] -= 1
            if not waiting[0]:
                del self._hollow[key]
                self.blobs.change(key[0], (self.blobs.get(key[0]) or 0) | waiting[1])
                for other, part in self._unfilled.pop(key, ()):
                    if self._state(part):
                        stack.append(other)
                    else:
                        self._hollow.pop(other, None)

    def _state(self, part: Part) -> bool | None:
        """Whether what a part says is there, whole; None while it may still become so."""
        digest, size, need = part
        number = self.blobs.get(digest)
        if number is None:
            if self._before is None:
                return None
            self._before.part(part)
            return True
        if size not in (number & _SIZE, -1):
            return False
        if need == ANY:
            return True
        if need == TEXT:
            return bool(number & _TEXT)
        if need == VALUE:
            return True if number & _VALUE else (None if (digest, False) in self._hollow else False)
        node = number >> _NODE
        if node:
            return need in (FOLD, node)
        return None if (digest, True) in self._hollow else False

    def there(self, ref: Reference) -> bool:
        """Whether the bytes under a reference are stored and what it says, and all that they cite too."""
        return self.has(Part(bytes.fromhex(ref.sha256), ref.size, need_of(ref.media)))

    def has(self, part: Part) -> bool:
        """The same of a part."""
        return bool(self._state(part))

    def cites(self, reference: bytes) -> bool:
        """The same of a reference's canonical text (as ``shapes.CITED`` takes it)."""
        # What is there once stays: bytes are never taken away, and a value that is whole stays whole.
        if reference in self.lately:
            return True
        found = CITED(reference)
        if found is None or not self.has(
            Part(bytes.fromhex(found[2].decode()), int(found[3]), need_of(found[1].decode()))
        ):
            return False
        if len(self.lately) >= _LATELY:
            self.lately.clear()
        self.lately.add(reference)
        return True

    def note(self, ref: Reference) -> tuple[bytes, Told]:
        """A checkpoint stored before, and what it says; empty when it is something else."""
        held = self.noted.get(bytes.fromhex(ref.sha256), b"")
        return held, told_by(held)

    def _hold(self, digest: bytes, data: bytes) -> None:
        """Keep what is asked for soon: the record that cites a part of a stream comes right behind it."""
        if len(data) > _HELD // 4 or digest in self._held:
            return
        self._held[digest] = data
        self._held_bytes += len(data)
        while self._held_bytes > _HELD:
            self._held_bytes -= len(self._held.pop(next(iter(self._held))))

    def read(self, ref: Reference) -> bytes:
        """Bytes of a list, or of a part of a stream, stored before; empty when they are something else.

        Raises StoreError where the disk fails, NotAlone where they stand before the part of the log that is at hand.
        """
        digest = bytes.fromhex(ref.sha256)
        number, place = self.blobs.get(digest), self.citable.get(digest)
        if number is None and self._before is not None:
            raise NotAlone
        if number is None or number & _SIZE != ref.size or ref.size > MAX_LIST:
            return b""
        if digest in self._held:
            return self._held[digest]
        try:
            return b"" if place is None or self._store is None else read_blob(self._store, self._name, place)
        except StoreError:
            raise
        except OSError as exc:
            raise store_error(exc, "cannot read the evidence", self._name) from exc
        except CounterfoilError:
            return b""

    # -- records and statements ---------------------------------------------------------------------------------------

    def knows(self, digest: str, *, least: int = RECORD) -> bool:
        """Whether a record or statement of this digest has passed by; with ``least`` a statement, or a handoff."""
        # `fromhex` alone would take spaces and capitals too, which no writer and no other reader takes.
        return _DIGEST.fullmatch(digest) is not None and self.knows_raw(bytes.fromhex(digest), least)

    def knows_raw(self, digest: bytes, least: int = RECORD) -> bool:
        """The same of a digest's 32 bytes."""
        if least == RECORD and self._passed.near(digest):
            return True
        found = self._statements.get(digest)
        return least <= found if found is not None else least == RECORD and digest in self._passed

    def add(self, digest: str, kind: int = RECORD) -> None:
        """Note what has a digest: RECORD, STATEMENT or HANDOFF."""
        self.add_raw(bytes.fromhex(digest), kind)

    def add_raw(self, digest: bytes, kind: int = RECORD) -> None:
        """Note a digest (32 bytes) of a record or statement; no text is both."""
        if kind != RECORD:
            self._statements.add(digest, kind)
            return
        self._passed.add(digest)
        if self._before is not None:
            self.known_rows += digest

    # -- parts of a log -----------------------------------------------------------------------------------------------

    def follows(self, parts: set[Part], rows: bytes) -> bool:
        """Whether parts are there, and blobs that come next change nothing here: none is awaited, none differs."""
        get, absent = self.blobs.get, self._absent
        if not all(map(self.has, parts)):
            return False
        return all(
            get(digest) in (None, number) and digest not in absent for digest, number in ROW.iter_unpack(rows)
        )

    def merge(self, rows: memoryview, known: memoryview) -> None:
        """Take blobs and digests that come next."""
        blobs = self.blobs
        for digest, number in ROW.iter_unpack(rows):
            if digest not in blobs:
                blobs.add(digest, number)
        self._passed.extend(known)


def _as_node(part: Part) -> bool:
    return part.need == FOLD or part.need > 0
