"""The default engine: processes of this machine, plain interpreters that read tasks and write answers.

No import of the caller's ``__main__``, no fork of its threads. A process that cannot start or is killed is replaced a
few times, and its segment is tried again in the new one; after that the segment is read here.
"""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Final

from counterfoil.engines import Lost, Pending
from counterfoil.engines.work import verify_segment

__all__ = ["PoolEngine", "cores", "serve"]

_LENGTH: Final = struct.Struct("<Q")
_ONLY_TOLD: Final = 1 << 63
"""Marks a length that nothing follows: so much was read."""
_TRIES: Final = 2
"""Processes that a segment is given to, one after the other."""
_REPLACED: Final = 3
"""Processes that may end before their time, for each that there is at once."""
_CODE: Final = "from counterfoil.engines.pool import serve; serve()"


def cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PoolEngine:
    """``jobs`` processes (default: one a core), each with a thread of this one that asks it."""

    name = "pool"
    packs = False

    def __init__(self, *, jobs: int | None = None) -> None:
        self._jobs = jobs or cores()
        self._threads = ThreadPoolExecutor(self._jobs, thread_name_prefix="counterfoil-verify")
        self._local = threading.local()
        self._children: list[subprocess.Popen[bytes]] = []
        self._starting = threading.Lock()
        self._closed = False

    def slots(self) -> int:
        """As many segments as there are processes are looked at ahead: few answers wait in memory."""
        return self._jobs

    def look(self, task: bytes) -> list[bytes]:
        """Nothing to ask: what these processes see is what this one sees."""
        return []

    def submit(self, task: bytes, told: Callable[[int], None] | None = None) -> Pending:
        """Check a segment in one of the processes; ``told`` hears meanwhile how many bytes were read."""
        return self._threads.submit(self._ask, task, told)

    def close(self, *, now: bool = False) -> None:
        """End the processes; ``now`` without waiting for what they do."""
        with self._starting:  # whose process is killed now must not begin another
            self._closed = True
        for child in self._children:
            if now:
                child.kill()
            with contextlib.suppress(OSError):
                child.stdin.close()  # type: ignore[union-attr]
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            with contextlib.suppress(OSError):
                child.stdout.close()  # type: ignore[union-attr]
            child.wait()

    # -- processes ----------------------------------------------------------------------------------------------------

    def _ask(self, task: bytes, told: Callable[[int], None] | None) -> bytearray:
        """On a thread of the pool: what its process answers."""
        for _ in range(_TRIES):
            try:
                child = self._child()
                _write(child.stdin, task)  # type: ignore[arg-type]
                while isinstance(answer := _read(child.stdout), int):  # type: ignore[arg-type]
                    if told is not None:
                        told(answer)
                return answer
            except (OSError, EOFError):
                self._local.child = None
        raise Lost

    def _child(self) -> subprocess.Popen[bytes]:
        """This thread's process, a new one where it ended; raises Lost when too many did."""
        if getattr(self._local, "child", None) is None:
            self._local.begun = getattr(self._local, "begun", 0) + 1
            with self._starting:
                if self._closed or self._local.begun > 1 + _REPLACED:
                    raise Lost
                self._local.child = self._begin()
                self._children.append(self._local.child)
        found: subprocess.Popen[bytes] = self._local.child
        return found

    def _begin(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name != "COUNTERFOIL"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-P", "-c", _CODE]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def serve() -> None:
    """Read tasks from stdin and write what checking them gave to stdout, until there are no more."""
    with open(os.dup(0), "rb") as tasks, open(os.dup(1), "wb") as results:
        os.dup2(2, 1)  # nothing else may get between the results
        while True:
            try:
                task = _read(tasks)
            except EOFError:
                return
            answer = verify_segment(bytes(task), lambda size: _tell(results, size))
            _write(results, answer)
            del task, answer


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
