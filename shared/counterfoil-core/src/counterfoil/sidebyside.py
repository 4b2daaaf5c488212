"""Has segments checked elsewhere, ahead of their turn, while this process judges what was found, in the order of the
log.

Whatever goes wrong with a worker costs time only: its segment is read here.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self

from counterfoil.engines import Engine, Pending
from counterfoil.engines.answers import NotAnAnswer, unpack_answer
from counterfoil.engines.form import No, pack_task
from counterfoil.engines.pool import cores
from counterfoil.errors import CounterfoilError
from counterfoil.log import LogScan, Step
from counterfoil.parts import Part, Task, keys_in
from counterfoil.stores import FolderStore

__all__ = ["Elsewhere", "SideBySide", "enough"]

_ENOUGH: Final = 16 << 20
"""Bytes of evidence from which starting processes pays, if a quarter of them are outside the largest segment."""


def enough(store: FolderStore) -> int:
    """How many processes to use for this evidence when nobody says."""
    total = largest = 0
    for name in store.logs():
        for number in store.segments(name):
            with contextlib.suppress(CounterfoilError):
                size = store.segment_size(name, number)
                total, largest = total + size, max(largest, size)
            if total >= _ENOUGH and total - largest >= _ENOUGH // 4:
                return cores()
    return 1


@dataclass(slots=True)
class Elsewhere:
    """What workers did: segments that were gone on from, those read here after all, and what failed, by how often.

    It says how the outcome was reached and never changes it. Segments that have to be read in order are no failure.
    """

    engine: str
    taken: int = 0
    here: int = 0
    failed: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON tells it."""
        return {"name": self.engine, "taken": self.taken, "here": self.here, "failed": dict(self.failed)}


class SideBySide:
    """Segments of several logs, each checked ahead of its turn by a worker of an engine; a context manager.

    ``told`` hears, on whatever thread, how many more bytes the workers have read; ``done`` takes what they did.
    """

    def __init__(
        self,
        store: FolderStore,
        names: list[str],
        *,
        engine: Engine,
        told: Callable[[int], None] | None = None,
        done: Elsewhere | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._told = told
        self._names = deque(names)
        self._ahead: deque[_Ahead] = deque()
        self._steps = self._all_steps()
        self._keys: dict[str, dict[str, bytes]] = {}
        self._done = done or Elsewhere(engine.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for one in self._ahead:
            if one.pending is not None:
                one.pending.cancel()

    def parts(self, name: str) -> Iterator[tuple[Step, Part | None]]:
        """The segments of a log in order (logs in the order they were named), None for what has to be read here."""
        self._fill()
        while self._ahead and self._ahead[0].log == name:
            one = self._ahead.popleft()
            part = self._part(one)
            if part is not None:
                self._keys[name].update(part.keys)
            self._fill()
            yield one.step, part
            del part, one  # before the next one is unpacked
        self._keys.pop(name, None)

    def skip(self, name: str) -> None:
        """Forget what is left of a log: nobody reads behind where it is broken."""
        while self._ahead and self._ahead[0].log == name:
            one = self._ahead.popleft()
            if one.pending is not None:
                one.pending.cancel()
            self._fill()

    def _fill(self) -> None:
        """Keep a few tasks ahead, so that no worker waits and few answers do."""
        slots = self._engine.slots()
        while len(self._ahead) < slots:
            found = next(self._steps, None)
            if found is None:
                return
            name, step = found
            one = _Ahead(name, step, self._told)
            self._ahead.append(one)
            if step.number < 0 or step.opening in ("", "missing") or step.unread is not None:
                continue  # there is nothing that could be read alone
            place = self._store.elsewhere(name, step.number)
            if place is None:
                continue  # only this process can open it
            task = Task(place, name, step, dict(self._keys[name]), self._engine.packs)
            try:
                one.pending = self._engine.submit(pack_task(task), None if self._told is None else one.heard)
            except Exception as exc:
                self._done.failed[type(exc).__name__] += 1

    def _all_steps(self) -> Iterator[tuple[str, Step]]:
        while self._names:
            name = self._names.popleft()
            steps = LogScan(self._store, name).plan()
            known = self._keys[name] = {}
            for place, step in enumerate(steps):
                if step.opening in ("session", "recovered") and place + 1 < len(steps):
                    with contextlib.suppress(CounterfoilError):
                        known.update(keys_in(self._store, name, step))
                yield name, step

    def _part(self, one: _Ahead) -> Part | None:
        """What a worker found, waited for."""
        if one.pending is None:
            return None
        try:
            found = unpack_answer(one.pending.result(), one.log)
        except NotAnAnswer:
            self._done.failed["an answer that is none"] += 1
            return None
        except Exception as exc:  # whatever an engine raises: it has no answer
            self._done.failed[type(exc).__name__] += 1
            return None
        if isinstance(found, No):
            if found.reason:
                self._done.failed[found.reason] += 1
            return None
        with contextlib.suppress(CounterfoilError):
            one.rest(self._store)
        return found


class _Ahead:
    """A segment that a worker was given."""

    __slots__ = ("_heard", "_told", "log", "pending", "step")

    def __init__(self, log: str, step: Step, told: Callable[[int], None] | None) -> None:
        self.log, self.step = log, step
        self.pending: Pending | None = None
        self._told = told
        self._heard = 0

    def heard(self, size: int) -> None:
        """The worker has read so much more."""
        self._heard += size
        if self._told is not None:
            self._told(size)

    def rest(self, store: FolderStore) -> None:
        """Tell what the worker did not while it read: some cannot."""
        if self._told is not None:
            left = store.segment_size(self.log, self.step.number) - self._heard
            if left > 0:
                self._told(left)
