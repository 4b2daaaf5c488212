"""Reads the lines of a bundle one by one, with their limits, and refuses by number."""

from __future__ import annotations

import re
from typing import Any, BinaryIO, Final, NoReturn

from counterfoil import canonical
from counterfoil._ed25519 import PublicKey
from counterfoil.bundles.form import MAX_LINE
from counterfoil.errors import BundleError, CanonicalError, CounterfoilError

__all__ = ["ANOTHER", "Scanner", "is_count", "is_hex"]

_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_MAX_DEPTH: Final = 64
ANOTHER: Final = "the bundle was changed: get another copy of it"


class Scanner:
    """The lines of one file; ``number`` and ``offset`` are those of the line read last, ``data`` its bytes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.size = size
        self.number = 0
        self.offset = 0
        self.data = b""
        self._end = file.tell()
        self._left: dict[str, int] = {}
        self._last = ""

    def raw(self) -> bytes:
        """The next line without its newline; empty at the end of the file."""
        data = self.file.readline(MAX_LINE + 1)
        if not data:
            return b""
        self.number += 1
        self.offset = self._end
        self._end += len(data)
        if len(data) > MAX_LINE:
            self.refuse("002", f"a line is longer than {MAX_LINE} bytes")
        if not data.endswith(b"\n"):
            self.refuse("002", "the last line has no end: the bundle was cut")
        if len(data) == 1:
            self.refuse("002", "a line is empty")
        self.data = data[:-1]
        return self.data

    def next(self) -> dict[str, Any] | None:
        """The next line's members; None at the end of the file."""
        data = self.raw()
        if not data:
            return None
        try:
            value = canonical.loads_canonical(data, max_depth=_MAX_DEPTH, max_bytes=MAX_LINE)
        except CanonicalError as exc:
            self.refuse("002", f"a line is not canonical: {exc.message}")
        if type(value) is not dict:
            self.refuse("003", "a line is no object")
        return value

    def kind(self, value: dict[str, Any]) -> str:
        """Of which kind a line is, empty for none: entries stand as they are, the others name theirs."""
        if "body" in value:
            return "entry"
        kind = value.get("kind")
        return kind if type(kind) is str and kind != "entry" else ""

    def members(self, value: dict[str, Any] | None, names: set[str]) -> dict[str, Any]:
        """A line that must have exactly these members."""
        if value is None:
            self.refuse("002", "the bundle ends too early")
        if value.keys() != names:
            self.refuse("003", "a line has not the members it should have")
        return value

    def key(self, text: str) -> PublicKey:
        """A public key in base64 of its SPKI."""
        try:
            return PublicKey.from_text(text)
        except CounterfoilError:
            self.refuse("013", "a key is none")

    def begin(self) -> None:
        """Lines of another kind begin: their order starts anew."""
        self._last = ""

    def sorted(self, name: str) -> None:
        """Each name of one kind is greater than the one before."""
        if name <= self._last:
            self.refuse("003", "lines are not in their order, or one stands twice")
        self._last = name

    def expect(self, counts: dict[str, int]) -> None:
        """What is to come."""
        self._left = dict(counts)

    def take(self, name: str, count: int = 1) -> None:
        """One of what is to come is here."""
        if self._left[name] < count:
            self.refuse("005", f"the bundle has more {name} than its contents say")
        self._left[name] -= count

    def finish(self) -> None:
        """Everything that was to come has come."""
        for name, count in sorted(self._left.items()):
            if count:
                self.refuse("005", f"the bundle has {count} {name} less than its contents say")

    def refuse(
        self, number: str, message: str, *, first: int = 0, last: int = 0, hint: str = ANOTHER
    ) -> NoReturn:
        """Raise BundleError for the line read last, or for the section from ``first`` to ``last``."""
        where = f"lines {first} to {last}" if first else f"line {self.number or 1}"
        raise BundleError(message, code=f"CF-BUNDLE-{number}", where=where, hint=hint) from None


def is_count(value: object) -> bool:
    """Whether a value is an integer from 0."""
    return type(value) is int and value >= 0


def is_hex(value: object) -> bool:
    """Whether a value is 64 lower-case hex digits."""
    return type(value) is str and _HEX64.fullmatch(value) is not None
