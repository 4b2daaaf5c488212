"""Stored values in a few lines: of a long one its start, of a list of messages the last ones; never more than said.

Evidence decides neither how much is read nor how much is shown: few stored bytes that cite each other can stand for
very many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from counterfoil import canonical
from counterfoil.digest import MEDIA_FOLD, MEDIA_JSON, MEDIA_TEXT, Reference, is_reference
from counterfoil.errors import CounterfoilError
from counterfoil.reader import Reader

__all__ = ["Excerpts", "bounded"]

CHARACTERS: Final = 1_200
"""Of one excerpt."""
PAGE: Final = 1_500_000
"""Of all excerpts of a page."""
_TEXT: Final = 400
_LINES: Final = 60
_LAST: Final = 6
_BYTES: Final = 1 << 20
_BLOBS: Final = 500
_DEPTH: Final = 60


class Excerpts:
    """Makes the excerpts of one page, until there is no more room for any."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._left = PAGE
        self.refused = 0
        """Values that there was no more room for."""

    def of(self, reference: Reference) -> str | None:
        """A value in at most ``CHARACTERS``, as text (not safe to print); None when the page is full."""
        if self._left < CHARACTERS:
            self.refused += 1
            return None
        value = bounded(self._reader, reference, last=_LAST)
        lines = list(islice(_lines(value, 0), _LINES + 1))
        more = len(lines) > _LINES
        text = "\n".join(lines[:_LINES])
        if len(text) > CHARACTERS or more:
            text = text[:CHARACTERS] + "\n[shortened]"
        self._left -= len(text)
        return text

    def charge(self, characters: int) -> None:
        """So much more came of it when it was made safe."""
        self._left -= characters


def bounded(reader: Reader, reference: Reference, *, last: int | None = None, most: int = _BYTES) -> Any:
    """The value behind a reference as far as ``most`` bytes go; what is not read is a text that says so.

    ``last``: of a list that is stored by its elements, only the last ones.
    """
    return _Bounded(reader, last, most).of(reference, 0)


class _Bounded:
    def __init__(self, reader: Reader, last: int | None, most: int) -> None:
        self._reader = reader
        self._last = last
        self._left = most
        self._blobs = _BLOBS

    def of(self, reference: Reference, depth: int) -> Any:
        try:
            if reference.media == MEDIA_FOLD:
                return self._fold(reference, depth)
            if reference.media not in (MEDIA_TEXT, MEDIA_JSON):
                return f"[{reference.size} bytes, {reference.media}]"
            data = self._read(reference)
            if data is None:
                return f"[{reference.size} bytes, sha256 {reference.sha256}]"
            if reference.media == MEDIA_TEXT:
                return data.decode()
            return self._resolve(canonical.loads(data, max_depth=256), depth + 1)
        except CounterfoilError as exc:
            return f"[cannot be shown: {exc.message}; sha256 {reference.sha256}]"
        except (ValueError, KeyError, TypeError, RecursionError):
            return f"[stored bytes are not what they are cited as; sha256 {reference.sha256}]"

    def _read(self, reference: Reference) -> bytes | None:
        if reference.size > self._left or not self._blobs:
            return None
        data = self._reader.blob(reference.sha256)
        self._left -= max(len(data), 1)
        self._blobs -= 1
        return data

    def _fold(self, reference: Reference, depth: int) -> Any:
        found: list[Any] = []
        sha256, before = reference.sha256, 0
        while sha256:
            data = self._read(Reference(sha256, 0, MEDIA_JSON)) if len(found) != self._last else None
            if data is None:
                return [f"[{before} before]", *found[::-1]] if found else f"[a list, sha256 {sha256}]"
            node = canonical.loads(data, max_depth=256)
            found.append(self._resolve(node["add"], depth + 1))
            sha256, before = str(node["parent"]), int(node["n"]) - 1
        return found[::-1]

    def _resolve(self, value: Any, depth: int) -> Any:
        if depth > _DEPTH:
            return "[nested too deeply]"
        if type(value) is dict:
            if value.keys() == {"$ref"} and is_reference(value["$ref"]):
                return self.of(Reference.from_dict(value["$ref"]), depth + 1)
            return {key: self._resolve(one, depth + 1) for key, one in value.items()}
        if type(value) is list:
            return [self._resolve(one, depth + 1) for one in value]
        return value


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Plain lines of a value, one member a line."""
    margin = "  " * min(depth, 8)
    if type(value) in (dict, list) and value:
        members = value.items() if type(value) is dict else (("-", one) for one in value)
        for key, one in members:
            label = key if type(value) is list else f"{_short(key)}:"
            if type(one) in (dict, list) and one:
                yield f"{margin}{label}"
                yield from _lines(one, depth + 1)
            else:
                first, *rest = _plain(one).split("\n")
                yield f"{margin}{label} {first}"
                yield from (f"{margin}  {line}" for line in rest)
    else:
        yield from _plain(value).split("\n")


def _plain(value: Any) -> str:
    return _short(value) if type(value) is str and value.strip() else json.dumps(value)[:_TEXT]


def _short(value: str) -> str:
    return value if len(value) <= _TEXT else f"{value[:_TEXT]} [{len(value) - _TEXT} more characters]"
