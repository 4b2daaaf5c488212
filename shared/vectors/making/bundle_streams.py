"""Bundles of runs in which something was said piece by piece: ends are judged, checkpoints are none of the run."""

from __future__ import annotations

from collections.abc import Iterator

from making import bundles
from making.bundle_cuts import whole
from making.cases import begun
from making.log_streams import Talk
from making.logs import RUN


def judged() -> Iterator[tuple[str, bytes, str, list[str]]]:
    """Name, bytes, verdict, codes."""
    wrong = ["CF-VERIFY-013"]
    for name, changes, skipped, codes in (
        ("a stream in two parts", {}, False, []),
        ("a stream in two parts, its checkpoint left out", {}, True, []),
        ("a stream with a wrong checkpoint, which is not judged", {"checkpoint": 1}, False, []),
        ("a stream with another timing", {"timing": "0" * 64}, False, wrong),
        ("a stream with another part", {"parts": 1}, True, wrong),
        ("a stream that was not kept", {"parts": None}, True, []),
    ):
        log = begun()
        log.start("invoke_workflow", "team", RUN)
        talk = Talk("5" * 32, log)
        talk.part(3)
        talk.checkpoint(**({"number": 7} if "checkpoint" in changes else {}))
        talk.part(3)
        stated = {one: value for one, value in changes.items() if one != "checkpoint"}
        if changes.get("parts") == 1:
            stated = {"parts": talk.parts[1:]}
        log.end("chat", "m", talk.call, context={"stream": talk.stated(**stated)})
        log.end("invoke_workflow", "team", RUN)
        log.checkpoint()
        wanted = (0, 1, 2, 4, 5)
        found = whole(log, wanted if skipped else range(6), wanted)
        verdict = "broken" if codes else "incomplete" if skipped else "intact"
        yield name, bundles.text(found), verdict, [*codes, *(["CF-BUNDLE-023"] if skipped else [])]
