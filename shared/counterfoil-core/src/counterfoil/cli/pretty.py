"""Values as people read them: one member a line, texts as texts; and references replaced by what they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from counterfoil.cli import output
from counterfoil.digest import Reference, is_reference
from counterfoil.errors import CounterfoilError
from counterfoil.reader import Reader

__all__ = ["Resolver", "lines"]

_DEPTH = 200


class Resolver:
    """Puts stored values in the place of references; what is missing stays a reference and is listed."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.problems: list[CounterfoilError] = []

    def resolve(self, value: Any) -> Any:
        """``value`` with every reference inside replaced."""
        if is_reference(value):
            return self.reference(Reference.from_dict(value))
        if type(value) is dict:
            return {key: self.resolve(one) for key, one in value.items()}
        if type(value) is list:
            return [self.resolve(one) for one in value]
        return value

    def reference(self, ref: Reference) -> Any:
        """The value behind one reference, or its JSON form when this evidence cannot give it."""
        try:
            return self._reader.value(ref)
        except CounterfoilError as exc:
            problem = exc
        except (KeyError, TypeError, ValueError, RecursionError):
            problem = CounterfoilError(
                "stored bytes are not what their reference says", code="CF-CLI-023", where=ref.sha256[:12]
            )
        self.problems.append(problem)
        return ref.to_dict()


def lines(value: Any, *, depth: int = 0) -> Iterator[str]:
    """Plain lines of a JSON value; every line is safe on a terminal."""
    if depth > _DEPTH:
        yield output.json_text(value)
    elif type(value) is dict and value:
        for key, one in value.items():
            yield from _member(f"{output.clean(key)}:", one, depth)
    elif type(value) is list and value:
        for one in value:
            yield from _element(one, depth)
    elif type(value) is str and value.strip():
        yield from output.clean(value, lines=True).split("\n")
    else:
        yield json.dumps(value)


def _element(value: Any, depth: int) -> Iterator[str]:
    mark = "- "
    for line in lines(value, depth=depth + 1):
        yield mark + line
        mark = "  "


def _member(label: str, value: Any, depth: int) -> Iterator[str]:
    nested = type(value) in (dict, list) and bool(value)
    if not nested and not (type(value) is str and "\n" in value):
        text = output.clean(value) if type(value) is str and value.strip() else json.dumps(value)
        yield f"{label} {text}"
        return
    yield label
    for line in lines(value, depth=depth + 1):
        yield f"  {line}"
