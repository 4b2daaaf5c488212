"""Writes bundles line by line from logs in the making; which entries are shown is said by hand, in each case."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from making import formats
from making.formats import Key, b64, jcs, sha256
from making.logs import Log

PIECE: Final = 131_072


def gap_sizes(start: int, count: int) -> list[int]:
    """Sizes of the complete subtrees of a gap: the largest that is aligned and fits, again and again."""
    out = []
    while count:
        size = 1
        while start % (size * 2) == 0 and size * 2 <= count:
            size *= 2
        out.append(size)
        start, count = start + size, count - size
    return out


def gap(log: Log, start: int, end: int) -> bytes:
    """A gap line."""
    hashes = []
    at = start
    for size in gap_sizes(start, end - start):
        hashes.append(formats.root(log.leaves[at : at + size]).hex())
        at += size
    return jcs({"count": end - start, "hashes": hashes, "kind": "gap"})


def head(log: Log, size: int) -> bytes:
    """A head line."""
    return jcs({"kind": "head", "root": formats.root(log.leaves[:size]).hex(), "size": size})


def section(log: Log, shown: Iterable[int], heads: Iterable[int] = (), checkpoint: int = -1) -> list[bytes]:
    """All lines of one log; ``checkpoint`` says which of its notes."""
    note = log.checkpoints[checkpoint]
    chosen, marks, at = set(shown), set(heads), 0
    out = [jcs({"kind": "log", "note": note["note"], "spki": b64(log.key.spki)})]
    while at < note["size"]:
        if at in marks:
            out.append(head(log, at))
        end = at + 1
        if at in chosen:
            out.append(log.entries[at]["text"].encode())
        else:
            while end < note["size"] and end not in chosen and end not in marks:
                end += 1
            out.append(gap(log, at, end))
        at = end
    return out


def blob(data: bytes) -> list[bytes]:
    """All lines of one blob."""
    try:
        text: str | None = data.decode()
    except UnicodeDecodeError:
        text = None
    pieces: list[Any] = []
    if text is None:
        pieces = [b64(data[at : at + PIECE]) for at in range(0, len(data), PIECE)]
    else:
        part, size = "", 0
        for char in text:
            width = len(char.encode())
            if size + width > PIECE:
                pieces.append(part)
                part, size = "", 0
            part, size = part + char, size + width
        pieces.append(part)
    form = "base64" if text is None else "text"
    first = jcs({"kind": "blob", "sha256": sha256(data), "size": len(data), form: pieces[0]})
    return [first, *(jcs({"kind": "more", form: piece}) for piece in pieces[1:])]


def references(value: Any) -> Iterator[dict[str, Any]]:
    """Every reference inside a value."""
    if isinstance(value, dict):
        if set(value) == {"media", "sha256", "size"}:
            yield value
            return
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from references(one)


def cited(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What an entry's body references."""
    if "content" in body:
        yield from references(body)
        return
    predicate = json.loads(base64.b64decode(body["payload"]))["predicate"]
    if "content" in predicate:
        yield {"sha256": predicate["content"]["payload"], **predicate["payload"]}
    if "parentSet" in predicate:
        yield {"media": formats.VALUE, **predicate["parentSet"]}


def reached(log: Log, shown: Iterable[int]) -> dict[str, bytes]:
    """Every blob that the entries of a log cite, and what those cite in turn."""
    waiting = [one for index in shown for one in cited(json.loads(log.entries[index]["text"])["body"])]
    found: dict[str, bytes] = {}
    seen = set()
    while waiting:
        one = waiting.pop()
        digest, media = one["sha256"], one["media"]
        if (digest, media) in seen or digest not in log.blobs:
            continue
        seen.add((digest, media))
        found[digest] = log.blobs[digest]
        if media in (formats.VALUE, formats.FOLD) and found[digest][:1] in (b"{", b"["):
            value = json.loads(found[digest])
            waiting += [inner for inner in _inner(value)]
            if media == formats.FOLD and value["parent"]:
                waiting.append({"media": formats.FOLD, "sha256": value["parent"]})
    return found


def _inner(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if set(value) == {"$ref"}:
            yield value["$ref"]
            return
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _inner(one)


def lines(
    asked: dict[str, str],
    sections: Sequence[list[bytes]],
    blobs: dict[str, bytes],
    *,
    absent: Iterable[str] = (),
    keys: Iterable[Key] = (),
    counts: dict[str, int] | None = None,
) -> list[bytes]:
    """All lines of a bundle; ``counts`` replaces some of its counts."""
    entries = sum(line.startswith(b'{"body":') for one in sections for line in one)
    gone = sorted(absent)
    carried = sorted(keys, key=lambda key: key.keyid)
    told = {
        "absent": len(gone),
        "blobs": len(blobs),
        "bytes": sum(map(len, blobs.values())),
        "entries": entries,
        "keys": len(carried),
        "logs": len(sections),
    } | (counts or {})
    return [
        jcs({"counterfoil": "bundle", "v": 1}),
        jcs({"asked": asked, "counts": told, "kind": "contents"}),
        *(line for one in sections for line in one),
        *(line for digest in sorted(blobs) for line in blob(blobs[digest])),
        *(jcs({"digest": digest, "kind": "absent"}) for digest in gone),
        *(jcs({"kind": "key", "spki": b64(key.spki)}) for key in carried),
    ]


def text(found: Iterable[bytes]) -> bytes:
    """The bundle's bytes."""
    return b"".join(line + b"\n" for line in found)


def packed(found: str) -> str | list[Any]:
    """A text; where something in it repeats a thousand times, a list of texts and of [text, times]."""
    parts: list[Any] = []
    end = 0
    for repeat in re.finditer(r"(.{1,4}?)\1{999,}", found):
        parts += [found[end : repeat.start()], [repeat[1], len(repeat[0]) // len(repeat[1])]]
        end = repeat.end()
    return [*parts, found[end:]] if parts else found
