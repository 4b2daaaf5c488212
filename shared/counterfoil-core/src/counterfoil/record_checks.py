"""Checks of the records in one log: what they cite, their limits, whether starts, ends and totals agree.

Needs nothing but the records: no folder, no keys. With ``before`` only a part of the log passes by.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeGuard

from counterfoil import records
from counterfoil.before import Before, NotAlone
from counterfoil.digest import is_reference
from counterfoil.entries import OPENERS, OWN, Entry, place, same
from counterfoil.findings import Verdict
from counterfoil.moulds import Known
from counterfoil.record_moulds import record_mould
from counterfoil.shapes import Part, need_of
from counterfoil.stored import Stored
from counterfoil.stream_checks import CODE, StreamCheck, states
from counterfoil.weights.checking import cited_weights

__all__ = ["RecordCheck", "Ties"]

_LOGS_OWN: Final = frozenset(op.encode() for op in (*OPENERS, *OWN, "stored"))


class Ties(NamedTuple):
    """Calls and totals of a part of a log, and every call that began or ended in it."""

    open: dict[str, str]
    started: dict[str, int]
    ended: dict[str, int]
    runs: int
    touched: set[str]


def _is_parent(one: object) -> TypeGuard[dict[str, str]]:
    """Whether a record's parent has its form; of which relation it is may be said by a later word."""
    return (
        type(one) is dict and one.keys() == {"digest", "rel"} and type(one["rel"]) is str and one["rel"] != ""
    )


class RecordCheck:
    """Records of one log, in order; ``say`` takes each finding, ``ask`` a digest that has to be known by now.

    ``open``: calls without end (to their run); ``started``, ``ended``: calls by run since its last totals; ``count``:
    records that passed by.
    """

    def __init__(
        self,
        stored: Stored,
        say: Callable[..., None],
        ask: Callable[[str, str, str, object], None],
        *,
        before: Before | None = None,
        known: Known | None = None,
    ) -> None:
        self.open: dict[str, str] = {}
        self.started: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.totalled: set[str] = set()
        self.touched: set[str] = set()
        self.runs = 0
        self.count = 0
        self._moulds = (known or Known()).of(record_mould)
        self._stored = stored
        self.streams = StreamCheck(stored, before=before)
        self._faultless = True
        self._ask = ask

        def fault(code: str, at: str, message: str, *, verdict: Verdict = "broken") -> None:
            self._faultless = False
            say(code, at, message, verdict=verdict)

        self._say = fault
        self._before = before

    def short(self, body: bytes) -> bool:
        """Judge a record by its text, if it is like others and there is nothing to say; else False, nothing done."""
        got = self._moulds.match(body)
        if got is None:
            return False
        mould, found = got
        stored, told = self._stored, found.group(*mould.told)
        if told[0] in _LOGS_OWN:
            return False
        lately = stored.lately
        for at in mould.cited:
            if found[at] not in lately and not stored.cites(found[at]):
                return False
        for at, least in mould.named:
            if not stored.knows(found[at].decode(), least=least):
                return False
        if mould.weights:
            root, statement = (found[at].decode() for at in mould.weights)
            if stored.weights.get(statement) != root:
                return False
        if mould.joined:
            phase, call, run = told[1], told[2].decode(), told[3].decode()
            if phase == b"start":
                self._start(call, run)
            elif phase == b"end":
                if call not in self.open:
                    return False
                ended, totals = self.ended.get(run, 0) + 1, mould.totals
                if totals and (ended, self.started.get(run, 0)) != tuple(int(found[at]) for at in totals):
                    return False
                del self.open[call]
                self.ended[run] = ended
                if totals:
                    self._totalled(run)
        stored.add_raw(sha256(body).digest())
        self.count += 1
        return True

    def check(self, entry: Entry) -> None:
        """Judge one record."""
        self.count += 1
        self._faultless = True
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
                message = f"{entry.op}: the handoff it received is not in this log"
                self._question("CF-VERIFY-011", place(entry), message, one)
        if "parents" in context and not is_reference(
            context["parents"]
        ):  # of a list that stands apart, the bytes
            parents = context["parents"]
            for one in parents if type(parents) is list else [None]:
                named = one["digest"] if _is_parent(one) else None
                message = f"{entry.op}: a parent it names is not in this log"
                self._question("CF-VERIFY-045", place(entry), message, named)
        if "weights" in context:
            cited = cited_weights(context["weights"])
            self._faultless &= cited is not None
            message = f"{entry.op}: the weights it names are not in this log"
            self._ask("CF-VERIFY-056", place(entry), message, cited)
        self._stored.add_raw(sha256(entry.body_bytes).digest())
        if "stream" in context and states(content, context):
            message = self.streams.fault(content, context)
            if message:
                self._say(CODE, place(entry), f"{entry.op}: {message}")
        phase = content.get("phase")
        if phase == "start" or phase == "end":
            self._tie(content, context, entry)
        # A form is learnt from entries without a fault only, so that none that is always a fault passes for good.
        if self._faultless and entry.plain and entry.op not in OWN:
            self._moulds.learn(entry.body_bytes, entry.body)

    def _question(self, code: str, at: str, message: str, digest: object) -> None:
        if type(digest) is not str:
            self._faultless = False
        self._ask(code, at, message, digest)

    def _tie(self, content: dict[str, Any], context: dict[str, Any], entry: Entry) -> None:
        """Starts and ends joined by ``call``; a run's last record ties how many there were."""
        call, run = context.get("call"), context.get("run")
        if type(call) is not str:
            return
        if content["phase"] == "start":
            self._start(call, run)
        elif context.get("late") is not True:
            if self.open.pop(call, None) is None and not self._was_open(call):
                self._say("CF-VERIFY-022", place(entry), "an end without a start", verdict="incomplete")
            if type(run) is not str:
                return
            self.ended[run] = self.ended.get(run, 0) + 1
            totals = content.get("totals")
            if type(totals) is dict:
                counted = {"ended": self.ended.get(run, 0), "started": self.started.get(run, 0)}
                if not same(totals, counted) and not self._were(run, totals, counted):
                    message = f"the run had {totals}, the log holds {counted}"
                    self._say("CF-VERIFY-023", place(entry), message, verdict="incomplete")
                self._totalled(run)

    def _start(self, call: str, run: object) -> None:
        if call == run:
            self.runs += 1
        # What has no run is a call all the same, and counted for no run.
        self.open[call] = run if type(run) is str else ""
        if type(run) is str:
            self.started[run] = self.started.get(run, 0) + 1
        if self._before is not None:
            self.touched.add(call)

    def _totalled(self, run: str) -> None:
        self.ended.pop(run, None)
        self.started.pop(run, None)
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
