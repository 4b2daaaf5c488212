"""Calls and parents of records, with members of other kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from making.cases import Case, begun, broken, ending
from making.formats import jcs
from making.logs import Log

_POINT: Final = {"name": "n", "op": "custom", "phase": "point"}
_OTHERS: Final[tuple[Any, ...]] = (1, True, False, [], ["x"], {}, {"x": 1})
"""One of each kind of value that is no text (a null or a double is told by itself)."""


def call_cases() -> Iterator[Case]:
    """Calls whose run is none, and parents of any relation; often enough that a reader may have got used to them."""

    def call(log: Log, phase: str, name: str, **more: Any) -> None:
        context = {"at": log.now(), "call": name} | more.get("context", {})
        log.record({"name": "n", "op": "chat", "phase": phase} | more.get("content", {}), context)

    for what, run_of in (
        ("without a run", {}),
        *((f"of the run {jcs(one).decode()}", {"run": one}) for one in _OTHERS),
    ):
        log = begun()
        call(log, "start", "2" * 32, context=run_of)
        name = f"a call {what} that never ended"
        yield Case(
            name, ending(log).evidence(), "incomplete", ["CF-VERIFY-025"], counts={"open": 1, "runs": 0}
        )
        log = begun()
        call(log, "end", "2" * 32, context=run_of)
        yield Case(f"a call {what} that never began", ending(log).evidence(), "incomplete", ["CF-VERIFY-022"])
        log = begun()
        call(log, "start", "2" * 32, context=run_of)
        call(log, "end", "2" * 32, context=run_of, content={"totals": {"ended": 7, "started": 7}})
        yield Case(f"a call {what}, with totals", ending(log).evidence(), "intact", [])
    for left in ([], ["CF-VERIFY-025"]):
        log = begun()
        for number in range(60):
            call(log, "start", f"{number:032}")
        for number in range(60 - len(left)):
            call(log, "end", f"{number:032}")
        name = f"60 calls without a run, {len(left)} of which never ended"
        yield Case(name, ending(log).evidence(), "incomplete" if left else "intact", left)

    for rel in ("control", "constructor", "__proto__", " ", "\u00e9", "x" * 2000):
        log = begun()
        point = log.record(_POINT, {"at": log.now()})
        log.record(_POINT, {"at": log.now(), "parents": [{"digest": point, "rel": rel}]})
        yield Case(f"a parent of the relation {rel[:20]!r}", ending(log).evidence(), "intact", [])
    for often in (1, 60):
        for rel in ("", *_OTHERS):
            log = begun()
            point = log.record(_POINT, {"at": log.now()})
            for _ in range(often - 1):
                log.record(_POINT, {"at": log.now(), "parents": [{"digest": point, "rel": "data"}]})
            log.record(_POINT, {"at": log.now(), "parents": [{"digest": point, "rel": rel}]})
            name = f"a parent of the relation {jcs(rel).decode()}, after {often - 1} others"
            yield broken(name, ending(log), "CF-VERIFY-045")
