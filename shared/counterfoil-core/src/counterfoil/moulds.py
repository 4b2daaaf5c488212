"""Texts that are alike: canonical JSON that differs only in its strings and numbers is read by one regular expression.

Most entries of a log have one of a few forms. Where a text was read at length (parsed, written again, compared), a
mould is made of it: the same text with its keys, brackets and literals as they stand, and with a pattern in the place
of each string and number. What the mould matches has the same members in the same order, strings without anything that
RFC 8785 escapes, and integers in their one spelling within 2^53: so it is canonical, and says the same kind of thing.
Whatever does not match is read at length, so a mould can only spare work, never change an outcome.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = [
    "INTEGER",
    "NATURAL",
    "REFERENCE",
    "TEXT",
    "Groups",
    "Known",
    "Mould",
    "Moulds",
    "NoMould",
    "Path",
    "compiled",
    "hex64",
    "spell",
]

TEXT: Final = rb"[ !#-\[\]-~]*+"
"""A string's inside: printable ASCII but quote and backslash, which RFC 8785 writes as it is."""
NATURAL: Final = rb"(?:[1-8][0-9]{0,15}+|9[0-9]{0,14}+|0)"
"""An integer from 0 (in one spelling, below 9 * 10^15), and with its sign."""
INTEGER: Final = rb"(?:-(?:[1-8][0-9]{0,15}+|9[0-9]{0,14}+)|" + NATURAL[3:]
REFERENCE: Final = rb'\{"media":"%b","sha256":"[0-9a-f]{64}","size":%b\}' % (TEXT, NATURAL)

_KEY: Final = re.compile(r"[ !#-\[\]-~]{0,64}")
_HEX64: Final = re.compile("[0-9a-f]{64}")
_LIST: Final = 16
_PATTERN: Final = 6000
_LONGEST: Final = 4096
"""Bytes of a text that has a mould: what is longer is seldom like another."""
often = 24
"""Times that a form is seen before a mould is made of it, which takes as long as reading some hundred texts."""
_MOST: Final = 64
_FORMS: Final = 1024
_LEAVES: Final = re.compile(rb'(?<=[:\[,])(?:"[^"\\]*+"(?=[,\]}])|-?[0-9]++)').sub


class NoMould(Exception):
    """Nothing else is like this value, or what is like it cannot be told by a pattern."""


class Mould(Protocol):
    """What is known of all texts that ``fullmatch`` takes."""

    @property
    def fullmatch(self) -> Callable[[bytes], re.Match[bytes] | None]:
        """Match of a text that is like the one this was made of."""


M = TypeVar("M", bound=Mould)


class Groups:
    """Numbers of the groups in a pattern as it is written from left to right."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> int:
        """Number of the group that begins here."""
        self.count += 1
        return self.count


Path = tuple[str | int, ...]


def spell(value: Any, choose: Callable[[Path, Any], bytes | None], path: Path = ()) -> bytes:
    """Pattern of the texts like a canonical value's (its members in the order of the text).

    ``choose`` is asked for the pattern of the value at each place first, None where any of its type will do; raises
    NoMould for what no pattern tells (floats, odd keys, long lists).
    """
    chosen = choose(path, value)
    if chosen is not None:
        return chosen
    kind = type(value)
    if kind is str:
        return b'"' + TEXT + b'"'
    if kind is int:
        return INTEGER
    if kind is dict:
        members = []
        for key, child in value.items():
            if not _KEY.fullmatch(key):
                raise NoMould
            members.append(b'"' + re.escape(key.encode()) + b'":' + spell(child, choose, (*path, key)))
        return rb"\{" + b",".join(members) + rb"\}"
    if kind is list and len(value) <= _LIST:
        return rb"\[" + b",".join(spell(one, choose, (*path, at)) for at, one in enumerate(value)) + rb"\]"
    if kind is bool:
        return b"true" if value else b"false"
    if value is None:
        return b"null"
    raise NoMould


class Moulds(Generic[M]):
    """Moulds of one kind of text; ``make`` gives the mould of a value (and its text), or raises NoMould."""

    def __init__(self, make: Callable[[Any, bytes], M]) -> None:
        self._make = make
        self._known: dict[int, list[M]] = {}
        self._forms: dict[bytes, int] = {}
        self._made = self._asked = 0

    def match(self, text: bytes) -> tuple[M, re.Match[bytes]] | None:
        """The mould of a text and how it matches, None where it has none."""
        known = self._known.get(text.count(b'"'))
        if known is not None and len(text) <= _LONGEST:
            for mould in known:
                found = mould.fullmatch(text)
                if found is not None:
                    return mould, found
        return None

    def learn(self, text: bytes, value: Any) -> None:
        """Note a text that was read at length and found canonical, and its value."""
        self._asked += 1
        if len(text) > _LONGEST or self._made >= _MOST or (self._asked > _FORMS * 8 and self._asked & 15):
            return  # what has shown no likeness for long is not looked at each time
        form = _LEAVES(b"", text)
        count = self._forms.get(form, 0)
        if count < 0:
            return
        if len(self._forms) >= _FORMS and not count:
            self._forms.clear()
        self._forms[form] = count + 1
        if count + 1 < often:
            return
        self._forms[form] = -1
        self._made += 1
        try:
            mould = self._make(value, text)
        except NoMould:
            return
        if mould.fullmatch(text) is not None:
            self._known.setdefault(text.count(b'"'), []).append(mould)


class Known:
    """Moulds of every kind that one verification makes: few in all, however many logs there are."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: dict[Any, Moulds[Any]] = {}

    def of(self, make: Callable[[Any, bytes], M]) -> Moulds[M]:
        """The moulds of one kind."""
        return self._all.setdefault(make, Moulds(make))


def hex64(value: object) -> bytes:
    """Pattern of a digest, its text in a group; raises NoMould where the value is none."""
    if type(value) is not str or _HEX64.fullmatch(value) is None:
        raise NoMould
    return b'"([0-9a-f]{64})"'


def compiled(pattern: bytes) -> Callable[[bytes], re.Match[bytes] | None]:
    """What matches a whole text; raises NoMould where the pattern is very long."""
    if len(pattern) > _PATTERN:
        raise NoMould
    return re.compile(pattern).fullmatch
