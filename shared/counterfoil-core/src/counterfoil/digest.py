"""One digest per value, however it was reached, so that equal things are stored and hashed once.

The reduced form red(v) of a value depends on the value alone and is built bottom-up (``shared/spec/references.md``):

* a string of 256 or more UTF-8 bytes becomes a reference to those bytes (``sha256sum prompt.txt`` is its digest);
* ``{"$bytes": ...}`` of 256 or more bytes becomes a reference to the bytes themselves;
* a non-empty array whose elements are all ``{"$msg": ...}`` is folded, one element a node
  (``n_k = SHA-256(JCS({"add": e_k, "n": k, "parent": n_(k-1)}))``, the first parent is the empty string);
* any other array or object whose reduced RFC 8785 text has 256 or more bytes becomes a reference to that text.

A reference inside a reduced form is ``{"$ref": {"media", "sha256", "size"}}``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from counterfoil import canonical
from counterfoil._batches import BATCH, FEW, batches
from counterfoil._jcs import MAX_INTEGER
from counterfoil._jcs_fast import float_text
from counterfoil.errors import CanonicalError

__all__ = [
    "INLINE",
    "MEDIA_BYTES",
    "MEDIA_FOLD",
    "MEDIA_JSON",
    "MEDIA_TEXT",
    "Reducer",
    "Reference",
    "Sink",
    "digest_of",
    "fold_node",
    "fold_nodes",
    "is_commitment",
    "is_reference",
    "key_bytes",
    "looks_like_reference",
    "references_in",
    "sha256_hex",
    "short_text",
]

INLINE: Final = 256
"""Bytes from which a string, byte string, array or object is stored apart."""

MEDIA_TEXT: Final = "text/plain;charset=utf-8"
MEDIA_BYTES: Final = "application/octet-stream"
MEDIA_JSON: Final = "application/vnd.counterfoil.value+json"
MEDIA_FOLD: Final = "application/vnd.counterfoil.fold+json"

_HEX64 = re.compile(r"[0-9a-f]{64}\Z")
_FIELDS = frozenset({"media", "sha256", "size"})
_COMMITMENT = frozenset({"commit", "media", "size"})


def sha256_hex(data: bytes) -> str:
    """SHA-256 of ``data`` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Reference:
    """Names stored bytes; compared whole, so equal bytes of another media type are another reference."""

    sha256: str
    size: int
    media: str

    def to_dict(self) -> dict[str, str | int]:
        """The JSON form used in records and, under ``$ref``, in reduced values."""
        return {"media": self.media, "sha256": self.sha256, "size": self.size}

    @classmethod
    def from_dict(cls, value: object) -> Reference:
        """Parse the JSON form; raises CanonicalError (CF-CANON-020) for a missing, extra or wrong member."""
        if not is_reference(value):
            raise CanonicalError(
                "not a reference", code="CF-CANON-020", hint="expected media, sha256 and size"
            )
        assert isinstance(value, dict)
        return cls(value["sha256"], value["size"], value["media"])


def is_reference(value: object) -> bool:
    """Whether ``value`` is exactly the JSON form of a reference."""
    return (
        type(value) is dict
        and value.keys() == _FIELDS
        and type(value["sha256"]) is str
        and _HEX64.match(value["sha256"]) is not None
        and type(value["size"]) is int
        and value["size"] >= 0
        and type(value["media"]) is str
    )


def looks_like_reference(value: object) -> bool:
    """Whether ``value`` has the members of a reference, whatever is in them: then it has to be one."""
    return type(value) is dict and value.keys() == _FIELDS


def is_commitment(value: object) -> bool:
    """Whether ``value`` stands for personal data: a keyed commitment, whose bytes the log never holds.

    ``{"commit": 64 hex digits, "media", "size"}``; a reader cannot follow it and leaves it as it is.
    """
    return (
        type(value) is dict
        and value.keys() == _COMMITMENT
        and type(value["commit"]) is str
        and _HEX64.match(value["commit"]) is not None
        and type(value["size"]) is int
        and value["size"] >= 0
        and type(value["media"]) is str
    )


