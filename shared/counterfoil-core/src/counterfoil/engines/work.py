"""What every engine runs on its workers: one task, as bytes, to one answer, as bytes."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
from collections.abc import Callable, Iterator
from typing import Final

from counterfoil._version import __version__
from counterfoil.engines import form
from counterfoil.errors import CounterfoilError
from counterfoil.parts import check_part
from counterfoil.stores import open_elsewhere

__all__ = ["look", "verify_segment"]


def verify_segment(task: bytes, told: Callable[[int], None] | None = None) -> bytes:
    """Check the segment that a task names, wherever this runs; ``told`` hears now and then how many bytes were read.

    A function of its bytes and of the evidence alone: the worker opens it itself, with its own credentials,
    and nothing is remembered that would change what comes out. The answer is for
    ``counterfoil.engines.form.unpack_answer``; whatever goes wrong is one as well, never an exception.
    """
    with _at_once():
        try:
            given = form.unpack_task(task)
            part = check_part(given, told)
            return form.pack_no("") if part is None else form.pack_part(part, packed=given.packed)
        except CounterfoilError as exc:
            return form.pack_no(exc.code)
        except (ValueError, TypeError, KeyError, OSError) as exc:
            return form.pack_no(type(exc).__name__)


_tasks = 0
_lock: Final = threading.Lock()


@contextlib.contextmanager
def _at_once() -> Iterator[None]:
    """What a task leaves behind is in circles: it goes when the task is done, and is not looked for meanwhile.

    Looking costs a fifth of a segment's time. Threads of one worker share the switch.
    """
    global _tasks
    with _lock:
        _tasks += 1
        was = gc.isenabled() or _tasks > 1
        gc.disable()
    try:
        yield
    finally:
        gc.collect(0)  # all of it is young, and a worker may hold much that is not
        with _lock:
            _tasks -= 1
            if was and not _tasks:
                gc.enable()


def look(task: bytes) -> bytes:
    """Which Counterfoil runs here, and whether the segment that a task names can be opened; JSON."""
    told = {"version": __version__, "error": ""}
    try:
        given = form.unpack_task(task)
        with open_elsewhere(given.place, given.log, given.step.number).open_segment(
            given.log, given.step.number
        ):
            pass
    except CounterfoilError as exc:
        told["error"] = f"{exc.message} ({exc.code})"
    except (ValueError, TypeError, KeyError, OSError) as exc:
        told["error"] = type(exc).__name__
    return json.dumps(told).encode()
