"""A tree held against its manifest: every file that differs, is missing or is new, by name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from counterfoil.weights import adding, manifests
from counterfoil.weights.listing import FileEntry
from counterfoil.weights.walking import Problem

__all__ = ["Compared", "Difference", "compare"]

State = Literal["differs", "missing", "new", "unread"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not as its manifest says; ``message`` says why where it could not be hashed."""

    name: str
    state: State
    expected: FileEntry | None = None
    found: FileEntry | None = None
    code: str = ""
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON tells it."""
        out: dict[str, Any] = {"file": self.name, "state": self.state}
        for key, one in (("expected", self.expected), ("found", self.found)):
            out[key] = None if one is None else {"sha256": one.sha256, "size": one.size}
        return out | ({"code": self.code, "message": self.message} if self.code else {})


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome: ``same``, ``changed``, or ``cannot-tell`` where files could not be read and no other one differs."""

    manifest: manifests.Manifest
    differences: list[Difference]
    files: int
    size: int
    cached: int
    root: str

    @property
    def result(self) -> Literal["same", "changed", "cannot-tell"]:
        """What the differences come to."""
        if any(one.state != "unread" for one in self.differences):
            return "changed"
        return "cannot-tell" if self.differences else "same"


def compare(
    path: str | os.PathLike[str],
    manifest: manifests.Manifest,
    *,
    cached: bool = False,
    threads: int | None = None,
    told: adding.Told | None = None,
) -> Compared:
    """Hash a tree again, every byte of it unless ``cached`` digests are to be believed, and compare.

    Raises WeightsError: CF-WEIGHTS-001, 002, 009 (no tree), 020 (the manifest's list is lost).
    """
    expected = {one.name: one for one in manifest.files()}
    taken = adding.take(path, without=manifest.says.without, cached=cached, threads=threads, told=told)
    found = {one.name: one for one in taken.files}
    if (
        os.path.isfile(path) and len(expected) == len(found) == 1
    ):  # a file alone may have another name elsewhere
        (name,), (alone,) = expected, found.values()
        found = {name: FileEntry(name, alone.sha256, alone.size, alone.facts)}
    odd = {one.name: one for one in taken.problems}
    differences = [
        one
        for name in sorted({*expected, *found, *odd}, key=lambda name: name.split("/"))
        if (one := _difference(name, expected.get(name), found.get(name), odd.get(name))) is not None
    ]
    size = sum(one.size for one in taken.files)
    return Compared(manifest, differences, len(taken.files), size, taken.cached, taken.root)


def _difference(
    name: str, expected: FileEntry | None, found: FileEntry | None, odd: Problem | None
) -> Difference | None:
    if odd is not None:
        unread = odd.code in ("CF-WEIGHTS-005", "CF-WEIGHTS-006")
        state: State = "unread" if unread else "new" if expected is None else "differs"
        return Difference(name, state, expected, None, odd.code, odd.message)
    if found is None:
        return Difference(name, "missing", expected)
    if expected is None:
        return Difference(name, "new", None, found)
    if (expected.sha256, expected.size) != (found.sha256, found.size):
        return Difference(name, "differs", expected, found)
    return None
