"""Python objects to references in one pass, so that a callback pays for what is new and not for the history again.

``Capture.reference(obj)`` equals ``Reducer.reference(values.encode(obj))`` for every object (a test holds that); it
walks plain JSON types directly and memoises messages by a key their adapter gives, never by object identity.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Final, TypeVar

import orjson

from counterfoil import values
from counterfoil._direct import Direct, TooDeep
from counterfoil.digest import MEDIA_JSON, Reducer, Reference, Sink, references_in, sha256_hex

__all__ = ["Capture", "content_key"]

_PLAIN: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_CUTS_KEPT: Final = 4096
_MEMO_BYTES: Final = 64 << 20
"""Text kept alive by the memos before they are dropped."""

T = TypeVar("T")


def _always(sha256: str) -> bool:
    return True


class Capture:
    """Encodes, reduces and hands blobs to ``sink``; safe to use from several threads.

    A ``sink`` that cannot take a blob calls ``forget``; ``holds`` tells whether it has one. ``hollow`` are the digests
    of references under which something was not taken: who cites one would cite what nobody can read. Until the first
    ``forget`` every blob was taken, so nothing needs to be looked up; ``unsure`` tells that it does. ``cuts`` counts,
    by digest of a reference, the parts of its value that were cut because they exceeded a bound.
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
        "cuts",
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
        self.cuts: dict[str, int] = {}
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
        if self.cuts:
            self._count(sha256_hex(data), self._inside(data))
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
            if kind is bytes and len(obj) < values.LONG:  # type: ignore[arg-type]
                return self._reducer.raw(obj)  # type: ignore[arg-type]
            if kind is dict or kind is list:
                return self._reducer.reference_of(Direct(self).walk(obj, 0))
        except _RETRY as exc:
            if isinstance(exc, RecursionError):
                raise
        found = values.encode_counted(obj)
        ref = self._reducer.reference(found.value)
        self._count(ref.sha256, found.cuts)
        return ref

    def _count(self, sha256: str, cuts: int) -> None:
        if cuts:
            if len(self.cuts) >= _CUTS_KEPT:
                self.cuts.clear()
            self.cuts[sha256] = cuts

    def _inside(self, reduced: bytes) -> int:
        """Cut parts in reduced bytes: those that stand there and those under references."""
        return values.cuts_in(reduced) + sum(self.cuts.get(ref.sha256, 0) for ref in _cited(reduced))

    def _reduce(self, obj: object) -> bytes:
        try:
            return Direct(self).walk(obj, 0)
        except _RETRY as exc:
            if isinstance(exc, RecursionError):
                raise
            found = values.encode_counted(obj)
            reduced = self._reducer.reduce(found.value)
            if found.cuts and reduced.startswith(b'{"$ref":'):
                self._count(_cited(reduced)[0].sha256, found.cuts)
            return reduced

    def _spend(self, size: int) -> None:
        self._spent += size
        if self._spent > _MEMO_BYTES:
            self._drop()


_RETRY: Final = (TooDeep, RuntimeError, LookupError)
"""What may end a direct walk: too deep, or a dict that another thread changes; the written rule copies first."""


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
