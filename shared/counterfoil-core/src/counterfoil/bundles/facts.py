"""What the rules of a bundle look at in an entry; signatures are not looked at yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from counterfoil import canonical, notes, records, statements
from counterfoil.bundles.form import MAX_LIST
from counterfoil.bundles.scanner import is_hex
from counterfoil.citations import is_citation, read_list
from counterfoil.digest import MEDIA_JSON, Reference, is_reference, references_in, sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.entries import Entry
from counterfoil.errors import CounterfoilError
from counterfoil.views import belongs

__all__ = [
    "FOREIGN",
    "HERE",
    "SAID",
    "Cited",
    "CitedHead",
    "Facts",
    "Looked",
    "facts_of",
    "heads_of",
    "lists_in",
    "references_of",
    "signers_of",
]

FOREIGN: Final = 0
"""Cited by what others signed: it may stand in their evidence only."""
HERE: Final = 1
"""Cited by what was recorded here: its absence is a gap in the ancestry."""
SAID: Final = 2
"""Cited where its absence is a finding of the entry itself, which says enough."""

Cited = tuple[bytes, int]
"""A digest, and one of the three above."""
CitedHead = tuple[str, int, str, bool]
"""Origin, size and root of a checkpoint, and whether it is cited as the signer's own."""
Read = Callable[[Reference], bytes]
"""Bytes behind a reference, empty where they are not there."""


@dataclass(slots=True)
class Facts:
    """One entry. ``kind`` is record, handoff, receipt, binding, statement (of no known form) or unknown (version)."""

    log: str
    index: int
    kind: str
    line: int = 0
    offset: int = 0
    digest: bytes = b""
    op: str = ""
    run: str | None = None
    late: bool = False
    call: str | None = None
    phase: str | None = None
    parent: str | None = None
    cites: tuple[Cited, ...] = ()
    apart: tuple[Reference, int] | None = None
    about: bytes = b""
    key: str = ""
    recorded: bool = False
    wanted: bool = False


def facts_of(entry: Entry, origin: str) -> Facts:
    """What an entry of the log ``origin`` says about itself."""
    if records.is_record(entry.body):
        return _record(entry, origin)
    found = Facts(origin, entry.index, "statement")
    try:
        payload = Envelope.parse(entry.body).payload
    except CounterfoilError:
        return found
    found.digest = bytes.fromhex(sha256_hex(payload))
    try:
        predicate = statements.parse(payload).predicate
    except CounterfoilError:
        return found
    if isinstance(predicate, statements.Handoff):
        found.kind, found.key = "handoff", predicate.sender.key
        found.run = predicate.run if belongs(predicate, origin) else None
        own = predicate.sender.key == origin.partition("/")[0]
        found.recorded = predicate.proof == "recorded"
        sort = SAID if found.recorded else HERE if own else FOREIGN
        found.cites = tuple((bytes.fromhex(one.digest), sort) for one in predicate.parents)
        if predicate.authority is not None and predicate.authority.grant is not None:
            found.cites += ((bytes.fromhex(predicate.authority.grant), SAID),)
        if predicate.parentSet is not None:
            found.apart = (_list_of(predicate.parentSet), sort)
    elif isinstance(predicate, statements.Receipt):
        found.kind, found.key = "receipt", predicate.sender.key
        found.run = predicate.run if belongs(predicate, origin) else None
        found.about = bytes.fromhex(predicate.handoff)
        found.cites = ((found.about, SAID if predicate.status == "accepted" else FOREIGN),)
    elif isinstance(predicate, statements.Binding):
        found.kind, found.key = "binding", predicate.key
    else:
        found.kind = "weights"
    return found


def _record(entry: Entry, origin: str) -> Facts:
    content, context = entry.body["content"], entry.body["context"]
    digest = bytes.fromhex(sha256_hex(entry.body_bytes))
    found = Facts(origin, entry.index, "record", digest=digest, op=entry.op)
    found.run, found.call, found.parent = (_text(context.get(name)) for name in ("run", "call", "parent"))
    found.phase, found.late = _text(content.get("phase")), context.get("late") is True
    parents, received, about = context.get("parents"), context.get("handoffs"), content.get("handoff")
    if is_reference(parents):
        found.apart = (Reference.from_dict(parents), HERE)
    found.cites = (
        *((one, HERE) for one in _digests(parents)),
        *((bytes.fromhex(one), SAID) for one in (received if type(received) is list else ()) if is_hex(one)),
        *(((bytes.fromhex(str(about)), FOREIGN),) if is_hex(about) else ()),
    )
    return found


