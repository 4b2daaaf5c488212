"""What stored bytes can be cited as: text, a reduced value with its parts, a node of a message list.

A blob has no type of its own, so each is looked at once, when it passes by. What is no value (or no node) may still be
somebody's text; it matters only where it is cited as more. Rules: ``shared/spec/references.md``, *Stored values*.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from counterfoil import canonical
from counterfoil._jcs_fast import fast
from counterfoil.digest import INLINE, MEDIA_FOLD, MEDIA_JSON, MEDIA_TEXT, is_reference
from counterfoil.errors import CanonicalError

__all__ = [
    "ANY",
    "CITED",
    "FOLD",
    "MAX_NUMBER",
    "NODE",
    "NODE_END",
    "REFERENCE",
    "TEXT",
    "VALUE",
    "Part",
    "Shape",
    "is_text",
    "need_of",
    "parts_of",
    "shape_of",
]

ANY: Final = 0
"""What a part has to be: any bytes; UTF-8 text; a reduced value; a node of a message list. A number above 0: the node
of that number."""
TEXT: Final = -1
VALUE: Final = -2
FOLD: Final = -3
MAX_NUMBER: Final = (1 << 30) - 1
"""Largest number of a node."""
_DEPTH: Final = 128
"""Containers within containers: a reduced value has at most 128, as what stands inside it is shorter than 256 bytes."""
_PIECE: Final = 1 << 17
"""Bytes of a blob that are parsed at once: parsed, they take thirty times as much."""
_CUT: Final = 1 << 12
_WHOLE: Final = 1 << 26
_TRIES: Final = 512

REFERENCE: Final = re.compile(
    rb'\{"\$ref":\{"media":"((?:[^"\\]++|\\.)*+)","sha256":"([0-9a-f]{64})","size":(0|[1-9][0-9]{0,15})\}\}'
)
"""A reference in a value, which is canonical JSON: there it reads just so, and no string holds a bare quote."""
CITED: Final = re.compile(
    rb'\{"media":"([ !#-\[\]-~]*+)","sha256":"([0-9a-f]{64})","size":([1-9][0-9]{0,15}+|0)\}'
).fullmatch
"""A reference's own text, canonical."""
NODE_END: Final = re.compile(rb',"n":[0-9]{1,20},"parent":"([0-9a-f]{64})?"\}\Z')
"""How a node of a message list ends: with the one before it, if there is one."""
_NUMBER: Final = re.compile(rb"-?[0-9]")
_LITERALS: Final = frozenset((b"true", b"false", b"null"))
_HEX: Final = re.compile(r"[0-9a-f]{64}\Z")
_NEEDS: Final = {MEDIA_TEXT: TEXT, MEDIA_JSON: VALUE, MEDIA_FOLD: FOLD}


class Part(NamedTuple):
    """What a composite cites: digest, size (-1: any), and what it has to be."""

    digest: bytes
    size: int
    need: int


class Shape(NamedTuple):
    """A reduced value; of a node of a message list its number (else 0), and the node before if there is one."""

    number: int = 0
    parent: Part | None = None


