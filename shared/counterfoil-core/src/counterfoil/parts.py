"""Checks one segment alone, so that many are checked side by side, on this machine or on others.

``check_part`` is a plain function of plain data: whoever runs it needs the segment's file, nothing else. It does what
costs time (decompress, hash, parse, chain, look into values, verify signatures) and judges records; statements,
sessions and checkpoints, whose checks depend on all that stands before, are handed on in their order. What it had to
believe about earlier segments stands in ``Before``; ``judge_part`` holds that against what is really there and goes on
from it, or says that the segment has to be read in order. Either way the outcome is that of reading in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from counterfoil.before import Before, NotAlone
from counterfoil.entries import OWN, BlobSeen, CheckpointSeen, Entry, Event
from counterfoil.findings import MOST, Verdict
from counterfoil.log import LogScan, State, Step
from counterfoil.moulds import Known
from counterfoil.opening import Opened, opened
from counterfoil.proving import Proven, Signatory
from counterfoil.record_checks import RecordCheck, Ties
from counterfoil.stored import Stored
from counterfoil.stores import FolderStore, open_elsewhere

if TYPE_CHECKING:
    from counterfoil.checks import (
        LogCheck,
    )  # processes that check parts start faster without the models it needs

__all__ = ["Part", "Task", "check_part", "judge_part", "keys_in"]

_LOOK: Final = 1 << 20
"""Bytes of a session's first segment that are looked through for the keys of actors."""


_ASKED: Final = 1 << 16
"""Questions about what stands before a segment that are kept for whoever knows it."""


class _Own(threading.local):
    """What the parts that one thread checks have in common: workers of some engines are threads."""

    def __init__(self) -> None:
        self.known = Known()


_OWN: Final = _Own()


class Task(NamedTuple):
    """A segment to check: where it is (as ``Place.elsewhere`` tells it), its log, how to read it, and public keys
    (32 bytes) by fingerprint; ``packed``: what comes of it is to be compressed.
    """

    place: dict[str, Any]
    log: str
    step: Step
    keys: dict[str, bytes]
    packed: bool = False


class Said(NamedTuple):
    """A finding; ``digest`` is not empty where it is one only if this digest is unknown by then."""

    code: str
    at: str
    message: str
    verdict: Verdict
    asked: bool
    digest: object


class Signed(NamedTuple):
    """A plain envelope: its index, what is in it, and the key (32 bytes) that signed it, none where it is not known."""

    index: int  # type: ignore[assignment]
    envelope: Opened
    signer: bytes


class Part(NamedTuple):
    """What checking a segment gave.

    ``items`` are findings and what is handed on, in order, each behind how many bytes of ``rows`` (blobs) and
    ``known`` (digests of records) stand before it; ``valid`` marks signatures that verified (``Proven``).
    """

    start: tuple[int, str, int, list[bytes]]
    state: State
    before: Before
    ties: Ties
    records: int
    rows: bytes
    known: bytes
    citable: dict[bytes, tuple[int, int, int, int]]
    noted: dict[bytes, bytes]
    items: list[tuple[int, int, Said | Event | Signed]]
    more: dict[Verdict, int]
    valid: set[bytes]
    keys: dict[str, bytes]
    told: set[str]


def check_part(task: Task, told: Callable[[int], None] | None = None) -> Part | None:
    """Check one segment; None when it has to be read in order. ``told`` hears now and then how many bytes were read.

    Raises CounterfoilError or OSError where it cannot be read from here: it has to be read in order then, too.
    """
    try:
        return _check(task, told)
    except NotAlone:
        return None


