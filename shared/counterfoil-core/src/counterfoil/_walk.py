"""One traversal of a Python object, bounded in depth, parts and bytes; ``values`` is its public door.

What exceeds a bound becomes a typed marker with its size, and is counted.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from counterfoil._classes import known_form
from counterfoil._scalars import MAX_INT, data_form, float_form, int_form, text_form
from counterfoil._types import extent, mro, type_name

MAX_DEPTH: Final = 100
"""Levels of JSON nesting kept; what lies deeper becomes ``{"$deep": type name}``."""
MAX_NODES: Final = 1_000_000
"""Objects, containers and markers of one value; an object with a part too many becomes ``{"$large": type name}``:
objects that share parts have more paths than parts, and a value of a few can have more than could ever be walked."""
MAX_AGAIN: Final = 10_000
"""Visits below objects that hold each other and were met before: a small web of them has paths without end."""
MAX_TEXT: Final = 64 << 20
"""Bytes of one text, byte string, number or array that are kept."""
MAX_VOLUME: Final = 256 << 20
"""Bytes of the long texts (and 16 for each element of the wide containers) of one value that are kept."""
LONG: Final = 64 << 10
"""Characters or bytes from which a text counts into the volume."""
WIDE: Final = 4096
"""Elements from which a container counts into the volume."""
MAX_HASHED: Final = 1 << 30
"""Bytes of one value's cut texts, byte strings and arrays that are hashed for their markers."""
_STEP: Final = 1 << 20
_ADAPTER_LEVELS: Final = 3
_REFUND: Final = MAX_NODES // 1000
_TRACKED: Final = 10_000
"""Visits before, and objects for which, it is remembered what was met: small values pay nothing for it."""

Encoder = Callable[[Any, Callable[[object], object]], object]
"""``encoder(obj, go)`` returns a canonical value; ``go`` encodes a part, at most three JSON levels deep in it."""

registered: Final[dict[type, tuple[Encoder, Any, Any]]] = {}
"""Forms that adapters gave: encoder, memo key, message writer."""


class Encoded(NamedTuple):
    """A canonical value, how many parts of it were cut, and what of the bounds it took.

    ``rooted``: it holds a cycle or a cut, which are counted from the root. ``levels``: how deep it is, at most.
    """

    value: Any
    cuts: int
    rooted: bool
    levels: int
    nodes: int
    volume: int


def walked(obj: object, depth: int, fresh: bool) -> Encoded:
    """Canonical value and the number of cuts; ``fresh``: the stack is empty, a RecursionError is the object's."""
    walk = _Walk(depth, fresh)
    try:
        value = walk.go(obj)
    except _Unordered:
        pass
    if walk.short:
        # Which part was one too many depends on the order in which they came; equal values must be cut alike.
        walk = _Walk(depth, fresh)
        walk.ordered = True
        value = walk.go(obj)
    return Encoded(
        value,
        walk.cuts,
        walk.marks > 0,
        walk.deepest - depth + 1,
        MAX_NODES - walk.left,
        MAX_VOLUME - walk.volume,
    )


class _Full(BaseException):
    """A bound is exceeded; the object whose part was one too many is cut. No ``except Exception`` may stop it."""


class _Unordered(BaseException):
    """Something must be cut, so the value is walked again in the order of its keys: the rest of this walk is vain."""