def need_of(media: str) -> int:
    """What bytes cited under a media type have to be."""
    return _NEEDS.get(media, ANY)


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), _PIECE):
            decoder.decode(data[at : at + _PIECE], final=at + _PIECE >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def shape_of(data: bytes) -> Shape | None:
    """The reduced value that bytes are the RFC 8785 text of, None when they are none."""
    first = data[:1]
    if first not in (b"{", b"["):
        whole = data in _LITERALS or (len(data) <= 32 and _NUMBER.match(data) is not None)
        return _PLAIN if whole and _is_canonical(data) else None
    if data[-1:] != (b"}" if first == b"{" else b"]") or data[1:2] not in _SECOND[first]:
        return None
    if len(data) > _PIECE:
        return _PLAIN if _in_pieces(data) else None
    value = _read(data)
    if value is None or not _is_reduced(value, data):
        return None
    return _node(value) if type(value) is dict and value.keys() == NODE else _PLAIN


_PLAIN: Final = Shape()
_SECOND: Final = {b"{": (b'"', b"}"), b"[": tuple(bytes([byte]) for byte in b'"[{]-0123456789tfn')}
NODE: Final = frozenset({"add", "n", "parent"})
"""Members of a node of a message list."""


def parts_of(data: bytes) -> Iterator[Part]:
    """What a reduced value cites, in the order of its text."""
    if b'{"$ref":' not in data:
        return
    for found in REFERENCE.finditer(data):
        # A media type of any length may stand there; only three of them matter.
        media = found[1].decode() if found.end(1) - found.start(1) <= 64 and found[1].isascii() else ""
        yield Part(bytes.fromhex(found[2].decode()), int(found[3]), _NEEDS.get(media, ANY))


def _node(value: dict[str, Any]) -> Shape:
    """A value that looks like a node of a message list, with its number if it is one."""
    add, number, parent = value["add"], value["n"], value["parent"]
    if type(number) is not int or not 1 <= number <= MAX_NUMBER or type(parent) is not str:
        return _PLAIN
    if type(add) is not dict or not (
        add.keys() == {"$msg"} or (_is_ref(add) and add["$ref"]["media"] == MEDIA_JSON)
    ):
        return _PLAIN
    if number == 1:
        return Shape(1) if parent == "" else _PLAIN
    if not _HEX.match(parent):
        return _PLAIN
    return Shape(number, Part(bytes.fromhex(parent), -1, number - 1))


def _read(data: bytes) -> Any:
    """The value of a canonical text, None when it is not canonical."""
    try:
        value = orjson.loads(data)
    except ValueError:
        # What orjson does not read is not canonical, or nested more deeply than a reduced value.
        return None
    written = fast(value, below=2.0**53) if canonical.fast_path_enabled() else None
    if written is None:
        return value if _is_canonical(data) else None
    return value if written == data else None


def _is_canonical(data: bytes) -> bool:
    try:
        canonical.loads_canonical(data, max_depth=_DEPTH)
    except CanonicalError:
        return False
    return True


def _is_ref(value: dict[str, Any]) -> bool:
    return value.keys() == {"$ref"} and is_reference(value["$ref"])


def _is_reduced(value: Any, data: bytes) -> bool:
    """Whether nothing in a canonical array or object would stand apart by the rules of reduction."""
    if type(value) is dict:
        if value.keys() == {"$bytes"} or _is_ref(value):
            return False
    elif _messages(value):
        return False
    return _inside(value, data)


def _inside(value: Any, data: bytes) -> bool:
    """The same for what stands inside; what is inside something short is shorter, so the outermost layer decides."""
    children = value.values() if type(value) is dict else value
    return all(map(_stays, children)) and (b'"$msg"' not in data or not any(map(_unfolded, children)))


def _stays(child: Any) -> bool:
    kind = type(child)
    if kind is str:
        return len(child) * 4 < INLINE or len(child.encode()) < INLINE
    if kind is dict:
        if child.keys() == {"$bytes"}:
            return _short_bytes(child["$bytes"])
        if _is_ref(child):
            return True
    elif kind is not list:
        return True
    return not child or len(canonical.dumps(child)) < INLINE


def _short_bytes(text: Any) -> bool:
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return False
    return len(data) < INLINE and base64.b64encode(data).decode() == text


def _messages(value: Any) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(type(one) is dict and one.keys() == {"$msg"} for one in value)
    )


def _unfolded(value: Any) -> bool:
    """Whether a list of messages stands in a value, which would be folded."""
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            stack.extend(node.values())
        elif type(node) is list:
            if _messages(node):
                return True
            stack.extend(node)
    return False


# -- long values ------------------------------------------------------------------------------------------------------


def _in_pieces(data: bytes) -> bool:
    """Whether a long text is a reduced array or object; cut where elements end, so that few are parsed at once."""
    last: bytes | None = None
    messages = data[:1] == b"["
    for piece in _pieces(data):
        value = None if piece is None else _read(piece)
        if piece is None or not value or not _inside(value, piece):
            return False
        if type(value) is dict:
            keys = list(value)
            if last is not None and keys[0].encode("utf-16-be") <= last:
                return False
            last = keys[-1].encode("utf-16-be")
        messages = messages and _messages(value)
    return not messages


def _pieces(data: bytes) -> Iterator[bytes | None]:
    """Arrays (objects) of consecutive elements (members); None where no cut is found."""
    opened, closed = data[:1], data[-1:]
    start, end = 1, len(data) - 1
    while end - start > _CUT:
        stop = _cut(data, start, opened, closed)
        if stop < 0:
            break
        yield opened + data[start:stop] + closed
        start = stop + 1
    yield opened + data[start:end] + closed if end - start <= _WHOLE else None


def _cut(data: bytes, start: int, opened: bytes, closed: bytes) -> int:
    """A comma between two elements some way behind ``start``, -1 when it is hard to find."""
    for window in (_CUT, _CUT * 16, _CUT * 256):
        stop = start + window
        for _ in range(_TRIES):
            stop = data.rfind(b",", start, stop)
            if stop < 0:
                break
            try:
                orjson.loads(opened + data[start:stop] + closed)
            except ValueError:
                continue
            return stop
    return -1
