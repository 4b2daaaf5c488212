"""Evidence that was moved, and what is still remembered for the place where it was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from making.cases import Case, begun, ending, run
from making.logs import LOG, OTHER, PEER, Log

EMPTY = {".gitignore": b"*\n"}


def remembered_cases() -> Iterator[Case]:
    """Two logs are remembered for another place; the one by the name of `OTHER` is gone, or stands here or there."""
    stays = ending(begun())

    def other(**session: Any) -> Log:
        log = ending(run(begun(Log(OTHER), **session)))
        log.segment()
        log.record({"op": "segment", "phase": "point"}, {"at": log.now(), **log.tree()})
        return ending(run(log))

    gone, rewritten = other(), other(pid=1)
    peers = ending(begun(Log(OTHER, key=PEER)))
    heads = [{**log.head(), "evidence": "there"} for log in (stays, gone)]
    (first, last) = (f"{OTHER}/{number:08d}.seg" for number in range(2))
    whole = gone.evidence()

    def case(name: str, *codes: str, **there: Any) -> Case:
        verdict = "broken" if codes else "intact"
        return Case(name, stays.evidence(), verdict, list(codes), heads=heads, there=there)

    missed = "CF-VERIFY-003"
    yield Case("moved, as it was", stays.evidence(gone), "intact", [], heads=heads)
    yield case("moved, and a log is gone", missed)
    yield case("moved, and where a log stood is an empty folder", missed, files=EMPTY, folders=[OTHER])
    yield case("moved, and where a log stood is a file", missed, files={OTHER: b""})
    yield case("moved, and the first part of a log stands there", missed, files={first: whole[first]})
    yield case("moved, and the last part of a log stands there", missed, files={last: whole[last]})
    yield case("moved, and another history of a log stands there", missed, files=rewritten.evidence())
    yield case("moved, and another's log of that name stands there", missed, files=peers.evidence())
    changed = bytearray(whole[last])
    changed[-1] ^= 1
    yield case("moved, and a damaged log stands there", missed, files={**whole, last: bytes(changed)})
    yield case("moved, and a log stands where it stood", files=whole)
    yield case("moved, and a log grew where it stood", files=ending(run(gone)).evidence())

    with_peers = stays.evidence(peers)
    yield Case("moved, and another's log has the name of one", with_peers, "broken", [missed], heads=heads)
    here = [{**head, "evidence": "."} for head in heads]
    yield Case("another's log has the name of one", with_peers, "broken", ["CF-VERIFY-053"], heads=here)
    both = [*here, {**peers.head(), "evidence": "."}]
    yield Case(
        "another's log has the name of one, and is remembered too", with_peers, "broken", [missed], heads=both
    )
    # Of a log whose session cannot be used only the name is known: it is that one, and shorter than it was.
    nameless = Log(OTHER)
    nameless.segment()
    nameless.flush(more=b"\0")
    files = stays.evidence(nameless)
    yield Case("moved, and nobody can tell whose log it is", files, "broken", ["CF-LOG-011"], heads=heads)
    yield Case(
        "moved, and only a log that nobody can tell is left",
        {name: data for name, data in files.items() if not name.startswith(LOG)},
        "broken",
        ["CF-LOG-011", missed],
        heads=heads,
    )
