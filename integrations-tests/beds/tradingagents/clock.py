"""Freeze the clock that the application and its data tools read, and nobody else's.

Six of the tools stamp the time into their result, so two runs of one input differ in 5 of 19 requests.
``freeze`` replaces the *names* ``datetime``, ``date``, ``time`` and ``pd`` inside the application's own
modules by stand-ins: LangGraph's checkpoint ids, HTTP timeouts and a recorder's timestamps keep the real
clock.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, date, datetime, tzinfo
from types import ModuleType
from typing import Any


def freeze(package: str, at: datetime) -> list[str]:
    """Freeze every loaded module of `package` at `at`; returns ``module.name`` of each name replaced.

    Names without a time zone give `at` in UTC. Call it after the modules are imported and before they run.
    """
    stand_ins = _stand_ins(at.astimezone(UTC))
    replaced = []
    for name, module in sorted(sys.modules.items()):
        if name != package and not name.startswith(package + "."):
            continue
        for attribute, value in list(vars(module).items()):
            for real, frozen in stand_ins:
                if value is real:
                    setattr(module, attribute, frozen)
                    replaced.append(f"{name}.{attribute}")
    return replaced


def _stand_ins(at: datetime) -> list[tuple[Any, Any]]:
    naive = at.replace(tzinfo=None)

    def now(tz: tzinfo | None = None) -> datetime:
        return naive if tz is None else at.astimezone(tz)

    def broken_down(seconds: float | None = None) -> time.struct_time:
        return time.gmtime(at.timestamp() if seconds is None else seconds)

    def strftime(form: str, when: Any = None) -> str:
        return time.strftime(form, broken_down() if when is None else when)

    found: list[tuple[Any, Any]] = [
        (datetime, _type(datetime, now=now, today=lambda: naive, utcnow=lambda: naive)),
        (date, _type(date, today=naive.date)),
        (
            time,
            _module(
                time,
                time=at.timestamp,
                time_ns=lambda: int(at.timestamp() * 10**9),
                gmtime=broken_down,
                localtime=broken_down,
                strftime=strftime,
            ),
        ),
    ]
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        stamp = pandas.Timestamp

        def stamp_now(tz: Any = None) -> Any:
            return stamp(naive) if tz is None else stamp(at).tz_convert(tz)

        found.append((pandas, _module(pandas, Timestamp=_type(stamp, now=stamp_now, today=stamp_now))))
    return found


def _type(real: type, **fixed: Any) -> type:
    """A stand-in for a class: calls, ``isinstance`` and all other attributes are the real class's."""

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

        def __getattr__(cls, name: str) -> Any:
            return getattr(real, name)

    members = {name: staticmethod(function) for name, function in fixed.items()}
    return Meta(real.__name__, (), members)


def _module(real: ModuleType, **fixed: Any) -> ModuleType:
    class StandIn(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    module = StandIn(real.__name__)
    vars(module).update(fixed)
    return module
