"""The writer behind ``counterfoil.canonical``: RFC 8785 bytes through ``rfc8785``, or the fast way to the same bytes.

What the fast way declines comes here; ``rfc8785`` decides, and every refusal becomes one error with its code.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import orjson
import rfc8785

from counterfoil._jcs_fast import MAX_DEPTH_WRITE, OPTIONS, fast, order_may_differ, self_test
from counterfoil.errors import CanonicalError

MAX_INTEGER: Final = 2**53 - 1
"""Largest magnitude of an integer that every JSON reader keeps exactly (RFC 7493 section 2.2)."""

_LEAVES: Final = frozenset((str, int, float, bool, type(None)))
_ENCODE: Final = "use counterfoil.values.encode"


def dumps(value: object) -> bytes:
    """RFC 8785 bytes of a value made of str, int, float, bool, None, dict, list and tuple.

    Raises:
        CanonicalError: CF-CANON-001 to 006: no RFC 8785 form (type, integer, float, surrogate, depth, keys).
    """
    if _enabled:
        data = fast(value)
        if data is not None:
            return data
    return _slow(value)


def dumps_record(obj: object) -> bytes:
    """RFC 8785 bytes without looking at every value: for objects this library builds itself.

    The caller vouches that keys are ASCII literals and values exactly str, int, bool, None, list or dict: a
    float, UUID or Enum inside would pass unseen in orjson's own form. The rest goes the way of ``dumps``.

    Raises:
        CanonicalError: as ``dumps``.
    """
    if _enabled:
        try:
            data = orjson.dumps(obj, option=OPTIONS)
        except TypeError:
            return dumps(obj)
        if data.isascii() or not order_may_differ(data):
            return data
    return dumps(obj)


def fast_path_enabled() -> bool:
    """Whether the installed orjson gave every known answer when this module was imported."""
    return _enabled


def _slow(value: object) -> bytes:
    try:
        _check_shape(value)
        return rfc8785.dumps(value)  # type: ignore[arg-type]
    except CanonicalError:
        raise
    except rfc8785.FloatDomainError:
        refuse("003", "NaN and infinities have no RFC 8785 form", hint=_ENCODE)
    except UnicodeEncodeError:
        refuse("004", "a string holds a lone surrogate", hint=_ENCODE)
    except rfc8785.CanonicalizationError as exc:
        if isinstance(exc.__cause__, UnicodeEncodeError):
            refuse("004", "a string holds a lone surrogate", hint=_ENCODE)
        if isinstance(exc, rfc8785.IntegerDomainError):
            _refuse_integer()
        refuse("001", "a value has no RFC 8785 form", hint=_ENCODE)
    except RecursionError:
        refuse("005", "the call stack is too deep to write the value", hint="call from a shallower stack")
    except ValueError:
        # Python refuses to print integers of more than 4,300 digits, also for the message of rfc8785's error.
        _refuse_integer()
    except Exception as exc:
        # Subclasses of dict, list, int and str may run code of their own.
        refuse("001", f"a value could not be read ({type(exc).__name__})", hint=_ENCODE)


def _check_shape(value: object) -> None:
    leaves = _LEAVES
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        # Subclasses are copied as rfc8785 copies them, so that both look at the same members.
        if isinstance(item, dict):
            item = item if type(item) is dict else dict(item)
            _check_keys(item)
            children: Any = item.values()
        elif isinstance(item, (list, tuple)):
            children = list(item)
        elif item is None or isinstance(item, (str, int, float)):
            continue
        else:
            refuse("001", f"a value of type {type(item).__name__} has no RFC 8785 form", hint=_ENCODE)
        if depth > MAX_DEPTH_WRITE:
            refuse(
                "005",
                f"the value is nested more than {MAX_DEPTH_WRITE} levels deep, or contains itself",
                hint="flatten it, or use counterfoil.values.encode",
            )
        stack.extend((child, depth + 1) for child in children if type(child) not in leaves)


def _check_keys(item: dict[Any, Any]) -> None:
    exact = True
    for key in item:
        if type(key) is not str:
            exact = False
            if not isinstance(key, str):
                refuse("006", f"an object key is of type {type(key).__name__}", hint=_ENCODE)
    # Two str subclasses (members of a str Enum) can be different keys of one dict and yet hold the same text.
    if not exact and len({str.__str__(key) for key in item}) != len(item):
        refuse("006", "two keys of one object hold the same text", hint="make the keys plain strings")


def refuse(number: str, message: str, *, hint: str, where: str | None = None) -> NoReturn:
    """Raises the CanonicalError ``CF-CANON-<number>``."""
    # No cause is chained: what the parsers say may quote the text, and the text may be confidential.
    raise CanonicalError(message, code=f"CF-CANON-{number}", where=where, hint=hint) from None


def _refuse_integer() -> NoReturn:
    refuse("002", "an integer is beyond 2^53-1", hint=_ENCODE)


_enabled = self_test()
