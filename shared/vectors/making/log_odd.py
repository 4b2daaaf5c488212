"""Logs in which one thing is spelled, or typed, as no writer would, and logs that do not say whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from making.cases import Case, begun, broken, ending, small
from making.formats import b64, jcs
from making.logs import ACTOR, IDENTITY, LOG, PEER

_OTHERS: Final[tuple[Any, ...]] = (1, True, False, "0", [], {}, [0], {"segment": 0})
"""Values of all kinds (a null or a double is told by itself)."""


def odd_cases() -> Iterator[Case]:
    """Every one of them."""
    yield from _recoveries()
    yield from _versions()
    yield from _nameless()
    yield from _spellings()


def _recoveries() -> Iterator[Case]:
    """What `recovered` says of no segment says nothing; nobody may stumble over it."""
    listed = [("segments", one) for one in _OTHERS] + [("a segment", [one]) for one in _OTHERS]
    listed += [("the number of a segment", [{"segment": one}]) for one in _OTHERS[1:]]
    for what, value in listed:
        log = small()
        log.segment()
        content = {"op": "recovered", "phase": "point", "segments": value}
        log.record(content, {"at": log.now(), **log.tree()})
        log.session(tree=False)
        name = f"{what} that was recovered is {jcs(value).decode()}"
        earlier = isinstance(value, list) and any(
            isinstance(one, dict) and one.get("segment") == 0 for one in value
        )
        if earlier and not any(one.get("segment") is False for one in value):
            yield broken(name, ending(log), "CF-LOG-015")
        else:
            yield Case(name, ending(log).evidence(), "incomplete", ["CF-VERIFY-020"])


def _versions() -> Iterator[Case]:
    """Of a later version nothing is known but where it says so."""
    good: dict[str, Any] = {"content": {"op": "x", "phase": "point"}, "context": {}, "v": 1}
    changes: list[dict[str, Any]] = [{"v": one} for one in (-1, *_OTHERS)]
    changes += [{name: one} for name in ("content", "context") for one in _OTHERS]
    changes += [{"content": {"op": one}} for one in _OTHERS]
    for change in changes:
        log = begun()
        log.entry(good | change)
        name = f"a record of a later version with {jcs(change).decode()}"
        yield Case(name, ending(log).evidence(), "cannot-tell", ["CF-LOG-022"])
    for change in (
        {"more": 1},
        {"v": 0, "content": 1},
        {"v": 0, "context": []},
        {"v": 0, "content": {"op": 1}},
    ):
        log = begun()
        log.entry(good | change)
        yield broken(f"a record with {jcs(change).decode()}", ending(log), "CF-LOG-021")


def _nameless() -> Iterator[Case]:
    """Logs without a session that are remembered by their name."""
    log = small()
    size = len(log.files[0])
    one = log.head()
    theirs = {**one, "origin": f"{PEER.keyid}/{LOG}", "size": 9}
    for what, data in (
        ("zeros", bytes(size)),
        ("empty", b""),
        ("cut within its first chunk", bytes(log.files[0][:9])),
    ):
        files = {**log.evidence(), f"{LOG}/00000000.seg": data}
        for who, heads in (("", [one]), (", by two names", [one, theirs]), (", as another's", [theirs])):
            name = f"a remembered log that is {what}{who}"
            yield Case(name, files, "broken", ["CF-VERIFY-024", "CF-VERIFY-052"], heads=heads)
        yield Case(f"a log that is {what}", files, "incomplete", ["CF-VERIFY-024"])


def _spellings() -> Iterator[Case]:
    """Keys whose base64 has bits left over, or other characters in it."""

    def spelled(spki: bytes) -> Iterator[str]:
        text = b64(spki)
        yield from (text[:-2] + char + "=" for char in "wxyz" if not text.endswith(f"{char}="))
        yield from (
            text[:-1],
            f"{text}=",
            f"{text}\n",
            f" {text}",
            text[:30] + "\n" + text[30:],
            f"={text[1:]}",
        )

    for spki in spelled(IDENTITY.spki):
        log = begun(spki=spki)
        name = f"a session's key that is spelled {jcs(spki).decode()}"
        yield broken(name, ending(log), "CF-VERIFY-030", "CF-VERIFY-030")
    for spki in spelled(ACTOR.spki):
        log = begun()
        log.bind("team", ACTOR, spki=spki)
        yield broken(f"a binding's key that is spelled {jcs(spki).decode()}", ending(log), "CF-VERIFY-043")
