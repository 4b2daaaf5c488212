"""Exports as C2SP tlog-tiles, and checkpoints kept elsewhere that a log continues, or does not."""

from __future__ import annotations

import base64
from typing import Any, Final

from making import formats
from making.cases import begun, run
from making.formats import b64, sha256
from making.log_complete import complete
from making.logs import IDENTITY, KEYS, LOG, OTHER, PEER, STRANGER, Log

PATHS: Final = (0, 999, 1000, 1234067)


def path(level: int | str, number: int, width: int) -> str:
    """Path of a tile or bundle."""
    digits = str(number)
    digits = digits.zfill((len(digits) + 2) // 3 * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    name = "/".join([*(f"x{group}" for group in groups[:-1]), groups[-1]])
    return f"tile/{level}/{name}" + ("" if width == 256 else f".p/{width}")


def tiles(texts: list[bytes]) -> dict[str, bytes]:
    """All files of a log of these entries."""
    out: dict[str, bytes] = {}

    def put(level: int | str, pieces: list[bytes]) -> None:
        for at in range(0, len(pieces), 256):
            some = pieces[at : at + 256]
            out[path(level, at // 256, len(some))] = b"".join(some)

    put("entries", [len(text).to_bytes(2, "big") + text for text in texts])
    level, nodes = 0, [formats.leaf(text) for text in texts]
    while nodes:
        put(level, nodes)
        nodes = [formats.root(nodes[at : at + 256]) for at in range(0, len(nodes) - 255, 256)]
        level += 1
    return out


def layouts() -> list[dict[str, Any]]:
    """Small logs in full; larger ones by the SHA-256 of each file."""
    found = []
    for size in (1, 2, 255, 256, 257, 513):
        texts = [b"entry %d" % number for number in range(size)]
        files = tiles(texts)
        case: dict[str, Any] = {
            "name": f"{size} entries, number N is the text `entry N`",
            "root": formats.root([formats.leaf(text) for text in texts]).hex(),
            "size": size,
        }
        if size < 10:
            case["files"] = {name: b64(data) for name, data in sorted(files.items())}
        case["sha256"] = {name: sha256(data) for name, data in sorted(files.items())}
        found.append(case)
    return found


def exported() -> dict[str, Any]:
    """The export of the complete log of log.json."""
    log, _ = complete()
    files = tiles([one["text"].encode() for one in log.entries[: log.checkpoints[-1]["size"]]])
    files["checkpoint"] = log.checkpoints[-1]["note"].encode()
    return {
        "files": {f"{log.name}/{name}": b64(data) for name, data in sorted(files.items())},
        "vkey": formats.vkey(log.origin, log.key),
    }


def proof(size1: int, leaves: list[bytes], *, whole: bool = True) -> list[bytes]:
    """SUBPROOF of RFC 6962 section 2.1.2."""
    if size1 == len(leaves):
        return [] if whole else [formats.root(leaves)]
    left = 1
    while left * 2 < len(leaves):
        left *= 2
    if size1 <= left:
        return [*proof(size1, leaves[:left], whole=whole), formats.root(leaves[left:])]
    return [*proof(size1 - left, leaves[left:], whole=False), formats.root(leaves[:left])]


def two() -> Log:
    """A log with three checkpoints."""
    log = run(begun())
    log.checkpoint()
    run(log)
    log.checkpoint()
    run(log)
    log.checkpoint()
    return log


def continuing() -> list[dict[str, Any]]:
    """What verify says of one log when a note is kept elsewhere."""
    log = two()
    size = len(log.leaves)
    first, middle, last = (one["note"].encode() for one in log.checkpoints)
    witness = formats.note("witness", 1, bytes(32), STRANGER).split(b"\n")[-2]
    end = first.rindex(b" ") + 1
    blob = bytearray(base64.b64decode(first[end:]))
    blob[-1] ^= 1
    forged = first[:end] + b64(bytes(blob)).encode() + b"\n"

    def signed(count: int, root: bytes, **more: Any) -> bytes:
        origin = more.get("origin", log.origin)
        return formats.note(origin, count, root, more.get("key", IDENTITY), name=more.get("name"))

    fine = [
        ("the first checkpoint", first),
        ("a checkpoint between", middle),
        ("the last checkpoint", last),
        ("with a signature of somebody else beside it", first + witness + b"\n"),
        (
            "a checkpoint of a size that stands in no note",
            signed(2, formats.root(log.leaves[:2])),
        ),
    ]
    listed: list[dict[str, Any]] = []
    for name, note in fine:
        earlier = int(note.split(b"\n")[1])
        steps = [step.hex() for step in proof(earlier, log.leaves)]
        root = formats.root(log.leaves[:earlier]).hex()
        listed.append(
            {
                "continues": {
                    "from": {"root": root, "size": earlier},
                    "log": log.name,
                    "origin": log.origin,
                    "proof": steps,
                    "to": {"root": formats.root(log.leaves).hex(), "size": size},
                },
                "findings": [],
                "name": name,
                "note": note.decode(),
                "verdict": "intact",
            }
        )
    wrong = [
        ("another root of that size", signed(4, bytes(32)), "broken", "CF-VERIFY-008"),
        ("a longer log", signed(size + 1, bytes(32)), "broken", "CF-VERIFY-008"),
        (
            "a log that is not here",
            signed(4, bytes(32), origin=f"{IDENTITY.keyid}/{OTHER}"),
            "broken",
            "CF-VERIFY-007",
        ),
        (
            "the name of this log, of another identity",
            signed(4, bytes(32), origin=f"{PEER.keyid}/{LOG}", key=PEER),
            "broken",
            "CF-VERIFY-007",
        ),
        ("signed by somebody else", signed(4, bytes(32), key=STRANGER), "cannot-tell", "CF-NOTE-011"),
        ("signed under another name", signed(4, bytes(32), name="other"), "cannot-tell", "CF-NOTE-011"),
        ("a signature that does not verify", forged, "cannot-tell", "CF-NOTE-012"),
    ]
    listed += [
        {"findings": [code], "name": name, "note": note.decode(), "verdict": verdict}
        for name, note, verdict, code in wrong
    ]
    return listed


def refused() -> list[dict[str, str]]:
    """Files that are no checkpoint: an error of who gave them."""
    empty = formats.note("o", 0, formats.root([]), IDENTITY)
    return [
        {"code": "CF-NOTE-003", "name": "no note", "note": "checkpoint\n"},
        {"code": "CF-NOTE-020", "name": "a checkpoint of no entries", "note": empty.decode()},
        {
            "code": "CF-NOTE-020",
            "name": "a note that is no checkpoint",
            "note": "text\n\n" + empty.decode().split("\n\n")[1],
        },
    ]


def build() -> dict[str, Any]:
    """The file."""
    return {
        "continuing": {
            "cases": continuing(),
            "files": {name: b64(data) for name, data in sorted(two().evidence().items())},
            "keyring": ["identity"],
            "refused": refused(),
        },
        "exported": exported(),
        "keys": {name: key.to_json() for name, key in KEYS.items()},
        "layouts": layouts(),
        "paths": [{"number": number, "path": path(0, number, 256)} for number in PATHS],
    }