def lists_in(found: Facts, read: Read) -> Iterator[Cited]:
    """What an entry cites by a list that stands apart; a list that is none cites nothing."""
    if found.apart is None:
        return
    reference, sort = found.apart
    data = read(reference) if reference.size <= MAX_LIST else b""
    try:
        if found.kind == "handoff":
            yield from ((bytes.fromhex(one.digest), sort) for one in statements.parse_parents(data))
        else:
            yield from ((one, sort) for one in _digests(canonical.loads_canonical(data, max_bytes=MAX_LIST)))
    except CounterfoilError:
        return


class Looked:
    """The sessions' lists that one pass over a log looked into: each is once, for many may cite one that is long."""

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: set[tuple[str, int]] = set()

    def first(self, listed: Reference) -> bool:
        """Whether this is the first time, under whatever media type it is cited."""
        key = (listed.sha256, listed.size)
        new = key not in self._lists
        self._lists.add(key)
        return new


def references_of(entry: Entry, read: Read, looked: Looked) -> Iterator[Reference]:
    """What an entry references in its log."""
    if records.is_record(entry.body):
        yield from references_in(entry.body)
        if entry.op == "session":
            yield from (note for apart, _, note in _seen(entry, read, looked) if apart)
        return
    predicate = _predicate(entry)
    if isinstance(predicate, statements.Handoff):
        yield Reference(predicate.content.payload, predicate.payload.size, predicate.payload.media)
        if predicate.parentSet is not None:
            yield _list_of(predicate.parentSet)


def heads_of(entry: Entry, read: Read, looked: Looked) -> Iterator[CitedHead]:
    """The checkpoints that an entry cites, of whichever log."""
    if records.is_record(entry.body):
        if entry.op == "session":
            for _, _, note in _seen(entry, read, looked):
                try:
                    checkpoint = notes.in_one_form(notes.Note.parse(read(note)))
                except CounterfoilError:
                    continue
                yield checkpoint.origin, checkpoint.size, checkpoint.root.hex(), False
        return
    predicate = _predicate(entry)
    if isinstance(predicate, statements.Handoff | statements.Receipt):
        if predicate.own is not None:
            yield predicate.own.origin, predicate.own.size, predicate.own.root, True
        for head in predicate.seen or []:
            yield head.origin, head.size, head.root, False


def signers_of(entry: Entry) -> list[str]:
    """The keyids that a statement's envelope names."""
    if records.is_record(entry.body):
        return []
    try:
        return [one.keyid for one in Envelope.parse(entry.body).signatures]
    except CounterfoilError:
        return []


def _seen(entry: Entry, read: Read, looked: Looked) -> Iterator[tuple[bool, str, Reference]]:
    """(whether the list stands apart, log, its note) of the other logs that a session cites."""
    listed = entry.body["context"].get("seen")
    apart = is_reference(listed)
    if apart:
        reference = Reference.from_dict(listed)
        if not looked.first(reference):
            return
        try:
            listed = read_list(read(reference) if reference.size <= MAX_LIST else b"")
        except CounterfoilError:
            return
    for one in listed if type(listed) is list else []:
        if is_citation(one) and is_reference(one.get("note")):
            yield apart, one["log"], Reference.from_dict(one["note"])


def _predicate(entry: Entry) -> object:
    try:
        return statements.parse(Envelope.parse(entry.body).payload).predicate
    except CounterfoilError:
        return None


def _list_of(listed: statements.ParentSet) -> Reference:
    return Reference(listed.sha256, listed.size, MEDIA_JSON)


def _digests(listed: object) -> Iterator[bytes]:
    for one in listed if type(listed) is list else []:
        digest: Any = one.get("digest") if type(one) is dict else None
        if is_hex(digest):
            yield bytes.fromhex(digest)


def _text(value: object) -> str | None:
    return value if type(value) is str else None
