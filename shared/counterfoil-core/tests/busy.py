"""Threads that do one thing at one time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


def together(work: Callable[[], object], count: int) -> None:
    """Call ``work`` in so many threads, and wait for all."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def changing(shared: dict[str, Any]) -> Iterator[None]:
    """Another thread adds to a dict and takes from it, for as long as the block runs."""
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            shared[f"new {number % 50}"] = number
            shared.pop(f"new {(number + 25) % 50}", None)
            number += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
