"""Every Python value has one canonical value by a written rule, so that nothing is dropped, clipped or hashed by
``repr``.

The rule is ``shared/spec/values.md``. JSON types stand for themselves; everything else is an object whose keys start
with ``$``; a dict that has such a key itself, or a key that is no ``str``, becomes ``{"$map": [[key, value], ...]}``.
Adapters add exact forms for their framework's types with :func:`register`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from counterfoil._forms import Go
from counterfoil._scalars import MAX_INT, float_form, text_form
from counterfoil._types import mro, type_name
from counterfoil._walk import (
    LONG,
    MAX_AGAIN,
    MAX_DEPTH,
    MAX_NODES,
    MAX_TEXT,
    MAX_VOLUME,
    WIDE,
    Encoded,
    Encoder,
    dispatch,
    registered,
    walked,
)
from counterfoil.decoding import Form, decode

__all__ = [
    "LONG",
    "MAX_AGAIN",
    "MAX_DEPTH",
    "MAX_INT",
    "MAX_NODES",
    "MAX_TEXT",
    "MAX_VOLUME",
    "WIDE",
    "Encoded",
    "Encoder",
    "Form",
    "Go",
    "MemoKey",
    "MessageWriter",
    "Parts",
    "cuts_in",
    "decode",
    "encode",
    "encode_counted",
    "fresh_stack",
    "inexact",
    "message_key",
    "message_writer",
    "register",
    "type_name",
]

T = TypeVar("T")

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


def register(
    kind: type, encoder: Encoder, *, key: MemoKey | None = None, writer: MessageWriter | None = None
) -> None:
    """Give ``kind`` and its subclasses an exact form; for adapters, so that the core knows no framework.

    With ``key`` the form is a message: ``encoder`` returns ``{"$msg": ...}`` and is called once per key; ``writer``
    must give the same bytes as the encoder's value reduced.
    """
    registered[kind] = (encoder, key, writer)
    dispatch.clear()
    _messages.clear()


def message_key(kind: type) -> MemoKey | None:
    """The memo key function of a message type, None for every other type."""
    return (_messages.get(id(kind)) or _message(kind))[0]


def message_writer(kind: type) -> MessageWriter | None:
    """The direct writer of a message type, if its adapter brought one."""
    return (_messages.get(id(kind)) or _message(kind))[1]


def _message(kind: type) -> tuple[MemoKey | None, MessageWriter | None]:
    found: tuple[MemoKey | None, MessageWriter | None] = (None, None)
    for base in reversed(mro(kind)):
        for given, entry in list(registered.items()):
            if base is given:
                found = entry[1:]
    if len(_messages) < 10_000:
        _messages[id(kind)] = (*found, kind)
    return found


_messages: dict[int, tuple[MemoKey | None, MessageWriter | None, type]] = {}


def encode(obj: object, *, depth: int = 0) -> Any:
    """Canonical value of any Python object; never raises, never calls the object's own ``__repr__`` or ``__eq__``.

    Generators and coroutines are never consumed. A value nested deeper than MAX_DEPTH ends in ``$deep``;
    ``depth`` tells how many levels stand above ``obj`` already. Only KeyboardInterrupt and MemoryError pass.
    """
    kind = type(obj)
    if kind is str and len(obj) < LONG:  # type: ignore[arg-type]
        return text_form(obj)
    if kind is float:
        return float_form(obj)
    if obj is None or kind is bool or (kind is int and -MAX_INT <= obj <= MAX_INT):  # type: ignore[operator]
        return obj
    return encode_counted(obj, depth=depth).value


def encode_counted(obj: object, *, depth: int = 0) -> Encoded:
    """``encode(obj)``, how many parts of it were cut because a bound was exceeded (``$deep``, ``$large``), and how much
    of the bounds it took."""
    try:
        return walked(obj, depth, False)
    except RecursionError:
        return fresh_stack(
            lambda: walked(obj, depth, True),
            otherwise=lambda: Encoded({"$opaque": type_name(obj)}, 0, False, 1, 1, 0),
        )


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
    return _any(value, _INEXACT)


def cuts_in(reduced: bytes) -> int:
    """How many cut parts stand in the RFC 8785 text of a value (inside a string the quotes are escaped)."""
    return reduced.count(b'{"$deep":') + reduced.count(b'{"$large":')


def _any(value: object, tags: frozenset[str]) -> bool:
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if not tags.isdisjoint(node):
                return True
            stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
    return False


_INEXACT: Final = frozenset({"$deep", "$large", "$opaque", "$redacted"})
