"""Canonical values, their reduced form, their reference and the blobs behind it."""

from __future__ import annotations

from typing import Any

from making.formats import Blobs, b64, jcs, sha256
from making.log_complete import message

COMMITMENT = {
    "commit": "5d1f0a6c0c7d8f3f2f7a0a55f4f6f2cf6f0b5be1d1a8a4f2c6f0c4c0a1c7e8d9",
    "media": "text/plain;charset=utf-8",
    "size": 300,
}


def case(name: str, value: Any) -> dict[str, Any]:
    """One value; a blob is given as text where it is one."""
    reduced = jcs(Blobs().reduce(value)).decode()
    blobs = Blobs()
    reference = blobs.reference(value)
    return {
        "blobs": [stored(digest, data) for digest, data in blobs.found.items()],
        "name": name,
        "reduced": reduced,
        "reference": reference,
        "value": jcs(value).decode(),
    }


def stored(digest: str, data: bytes) -> dict[str, Any]:
    """A blob."""
    try:
        return {"sha256": digest, "size": len(data), "text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64(data), "sha256": digest, "size": len(data)}


def values() -> list[dict[str, Any]]:
    """Every rule, on both sides of its border."""
    human = message("human", "Hello")
    long = message("ai", "Good morning. " * 20)
    wide = message("ai", "", name="n" * 240)
    object_255 = {"k" * 10: "v" * 120, "l": "w" * 111}
    assert len(jcs(object_255)) == 255
    object_256 = {**object_255, "l": "w" * 112}
    array_255 = ["a" * 124, "b" * 124]
    assert len(jcs(array_255)) == 255
    return [
        case("null", None),
        case("a number", 1.5),
        case("a short text", "Hello"),
        case("an empty text", ""),
        case("a text of 255 bytes", "a" * 255),
        case("a text of 256 bytes", "a" * 256),
        case("127 letters of two bytes", "\u00e9" * 127),
        case("128 letters of two bytes", "\u00e9" * 128),
        case("a short object", {"b": [1, None, True], "a": "x"}),
        case("an object of 255 bytes", object_255),
        case("an object of 256 bytes", object_256),
        case("an array of 255 bytes", array_255),
        case("an array of 256 bytes", [*array_255[:1], "b" * 125]),
        case("an object with a long text", {"text": "a" * 256}),
        case(
            "objects within objects",
            {"outer": {"inner": object_256, "n": 1}, "list": [object_256, "b" * 300]},
        ),
        case("keys by UTF-16 code unit", {"\uffff": "a" * 256, "\U00010000": "b" * 256}),
        case("255 bytes", {"$bytes": b64(b"\x00" * 255)}),
        case("256 bytes", {"$bytes": b64(b"\x00" * 256)}),
        case("bytes inside", {"data": {"$bytes": b64(bytes(range(256)))}}),
        case(
            "a reference stays",
            {"a": {"$ref": {"media": "text/plain;charset=utf-8", "sha256": "0" * 64, "size": 9}}},
        ),
        case("a commitment stays", {"who": {"$ref": COMMITMENT}}),
        case("no messages", []),
        case("one message", [human]),
        case("two messages", [human, long]),
        case("three messages", [human, long, human]),
        case("a message whose own object is long", [wide]),
        case("messages in a state", {"messages": [human, long], "turn": 3}),
        case("messages among others are not folded", [human, {"text": "no message"}]),
        case("a message alone is not folded", human),
        case("messages in a list of lists", [[human], [long]]),
    ]


def folds() -> list[dict[str, Any]]:
    """Nodes of one list, as it grows."""
    listed = [message("system", "Be brief."), message("human", "Hello"), message("ai", "Good morning. " * 20)]
    out: list[dict[str, Any]] = []
    parent = ""
    for number, one in enumerate(listed, 1):
        text = jcs({"add": Blobs().reduce(one), "n": number, "parent": parent})
        parent = sha256(text)
        out.append({"message": jcs(one).decode(), "node": text.decode(), "sha256": parent, "size": len(text)})
    return out


def build() -> dict[str, Any]:
    """The file."""
    refused = [
        {"code": "CF-CANON-024", "name": "base64 without padding", "value": '{"$bytes":"AA"}'},
        {"code": "CF-CANON-024", "name": "base64 with bits left over", "value": '{"$bytes":"AB=="}'},
        {"code": "CF-CANON-024", "name": "bytes that are no text", "value": '{"$bytes":1}'},
        {
            "code": "CF-CANON-020",
            "name": "a reference without size",
            "value": '{"$ref":{"media":"x","sha256":"y"}}',
        },
    ]
    return {"folds": folds(), "refused": refused, "values": values()}
