"""The classes and imports that the Python expressions of ``values.json`` name; a module called ``samples``."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import types
import uuid
from typing import Any, NamedTuple

import pydantic

__all__ = ["collections", "datetime", "decimal", "fractions", "math", "types", "uuid"]


class Colour(enum.Enum):
    """An enumeration."""

    RED = "r"


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


class Place(pathlib.PurePosixPath):
    """A path with a type of its own."""


class Hidden:
    """An object that nobody can look into."""


def cycle() -> list[Any]:
    """A list that holds itself."""
    out: list[Any] = [1]
    out.append({"self": out})
    return out


def nested(levels: int) -> list[Any]:
    """Lists within lists."""
    out: list[Any] = []
    for _ in range(levels - 1):
        out = [out]
    return out
