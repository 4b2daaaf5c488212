"""Reads what a worker answered: strictly, and never by unpickling.

A worker is believed in what it says of a segment, as the processes of this machine are. That what it says has a form
which the rest can go on from is checked here, so that a damaged answer costs time and nothing else.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

import orjson
import zstandard

from counterfoil import records, shapes
from counterfoil.before import Before
from counterfoil.engines.form import LENGTH, MAGIC, PACKED, No
from counterfoil.entries import CheckpointSeen, Entry, NoteBehind, Problem
from counterfoil.errors import CounterfoilError
from counterfoil.findings import EXIT_CODES
from counterfoil.log import State
from counterfoil.opening import Opened
from counterfoil.packed import ROW
from counterfoil.parts import Part, Said, Signed
from counterfoil.record_checks import Ties
from counterfoil.tree import Tree

__all__ = ["NotAnAnswer", "unpack_answer"]

_MOST: Final = 2 << 30
"""Bytes of an answer: some times what a segment may hold."""
_HEX64: Final = re.compile(r"[0-9a-f]{64}").fullmatch
T = TypeVar("T")


class NotAnAnswer(ValueError):
    """Bytes that are no answer of this version."""


def unpack_answer(data: bytes | bytearray, log: str) -> Part | No:
    """The part of ``log``, or why there is none; raises NotAnAnswer for everything else."""
    try:
        if data[:4] == PACKED:
            # What a frame says of its size is taken at once, whatever ``max_output_size`` is.
            if zstandard.frame_content_size(bytes(data[4:24])) > _MOST:
                raise NotAnAnswer
            data = zstandard.ZstdDecompressor().decompress(
                memoryview(data)[4:], max_output_size=_MOST, allow_extra_data=False
            )
        told, tail = _opened(data)
        if told.keys() == {"no"}:
            return No(_text(told["no"]))
        part = _part(told, tail, log)
        tail.done()
        return part
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        RecursionError,
        struct.error,
        zstandard.ZstdError,
        CounterfoilError,
    ) as exc:
        raise NotAnAnswer("what a worker answered is no answer") from exc


class _Tail:
    """Bytes behind the text, taken from the front."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        end = self._at + _count(length)
        if end > len(self._data):
            raise NotAnAnswer
        found = bytes(self._data[self._at : end])
        self._at = end
        return found

    def several(self, number: int) -> list[bytes]:
        data = self.take(32 * _count(number))
        return [data[at : at + 32] for at in range(0, len(data), 32)]

    def done(self) -> None:
        if self._at != len(self._data):
            raise NotAnAnswer


def _opened(data: bytes | bytearray) -> tuple[dict[str, Any], _Tail]:
    view = memoryview(data)
    if bytes(view[:4]) != MAGIC or len(view) > _MOST:
        raise NotAnAnswer
    end = 8 + LENGTH.unpack(view[4:8])[0]
    told = orjson.loads(view[8:end])
    if type(told) is not dict or end > len(view):
        raise NotAnAnswer
    return told, _Tail(view[end:])


def _part(told: dict[str, Any], tail: _Tail, log: str) -> Part:
    rows_length, known_length = told["lengths"]
    rows, known = tail.take(rows_length), tail.take(known_length)
    if len(rows) % ROW.size or len(known) % 32 or max(rows[ROW.size - 1 :: ROW.size], default=0) > 127:
        raise NotAnAnswer  # a number of a digest is below 2^63
    events = [_read_event(one, tail, log) for one in _listed(told["events"])]
    believed = told["before"]
    parts = [(_integer(size), _integer(need)) for size, need in _listed(believed["parts"])]
    digests = tail.several(len(parts))
    before = Before(
        {shapes.Part(digest, *part) for digest, part in zip(digests, parts, strict=True)},
        set(_texts(believed["open"])),
        {run: (_count(one), _count(other)) for run, (one, other) in _named(believed["totals"]).items()},
    )
    valid = set(tail.several(told["valid"]))
    noted_at = tail.several(len(told["noted"]))
    noted = {digest: tail.take(length) for digest, length in zip(noted_at, told["noted"], strict=True)}
    places = [_place(one) for one in _listed(told["citable"])]
    citable = dict(zip(tail.several(len(places)), places, strict=True))
    signed = _signed(told["signed"], tail)
    said = [_said(*one) for one in _listed(told["said"])]
    kinds, at_rows, at_known = told["items"]
    _positions(at_rows, len(rows), ROW.size)
    _positions(at_known, len(known), 32)
    queues = {"s": iter(signed), "f": iter(said), "e": iter(events)}
    items: list[Any] = [
        (at, other, next(queues[kind])) for kind, at, other in zip(kinds, at_rows, at_known, strict=True)
    ]
    if len(items) != len(signed) + len(said) + len(events):
        raise NotAnAnswer
    index, prev, size, peaks = told["start"]
    opened, started, ended, runs, touched = told["ties"]
    return Part(
        (_count(index), _digest(prev), _count(size), [bytes.fromhex(peak) for peak in peaks]),
        _read_state(*told["state"]),
        before,
        Ties(
            dict(zip(_named(opened), _texts(list(opened.values())), strict=True)),
            _counts(started),
            _counts(ended),
            _count(runs),
            set(_texts(touched)),
        ),
        _count(told["records"]),
        rows,
        known,
        citable,
        noted,
        items,
        {_verdict(one): count for one, count in _counts(told["more"]).items()},
        valid,
        {_digest(name): _of(32, bytes.fromhex(raw)) for name, raw in _named(told["keys"]).items()},
        set(_texts(told["streams"])),
    )


