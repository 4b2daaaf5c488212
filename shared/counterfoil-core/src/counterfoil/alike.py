"""Stored values that are alike, read by their text: most blobs but texts are nodes of message lists, or small requests.

What ``shapes`` finds out of a value by reading it (that it is canonical and reduced, whether it is a node, what it
cites) is true of every text of its mould, but for the length of what stands inside, which is looked at each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from counterfoil.digest import MEDIA_JSON, is_reference
from counterfoil.moulds import REFERENCE, TEXT, Groups, NoMould, Path, compiled, hex64, spell
from counterfoil.shapes import NODE, Shape

__all__ = ["ValueMould", "value_mould"]

_EXACT: Final = REFERENCE.replace(TEXT, re.escape(MEDIA_JSON.encode()))
"""What stands for a message in a node: no other type of reference makes it one."""


@dataclass(frozen=True, slots=True)
class ValueMould:
    """Reduced values of one form: groups of what they cite, of what has to be short, of a node's number and parent.

    ``first`` says that it is the first node of a list, which has neither.
    """

    fullmatch: Callable[[bytes], re.Match[bytes] | None]
    cited: tuple[int, ...]
    inside: tuple[int, ...]
    number: int
    parent: int
    first: bool


def value_mould(shape: Shape, text: bytes) -> ValueMould:
    """The mould of a reduced array or object of this shape; raises NoMould where a text alone cannot tell."""
    value = orjson.loads(text)
    node = type(value) is dict and value.keys() == NODE
    if b'"$bytes":' in text or (node and not shape.number):
        raise NoMould  # whether base64 is in its one form, or something odd is no node, depends on more than the form
    groups = Groups()
    cited: list[int] = []
    inside: list[int] = []
    ends: dict[str, int] = {}
    begun: set[Path] = set()

    def choose(path: Path, one: Any) -> bytes | None:
        if type(one) is dict and "$ref" in one:
            if one.keys() != {"$ref"} or not is_reference(one["$ref"]):
                raise NoMould
            cited.append(groups.next())
            return rb'\{"\$ref":(' + (_EXACT if node and path == ("add",) else REFERENCE) + rb")\}"
        if node and path == ("n",):
            if shape.number == 1:
                return b"1"
            ends["n"] = groups.next()
            return b"([1-9][0-9]{0,8}+)"
        if node and path == ("parent",):
            if shape.number == 1:
                return b'""'
            ends["parent"] = groups.next()
            return hex64(one)
        if len(path) == 1 and path not in begun and type(one) in (str, dict, list):
            begun.add(path)
            inside.append(groups.next())
            return b"(" + spell(one, choose, path) + b")"
        return None

    pattern = spell(value, choose)
    number, parent = ends.get("n", 0), ends.get("parent", 0)
    return ValueMould(compiled(pattern), tuple(cited), tuple(inside), number, parent, shape.number == 1)
