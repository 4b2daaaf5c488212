"""One direct walk over plain JSON types and messages: what a callback of a running application can afford.

It gives the bytes that encoding and reducing would give, or raises TooDeep where only the written rule can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from counterfoil import values
from counterfoil._batches import BATCH, FEW, batches
from counterfoil._jcs_fast import float_text
from counterfoil._scalars import float_form
from counterfoil.digest import (
    INLINE,
    MEDIA_BYTES,
    MEDIA_FOLD,
    MEDIA_JSON,
    MEDIA_TEXT,
    fold_node,
    key_bytes,
    sha256_hex,
    short_text,
)

if TYPE_CHECKING:
    from counterfoil.capture import Capture

_WALK_DEPTH: Final = 60
_WALK_NODES: Final = 250_000
_WALK_VOLUME: Final = values.MAX_TEXT
"""Parts and bytes of long texts that the direct walk takes; the written rule counts more exactly."""
_MEMO_DEPTH: Final = 16


class TooDeep(Exception):
    """Deeper or larger than the direct walk goes (or cyclic): the written rule takes over for the whole value."""


class Direct:
    """One direct walk over plain JSON types and messages, with the memos as they were when it began."""

    __slots__ = ("_capture", "_elements", "_folds", "_left", "_reducer", "_sink", "_texts", "_volume")

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._reducer = capture._reducer
        self._sink = capture._sink
        self._elements = capture._elements
        self._folds = capture._folds
        self._texts = capture._texts
        self._left = _WALK_NODES
        self._volume = _WALK_VOLUME

    def walk(self, obj: object, depth: int) -> bytes:
        kind = type(obj)
        if kind is str:
            return self.text(obj)  # type: ignore[arg-type]
        if kind is dict:
            return self._dict(obj, depth)  # type: ignore[arg-type]
        if kind is list:
            return self._list(obj, depth)  # type: ignore[arg-type]
        if obj is None:
            return b"null"
        if kind is bool:
            return b"true" if obj else b"false"
        if kind is int and -values.MAX_INT <= obj <= values.MAX_INT:  # type: ignore[operator]
            return b"%d" % obj  # type: ignore[str-format]
        if kind is float:
            form = float_form(obj)
            return float_text(form).encode() if form is obj else self._reducer.reduce(form)  # type: ignore[arg-type]
        if kind is bytes and len(obj) >= INLINE:  # type: ignore[arg-type]
            if len(obj) >= values.LONG:  # type: ignore[arg-type]
                self._use(0, len(obj))  # type: ignore[arg-type]
            return _ref(MEDIA_BYTES, self._reducer.raw(obj).sha256, len(obj))  # type: ignore[arg-type]
        key = values.message_key(kind)
        if key is not None:
            return self._message(obj, key, depth)
        return self._reducer.reduce(self._inner(obj, depth)[0])

    def _inner(self, obj: object, depth: int) -> tuple[object, int]:
        """Encoded part and its own depth; what was cut counts from the root, so the root is encoded instead."""
        found = values.encode_counted(obj, depth=depth)
        self._use(found.nodes, found.volume)
        if found.rooted:
            raise TooDeep
        return found.value, found.levels

    def _use(self, nodes: int, volume: int) -> None:
        """Count what was taken; near the bounds of a whole value the written rule must count instead."""
        self._left -= nodes
        self._volume -= volume
        if self._left < 0 or self._volume < 0:
            raise TooDeep

    def _message(self, obj: object, key: values.MemoKey, depth: int) -> bytes:
        memo = key(obj) if depth <= _MEMO_DEPTH else None
        if memo is not None:
            found = self._elements.get(memo)
            if found is not None:
                return found
        write = values.message_writer(type(obj))
        reduced = write(obj, self) if write is not None else None
        if reduced is None:
            encoded, levels = self._inner(obj, depth)
            reduced = self._reducer.reduce(encoded)
            if levels > _WALK_DEPTH:  # elsewhere it would be cut
                return reduced
        if memo is not None:
            self._capture._spend(1024)
            self._elements[memo] = reduced
        return reduced

    def text(self, text: str) -> bytes:
        """Reduced form of a string."""
        if len(text) * 4 < INLINE:
            if text.isascii() or (form := values.encode(text)) is text:
                return short_text(text)
            return self._reducer.reduce(form)
        if len(text) >= values.LONG:
            self._use(0, len(text) if text.isascii() else 4 * len(text))
        found = self._texts.get(text)
        if found is not None:
            return found
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return self._reducer.reduce(values.encode(text))
        if len(data) < INLINE:
            return short_text(text)
        sha256 = sha256_hex(data)
        self._sink(sha256, data)
        reduced = _ref(MEDIA_TEXT, sha256, len(data))
        self._capture._spend(len(data))
        self._texts[text] = reduced
        return reduced

    def composite(self, data: bytes) -> bytes:
        """Reduced form of an array or object given as the RFC 8785 text of its reduced parts."""
        if len(data) < INLINE:
            return data
        ref = self._reducer.blob(data, MEDIA_JSON)
        return _ref(ref.media, ref.sha256, ref.size)

    def _dict(self, obj: dict[Any, Any], depth: int) -> bytes:
        self._left -= 1
        if depth >= _WALK_DEPTH or self._left < 0:
            raise TooDeep
        few = len(obj) <= BATCH
        if not few and len(obj) >= values.WIDE:
            self._use(0, 16 * len(obj))
        for key in obj:
            if type(key) is not str or not key.isascii() or key.startswith("$"):
                return self._reducer.reduce(self._inner(obj, depth)[0])
        walk = self.walk
        if few:
            parts = [key_bytes(key) + walk(obj[key], depth + 1) for key in sorted(obj)]
        else:
            keys = sorted(obj)
            parts = [
                b",".join([key_bytes(key) + walk(obj[key], depth + 1) for key in keys[start : start + BATCH]])
                for start in range(0, len(keys), BATCH)
            ]
        return self.composite(b"{" + b",".join(parts) + b"}")

    def _list(self, obj: list[Any], depth: int) -> bytes:
        self._left -= 1
        if depth >= _WALK_DEPTH or self._left < 0:
            raise TooDeep
        few = len(obj) < FEW
        if not few and len(obj) >= values.WIDE:
            self._use(0, 16 * len(obj))
        if obj and all(values.message_key(type(element)) is not None for element in obj):
            return self._fold(obj, depth)
        walk = self.walk
        if few:
            parts = [walk(element, depth + 1) for element in obj]
        else:
            if len(obj) > self._left and type(obj[0]) in (dict, list) and self._too_many(obj):
                raise TooDeep  # before anything of it is hashed in vain
            parts = [
                b",".join([walk(element, depth + 1) for element in part]) if text is None else text
                for part, text in batches(obj, INLINE)
            ]
        return self.composite(b"[" + b",".join(parts) + b"]")

    def _too_many(self, obj: list[Any]) -> bool:
        """Whether the containers in a list are more than are left."""
        kinds = list(map(type, obj))
        return kinds.count(dict) + kinds.count(list) > self._left

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
                self._capture._spend(256)
                folds[memo] = found
            parent, size = found
        return _ref(MEDIA_FOLD, parent, size)


def _ref(media: str, sha256: str, size: int) -> bytes:
    return b'{"$ref":{"media":"%b","sha256":"%b","size":%d}}' % (media.encode(), sha256.encode(), size)
