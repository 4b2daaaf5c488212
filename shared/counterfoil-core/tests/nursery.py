"""Imports once, then forks one recording process for every line it reads, so that a crash costs no start-up.

A line is JSON: ``home``, ``evidence``, ``told`` (a file: what the process was promised, a line each), ``scenario``, and
what is to happen: ``cut`` (die at the so-and-so-many-th change of the file system; with ``half`` in the middle of a
write), ``fail`` (one sync of a group fails) or ``trace`` (a file: every change, for a model of a disk that loses its
power).
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from counterfoil import keys, writer
from counterfoil.recorder import Recorder

CUT = 77
_real: dict[str, Callable[..., Any]] = {
    name: getattr(os, name)
    for name in (
        "write",
        "pwrite",
        "fsync",
        "fdatasync",
        "open",
        "mkdir",
        "replace",
        "link",
        "unlink",
        "close",
    )
}


class Steps:
    """Stands between a process and the file system: counts every change, dies at one, or writes all of them down."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.cut: int | None = order.get("cut")
        self.half: bool = order.get("half", False)
        self.trace = open(order["trace"], "a", encoding="ascii") if order.get("trace") else None
        self.count = self.syncs = 0
        self.fail: int | None = order.get("fail")
        self.lock = threading.RLock()
        for name in ("write", "pwrite", "fsync", "fdatasync", "open", "mkdir", "replace", "link", "unlink"):
            setattr(os, name, getattr(self, name))

    def step(self, *what: Any) -> None:
        with self.lock:
            if self.count == self.cut:
                os._exit(CUT)
            self.count += 1
            self.note(*what)

    def note(self, *what: Any) -> None:
        if self.trace is not None:
            self.trace.write(json.dumps(what) + "\n")
            self.trace.flush()

    def write(self, fd: int, data: Any) -> int:
        return self.put(fd, bytes(data), os.lseek(fd, 0, os.SEEK_END), lambda part: _real["write"](fd, part))

    def pwrite(self, fd: int, data: Any, at: int) -> int:
        return self.put(fd, bytes(data), at, lambda part: _real["pwrite"](fd, part, at))

    def put(self, fd: int, data: bytes, at: int, write: Callable[[bytes], Any]) -> int:
        with self.lock:
            if self.count == self.cut and self.half:
                data = data[: len(data) // 2]
                self.note("write", path_of(fd), at, base64.b64encode(data).decode())
                write(data)
                os._exit(CUT)
            self.step("write", path_of(fd), at, base64.b64encode(data).decode())
            return int(write(data))

    def fsync(self, fd: int) -> None:  # a killed process needs none, and a model makes its own
        self.step("sync", path_of(fd))

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        if self.syncs == self.fail:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.fsync(fd)

    def open(self, path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        with self.lock:
            if flags & os.O_CREAT and not os.path.lexists(path):
                self.step("create", os.fspath(path))
            return int(_real["open"](path, flags, *arguments, **named))

    def mkdir(self, path: Any, *arguments: Any, **named: Any) -> None:
        with self.lock:
            if not os.path.lexists(path):
                self.step("mkdir", os.fspath(path))
            _real["mkdir"](path, *arguments, **named)

    def replace(self, source: Any, target: Any) -> None:
        with self.lock:
            self.step("rename", os.fspath(source), os.fspath(target))
            _real["replace"](source, target)

    def link(self, source: Any, target: Any, **named: Any) -> None:
        with self.lock:
            if not os.path.lexists(target):
                self.step("link", os.fspath(source), os.fspath(target))
            _real["link"](source, target, **named)

    def unlink(self, path: Any, **named: Any) -> None:
        with self.lock:
            if os.path.lexists(path):
                self.step("unlink", os.fspath(path))
            _real["unlink"](path, **named)


def path_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


class Told:
    """What the process was promised, told to whoever kills it, before it goes on."""

    def __init__(self, path: str, steps: Steps | None) -> None:
        self.fd = _real["open"](path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.steps = steps

    def __call__(self, *digests: str) -> None:
        if self.steps is not None and self.steps.trace is not None:
            self.steps.step("told", *digests)
        _real["write"](self.fd, ("\n".join(digests) + "\n").encode())


def two_runs(evidence: str, told: Told) -> None:
    """Two runs, each flushed, and a clean end."""
    recorder = Recorder(evidence)
    for number in range(2):
        root = recorder.start("invoke_workflow", "app", actor=("app",))
        asked = recorder.value(
            {"messages": [f"question {number} " * 40], "noise": random.randbytes(700).hex()}
        )
        call = recorder.start("chat", "model", actor=("app",), parent=root, request=asked)
        recorder.end(call, response=recorder.value(f"answer {number} " * 40))
        recorder.end(root)
        if recorder.flush():
            told(root.start, call.start, call.end, root.end)
    recorder.close()
    told("closed")


def many_runs(evidence: str, told: Told) -> None:
    """Runs with checkpoints in between, and segments that roll over."""
    from counterfoil import appending

    appending.SEGMENT_SIZE = 6_000  # type: ignore[misc]
    for _ in range(2):
        recorder = Recorder(evidence)
        for number in range(4):
            root = recorder.start("invoke_workflow", "app", actor=("app",))
            noise = recorder.value(random.randbytes(1500 * (number + 1)))
            call = recorder.start("chat", "model", actor=("app",), parent=root, request=noise)
            recorder.end(call)
            if recorder.flush():
                told(root.start, call.start, call.end)
            recorder.end(root)
        recorder.close()


def load(evidence: str, told: Told) -> None:
    """Four threads that record until they are killed."""
    durability = "call" if os.path.basename(told_path).startswith("call") else "group"
    recorder = Recorder(evidence, durability=durability)
    lock = threading.Lock()

    def work(number: int) -> None:
        turn = 0
        while True:
            turn += 1
            root = recorder.start("invoke_workflow", "app", actor=("app",), wait=True)
            digests = [root.start]
            for step in range(turn % 5):
                asked = recorder.value({"messages": [f"question {number} {turn} {step} " * 40]})
                call = recorder.start("chat", "model", actor=("app",), parent=root, request=asked, wait=True)
                if durability == "call" and recorder.losses == 0:
                    with lock:
                        told(call.start)
                recorder.end(call, response=recorder.value(random.randbytes(500 * (turn % 5))))
                digests += [call.start, call.end]
            if turn % 3:
                recorder.end(root)
                digests.append(root.end)
            if durability == "group" and recorder.flush():
                with lock:
                    told(*digests)
            time.sleep(0.002)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    threads[0].join()


SCENARIOS = {"two runs": two_runs, "many runs": many_runs, "load": load}
told_path = ""


def child(order: dict[str, Any]) -> None:
    global told_path
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    random.seed(order.get("seed", 0))
    writer.RETRY = 0.05  # type: ignore[misc]
    keys.set_home(order["home"])
    told_path = order["told"]
    steps = Steps(order) if order.get("cut") is not None or order.get("trace") else None
    SCENARIOS[order["scenario"]](order["evidence"], Told(told_path, steps))


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(SystemExit):
                child(order)
                code = 0
            os._exit(code)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
