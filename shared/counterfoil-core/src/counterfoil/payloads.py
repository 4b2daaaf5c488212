"""Payloads of handoffs between processes: only what a digest holds whole can be signed and acted on."""

from __future__ import annotations

import copy
from typing import Final

from counterfoil import canonical, values
from counterfoil.digest import sha256_hex

__all__ = ["NOTHING", "plain_digest", "private"]


def plain_digest(payload: object) -> str | None:
    """SHA-256 of the full bytes: of a string's UTF-8, of bytes themselves, else of the RFC 8785 text.

    None when the value holds what its canonical form only names or leaves out (a message's volatile fields, a
    function's code, a model's private attributes): then two payloads that act differently would have one digest.
    """
    if type(payload) is bytes:
        return sha256_hex(payload)
    value = values.encode(payload)
    if not _exact(value):
        return None
    return sha256_hex(value.encode() if type(value) is str else canonical.dumps(value))


_EXACT: Final = frozenset(
    {
        "$array",
        "$bytearray",
        "$bytes",
        "$chainmap",
        "$column",
        "$complex",
        "$constant",
        "$dataframe",
        "$date",
        "$datetime",
        "$decimal",
        "$defaultdict",
        "$deque",
        "$enum",
        "$fraction",
        "$frozenset",
        "$index",
        "$int",
        "$interval",
        "$ipaddress",
        "$ipinterface",
        "$ipnetwork",
        "$items",
        "$keys",
        "$map",
        "$mappingproxy",
        "$memoryview",
        "$namedtuple",
        "$namespace",
        "$ndarray",
        "$num",
        "$numpy",
        "$ordereddict",
        "$path",
        "$pattern",
        "$period",
        "$range",
        "$series",
        "$set",
        "$slice",
        "$str",
        "$sub",
        "$subfloat",
        "$subint",
        "$substr",
        "$time",
        "$timedelta",
        "$timezone",
        "$tuple",
        "$url",
        "$user",
        "$uuid",
        "$values",
        "$zoneinfo",
    }
)
"""Tags whose canonical form holds the whole value (of a subclass: of what it is a subclass of)."""
NOTHING: Final = object()
"""What ``private`` answers for a payload that cannot be copied."""


def _exact(value: object) -> bool:
    stack = [value]
    while stack:
        node = stack.pop()
        if type(node) is dict:
            if any(key.startswith("$") and key not in _EXACT for key in node):
                return False
            if "$defaultdict" in node and _is_builtin(node.get("factory")):
                node = {"$defaultdict": node["$defaultdict"]}
            stack.extend(node.values())
        elif type(node) is list:
            stack.extend(node)
    return True


def _is_builtin(factory: object) -> bool:
    """Whether a factory is a type that is the same everywhere."""
    return type(factory) is dict and str(factory.get("$type", "")).startswith("builtins.")


def private(payload: object) -> object:
    """The payload as this call sees it: another thread may change the caller's object while it is verified."""
    if type(payload) in (str, bytes):
        return payload
    try:
        return copy.deepcopy(payload)
    except Exception:
        return NOTHING
