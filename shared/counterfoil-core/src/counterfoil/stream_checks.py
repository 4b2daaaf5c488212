"""Checks what records state of token streams: the digests are those of the parts that are stored.

Looked at are only records that state one. Each part is read once, right after it passed by, as long as a stream is no
longer than what is kept at hand. Source: ``shared/spec/streams.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol

from counterfoil import canonical
from counterfoil.before import Before, NotAlone
from counterfoil.digest import MEDIA_BYTES, MEDIA_JSON, Reference, is_reference, looks_like_reference
from counterfoil.entries import same
from counterfoil.errors import CounterfoilError
from counterfoil.frames import MAX_PART, Running

__all__ = ["CODE", "StreamCheck", "states"]

CODE: Final = "CF-VERIFY-013"
_HEX64: Final = re.compile("[0-9a-f]{64}")
_MOST_LIST: Final = 64 << 20


class Source(Protocol):
    """Where stored bytes are."""

    def there(self, ref: Reference) -> bool:
        """Whether a reference's bytes are stored, and all that they cite."""

    def read(self, ref: Reference) -> bytes:
        """Bytes of a list, or of a part of a stream."""


class _Wrong(Exception):
    """What is stated is not so."""


class _Absent(Exception):
    """Stored bytes are missing, which another finding says."""


def states(content: dict[str, Any], context: dict[str, Any]) -> bool:
    """Whether a record states a stream of the version that is known here."""
    stream = context.get("stream")
    return type(stream) is dict and type(stream.get("v")) is int and stream["v"] == 1


class StreamCheck:
    """Streams of one log in the order of its records; ``open`` are those with a checkpoint and without an end.

    ``told`` are streams that began or ended, and lists of parts: each is looked into once, however often it is named.

    With ``before`` only a part of the log passes by; unless ``whole`` its checkpoints of streams may be missing.
    """

    def __init__(self, stored: Source, *, before: Before | None = None, whole: bool = True) -> None:
        self.open: dict[str, Running] = {}
        self.told: set[str] = set()
        self._stored = stored
        self._before = before
        self._whole = whole

    def fault(self, content: dict[str, Any], context: dict[str, Any]) -> str:
        """What is wrong with the stream that a record states; empty where nothing is, or none can be told.

        Raises StoreError where the disk fails, NotAlone.
        """
        phase, stream = content.get("phase"), context["stream"]
        try:
            if content["op"] == "stream" and phase == "point":
                if self._whole:
                    self._checkpoint(stream)
            elif phase == "end" and context.get("late") is not True:
                self._end(context.get("call"), stream)
        except _Absent:
            return ""
        except _Wrong as exc:
            return str(exc)
        return ""

    def _checkpoint(self, stream: dict[str, Any]) -> None:
        call, number = stream.get("call"), stream.get("number")
        if (
            type(call) is not str
            or type(number) is not int
            or number < 1
            or not _counted(stream.get("frames"))
        ):
            raise _Wrong("a stream's checkpoint lacks what it has to say")
        known = self._met(call)
        if "part" not in stream or (number == 1 and not self._first(f"begun {call}")):
            return
        running = Running(call) if number == 1 else known
        if running is None and self._before is not None:
            raise NotAlone
        if running is None and f"begun {call}" in self.told:
            return  # it follows one that was passed over, or that was wrong
        if running is None or running.number != number - 1:
            raise _Wrong("a stream's checkpoint does not follow the one before")
        self._take(running, _part(stream["part"]))
        if not same(running.frames(), stream["frames"]):
            raise _Wrong("the frames of a stream are not those of its checkpoint")
        self.open[call] = running

    def _end(self, call: object, stream: dict[str, Any]) -> None:
        running = self._met(call) if type(call) is str else None
        if type(call) is not str or not _is_end(stream):
            raise _Wrong("what is stated of a stream is no such thing")
        if "parts" not in stream or not self._first(f"ended {call}"):
            return
        parts = list(self._listed(stream["parts"]))
        begun = running.number if running is not None else 0
        if running is None or not running.lists(one.sha256 for one in parts[:begun]):
            running, begun = Running(call), 0
        for one in parts[begun:]:
            self._take(running, one)
        found = running.stated()
        if not all(same(found.get(name), stream.get(name)) for name in _DIGESTS):
            raise _Wrong("the digests stated of a stream are not those of its stored parts")

    def _listed(self, parts: Any) -> Iterator[Reference]:
        if is_reference(parts):
            apart = Reference.from_dict(parts)
            if not self._stored.there(apart):
                raise _Absent
            if not self._first(f"list {apart.sha256}"):
                raise _Wrong("the list of a stream's parts is another stream's")
            try:
                read = self._stored.read(apart) if apart.media == MEDIA_JSON else b""
                parts = canonical.loads_canonical(read, max_bytes=_MOST_LIST)
            except CounterfoilError as exc:
                if exc.code.startswith("CF-STORE"):
                    raise
                raise _Wrong("the list of a stream's parts cannot be read") from exc
            if type(parts) is list:
                parts = [
                    one["$ref"] if type(one) is dict and one.keys() == {"$ref"} else None for one in parts
                ]
        if type(parts) is not list:
            raise _Wrong("a stream's parts are no list")
        for one in parts:
            yield _part(one)

    def _met(self, call: str) -> Running | None:
        """The open stream of a call, which is open no more."""
        if self._before is not None:
            self.told.add(f"met {call}")
        return self.open.pop(call, None)

    def meets(self, told: set[str]) -> bool:
        """Whether a part of the log that told this says anything of a stream that is open before it."""
        return any(f"met {call}" in told for call in self.open) or not self.told.isdisjoint(told)

    def _first(self, name: str) -> bool:
        new = name not in self.told
        self.told.add(name)
        return new

    def _take(self, running: Running, part: Reference) -> None:
        if not self._stored.there(part):
            raise _Absent
        if part.size > MAX_PART:
            raise _Wrong("a part of a stream is too long")
        try:
            running.read(self._stored.read(part))
        except ValueError as exc:
            raise _Wrong(f"a part of a stream is none: {exc}") from exc


_DIGESTS: Final = ("bytes", "content", "frames", "sampling", "timing")
"""Members that have to be what the parts give; others are passed over."""


def _part(value: object) -> Reference:
    if looks_like_reference(value) and not is_reference(value):
        raise _Absent
    if not is_reference(value) or value["media"] != MEDIA_BYTES:  # type: ignore[index]
        raise _Wrong("what is cited as a part of a stream is none")
    return Reference.from_dict(value)


def _counted(value: object) -> bool:
    return (
        type(value) is dict
        and value.keys() == {"count", "sha256"}
        and type(value["count"]) is int
        and value["count"] >= 0
        and _is_digest(value["sha256"])
    )


def _is_digest(value: object) -> bool:
    return type(value) is str and _HEX64.fullmatch(value) is not None


def _is_end(stream: dict[str, Any]) -> bool:
    content, size = stream.get("content"), stream.get("bytes")
    return (
        type(content) is dict
        and all(map(_is_digest, content.values()))
        and type(size) is int
        and size >= 0
        and type(stream.get("end")) is str
        and stream["end"] != ""
        and _counted(stream.get("frames"))
        and ("sampling" not in stream or _counted(stream["sampling"]))
        and _is_digest(stream.get("timing"))
    )