def references_in(value: object) -> Iterator[Reference]:
    """Every reference inside a parsed record or reduced value, depth first, without recursion."""
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if is_reference(node):
                yield Reference(node["sha256"], node["size"], node["media"])
            else:
                stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)


def fold_node(element: bytes, number: int, parent: str) -> bytes:
    """RFC 8785 text of one node of a folded message list (``number`` counts from 1)."""
    return b'{"add":%b,"n":%d,"parent":"%b"}' % (element, number, parent.encode())


def fold_nodes(elements: list[bytes], start: int, parent: str) -> Iterator[tuple[str, bytes]]:
    """(digest, text) of consecutive nodes whose first has number ``start`` and parent digest ``parent``."""
    for number, element in enumerate(elements, start):
        text = fold_node(element, number, parent)
        parent = sha256_hex(text)
        yield parent, text


Sink = Callable[[str, bytes], object]
"""Takes (hex SHA-256, bytes) of every blob; called before the reference to it is returned."""


def _no_sink(sha256: str, data: bytes) -> None:
    return None


class Reducer:
    """Reduces canonical values to RFC 8785 bytes and hands every blob to ``sink`` (default: hash only)."""

    __slots__ = ("_sink",)

    def __init__(self, sink: Sink = _no_sink) -> None:
        self._sink = sink

    def reduce(self, value: object) -> bytes:
        """RFC 8785 bytes of red(value); raises CanonicalError when ``value`` is not a canonical value."""
        kind = type(value)
        if kind is str:
            assert isinstance(value, str)
            if len(value) < INLINE and value.isascii():
                return canonical.dumps_record(value)[:-1] + b'"'  # as short_text, once for each text
            return self._string(value)
        if kind is dict:
            assert isinstance(value, dict)
            return self._object(value)
        if kind is list:
            assert isinstance(value, list)
            return self._array(value)
        if kind is int and -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
            return b"%d" % value  # type: ignore[str-format]
        if kind is float and value - value == 0:  # type: ignore[operator]
            return float_text(value).encode()  # type: ignore[arg-type]
        return _LITERALS[value] if value is None or kind is bool else canonical.dumps(value)  # type: ignore[index]

    def reference(self, value: object) -> Reference:
        """Store ``value`` whatever its size and return its reference (records cite values only this way)."""
        if type(value) is str:
            return self.text(value)
        if type(value) is dict and value.keys() == {"$bytes"}:
            return self.raw(_unbase64(value["$bytes"]))
        return self.reference_of(self.reduce(value))

    def reference_of(self, reduced: bytes) -> Reference:
        """Reference of an already reduced array, object, number or literal."""
        if reduced.startswith(b'{"$ref":'):
            return Reference.from_dict(orjson.loads(reduced)["$ref"])
        return self.blob(reduced, MEDIA_JSON)

    def blob(self, data: bytes, media: str) -> Reference:
        """Store bytes under their SHA-256."""
        sha256 = sha256_hex(data)
        self._sink(sha256, data)
        return Reference(sha256, len(data), media)

    def text(self, text: str) -> Reference:
        """Store a string as its UTF-8 bytes, whatever its size."""
        return self.blob(_utf8(text), MEDIA_TEXT)

    def raw(self, data: bytes) -> Reference:
        """Store a byte string, whatever its size."""
        return self.blob(data, MEDIA_BYTES)

    def fold(self, elements: list[bytes]) -> Reference:
        """Fold the reduced bytes of ``$msg`` elements; the reference names the last node."""
        return self.fold_from(elements, 1, "")

    def fold_from(self, elements: list[bytes], start: int, parent: str) -> Reference:
        """Fold further elements onto the node ``parent`` with number ``start - 1``."""
        sha256, size = parent, 0
        for sha256, text in fold_nodes(elements, start, parent):
            self._sink(sha256, text)
            size = len(text)
        return Reference(sha256, size, MEDIA_FOLD)

    def _string(self, text: str) -> bytes:
        data = _utf8(text)
        if len(data) < INLINE:
            return short_text(text)
        return _ref_bytes(self.blob(data, MEDIA_TEXT))

    def _object(self, value: dict[str, Any]) -> bytes:
        if value.keys() == {"$bytes"}:
            data = _unbase64(value["$bytes"])
            return _kept(canonical.dumps(value)) if len(data) < INLINE else _ref_bytes(self.raw(data))
        if value.keys() == {"$ref"} and (is_reference(value["$ref"]) or is_commitment(value["$ref"])):
            return _kept(canonical.dumps(value))
        reduce = self.reduce
        keys = sorted_keys(value)
        try:
            if len(keys) <= BATCH:
                parts = [key_bytes(key) + reduce(value[key]) for key in keys]
            else:
                parts = [
                    b",".join([key_bytes(key) + reduce(value[key]) for key in keys[start : start + BATCH]])
                    for start in range(0, len(keys), BATCH)
                ]
        except RecursionError as exc:
            raise CanonicalError("nested too deeply", code="CF-CANON-022") from exc
        return self._composite(b"{" + b",".join(parts) + b"}")

    def _array(self, value: list[Any]) -> bytes:
        reduce = self.reduce
        folded = bool(value) and all(type(one) is dict and one.keys() == {"$msg"} for one in value)
        try:
            if folded or len(value) < FEW:
                parts = [reduce(element) for element in value]
            else:
                parts = [
                    b",".join([reduce(element) for element in part]) if text is None else text
                    for part, text in batches(value, INLINE)
                ]
        except RecursionError as exc:
            raise CanonicalError("nested too deeply", code="CF-CANON-022") from exc
        if folded:
            return _ref_bytes(self.fold(parts))
        return self._composite(b"[" + b",".join(parts) + b"]")

    def _composite(self, data: bytes) -> bytes:
        if len(data) < INLINE:
            return data
        return _ref_bytes(self.blob(data, MEDIA_JSON))


