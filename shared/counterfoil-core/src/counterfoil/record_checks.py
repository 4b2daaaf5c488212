"""Checks of the records in one log: what they cite, their limits, whether starts, ends and totals agree.

Needs nothing but the records: no folder, no keys. With ``before`` only a part of the log passes by.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple, TypeGuard

from counterfoil import records
from counterfoil.before import Before, NotAlone
from counterfoil.digest import is_reference
from counterfoil.entries import Entry, place, same
from counterfoil.shapes import Part, need_of
from counterfoil.stored import Stored

__all__ = ["RecordCheck", "Ties"]


class Ties(NamedTuple):
    """Calls and totals of a part of a log, and every call that began or ended in it."""

    open: dict[str, str]
    started: dict[str, int]
    ended: dict[str, int]
    runs: int
    touched: set[str]


def _is_parent(one: object) -> TypeGuard[dict[str, Any]]:
    """Whether a record's parent has its form; of which relation it is may be said by a later word."""
    return (
        type(one) is dict and one.keys() == {"digest", "rel"} and type(one["rel"]) is str and one["rel"] != ""
    )


class RecordCheck:
    """Records of one log, in order; ``say`` takes each finding, ``ask`` a digest that has to be known by now.

    ``open``: calls without end (to their run); ``started``, ``ended``: calls by run since its last totals.
    """

    def __init__(
        self,
        stored: Stored,
        say: Callable[..., None],
        ask: Callable[[str, str, str, object], None],
        *,
        before: Before | None = None,
    ) -> None:
        self.open: dict[str, str] = {}
        self.started: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.totalled: set[str] = set()
        self.touched: set[str] = set()
        self.runs = 0
        self._stored = stored
        self._say = say
        self._ask = ask
        self._before = before

    def check(self, entry: Entry) -> None:
        """Judge one record."""
        has = self._stored.has
        for ref in entry.cited:
            if not ref[0] or not has(Part(bytes.fromhex(ref[0]), ref[1], need_of(ref[2]))):
                message = f"{entry.op}: stored bytes it cites are missing or no such value ({ref[0][:12]})"
                self._say("CF-VERIFY-010", place(entry), message)
        if not entry.plain or len(entry.body_bytes) > records.MAX_RECORD:
            message = f"{entry.op}: longer than a record may be, or with a float or null"
            self._say("CF-VERIFY-012", place(entry), message)
        content, context = entry.body["content"], entry.body["context"]
        if "handoffs" in context:
            received = context["handoffs"]
            for one in received if type(received) is list else [None]:
                self._ask(
                    "CF-VERIFY-011",
                    place(entry),
                    f"{entry.op}: the handoff it received is not in this log",
                    one,
                )
        if "parents" in context and not is_reference(
            context["parents"]
        ):  # of a list that stands apart, the bytes
            parents = context["parents"]
            for one in parents if type(parents) is list else [None]:
                named = one["digest"] if _is_parent(one) else None
                self._ask(
                    "CF-VERIFY-045", place(entry), f"{entry.op}: a parent it names is not in this log", named
                )
        self._stored.add_raw(sha256(entry.body_bytes).digest())
        phase = content.get("phase")
        if phase == "start" or phase == "end":
            self._tie(content, context, entry)

    def _tie(self, content: dict[str, Any], context: dict[str, Any], entry: Entry) -> None:
        """Starts and ends joined by ``call``; a run's last record ties how many there were."""
        call, run = context.get("call"), context.get("run")
        if type(call) is not str:
            return
        if content["phase"] == "start":
            if call == run:
                self.runs += 1
            self.open[call] = run if type(run) is str else ""
            if type(run) is str:
                self.started[run] = self.started.get(run, 0) + 1
            if self._before is not None:
                self.touched.add(call)
        elif context.get("late") is not True:
            if self.open.pop(call, None) is None and not self._was_open(call):
                self._say("CF-VERIFY-022", place(entry), "an end without a start", verdict="incomplete")
            if type(run) is not str:
                return  # it is a call all the same, and counted for no run
            self.ended[run] = self.ended.get(run, 0) + 1
            totals = content.get("totals")
            if type(totals) is dict:
                counted = {"ended": self.ended.pop(run, 0), "started": self.started.pop(run, 0)}
                if not same(totals, counted) and not self._were(run, totals, counted):
                    message = f"the run had {totals}, the log holds {counted}"
                    self._say("CF-VERIFY-023", place(entry), message, verdict="incomplete")
                if self._before is not None and run not in self.totalled:
                    self._before.totals.setdefault(run, (0, 0))
                    self.totalled.add(run)

    # -- what stands before -------------------------------------------------------------------------------------------

    def _was_open(self, call: str) -> bool:
        if self._before is None or call in self.touched:
            return False
        self._before.open.add(call)
        self.touched.add(call)
        return True

    def _were(self, run: str, totals: dict[str, Any], counted: dict[str, int]) -> bool:
        """Whether what is lacking may stand before (believed only of a run's first totals here)."""
        if self._before is None or run in self.totalled:
            return False
        if totals.keys() != counted.keys() or not all(type(one) is int for one in totals.values()):
            raise NotAlone
        lacking = (totals["started"] - counted["started"], totals["ended"] - counted["ended"])
        if min(lacking) < 0:
            raise NotAlone
        self._before.totals[run] = lacking
        return True

    def ties(self) -> Ties:
        """What whoever goes on behind this part of a log has to know."""
        return Ties(self.open, self.started, self.ended, self.runs, self.touched)

    def follows(self, before: Before, touched: set[str]) -> bool:
        """Whether calls and totals are what a part of the log that comes next believes."""
        if not all(call in self.open for call in before.open):
            return False
        if any(call in touched and call not in before.open for call in self.open):
            return False
        return all(
            (self.started.get(run, 0), self.ended.get(run, 0)) == lacking
            for run, lacking in before.totals.items()
        )

    def merge(self, other: Ties, before: Before) -> None:
        """Take the calls and totals of the part of the log that comes next."""
        for call in before.open:
            del self.open[call]
        self.open.update(other.open)
        for run in before.totals:
            self.started.pop(run, None)
            self.ended.pop(run, None)
        for ours, theirs in ((self.started, other.started), (self.ended, other.ended)):
            for run, count in theirs.items():
                ours[run] = ours.get(run, 0) + count
        self.runs += other.runs