def _check(task: Task, told: Callable[[int], None] | None) -> Part | None:
    store = open_elsewhere(task.place, task.log, task.step.number)
    store.on_read = told
    scan = LogScan(store, task.log)
    if not scan.start_at(task.step.number):
        with store.open_segment(task.log, task.step.number):
            return None  # it is there
    start = (scan.index, scan.prev, scan.tree.size, scan.tree.peaks())
    before = Before()
    stored = Stored(store, task.log, before=before, known=_OWN.known)
    items: list[tuple[int, int, Said | Event | Signed]] = []
    more: dict[Verdict, int] = {}
    rows, known = stored.rows, stored.known_rows

    said = asked = 0

    def say(code: str, at: str, message: str, *, verdict: Verdict = "broken") -> None:
        nonlocal said
        said += 1  # questions do not count: nobody knows here whether they are findings
        if said > MOST:
            more[verdict] = more.get(verdict, 0) + 1
        else:
            items.append((len(rows), len(known), Said(code, at, message, verdict, False, "")))

    def ask(code: str, at: str, message: str, digest: object) -> None:
        nonlocal asked
        # Statements are judged where all of the log passes by.
        if code == "CF-VERIFY-011" or type(digest) is not str or not stored.knows(digest):
            asked += 1
            if asked > _ASKED:
                raise NotAlone  # in order it is known at once which of so many are findings, and few of them are kept
            items.append((len(rows), len(known), Said(code, at, message, "broken", True, digest)))

    check = RecordCheck(stored, say, ask, before=before, known=_OWN.known)
    signatures = Signatory(task.keys)

    def sealed(body: bytes) -> bool:
        envelope = opened(body)
        if envelope is None or b'"urn:counterfoil:binding:' in envelope.payload:
            return False
        signer = signatures.signer(envelope)
        items.append((len(rows), len(known), Signed(scan.index, envelope, signer)))
        return True

    scan.shorts = (check.short, sealed)
    for event in scan.read(task.step):
        if isinstance(event, BlobSeen):
            stored.blob(event)
        elif not isinstance(event, Entry):
            if isinstance(event, CheckpointSeen):
                signatures.note(event.note)
            items.append((len(rows), len(known), event))
        elif event.op not in OWN and "payload" not in event.body:
            check.check(event)
        else:
            if event.op in OWN:
                if event.body["content"].get("phase") in ("start", "end"):
                    raise NotAlone  # it is judged later than the calls it would be one of
                if event.op == "session":
                    signatures.session(event.body["context"].get("spki"))
            else:
                signatures.verify(event.body)
                event = event._replace(
                    body={}
                )  # read again where it is judged: that is faster than sending it
            items.append((len(rows), len(known), event))
    if check.streams.open:
        raise NotAlone  # a stream goes on in the next segment
    return Part(
        start,
        scan.state(),
        before,
        check.ties(),
        check.count,
        bytes(rows),
        bytes(known),
        stored.citable,
        stored.noted,
        items,
        more,
        signatures.valid,
        signatures.learned,
        check.streams.told,
    )


def keys_in(store: FolderStore, log: str, step: Step) -> dict[str, bytes]:
    """Public keys that a segment names near its beginning: the identity's and those of actors.

    Only to spare others the wait for them: that they are bound is judged where it counts.
    """
    found = Signatory({})
    for event in LogScan(store, log).read(step):
        if isinstance(event, Entry):
            if event.op == "statement":
                found.verify(event.body)
            elif event.op == "session":
                found.session(event.body["context"].get("spki"))
            if event.offset > _LOOK:
                break
    return found.learned


# -- going on from a part ---------------------------------------------------------------------------------------------


def judge_part(check: LogCheck, part: Part, proven: Proven) -> bool:
    """Go on from what checking the next segment alone gave; False, nothing done, when it has to be read in order."""
    scan, stored, before = check.scan, check.stored, part.before
    if part.start != (scan.index, scan.prev, scan.tree.size, scan.tree.peaks()) or part.state.unread:
        return False
    if not check.records.follows(before, part.ties.touched) or not stored.follows(before.parts, part.rows):
        return False
    if check.records.streams.meets(part.told):
        return False
    check.records.streams.told |= part.told
    proven.take(part.valid)
    for digest, place in part.citable.items():
        stored.citable.setdefault(digest, place)
    for digest, note in part.noted.items():
        stored.noted.setdefault(digest, note)
    rows, known = memoryview(part.rows), memoryview(part.known)
    rows_done = known_done = 0
    for rows_now, known_now, item in part.items:
        stored.merge(rows[rows_done:rows_now], known[known_done:known_now])
        rows_done, known_done = rows_now, known_now
        if isinstance(item, Said):
            if item.asked:
                check.ask(item.code, item.at, item.message, item.digest)
            else:
                check.say(item.code, item.at, item.message, verdict=item.verdict)
        elif isinstance(item, Signed):
            proven.signer = item.signer
            if not check.statements.plain(item.envelope):
                body = item.envelope.body()
                check.take(Entry(check.name, item.index, "", body, b"", 0, 0, "statement", [], True))
            proven.signer = b""
        elif isinstance(item, Entry) and not item.body:
            check.take(item._replace(body=orjson.loads(item.body_bytes)))
        else:
            check.take(item)
    stored.merge(rows[rows_done:], known[known_done:])
    check.records.merge(part.ties, before)
    check.records.count += part.records
    check.findings.count(part.more)
    scan.go_on(part.state)
    proven.take(set())
    return True