def _signed(told: list[Any], tail: _Tail) -> list[Signed]:
    keyids, signers, index, keyid, signer, length = told
    keys = [_digest(one).encode() for one in keyids]
    raws = [bytes.fromhex(one) for one in signers]
    if any(len(raw) not in (0, 32) for raw in raws):
        raise NotAnAnswer
    for column in (index, keyid, signer, length):
        _integers(column)
    return [
        Signed(at, Opened(keys[whose], tail.take(64), tail.take(size)), raws[who])
        for at, whose, who, size in zip(index, keyid, signer, length, strict=True)
    ]


def _read_event(one: list[Any], tail: _Tail, log: str) -> Entry | CheckpointSeen | NoteBehind | Problem:
    kind, length, *rest = one
    if kind == "checkpoint":
        size, segment, end, stored_ok = rest
        root, note = tail.take(32), tail.take(length)
        return CheckpointSeen(
            note, _count(size), root, _count(segment), _count(end), _of_type(bool, stored_ok)
        )
    if kind == "entry":
        index, digest, segment, offset, op, cited, plain = rest
        raw = tail.take(length)
        body = records.parse_body(orjson.loads(raw), log)
        if op != ("statement" if "payload" in body else body["content"]["op"]):
            raise NotAnAnswer
        refs = [(_text(name), _integer(size), _text(media)) for name, size, media in _listed(cited)]
        return Entry(
            log,
            _count(index),
            _digest(digest),
            {}
            if op == "statement"
            else body,  # many statements at once would take their memory many times over
            raw,
            _count(segment),
            _count(offset),
            op,
            refs,
            _of_type(bool, plain),
        )
    if kind == "behind":
        return NoteBehind(tail.take(length), _count(rest[0]), _count(rest[1]))
    if kind != "problem":
        raise NotAnAnswer
    code, where, message, torn, unknown = rest
    return Problem(_text(code), _text(where), _text(message), _of_type(bool, torn), _of_type(bool, unknown))


def _read_state(
    index: int,
    prev: str,
    peaks: list[str],
    segment: int,
    good: int,
    covered: int,
    noted: int,
    note: str | None,
    clean: bool,
    broken: bool,
    unread: bool,
    suspects: list[list[int]],
) -> State:
    raw = [bytes.fromhex(peak) for peak in peaks]
    Tree.from_peaks(_count(index), raw)
    last = None if note is None else bytes.fromhex(note)
    clean, broken, unread = (_of_type(bool, one) for one in (clean, broken, unread))
    ends = [_integer(one) for one in (segment, good, covered, noted)]
    found = {_count(number): _count(at) for number, at in suspects}
    return State(
        index, _digest(prev), raw, ends[0], ends[1], ends[2], ends[3], last, clean, broken, unread, found
    )


def _said(code: str, at: str, message: str, verdict: str, asked: bool, told: str | list[str] | None) -> Said:
    if told is not None:
        _texts(told if type(told) is list else [told])
    digest = tuple(told) if type(told) is list else told
    return Said(_text(code), _text(at), _text(message), _verdict(verdict), _of_type(bool, asked), digest)


# -- types ------------------------------------------------------------------------------------------------------------


def _of_type(kind: type[T], value: object) -> T:
    if type(value) is not kind:
        raise NotAnAnswer
    return value


def _text(value: object) -> str:
    return _of_type(str, value)


def _integer(value: object) -> int:
    return _of_type(int, value)


def _count(value: object) -> int:
    number = _of_type(int, value)
    if number < 0:
        raise NotAnAnswer
    return number


def _listed(value: object) -> list[Any]:
    return _of_type(list, value)


def _named(value: object) -> dict[str, Any]:
    return _of_type(dict, value)


def _digest(value: object) -> str:
    text = _text(value)
    if _HEX64(text) is None:
        raise NotAnAnswer
    return text


def _verdict(value: object) -> Any:
    if value not in EXIT_CODES:
        raise NotAnAnswer
    return value


def _of(length: int, data: bytes) -> bytes:
    if len(data) != length:
        raise NotAnAnswer
    return data


def _texts(values: object) -> list[str]:
    listed = _listed(values)
    if not all(type(one) is str for one in listed):
        raise NotAnAnswer
    return listed


def _integers(values: object) -> list[int]:
    listed = _listed(values)
    if not all(type(one) is int for one in listed) or min(listed, default=0) < 0:
        raise NotAnAnswer
    return listed


def _counts(values: object) -> dict[str, int]:
    named = _named(values)
    _integers(list(named.values()))
    return named


def _place(value: Sequence[int]) -> tuple[int, int, int, int]:
    one, two, three, four = _integers(value)
    return one, two, three, four


def _positions(values: object, end: int, step: int) -> None:
    """How many bytes stand before each item: whole rows, never fewer than before the item before."""
    listed = _integers(values)
    if any(one % step for one in listed) or any(one > other for one, other in pairwise([*listed, end])):
        raise NotAnAnswer
