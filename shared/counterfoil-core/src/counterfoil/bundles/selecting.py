"""Which entries a bundle holds: what was asked for and everything it follows from, by one set of rules.

The cutter applies them to evidence, the verifier to the bundle; both must come to the same entries, so that nothing
can be slipped in (rules 1 to 8 of ``shared/spec/bundle.md``, *What is in it*).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from counterfoil.bundles.facts import Cited, Facts, lists_in
from counterfoil.digest import Reference

__all__ = ["Selection"]

_IN_SPAN: Final = frozenset({"loss", "recovered", "session"})
Read = Callable[[str, Reference], bytes]
"""Bytes behind a reference of a log, empty where they are not there."""


class Selection:
    """The entries of all logs; ``select`` marks the wanted ones.

    ``spans`` (origin to first and last index) and ``cited`` (digest to the sorts in which it is cited) are there
    afterwards; ``sessionless`` are wanted entries before any session.
    """

    def __init__(self, read: Read) -> None:
        self.logs: dict[str, list[Facts]] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        self.cited: dict[bytes, int] = {}
        self.sessionless: list[Facts] = []
        self._read = read
        self._followed: set[tuple[object, ...]] = set()
        self._by_digest: dict[bytes, list[Facts]] = {}
        self._calls: dict[tuple[str, str, str], list[Facts]] = {}
        self._receipts: dict[bytes, list[Facts]] = {}
        self._sessions: dict[str, list[Facts]] = {}
        self._bindings: dict[tuple[str, str], list[Facts]] = {}

    def add(self, facts: Facts) -> None:
        """Take the next entry of its log."""
        self.logs.setdefault(facts.log, []).append(facts)
        if facts.digest:
            self._by_digest.setdefault(facts.digest, []).append(facts)
        if facts.kind == "receipt":
            self._receipts.setdefault(facts.about, []).append(facts)
        elif facts.kind == "binding":
            self._bindings.setdefault((facts.log, facts.key), []).append(facts)
        elif facts.op == "session":
            self._sessions.setdefault(facts.log, []).append(facts)
        elif facts.call is not None and facts.run is not None and facts.phase in ("start", "end"):
            self._calls.setdefault((facts.log, facts.run, facts.call), []).append(facts)

    def has(self, digest: bytes) -> bool:
        """Whether an entry of this digest was taken."""
        return digest in self._by_digest

    def handoffs(self) -> list[str]:
        """Digests of all handoffs, in the order of the logs."""
        found = (one.digest.hex() for listed in self.logs.values() for one in listed if one.kind == "handoff")
        return list(dict.fromkeys(found))

    def within(self, log: str, index: int) -> bool:
        """Whether an entry stands within the span of the run asked for."""
        span = self.spans.get(log)
        return span is not None and span[0] <= index <= span[1]

    def wanted(self, log: str) -> Iterator[Facts]:
        """The wanted entries of a log, in order."""
        return (one for one in self.logs.get(log, ()) if one.wanted)

    def asked(self, kind: str, name: str) -> list[Facts]:
        """The entries that were asked for by themselves."""
        if kind == "handoff":
            return [one for one in self._by_digest.get(bytes.fromhex(name), ()) if one.kind == "handoff"]
        return [one for listed in self.logs.values() for one in listed if one.run == name]

    def select(self, kind: str, name: str) -> None:
        """Mark what is wanted for a run (its identifier) or a handoff (its digest)."""
        stack = self.asked(kind, name)
        if kind == "run":
            self._span(stack)
            stack = stack + [
                one
                for log in self.spans
                for one in self.logs[log]
                if one.op in _IN_SPAN and self.within(log, one.index)
            ]
        while stack:
            one = stack.pop()
            if not one.wanted:
                one.wanted = True
                stack += self._follow(one)

    def _span(self, found: Iterable[Facts]) -> None:
        for one in found:
            if not one.late:
                first, last = self.spans.get(one.log, (one.index, one.index))
                self.spans[one.log] = (min(first, one.index), max(last, one.index))

    def _follow(self, one: Facts) -> Iterator[Facts]:
        for digest, sort in self._cited_by(one):
            if digest not in self.cited:
                yield from self._by_digest.get(digest, ())
            self.cited[digest] = max(sort, self.cited.get(digest, 0))
        if one.kind == "record" and one.run is not None:
            if one.call is not None and self._once("call", one.log, one.run, one.call):
                yield from self._calls.get((one.log, one.run, one.call), ())
            if one.parent is not None and self._once("parent", one.log, one.run, one.parent):
                above = self._calls.get((one.log, one.run, one.parent), ())
                yield from (call for call in above if call.phase == "start")
        if one.kind == "handoff" and self._once("receipts", one.digest):
            yield from self._receipts.get(one.digest, ())
        session = _last(self._sessions.get(one.log, []), one.index)
        if session is None:
            self.sessionless.append(one)
            return
        yield session
        if one.kind in ("handoff", "receipt") and one.key != one.log.partition("/")[0]:
            binding = _last(self._bindings.get((one.log, one.key), []), one.index)
            if binding is not None and binding.index > session.index:
                yield binding

    def _once(self, *what: object) -> bool:
        """Whether this is asked for the first time: many entries may cite what many entries are."""
        if what in self._followed:
            return False
        self._followed.add(what)
        return True

    def _cited_by(self, one: Facts) -> Iterator[Cited]:
        yield from one.cites
        # Many may cite one list, and a list may be long.
        if one.apart is not None and self._once("list", one.log, *one.apart, one.kind):
            yield from lists_in(one, lambda reference: self._read(one.log, reference))


def _last(listed: list[Facts], index: int) -> Facts | None:
    """The last one that does not stand behind an entry."""
    at = bisect_right(listed, index, key=lambda one: one.index)
    return listed[at - 1] if at else None
