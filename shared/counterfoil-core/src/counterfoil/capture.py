"""Python objects to references in one pass, so that a callback pays for what is new and not for the history again.

``Capture.reference(obj)`` equals ``Reducer.reference(values.encode(obj))`` for every object (a test holds that); it
walks plain JSON types directly and memoises messages by a key their adapter gives, never by object identity.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Final, TypeVar

import orjson

from counterfoil import canonical, values
from counterfoil.digest import (
    INLINE,
    MEDIA_BYTES,
    MEDIA_FOLD,
    MEDIA_JSON,
    MEDIA_TEXT,
    Reducer,
    Reference,
    Sink,
    fold_node,
    key_bytes,
    references_in,
    sha256_hex,
)

__all__ = ["Capture", "content_key"]

_PLAIN: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_WALK_DEPTH: Final = 60
_WALK_NODES: Final = values.MAX_NODES // 2
_MEMO_DEPTH: Final = 16
_MEMO_BYTES: Final = 64 << 20
"""Text kept alive by the memos before they are dropped."""

T = TypeVar("T")


class _TooDeep(Exception):
    """Deeper or larger than the direct walk goes (or cyclic): the written rule takes over for the whole value."""


def _always(sha256: str) -> bool:
    return True


class Capture:
    """Encodes, reduces and hands blobs to ``sink``; safe to use from several threads.

    A ``sink`` that cannot take a blob calls ``forget``; ``holds`` tells whether it has one. ``hollow`` are the digests
    of references under which something was not taken: who cites one would cite what nobody can read. Until the first
    ``forget`` every blob was taken, so nothing needs to be looked up; ``unsure`` tells that it does.
    """

    __slots__ = (
        "_cached",
        "_elements",
        "_folds",
        "_holds",
        "_reducer",
        "_sink",
        "_spent",
        "_texts",
        "epoch",
        "hollow",
        "unsure",
    )

    def __init__(self, sink: Sink, holds: Callable[[str], bool] = _always) -> None:
        self._sink = sink
        self._holds = holds
        self._reducer = Reducer(sink)
        self.epoch = 0
        self.hollow: set[str] = set()
        self.unsure = False
        self._drop()

    def forget(self) -> None:
        """Drop the memos, because another log must get the blobs again; walks under way are done again."""
        self._drop()
        self.epoch += 1
        self.unsure = True

    def _drop(self) -> None:
        # Walks that have begun go on filling the old memos, so what they put there is never believed again.
        self._elements: dict[object, bytes] = {}
        self._folds: dict[tuple[str, bytes], tuple[str, int]] = {}
        self._texts: dict[str, bytes] = {}
        self._cached: dict[bytes, bytes] = {}
        self._spent = 0

    def reference(self, obj: object) -> Reference:
        """Reference of any Python object, its blobs queued."""
        return self._whole(lambda: self._reference(obj), lambda ref: [ref])

    def reduce(self, obj: object) -> bytes:
        """RFC 8785 bytes of the reduced form of any Python object, its blobs queued."""
        return self._whole(lambda: self._reduce(obj), _cited)

    def cached(self, obj: object, key: bytes | None = None) -> bytes:
        """As ``reduce``, remembered by content: for settings and tool definitions that come again with every call.

        ``key`` is ``content_key(obj)`` when the caller has it already.
        """
        key = content_key(obj) if key is None else key
        if key is None:
            return self.reduce(obj)
        memo = self._cached
        found = memo.get(key)
        if found is None:
            found = self.reduce(obj)
            self._spend(len(key))
            memo[key] = found
        return found

    def composed(self, parts: dict[str, bytes]) -> Reference:
        """Reference of an object whose values are reduced already; keys are ASCII and do not start with ``$``."""
        data = b"{" + b",".join(b'"%b":%b' % (key.encode(), parts[key]) for key in sorted(parts)) + b"}"
        if not self.unsure:
            ref = self._reducer.blob(data, MEDIA_JSON)
            if not self.unsure:
                return ref
        ref = self._whole(lambda: self._reducer.blob(data, MEDIA_JSON), lambda ref: [ref])
        # The parts were taken earlier, maybe by another log.
        if any(not self._holds(one.sha256) or one.sha256 in self.hollow for one in _cited(data)):
            self.hollow.add(ref.sha256)
        return ref

    def _whole(self, work: Callable[[], T], cited: Callable[[T], list[Reference]]) -> T:
        """Do ``work``, once more if blobs were refused or another log was opened meanwhile; then say what is hollow."""
        for _ in range(2):
            epoch = self.epoch
            try:
                out = work()
            except RecursionError:
                out = values.fresh_stack(work, otherwise=work)
            if self.epoch == epoch:
                if self.hollow:
                    self.hollow.difference_update(ref.sha256 for ref in cited(out))
                return out
        self.hollow.update(ref.sha256 for ref in cited(out))
        return out

    def _reference(self, obj: object) -> Reference:
        kind = type(obj)
        try:
            if kind is bytes:
                return self._reducer.raw(obj)  # type: ignore[arg-type]
            if kind is dict or kind is list:
                return self._reducer.reference_of(_Pass(self).walk(obj, 0))
        except _RETRY as exc:
            if isinstance(exc, RecursionError):
                raise
        return self._reducer.reference(values.encode(obj))

    def _reduce(self, obj: object) -> bytes:
        try:
            return _Pass(self).walk(obj, 0)
        except _RETRY as exc:
            if isinstance(exc, RecursionError):
                raise
            return self._reducer.reduce(values.encode(obj))

    def _spend(self, size: int) -> None:
        self._spent += size
        if self._spent > _MEMO_BYTES:
            self._drop()


_RETRY: Final = (_TooDeep, RuntimeError, LookupError)
"""What may end a direct walk: too deep, or a dict that another thread changes; the written rule copies first."""


class _Pass:
    """One direct walk over plain JSON types and messages, with the memos as they were when it began."""

    __slots__ = ("_capture", "_elements", "_folds", "_left", "_reducer", "_sink", "_texts")

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._reducer = capture._reducer
        self._sink = capture._sink
        self._elements = capture._elements
        self._folds = capture._folds
        self._texts = capture._texts
        self._left = _WALK_NODES

    def walk(self, obj: object, depth: int) -> bytes:
        kind = type(obj)
        if kind is str:
            return self.text(obj)  # type: ignore[arg-type]
        if kind is dict:
            return self._dict(obj, depth)  # type: ignore[arg-type]
        if kind is list:
            return self._list(obj, depth)  # type: ignore[arg-type]
        if kind is bool or obj is None:
            return canonical.dumps_record(obj)
        if kind is int:
            return canonical.dumps(values.encode(obj))
        if kind is bytes and len(obj) >= INLINE:  # type: ignore[arg-type]
            return _ref(MEDIA_BYTES, self._reducer.raw(obj).sha256, len(obj))  # type: ignore[arg-type]
        key = values.message_key(kind)
        if key is not None:
            return self._message(obj, key, depth)
        return self._reducer.reduce(self._inner(obj, depth)[0])

    def _inner(self, obj: object, depth: int) -> tuple[object, int]:
        """Encoded part and its own depth; what was cut counts from the root, so the root is encoded instead."""
        encoded = values.encode(obj, depth=depth)
        kind = type(obj)
        if kind is float or kind is bytes:
            return encoded, 0
        cut, levels = _look(encoded)
        if depth and cut:
            raise _TooDeep
        return encoded, levels

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
            raise _TooDeep
        for key in obj:
            if type(key) is not str or not key.isascii() or key.startswith("$"):
                return self._reducer.reduce(self._inner(obj, depth)[0])
        walk = self.walk
        parts = [key_bytes(key) + walk(obj[key], depth + 1) for key in sorted(obj)]
        return self.composite(b"{" + b",".join(parts) + b"}")

    def _list(self, obj: list[Any], depth: int) -> bytes:
        self._left -= 1
        if depth >= _WALK_DEPTH or self._left < 0:
            raise _TooDeep
        if obj and all(values.message_key(type(element)) is not None for element in obj):
            return self._fold(obj, depth)
        walk = self.walk
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
                self._capture._spend(256)
                folds[memo] = found
            parent, size = found
        return _ref(MEDIA_FOLD, parent, size)


_CUTS: Final = frozenset({"$cycle", "$deep", "$large"})


def _look(encoded: object) -> tuple[bool, int]:
    """Whether an encoded part was cut (which is counted from the root), and how deep it is."""
    stack = [(encoded, 0)]
    cut, deepest = False, 0
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        if type(node) is dict:
            cut |= not _CUTS.isdisjoint(node)
            stack.extend((child, depth + 1) for child in node.values())
        elif type(node) is list:
            stack.extend((child, depth + 1) for child in node)
    return cut, deepest


def _cited(reduced: bytes) -> list[Reference]:
    """References in reduced bytes."""
    return list(references_in(orjson.loads(reduced))) if b'"$ref"' in reduced else []


def content_key(obj: object) -> bytes | None:
    """Bytes that are equal only for equal JSON values (tuples told from lists); None for every other object.

    ``marshal`` (version 2) is exact for JSON types, but takes buffers for bytes and walks for ever through objects
    that hold each other; so orjson, which refuses both at once, is asked first.
    """
    try:
        orjson.dumps(obj, option=_PLAIN)
        return marshal.dumps(obj, 2)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _ref(media: str, sha256: str, size: int) -> bytes:
    return b'{"$ref":{"media":"%b","sha256":"%b","size":%d}}' % (media.encode(), sha256.encode(), size)