class _Walk:
    """One traversal: the containers on the path, so that cycles are named and not followed, and what is left."""

    __slots__ = (
        "again",
        "cuts",
        "deepest",
        "depth",
        "fresh",
        "hashes",
        "left",
        "marks",
        "ordered",
        "path",
        "refunds",
        "seen",
        "short",
        "tracked",
        "volume",
        "within",
    )

    def __init__(self, depth: int, fresh: bool) -> None:
        self.path: dict[int, int] = {}
        self.depth = depth - 1
        self.left = self.refunds = MAX_NODES
        self.tracked = MAX_NODES - _TRACKED
        self.volume = MAX_VOLUME
        self.hashes = MAX_HASHED
        self.again = MAX_AGAIN
        self.cuts = self.marks = self.short = self.within = 0
        self.deepest = depth - 1
        self.fresh = fresh
        self.ordered = False
        self.seen: dict[int, tuple[object, object, bool, int, int, int]] | None = None

    def go(self, obj: object, levels: int = 1) -> object:
        """Encode a part that stands ``levels`` JSON levels below the object whose part it is."""
        kind = type(obj)
        if kind is str:
            return text_form(obj) if len(obj) < LONG else self._long(obj)  # type: ignore[arg-type]
        if kind is int:
            return obj if -MAX_INT <= obj <= MAX_INT else self._integer(obj)  # type: ignore[operator,arg-type]
        if obj is None or kind is bool:
            return obj
        if kind is float:
            return float_form(obj)
        if kind is bytes:
            return data_form(obj) if len(obj) < LONG else self._long(obj)  # type: ignore[arg-type]
        depth = self.depth + levels
        if depth >= MAX_DEPTH:
            self._pay()
            return self._cut("$deep", obj, extent(obj))
        mark = id(obj)
        path = self.path
        found = path.get(mark)
        if found is not None:
            self._pay()
            self.marks += 1
            return {"$cycle": len(path) - found}
        if self.left < self.tracked:
            return self._met(obj, mark, depth)
        self.left -= 1
        if self.left < 0:
            raise _Full
        return self._encoded(obj, mark, depth)

    def inside(self, obj: object) -> object:
        """As ``go``, for the encoders of adapters, which do not tell how deep a part stands."""
        return self.go(obj, _ADAPTER_LEVELS)

    def _pay(self) -> None:
        self.left -= 1
        if self.within:
            self.again -= 1
        if self.left < 0 or self.again < 0:
            raise _Full

    def room(self, size: int) -> bool:
        """Whether so many bytes more are kept; they count from now on."""
        if size > MAX_TEXT or size > self.volume:
            return False
        self.volume -= size
        return True

    def holds(self, values: Collection[Any]) -> bool:
        """Whether there is room for a wide container; if its own parts are too many, it is cut before they are met."""
        if len(values) > self.left and sum(type(one) not in _FREE for one in values) > self.left:
            raise _Full
        return self.room(16 * len(values))

    def large(
        self, obj: object, size: int | None = None, data: Iterable[Any] = (), head: bytes = b""
    ) -> object:
        """The marker in the place of what is too much; ``data`` are its bytes, hashed behind ``head``, if they are at
        hand piece by piece."""
        self.short += 1
        if not self.ordered:
            raise _Unordered
        marker = self._cut("$large", obj, extent(obj) if size is None else size)
        if data and size is not None and size <= self.hashes:
            self.hashes -= size
            digest = hashlib.sha256(head)
            for piece in data:
                digest.update(piece)
            marker["sha256"] = digest.hexdigest()
        return marker

    def _cut(self, tag: str, obj: object, size: int | None) -> dict[str, object]:
        self.cuts += 1
        self.marks += 1
        return {tag: type_name(obj)} if size is None else {tag: type_name(obj), "size": size}

    def _encoded(self, obj: object, mark: int, depth: int) -> object:
        path = self.path
        path[mark] = len(path)
        above, self.depth = self.depth, depth
        if depth > self.deepest:
            self.deepest = depth
        cuts, left, volume = self.cuts, self.left, self.volume
        kind = type(obj)
        try:
            found = dispatch.get(id(kind)) or _encoder_for(kind)
            return found[1](obj, self.inside if found[2] else self)
        except _Full:
            # What was made of it is dropped, so its room is free again, within what may be walked in vain.
            self.left = max(self.left, 0)
            back = min(left - self.left, max(self.refunds, 0))
            self.refunds -= max(back, _REFUND)
            self.left += back
            self.volume = volume
            self.cuts = cuts
            return self.large(obj)
        except (KeyboardInterrupt, MemoryError, _Unordered):
            raise
        except RecursionError:
            if not self.fresh:
                raise
        except BaseException:  # a foreign object's code failed, with whatever it raised
            pass
        finally:
            del path[mark]
            self.depth = above
        self.cuts = cuts
        return {"$opaque": type_name(obj)}

    def _met(self, obj: object, mark: int, depth: int) -> object:
        """Encode a part of a value of many: what holds no cycle and no cut is the same wherever it is met again."""
        seen = self.seen
        if seen is None:
            seen = self.seen = {}
        met = seen.get(mark)
        if met is None and len(seen) >= _TRACKED and not self.within:
            self._pay()
            return self._encoded(obj, mark, depth)
        if met is not None:
            _, encoded, closed, nodes, volume, height = met
            if not closed:
                self.within += 1
                try:
                    self._pay()
                    return self._encoded(obj, mark, depth)
                finally:
                    self.within -= 1
            if depth + height < MAX_DEPTH and nodes <= self.left and volume <= self.volume:
                self.left -= nodes
                self.volume -= volume
                self.deepest = max(self.deepest, depth + height)
                return encoded
        marks, left, volume, deepest = self.marks, self.left, self.volume, self.deepest
        self._pay()
        self.deepest = depth
        encoded = self._encoded(obj, mark, depth)
        if len(seen) < _TRACKED:
            # The object is kept as well: its id is its own only as long as it lives.
            closed = self.marks == marks
            kept = encoded if closed else None
            seen[mark] = (obj, kept, closed, left - self.left, volume - self.volume, self.deepest - depth)
        self.deepest = max(deepest, self.deepest)
        return encoded

    def _long(self, data: Any) -> object:
        size = len(data)
        if type(data) is bytes:
            return data_form(data) if self.room(size) else self._too_long(data, size, (data,))
        if not data.isascii():
            size = sum(map(len, _encoded_text(data)))
        return text_form(data) if self.room(size) else self._too_long(data, size, _encoded_text(data))

    def _integer(self, number: int) -> object:
        size = number.bit_length() // 4
        if size < LONG or self.room(size):
            return int_form(number)
        return self._too_long(number, size, (hex(one).encode() for one in (number,)))

    def _too_long(self, data: object, size: int, pieces: Iterable[bytes]) -> object:
        self._pay()
        return self.large(data, size, pieces)


def _encoded_text(text: str) -> Iterator[bytes]:
    for start in range(0, len(text), _STEP):
        yield text[start : start + _STEP].encode("utf-8", "surrogatepass")


_FREE: Final = frozenset((str, int, float, bool, type(None), bytes))
"""Types whose objects do not count among the parts of a value (if they are long, they count by their bytes)."""


dispatch: dict[int, tuple[type, Any, bool]] = {}
"""Encoder by the type's identity (the type is kept, so that its id stays its own), and whether an adapter gave it."""


def _encoder_for(kind: type) -> tuple[type, Any, bool]:
    found = (kind, *_choose(kind))
    if len(dispatch) < 10_000:
        dispatch[id(kind)] = found
    return found


def _choose(kind: type) -> tuple[Any, bool]:
    for base in mro(kind):
        for given, entry in list(registered.items()):
            if base is given:
                return entry[0], True
    return known_form(kind), False


# Recursion of one container level takes four frames; the interpreter's default limit leaves room for MAX_DEPTH.
assert MAX_DEPTH * 6 < max(sys.getrecursionlimit(), 1000)
