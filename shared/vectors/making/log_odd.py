"""Logs in which one thing is spelled, or typed, as no writer would, and logs that do not say whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from making import formats
from making.cases import Case, begun, broken, ending, flushed, run, small
from making.formats import BLOB, FIRST, b64, jcs
from making.logs import ACTOR, IDENTITY, LOG, OTHER, PEER, Log

_OTHERS: Final[tuple[Any, ...]] = (1, True, False, "0", [], {}, [0], {"segment": 0})
"""Values of all kinds (a null or a double is told by itself)."""


def odd_cases() -> Iterator[Case]:
    """Every one of them."""
    yield from _recoveries()
    yield from _versions()
    yield from _nameless()
    yield from _spellings()
    yield from _frames()
    yield from _cited()


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
    good: dict[str, Any] = {"content": {"op": "x", "phase": "point"}, "context": {}, "v": 2}
    changes: list[dict[str, Any]] = [{"v": one} for one in (-1, 0, *_OTHERS[1:])]
    changes += [{name: one} for name in ("content", "context") for one in _OTHERS]
    changes += [{"content": {"op": one}} for one in _OTHERS]
    for change in changes:
        log = begun()
        log.entry(good | change)
        name = f"a record of a later version with {jcs(change).decode()}"
        yield Case(name, ending(log).evidence(), "cannot-tell", ["CF-LOG-022"])
    for change in (
        {"more": 1},
        {"v": 1, "content": 1},
        {"v": 1, "context": []},
        {"v": 1, "content": {"op": 1}},
    ):
        log = begun()
        log.entry(good | change)
        yield broken(f"a record with {jcs(change).decode()}", ending(log), "CF-LOG-021")
    log, other = small(), begun(Log(OTHER))
    other.entry(good)
    name = "a run, and another log with a record of a later version"
    yield Case(name, ending(log).evidence(ending(other)), "cannot-tell", ["CF-LOG-022"], counts={"logs": 2})


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


def _frames() -> Iterator[Case]:
    """Frames whose header says more than their window, or one that is too large."""
    items = formats.item(BLOB, b"A" * 10)
    block = (len(items) << 3).to_bytes(3, "little") + items
    magic = formats.zstd(b"", first=True)[:4]
    heads = {"a window of 1 KiB": (b"\x00\x00", []), "a window of 2 MiB": (b"\x00\x58", [])}
    refused = {
        "a window of more than 128 MiB": b"\x00\x89",
        "the largest window": b"\x00\xff",
        "a checksum": b"\x04\x58",
        "a reserved bit": b"\x08\x58",
        "an unused bit": b"\x10\x58",
        "a dictionary of no number": b"\x01\x58\x00",
        "a dictionary": b"\x01\x58\x07",
        "a dictionary of two bytes": b"\x02\x58\x00\x00",
        "a dictionary of four bytes": b"\x03\x58" + bytes(4),
        "its right size": b"\xc0\x58" + len(items).to_bytes(8, "little"),
        "a smaller size": b"\xc0\x58" + (5).to_bytes(8, "little"),
        "a larger size": b"\x80\x58" + (99).to_bytes(4, "little"),
        "a size from 256": b"\x40\x58\x00\x00",
        "its right size in one segment": b"\x20" + bytes([len(items)]),
        "another size in one segment": b"\x20\x63",
    }
    heads |= {name: (head, ["CF-LOG-010"]) for name, head in refused.items()}
    for name, (head, codes) in heads.items():
        log = flushed(run(begun()))
        log.files[0] += formats.chunk(FIRST, magic + head + block, len(items))
        found = ending(log).evidence()
        yield Case(f"a frame that tells {name}", found, "broken" if codes else "intact", codes)


def _cited() -> Iterator[Case]:
    """A list of other logs that a session names by another size is not that list."""
    others = begun(Log(OTHER))
    others.checkpoint()
    for size in (0, 1, 2**53 - 1):
        log = Log()
        log.segment()
        note = log.blob(others.checkpoints[-1]["note"].encode())
        seen = {**log.blob(jcs([{"log": OTHER, "note": note}])), "media": formats.VALUE, "size": size}
        log.session(seen=seen)
        found = ending(log).evidence(others)
        name = f"a list of other logs under a reference of size {size}"
        yield Case(name, found, "broken", ["CF-VERIFY-010", "CF-CANON-011"])
