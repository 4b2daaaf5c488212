"""Reads a stream back as it came, piece by piece, for who replays it or asks where two answers part.

Of a call that never ended it reads what its checkpoints saved. Source: ``shared/spec/streams.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from counterfoil import canonical
from counterfoil.digest import is_reference
from counterfoil.errors import LogError
from counterfoil.frames import Frame, Running
from counterfoil.reader import Reader
from counterfoil.stream_checks import states
from counterfoil.views import CallView

__all__ = ["frames_of"]


def frames_of(reader: Reader, call: CallView) -> Iterator[Frame]:
    """Channel, bytes and microseconds since the piece before, of each piece; nothing where they were not kept.

    Raises LogError: CF-LOG-040 to 044: what is stored is not what is cited.
    """
    running = Running(call.id)
    for part in _parts(reader, call):
        try:
            yield from running.read(reader.blob(part))
        except ValueError as exc:
            raise LogError(
                f"what is stored is no part of this stream: {exc}",
                code="CF-LOG-044",
                where=part[:12],
                hint="verify the evidence",
            ) from exc


def _parts(reader: Reader, call: CallView) -> Iterator[str]:
    if call.end is not None:
        parts: Any = None
        body = call.end.body
        if states(body["content"], body["context"]):
            parts = body["context"]["stream"].get("parts")
        if is_reference(parts):
            listed = canonical.loads(reader.blob(parts["sha256"]))
            parts = [one["$ref"] for one in listed if type(one) is dict and "$ref" in one]
        yield from (one["sha256"] for one in parts or () if is_reference(one))
        return
    for entry in reader.records():
        if (
            entry.op == "stream"
            and entry.log == call.start.log
            and states(entry.body["content"], entry.body["context"])
        ):
            told = entry.body["context"]["stream"]
            if told.get("call") == call.id and is_reference(told.get("part")):
                yield told["part"]["sha256"]