_LITERALS: Final = {None: b"null", False: b"false", True: b"true"}


def _kept(data: bytes) -> bytes:
    """The same bytes in a block of their size, for what is kept as one of many."""
    return data[:-1] + data[-1:]


def short_text(text: str) -> bytes:
    """RFC 8785 bytes of a well-formed text, in a block of their size (orjson's have at least a kilobyte)."""
    return canonical.dumps_record(text)[:-1] + b'"'


def sorted_keys(value: dict[str, Any]) -> list[str]:
    """Keys in RFC 8785 order (UTF-16 code units); raises CanonicalError (CF-CANON-023) for no string."""
    try:
        if all(map(str.isascii, value)):
            return sorted(value)
        return sorted(value, key=lambda key: key.encode("utf-16-be"))
    except (TypeError, UnicodeEncodeError) as exc:
        raise CanonicalError("an object key is not a well-formed string", code="CF-CANON-023") from exc


_KEYS: Final[dict[str, bytes]] = {}


def key_bytes(key: str) -> bytes:
    """``"key":`` in RFC 8785 bytes; keys come again and again, so the first thousands are remembered."""
    found = _KEYS.get(key)
    if found is None:
        found = canonical.dumps(key) + b":"
        if len(_KEYS) < 4096 and len(key) <= 64:
            _KEYS[key] = found
    return found


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise CanonicalError(
            "a string with a lone surrogate is no canonical value",
            code="CF-CANON-021",
            hint="use counterfoil.values.encode",
        ) from exc


def _ref_bytes(ref: Reference) -> bytes:
    return b'{"$ref":{"media":"%b","sha256":"%b","size":%d}}' % (
        ref.media.encode(),
        ref.sha256.encode(),
        ref.size,
    )


def _unbase64(text: object) -> bytes:
    try:
        if type(text) is not str:
            raise ValueError
        data = base64.b64decode(text, validate=True)
        if base64.b64encode(data).decode() != text:
            raise ValueError
    except (ValueError, binascii.Error) as exc:
        raise CanonicalError("$bytes does not hold canonical base64", code="CF-CANON-024") from exc
    return data


def digest_of(value: object) -> str:
    """``counterfoil-v1`` digest (hex) of a canonical value: the SHA-256 its reference would carry."""
    return Reducer().reference(value).sha256
