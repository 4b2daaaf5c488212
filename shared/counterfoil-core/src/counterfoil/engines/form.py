"""Tasks and answers as plain data: what goes to a worker and comes back is read strictly and never unpickled.

Not a format of evidence: both ends are one version of Counterfoil, which an engine makes sure of before it begins.
An answer is ``CFP1``, the length of a JSON text, the text, and bytes that the text tells how to part
(``counterfoil.engines.answers`` does); or ``CFZ1`` and that as one zstd frame.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson
import zstandard

from counterfoil.entries import CheckpointSeen, Entry, NoteBehind, Problem
from counterfoil.log import State, Step
from counterfoil.parts import Part, Said, Signed, Task

__all__ = ["LENGTH", "MAGIC", "PACKED", "No", "pack_no", "pack_part", "pack_task", "unpack_task"]

MAGIC: Final = b"CFP1"
PACKED: Final = b"CFZ1"
LENGTH: Final = struct.Struct("<I")


class No(NamedTuple):
    """Why there is no part: nothing (the segment has to be read in order), or what went wrong on the worker."""

    reason: str


# -- tasks ------------------------------------------------------------------------------------------------------------


def pack_task(task: Task) -> bytes:
    """A task as JSON; the standard library's, which takes the name of any folder."""
    keys = {name: raw.hex() for name, raw in task.keys.items()}
    told = {"keys": keys, "log": task.log, "packed": task.packed, "place": task.place, "step": task.step}
    return json.dumps(told).encode()


def unpack_task(data: bytes) -> Task:
    """The task again; raises ValueError, TypeError or KeyError."""
    told = json.loads(data)
    keys = {name: bytes.fromhex(raw) for name, raw in told["keys"].items()}
    return Task(told["place"], told["log"], Step(*told["step"]), keys, told["packed"])


# -- answers: packing -------------------------------------------------------------------------------------------------


def pack_no(reason: str) -> bytes:
    """An answer without a part."""
    return _framed({"no": reason}, ())


def pack_part(part: Part, *, packed: bool = False) -> bytes:
    """A part; raises ValueError or TypeError for what JSON cannot say, which no part of readable evidence holds."""
    tail: list[bytes] = [part.rows, part.known]
    at_rows, at_known, said, events = [], [], [], []
    signed, kinds = _SignedOut(), []
    for rows, known, item in part.items:
        at_rows.append(rows)
        at_known.append(known)
        if isinstance(item, Signed):
            kinds.append("s")
            signed.add(item)
        elif isinstance(item, Said):
            kinds.append("f")
            said.append([*item[:5], item.digest if isinstance(item.digest, str | tuple) else None])
        else:
            kinds.append("e")
            events.append(_event(item, tail))
    before, ties = part.before, part.ties
    believed = sorted(before.parts)
    tail += (one.digest for one in believed)
    tail += sorted(part.valid)
    tail += part.noted
    tail += part.noted.values()
    tail += part.citable
    tail += signed.tail
    told = {
        "before": {
            "open": sorted(before.open),
            "parts": [[one.size, one.need] for one in believed],
            "totals": before.totals,
        },
        "citable": list(part.citable.values()),
        "events": events,
        "items": ["".join(kinds), at_rows, at_known],
        "keys": {name: raw.hex() for name, raw in part.keys.items()},
        "lengths": [len(part.rows), len(part.known)],
        "more": part.more,
        "noted": [len(one) for one in part.noted.values()],
        "records": part.records,
        "said": said,
        "signed": signed.told,
        "start": [*part.start[:3], [peak.hex() for peak in part.start[3]]],
        "state": _state(part.state),
        "streams": sorted(part.told),
        "ties": [ties.open, ties.started, ties.ended, ties.runs, sorted(ties.touched)],
        "valid": len(part.valid),
    }
    data = _framed(told, tail)
    return PACKED + zstandard.ZstdCompressor(level=1).compress(data) if packed else data


def _framed(told: dict[str, Any], tail: Iterable[bytes]) -> bytes:
    text = orjson.dumps(told)
    return b"".join((MAGIC, LENGTH.pack(len(text)), text, *tail))


class _SignedOut:
    """Plain envelopes, member by member: as many lists as there are members, whatever their number."""

    def __init__(self) -> None:
        self._tables: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        self._columns: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
        self.tail: list[bytes] = []

    def add(self, one: Signed) -> None:
        keyids, signers = self._tables
        index, keyid, signer, length = self._columns
        index.append(one.index)
        keyid.append(keyids.setdefault(one.envelope.keyid, len(keyids)))
        signer.append(signers.setdefault(one.signer, len(signers)))
        length.append(len(one.envelope.payload))
        self.tail += (one.envelope.sig, one.envelope.payload)

    @property
    def told(self) -> list[Any]:
        keyids, signers = self._tables
        return [[one.decode() for one in keyids], [one.hex() for one in signers], *self._columns]


def _state(state: State) -> list[Any]:
    note = None if state.last_note is None else state.last_note.hex()
    suspects = [[number, good] for number, good in state.suspects.items()]
    return [*state[:2], [peak.hex() for peak in state.peaks], *state[3:7], note, *state[8:11], suspects]


def _event(event: Entry | CheckpointSeen | NoteBehind | Problem | Any, tail: list[bytes]) -> list[Any]:
    if isinstance(event, CheckpointSeen):
        tail += (event.root, event.note)
        return ["checkpoint", len(event.note), event.size, event.segment, event.end, event.stored_ok]
    if isinstance(event, Entry):
        tail.append(event.body_bytes)
        return ["entry", len(event.body_bytes), *event[1:3], *event[5:]]
    if isinstance(event, NoteBehind):
        tail.append(event.note)
        return ["behind", len(event.note), event.index, event.segment]
    return ["problem", 0, event.code, event.where, event.message, event.torn, event.unknown]
