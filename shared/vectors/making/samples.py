"""The classes and imports that the Python expressions of ``values.json`` name; a module called ``samples``."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import math
import pathlib
import re
import threading
import types
import uuid
import zoneinfo
from typing import Any, NamedTuple

import pydantic

__all__ = [
    "array",
    "collections",
    "datetime",
    "decimal",
    "fractions",
    "functools",
    "ipaddress",
    "math",
    "re",
    "threading",
    "types",
    "uuid",
    "zoneinfo",
]


class Colour(enum.Enum):
    """An enumeration."""

    RED = "r"
    SCARLET = "r"


class Access(enum.Flag):
    """One whose members go together."""

    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    """One whose members are integers."""

    HIGH = 3


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


@dataclasses.dataclass
class Item:
    """A dataclass."""

    name: str
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Slim:
    """A dataclass without a dict, one field of which is not set."""

    a: int
    b: int = dataclasses.field(init=False)


class Model(pydantic.BaseModel):
    """A model that keeps what it does not know."""

    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    count: int = 0


class Text(str):
    """A text with a type of its own."""

    __slots__ = ()


class Number(int):
    """An integer with a type of its own."""


class Ratio(float):
    """A double with a type of its own."""


class Mapping(dict[str, Any]):
    """A dict with a type of its own."""


class Listing(list[Any]):
    """A list with a type of its own."""


class Row(tuple[Any, ...]):
    """A tuple with a type of its own."""

    __slots__ = ()


class Some(set[Any]):
    """A set with a type of its own."""


class Data(bytes):
    """Bytes with a type of their own."""


class Place(pathlib.PurePosixPath):
    """A path with a type of its own."""


class Hidden:
    """An object that nobody can look into."""


def cycle() -> list[Any]:
    """A list that holds itself."""
    out: list[Any] = [1]
    out.append({"self": out})
    return out


def failed() -> OSError:
    """An error with all that one holds."""
    out = OSError(2, "no", "f")
    out.add_note("seen")
    out.__cause__ = KeyError("k")
    return out


def nested(levels: int) -> list[Any]:
    """Lists within lists."""
    out: list[Any] = []
    for _ in range(levels - 1):
        out = [out]
    return out
