"""Checks segments in other processes while this one judges what they found, in the order of the log.

The processes are plain interpreters that read tasks and write results: no import of the caller's ``__main__``, no fork
of its threads. Whatever goes wrong with one (it cannot start, it is killed) costs time only: its segment is read here.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, Final, Self

from counterfoil.errors import CounterfoilError
from counterfoil.log import LogScan, Step
from counterfoil.parts import Part, Task, check_part, keys_in
from counterfoil.stores import FolderStore

__all__ = ["SideBySide", "enough", "serve"]

_LENGTH: Final = struct.Struct("<Q")
_ONLY_TOLD: Final = 1 << 63
"""Marks a length that nothing follows: so much was read."""
_ENOUGH: Final = 16 << 20
"""Bytes of evidence from which starting processes pays, if a quarter of them are outside the largest segment."""
_CODE: Final = "from counterfoil.sidebyside import serve; serve()"


def enough(store: FolderStore) -> int:
    """How many processes to use for this evidence when nobody says."""
    total = largest = 0
    for name in store.logs():
        for number in store.segments(name):
            with contextlib.suppress(CounterfoilError):
                size = store.segment_size(name, number)
                total, largest = total + size, max(largest, size)
            if total >= _ENOUGH and total - largest >= _ENOUGH // 4:
                return (
                    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
                )
    return 1


class SideBySide:
    """Segments of several logs, each checked ahead of its turn by one of ``jobs`` processes; a context manager.

    ``told`` hears, on whatever thread, how many more bytes the processes have read.
    """

    def __init__(
        self,
        store: FolderStore,
        names: list[str],
        *,
        jobs: int,
        told: Callable[[int], None] | None = None,
    ) -> None:
        self._store = store
        self._told = told
        self._names = deque(names)
        self._jobs = jobs
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="counterfoil-verify")
        self._local = threading.local()
        self._children: list[subprocess.Popen[bytes]] = []
        self._ahead: deque[tuple[str, Step, Future[bytearray | None]]] = deque()
        self._steps = self._all_steps()
        self._keys: dict[str, dict[str, bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            if kind is not None:
                child.kill()
            with contextlib.suppress(OSError):
                child.stdin.close()  # type: ignore[union-attr]
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            with contextlib.suppress(OSError):
                child.stdout.close()  # type: ignore[union-attr]
            child.wait()

    def parts(self, name: str) -> Iterator[tuple[Step, Part | None]]:
        """The segments of a log in order (logs in the order they were named), None for what has to be read here."""
        self._fill()
        while self._ahead and self._ahead[0][0] == name:
            _, step, future = self._ahead.popleft()
            part = _part(future.result())
            if part is not None:
                self._keys[name].update(part.keys)
            self._fill()
            yield step, part
            del part, future  # before the next one is unpacked
        self._keys.pop(name, None)

    def skip(self, name: str) -> None:
        """Forget what is left of a log: nobody reads behind where it is broken."""
        while self._ahead and self._ahead[0][0] == name:
            self._ahead.popleft()[2].cancel()
            self._fill()

    def _fill(self) -> None:
        """Keep a few tasks ahead, so that no process waits and few results do."""
        while len(self._ahead) < self._jobs:
            found = next(self._steps, None)
            if found is None:
                return
            name, step = found
            place = self._store.elsewhere(name, step.number)
            task = Task(place, name, step, dict(self._keys[name]))
            self._ahead.append((name, step, self._threads.submit(self._ask, task)))

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

    # -- processes ----------------------------------------------------------------------------------------------------

    def _ask(self, task: Task) -> bytearray | None:
        """On a thread of the pool: what its process says about a segment, packed as long as it is not looked at."""
        try:
            child = self._child()
            if (
                child is None
                or task.place is None
                or not task.step.opening
                or task.step.number < 0
                or task.step.opening == "missing"
                or task.step.unread is not None
            ):
                return None
            _write(child.stdin, pickle.dumps(task, pickle.HIGHEST_PROTOCOL))  # type: ignore[arg-type]
            while isinstance(answer := _read(child.stdout), int):  # type: ignore[arg-type]
                if self._told is not None:
                    self._told(answer)
            return answer
        except (OSError, EOFError):
            self._local.child = None
            return None

    def _child(self) -> subprocess.Popen[bytes] | None:
        if not hasattr(self._local, "child"):
            self._local.child = None
            environment = {name: value for name, value in os.environ.items() if name != "COUNTERFOIL"}
            environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
            self._local.child = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
            self._children.append(self._local.child)
        found: subprocess.Popen[bytes] | None = self._local.child
        return found


def serve() -> None:
    """Read tasks from stdin and write what checking them gave to stdout, until there are no more."""
    with open(os.dup(0), "rb") as tasks, open(os.dup(1), "wb") as results:
        os.dup2(2, 1)  # nothing else may get between the results
        gc.disable()  # what a task leaves behind is in circles: it goes at once when the task is done, or never
        while True:
            try:
                task = pickle.loads(_read(tasks))  # type: ignore[arg-type]  # noqa: S301 - from who started this
            except EOFError:
                return
            part = check_part(task, lambda size: _tell(results, size))
            _write(results, pickle.dumps(part, pickle.HIGHEST_PROTOCOL))
            del task, part
            gc.collect()


def _part(packed: bytearray | None) -> Part | None:
    try:
        found = None if packed is None else pickle.loads(packed)  # noqa: S301 - from a process of ours
    except (pickle.UnpicklingError, EOFError):
        return None
    return found if isinstance(found, Part) else None


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(_LENGTH.pack(len(data)))
    file.write(data)
    file.flush()


def _tell(file: BinaryIO, size: int) -> None:
    file.write(_LENGTH.pack(size | _ONLY_TOLD))
    file.flush()


def _read(file: BinaryIO) -> bytearray | int:
    """What was written, or the size that was told."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    length = _LENGTH.unpack(head)[0]
    if length & _ONLY_TOLD:
        return int(length ^ _ONLY_TOLD)
    data = bytearray(length)  # in place: reading that much otherwise takes it twice
    view = memoryview(data)
    while view:
        got = file.readinto(view)  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        view = view[got:]
    return data
