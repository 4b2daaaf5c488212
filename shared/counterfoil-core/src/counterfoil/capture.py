"""Python objects to references in one pass, so that a callback pays for what is new and not for the history again.

``Capture.reference(obj)`` equals ``Reducer.reference(values.encode(obj))`` for every object (a test holds that); it
walks plain JSON types directly and memoises messages by a key their adapter gives, never by object identity.
"""

from __future__ import annotations

import marshal
from typing import Any, Final

from counterfoil import canonical, values
from counterfoil.digest import (
    INLINE,
    MEDIA_FOLD,
    MEDIA_JSON,
    MEDIA_TEXT,
    Reducer,
    Reference,
    Sink,
    fold_node,
    key_bytes,
    sha256_hex,
)

__all__ = ["Capture"]

_WALK_DEPTH: Final = 60
_MEMO_BYTES: Final = 64 << 20
"""Text kept alive by the memos before they are dropped."""
_DIRECT: Final = frozenset({int, bool, type(None)})


class _TooDeep(Exception):
    """Nested deeper than the direct walk goes (or cyclic): the written rule takes over for the whole value."""


class Capture:
    """Encodes, reduces and hands blobs to ``sink``; safe to use from several threads."""

    __slots__ = ("_elements", "_folds", "_reducer", "_sink", "_spent", "_texts")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._reducer = Reducer(sink)
        # Each memo is filled after the blob is queued, so that no other thread cites a blob that is not.
        self._elements: dict[object, bytes] = {}
        self._folds: dict[tuple[str, bytes], tuple[str, int]] = {}
        self._texts: dict[str, bytes] = {}
        self._spent = 0

    def forget(self) -> None:
        """Drop the memos (another log must get the blobs again)."""
        self._elements, self._folds, self._texts, self._spent = {}, {}, {}, 0

    def reference(self, obj: object) -> Reference:
        """Reference of any Python object, its blobs queued."""
        kind = type(obj)
        try:
            if kind is str:
                assert isinstance(obj, str)
                return self._reducer.reference(values.encode(obj))
            if kind is bytes:
                assert isinstance(obj, bytes)
                return self._reducer.raw(obj)
            if kind is dict or kind is list:
                return self._reducer.reference_of(self._walk(obj, 0))
        except _TooDeep:
            pass
        return self._reducer.reference(values.encode(obj))

    def reduce(self, obj: object) -> bytes:
        """RFC 8785 bytes of the reduced form of any Python object, its blobs queued."""
        try:
            return self._walk(obj, 0)
        except _TooDeep:
            return self._reducer.reduce(values.encode(obj))

    def cached(self, obj: object) -> bytes:
        """As ``reduce``, remembered by content: for settings and tool definitions that come again with every call.

        ``marshal`` (version 2) is exact for JSON types and refuses the others.
        """
        try:
            key = marshal.dumps(obj, 2)  # type: ignore[arg-type]
        except ValueError:
            return self.reduce(obj)
        found = self._elements.get(key)
        if found is None:
            found = self.reduce(obj)
            self._spend(len(key))
            self._elements[key] = found
        return found

    def composed(self, parts: dict[str, bytes]) -> Reference:
        """Reference of an object whose values are reduced already; keys are ASCII and do not start with ``$``."""
        data = b",".join(b'"%b":%b' % (key.encode(), parts[key]) for key in sorted(parts))
        return self._reducer.blob(b"{" + data + b"}", MEDIA_JSON)

    # -- the walk -----------------------------------------------------------------------------------------------------

    def _walk(self, obj: object, depth: int) -> bytes:
        kind = type(obj)
        if kind is str:
            return self.text(obj)  # type: ignore[arg-type]
        if kind is dict:
            return self._dict(obj, depth)  # type: ignore[arg-type]
        if kind is list:
            return self._list(obj, depth)  # type: ignore[arg-type]
        if kind in _DIRECT:
            return canonical.dumps_record(obj) if kind is not int else canonical.dumps(values.encode(obj))
        key = values.message_key(kind)
        if key is not None:
            return self._message(obj, key, depth)
        return self._reducer.reduce(self._inner(obj, depth))

    def _inner(self, obj: object, depth: int) -> object:
        """Encoded part; what ends in ``$cycle`` or ``$deep`` counts from the root, so the root is encoded instead."""
        encoded = values.encode(obj, depth=depth)
        if depth and type(obj) not in _SCALARS and _has_cut(encoded):
            raise _TooDeep
        return encoded

    def _message(self, obj: object, key: values.MemoKey, depth: int) -> bytes:
        memo = key(obj)
        if memo is not None:
            found = self._elements.get(memo)
            if found is not None:
                return found
        write = values.message_writer(type(obj))
        reduced = write(obj, self) if write is not None else None
        if reduced is None:
            reduced = self._reducer.reduce(self._inner(obj, depth))
        if memo is not None:
            self._spend(1024)
            self._elements[memo] = reduced
        return reduced

    def text(self, text: str) -> bytes:
        """Reduced form of a string."""
        if len(text) * 3 < INLINE:
            return canonical.dumps_record(text) if text.isascii() else canonical.dumps(values.encode(text))
        found = self._texts.get(text)
        if found is not None:
            return found
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return self._reducer.reduce(values.encode(text))
        if len(data) < INLINE:
            return canonical.dumps_record(text)
        sha256 = sha256_hex(data)
        self._sink(sha256, data)
        reduced = _ref(MEDIA_TEXT, sha256, len(data))
        self._spend(len(data))
        self._texts[text] = reduced
        return reduced

    def _dict(self, obj: dict[Any, Any], depth: int) -> bytes:
        if depth >= _WALK_DEPTH:
            raise _TooDeep
        for key in obj:
            if type(key) is not str or not key.isascii() or key.startswith("$"):
                return self._reducer.reduce(self._inner(obj, depth))
        walk = self._walk
        parts = [key_bytes(key) + walk(obj[key], depth + 1) for key in sorted(obj)]
        return self.composite(b"{" + b",".join(parts) + b"}")

    def _list(self, obj: list[Any], depth: int) -> bytes:
        if depth >= _WALK_DEPTH:
            raise _TooDeep
        if obj and all(values.message_key(type(element)) is not None for element in obj):
            return self._fold(obj, depth)
        walk = self._walk
        parts = [walk(element, depth + 1) for element in obj]
        return self.composite(b"[" + b",".join(parts) + b"]")

    def _fold(self, obj: list[Any], depth: int) -> bytes:
        parent, size = "", 0
        folds = self._folds
        for number, message in enumerate(obj, 1):
            key = values.message_key(type(message))
            assert key is not None
            element = self._message(message, key, depth + 1)
            memo = (parent, element)
            found = folds.get(memo)
            if found is None:
                text = fold_node(element, number, parent)
                sha256 = sha256_hex(text)
                self._sink(sha256, text)
                found = (sha256, len(text))
                self._spend(256)
                folds[memo] = found
            parent, size = found
        return _ref(MEDIA_FOLD, parent, size)

    def _spend(self, size: int) -> None:
        self._spent += size
        if self._spent > _MEMO_BYTES:
            self.forget()

    def composite(self, data: bytes) -> bytes:
        """Reduced form of an array or object given as the RFC 8785 text of its reduced parts."""
        if len(data) < INLINE:
            return data
        ref = self._reducer.blob(data, MEDIA_JSON)
        return _ref(ref.media, ref.sha256, ref.size)


_SCALARS: Final = frozenset({float, bytes})


def _has_cut(encoded: object) -> bool:
    """Whether an encoded part ends in ``$cycle`` or ``$deep``, which count from the root."""
    stack = [encoded]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if "$cycle" in node or "$deep" in node:
                return True
            stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
    return False


def _ref(media: str, sha256: str, size: int) -> bytes:
    return b'{"$ref":{"media":"%b","sha256":"%b","size":%d}}' % (media.encode(), sha256.encode(), size)
