"""Every Python value has one canonical value by a written rule, so that nothing is dropped, clipped or hashed by
``repr``.

The rule is ``shared/spec/values.md``. JSON types stand for themselves; everything else is an object whose keys start
with ``$``; a dict that has such a key itself, or a key that is no ``str``, becomes ``{"$map": [[key, value], ...]}``.
Adapters add exact forms for their framework's types with :func:`register`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from counterfoil._forms import _PLAIN, MAX_INT, Go, _mro, known_form, type_name

__all__ = [
    "MAX_DEPTH",
    "MAX_INT",
    "MAX_NODES",
    "Encoder",
    "Go",
    "MemoKey",
    "MessageWriter",
    "Parts",
    "encode",
    "fresh_stack",
    "inexact",
    "message_key",
    "message_writer",
    "register",
    "type_name",
]

T = TypeVar("T")

MAX_DEPTH: Final = 100
"""Levels of JSON nesting kept; what lies deeper becomes ``{"$deep": type name}``."""
MAX_NODES: Final = 1_000_000
"""Objects and containers visited in one value; what comes after them becomes ``{"$large": type name}``: objects that
share parts have more paths than parts, and a value of a few of them can have more than could ever be walked."""
_ADAPTER_LEVELS: Final = 3

Encoder = Callable[[Any, Callable[[object], object]], object]
"""``encoder(obj, go)`` returns a canonical value; ``go`` encodes a part, at most three JSON levels deep in it."""

MemoKey = Callable[[Any], object]
"""Returns a hashable key equal only for equal canonical values, or None when there is no cheap one."""


class Parts(Protocol):
    """What a message writer may ask of the capture: reduced forms of its parts, blobs stored on the way."""

    def text(self, text: str, /) -> bytes:
        """Reduced form of a string."""

    def composite(self, data: bytes, /) -> bytes:
        """Reduced form of an array or object given as the RFC 8785 text of its reduced parts."""


MessageWriter = Callable[[Any, Parts], bytes | None]
"""Writes the reduced form of a plain message directly, or returns None: the encoder takes over."""

_registered: dict[type, tuple[Encoder, MemoKey | None, MessageWriter | None]] = {}


def register(
    kind: type, encoder: Encoder, *, key: MemoKey | None = None, writer: MessageWriter | None = None
) -> None:
    """Give ``kind`` and its subclasses an exact form; for adapters, so that the core knows no framework.

    With ``key`` the form is a message: ``encoder`` returns ``{"$msg": ...}`` and is called once per key; ``writer``
    must give the same bytes as the encoder's value reduced.
    """
    _registered[kind] = (encoder, key, writer)
    _dispatch.clear()
    _messages.clear()


def message_key(kind: type) -> MemoKey | None:
    """The memo key function of a message type, None for every other type."""
    return (_messages.get(id(kind)) or _message(kind))[0]


def message_writer(kind: type) -> MessageWriter | None:
    """The direct writer of a message type, if its adapter brought one."""
    return (_messages.get(id(kind)) or _message(kind))[1]


def _message(kind: type) -> tuple[MemoKey | None, MessageWriter | None]:
    found: tuple[MemoKey | None, MessageWriter | None] = (None, None)
    for base in reversed(_mro(kind)):
        for given, entry in _registered.items():
            if base is given:
                found = entry[1:]
    if len(_messages) < 10_000:
        _messages[id(kind)] = (*found, kind)
    return found


_messages: dict[int, tuple[MemoKey | None, MessageWriter | None, type]] = {}


def encode(obj: object, *, depth: int = 0) -> Any:
    """Canonical value of any Python object; never raises, never calls the object's own ``__repr__`` or ``__eq__``.

    Generators and coroutines are never consumed. A value nested deeper than MAX_DEPTH ends in ``$deep``;
    ``depth`` tells how many levels stand above ``obj`` already.
    """
    try:
        return _Walk(depth).go(obj)
    except RecursionError:
        return fresh_stack(lambda: _Walk(depth).go(obj), otherwise=lambda: {"$opaque": type_name(obj)})


def fresh_stack(work: Callable[[], T], *, otherwise: Callable[[], T]) -> T:
    """Do ``work`` again when the application was close to its own recursion limit: a new thread's stack is empty.

    ``otherwise`` answers when no thread can be started (the interpreter is ending) or when that stack is too small too.
    """
    out: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            out.append(work())
        except RecursionError:
            pass
        except BaseException as exc:
            failed.append(exc)

    try:
        thread = threading.Thread(target=run, name="counterfoil-encode")
        thread.start()
        thread.join()
    except (RecursionError, RuntimeError):
        return otherwise()
    if failed:
        raise failed[0]
    return out[0] if out else otherwise()


def inexact(value: object) -> bool:
    """Whether a canonical value stands for something it does not hold: cut, opaque or redacted parts."""
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if not _INEXACT.isdisjoint(node):
                return True
            stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
    return False


_INEXACT: Final = frozenset({"$deep", "$large", "$opaque", "$redacted"})


class _Walk:
    """One traversal: remembers the containers on the path, so that cycles are named and not followed."""

    __slots__ = ("depth", "left", "path")

    def __init__(self, depth: int) -> None:
        self.path: list[int] = []
        self.depth = depth - 1
        self.left = MAX_NODES

    def go(self, obj: object, levels: int = 1) -> object:
        """Encode a part that stands ``levels`` JSON levels below the object whose part it is."""
        kind = type(obj)
        plain = _PLAIN.get(id(kind))
        if plain is not None:
            return plain(obj)
        depth = self.depth + levels
        if depth >= MAX_DEPTH:
            return {"$deep": type_name(obj)}
        mark = id(obj)
        if mark in self.path:
            return {"$cycle": len(self.path) - self.path.index(mark)}
        if self.left <= 0:
            return {"$large": type_name(obj)}
        self.left -= 1
        self.path.append(mark)
        above, self.depth = self.depth, depth
        try:
            found = _dispatch.get(id(kind)) or _encoder_for(kind)
            return found[1](obj, self.inside if found[2] else self.go)
        except (RecursionError, KeyboardInterrupt):
            raise
        except BaseException:
            # A foreign object's attribute or iteration failed, with whatever it raised: its type is still told.
            return {"$opaque": type_name(obj)}
        finally:
            self.path.pop()
            self.depth = above

    def inside(self, obj: object) -> object:
        """As ``go``, for the encoders of adapters, which do not tell how deep a part stands."""
        return self.go(obj, _ADAPTER_LEVELS)


_dispatch: dict[int, tuple[type, Any, bool]] = {}
"""Encoder by the type's identity (the type is kept, so that its id stays its own), and whether an adapter gave it."""


def _encoder_for(kind: type) -> tuple[type, Any, bool]:
    found = (kind, *_choose(kind))
    if len(_dispatch) < 10_000:
        _dispatch[id(kind)] = found
    return found


def _choose(kind: type) -> tuple[Any, bool]:
    for base in _mro(kind):
        for given, entry in _registered.items():
            if base is given:
                return entry[0], True
    return known_form(kind), False


# Recursion of one container level takes four frames; the interpreter's default limit leaves room for MAX_DEPTH.
assert MAX_DEPTH * 6 < max(sys.getrecursionlimit(), 1000)
