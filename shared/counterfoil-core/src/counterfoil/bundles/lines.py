"""Reads a bundle line by line and refuses the first line that is not in its one form (step 1 of verifying).

Every limit is looked at before the work it bounds: a line is never longer than 1 MiB, a blob passes in pieces.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterator
from typing import Any, Final

from counterfoil import notes, records, tree
from counterfoil.bundles.blobtext import blob
from counterfoil.bundles.events import Absent, Contents, Gap, Head, Key, Line, Section, SectionEnd, Text
from counterfoil.bundles.form import FIRST, MAX_COUNTS, MAX_GAP_HASHES, Walk, gap_sizes
from counterfoil.bundles.scanner import ANOTHER, Scanner, is_count, is_hex
from counterfoil.entries import MAX_ENTRY, ZERO, Entry
from counterfoil.errors import BundleError, CounterfoilError

__all__ = ["Lines", "entry_of"]

_ORIGIN: Final = re.compile(r"([0-9a-f]{64})/([0-9a-f]{16})")
_STAGES: Final = ("log", "blob", "absent", "key")


class Lines(Scanner):
    """Reads one bundle; ``events`` raises BundleError at the first line that is wrong, with its number."""

    def events(self) -> Iterator[Line]:
        """What the lines say, in order.

        Raises:
            BundleError: CF-BUNDLE-001 to 014, CF-LOG-021, CF-NOTE: ``shared/spec/bundle.md``, *Verifying*, step 1.
        """
        yield self._begin()
        at = 0
        value = self.next()
        while value is not None:
            kind = self.kind(value)
            stage = _STAGES.index(kind) if kind in _STAGES else -1
            if stage < at:
                self.refuse("003", "a line of this kind may not stand here")
            if stage > at:
                self.begin()
                at = stage
            if stage == 0:
                value = yield from self._section(value)
                continue
            yield blob(self, value) if stage == 1 else self._absent(value) if stage == 2 else self._key(value)
            value = self.next()
        self.finish()

    def _begin(self) -> Contents:
        first = self.members(self.next(), {"counterfoil", "v"})
        if first["counterfoil"] != "bundle" or type(first["v"]) is not int:
            self.refuse("003", "the first line is not a bundle's")
        if self.data != FIRST:
            self.refuse("001", "the bundle is of another version", hint="read it with a newer Counterfoil")
        value = self.members(self.next(), {"asked", "counts", "kind"})
        asked, counts = value["asked"], value["counts"]
        if (
            value["kind"] != "contents"
            or type(asked) is not dict
            or len(asked) != 1
            or type(counts) is not dict
        ):
            self.refuse("003", "the second line does not say what the bundle holds")
        kind, name = next(iter(asked.items()))
        right = type(name) is str and ((kind == "run" and 1 <= len(name) <= 64) or kind == "handoff")
        if not right or (kind == "handoff" and not is_hex(name)):
            self.refuse("003", "a bundle is of a run or a handoff")
        if counts.keys() != MAX_COUNTS.keys() or not all(map(is_count, counts.values())):
            self.refuse("003", "the counts are not those of a bundle")
        for key, most in MAX_COUNTS.items():
            if counts[key] > min(most, self.size):
                message = (
                    f"the bundle says it has more {key} than this file can hold: it was cut short, or lies"
                )
                self.refuse("004", message)
        self.expect(counts)
        return Contents(self.number, kind, name, counts)

    # -- the section of a log -----------------------------------------------------------------------------------------

    def _section(self, value: dict[str, Any]) -> Generator[Line, None, dict[str, Any] | None]:
        """One log; the line behind it, which is read already."""
        log = self._log(value)
        yield log
        walk, prev, gap, head, shown, last = Walk(), ZERO, False, 0, 0, self.number
        while (found := self.next()) is not None:
            kind = self.kind(found)
            if kind == "entry":
                entry = self._entry(found, log, walk.at, prev)
                walk.push(tree.leaf_hash(self.data), 1)
                prev, gap, shown = hashlib.sha256(self.data).hexdigest(), False, shown + 1
                yield Text(self.number, self.offset, walk.at - 1, entry)
            elif kind == "gap":
                if gap:
                    self.refuse("003", "a gap stands directly behind a gap")
                start = walk.at
                self._gap(found, walk, log.size)
                prev, gap = "", True
                yield Gap(self.number, start, walk.at - start)
            elif kind == "head":
                root = self._head(found, walk, head, log.size)
                head, gap = walk.at, False
                yield Head(self.number, walk.at, root)
            else:
                break
            last = self.number
        if not shown:
            self.refuse("003", "a log without an entry", first=log.line, last=last)
        if walk.at != log.size:
            message = f"the log goes to entry {walk.at}, its checkpoint is over {log.size}"
            self.refuse("011", message, first=log.line, last=last)
        if walk.root() != log.root:
            message = "what stands here is not what the log's checkpoint was signed over"
            self.refuse("012", message, first=log.line, last=last)
        yield SectionEnd()
        return found

    def _log(self, value: dict[str, Any]) -> Section:
        self.members(value, {"kind", "note", "spki"})
        note = value["note"]
        if type(note) is not str or type(value["spki"]) is not str:
            self.refuse("003", "a log line has a note and a key")
        origin = note.partition("\n")[0]
        self.sorted(origin)
        self.take("logs")
        public = self.key(value["spki"])
        named = _ORIGIN.fullmatch(origin)
        if named is None or named[1] != public.keyid:
            self.refuse("013", "the key is not the one that the log's origin names")
        try:
            checkpoint = notes.parse_own_checkpoint(note.encode(), notes.vkey(origin, public))
        except CounterfoilError as exc:
            raise BundleError(exc.message, code=exc.code, where=f"line {self.number}", hint=ANOTHER) from None
        return Section(self.number, origin, checkpoint.size, checkpoint.root, public)

    def _entry(self, value: dict[str, Any], log: Section, at: int, prev: str) -> Entry | None:
        if value.keys() != {"body", "i", "prev"} or not is_count(value["i"]) or not is_hex(value["prev"]):
            self.refuse("003", "a line has not the members of an entry")
        self.take("entries")
        if len(self.data) > MAX_ENTRY:
            self.refuse("010", "an entry is too long")
        if value["i"] != at or at >= log.size:
            self.refuse("010", f"entry {value['i']} stands where entry {at} should be")
        if prev and value["prev"] != prev:
            self.refuse("010", "an entry does not follow the one before: one of the two was changed")
        try:
            return entry_of(log.name, value, self.data, self.offset, f"line {self.number}")
        except CounterfoilError as exc:
            raise BundleError(exc.message, code=exc.code, where=f"line {self.number}", hint=ANOTHER) from None

    def _gap(self, value: dict[str, Any], walk: Walk, size: int) -> None:
        self.members(value, {"count", "hashes", "kind"})
        count, hashes = value["count"], value["hashes"]
        if not is_count(count) or not count or type(hashes) is not list or not all(map(is_hex, hashes)):
            self.refuse("003", "a gap has a count and hashes")
        if walk.at + count > size or len(hashes) > MAX_GAP_HASHES:
            self.refuse("011", "a gap goes beyond the log's checkpoint")
        sizes = list(gap_sizes(walk.at, count))
        if len(sizes) != len(hashes):
            self.refuse("011", f"a gap of {count} entries has {len(sizes)} hashes here")
        for one, width in zip(hashes, sizes, strict=True):
            walk.push(bytes.fromhex(one), width)

    def _head(self, value: dict[str, Any], walk: Walk, last: int, size: int) -> bytes:
        self.members(value, {"kind", "root", "size"})
        if not is_count(value["size"]) or not is_hex(value["root"]):
            self.refuse("003", "a head has a size and a root")
        if value["size"] != walk.at or not last < walk.at < size:
            self.refuse("003", "a head stands where it does not belong")
        root = walk.root()
        if value["root"] != root.hex():
            self.refuse("012", "what stands before this head is not what it was the root of")
        return root

    # -- absent, keys -------------------------------------------------------------------------------------------------

    def _absent(self, value: dict[str, Any]) -> Absent:
        self.members(value, {"digest", "kind"})
        if not is_hex(value["digest"]):
            self.refuse("003", "an absent line has a digest")
        self.sorted(value["digest"])
        self.take("absent")
        return Absent(self.number, value["digest"])

    def _key(self, value: dict[str, Any]) -> Key:
        self.members(value, {"kind", "spki"})
        if type(value["spki"]) is not str:
            self.refuse("003", "a key line has a key")
        public = self.key(value["spki"])
        self.sorted(public.keyid)
        self.take("keys")
        return Key(self.number, public)


def entry_of(log: str, value: dict[str, Any], data: bytes, offset: int, where: str) -> Entry | None:
    """An entry from its line; None where it is of a later version, LogError (CF-LOG-021) where it is of no form."""
    try:
        body = records.parse_body(value["body"], where)
    except CounterfoilError as exc:
        if exc.code == "CF-LOG-022":
            return None
        raise
    # `{"body":` is 8 bytes; behind the body stand `,"i":N,"prev":"<64>"}`.
    raw = data[8 : len(data) - len(b',"i":,"prev":""}') - 64 - len(str(value["i"]))]
    cited, nulls, floats = records.look(body)
    op = "statement" if "payload" in body else body["content"]["op"]
    digest = hashlib.sha256(data).hexdigest()
    return Entry(log, value["i"], digest, body, raw, 0, offset, op, cited, not (nulls or floats))
