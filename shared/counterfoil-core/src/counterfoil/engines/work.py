"""What every engine runs on its workers: one task, as bytes, to one answer, as bytes."""

from __future__ import annotations

import json
from collections.abc import Callable

from counterfoil._version import __version__
from counterfoil.engines import form
from counterfoil.errors import CounterfoilError
from counterfoil.parts import check_part
from counterfoil.stores import open_store

__all__ = ["look", "verify_segment"]


def verify_segment(task: bytes, told: Callable[[int], None] | None = None) -> bytes:
    """Check the segment that a task names, wherever this runs; ``told`` hears now and then how many bytes were read.

    A function of its bytes and of the evidence alone: the worker opens the address itself, with its own credentials,
    and nothing is remembered that would change what comes out. The answer is for
    ``counterfoil.engines.form.unpack_answer``; whatever goes wrong is one as well, never an exception.
    """
    try:
        given = form.unpack_task(task)
        part = check_part(given, told)
        return form.pack_no("") if part is None else form.pack_part(part, packed=given.packed)
    except CounterfoilError as exc:
        return form.pack_no(exc.code)
    except (ValueError, TypeError, KeyError, OSError) as exc:
        return form.pack_no(type(exc).__name__)


def look(address: str) -> bytes:
    """Which Counterfoil runs here, and how much of the evidence at an address can be seen; JSON."""
    told = {"version": __version__, "logs": 0, "error": ""}
    try:
        store = open_store(address)
        told["logs"] = len(store.logs()) if store.exists() else 0
    except CounterfoilError as exc:
        told["error"] = f"{exc.message} ({exc.code})"
    return json.dumps(told).encode()
