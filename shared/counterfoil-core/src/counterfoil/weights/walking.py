"""Which files a tree of weights has, without following anything out of it.

Links to files are followed inside the tree, and into the ``blobs`` beside a Hugging Face snapshot; every other link,
and what is no regular file, is a problem that is named. Source: ``shared/spec/weights.md``, *Files and root*.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterfoil.errors import WeightsError
from counterfoil.weights.listing import is_name, order_of

__all__ = ["GIT", "Found", "Problem", "Tree", "default_name", "default_source", "walk"]

GIT: Final = (".git", ".gitattributes", ".github", ".gitignore")
"""What model-signing leaves out at the top of a tree."""
_DEEPEST: Final = 128
_MOST: Final = 1 << 20
"""Files of one tree."""
_HUB: Final = re.compile(r"models--(.+?)--(.+)")


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file of the tree: its name in the list, where its bytes are, and its status when it was found."""

    name: str
    path: str
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Problem:
    """Something below the folder that has no place in a tree; ``code`` and ``message`` say why."""

    name: str
    code: str
    message: str
    hint: str = ""

    def error(self, more: int = 0) -> WeightsError:
        """The same as an error; ``more`` such things there are besides."""
        tail = f" (and {more} more {'problem' if more == 1 else 'problems'})" if more else ""
        return WeightsError(self.message + tail, code=self.code, where=self.name, hint=self.hint or None)


@dataclass(slots=True)
class Tree:
    """What ``walk`` found, files in the order of their names."""

    root: Path
    files: list[Found] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def check(self) -> None:
        """Raise the first problem as a WeightsError."""
        if self.problems:
            raise self.problems[0].error(len(self.problems) - 1)


def walk(path: str | os.PathLike[str], *, without: Collection[str] = ()) -> Tree:
    """The files below a folder, or the one file that ``path`` names.

    ``without`` are paths below the folder that are left out with all below them. Raises WeightsError: CF-WEIGHTS-001
    (the path cannot be looked at), 002 (it is neither file nor folder), 009 (too many files or too deep).
    """
    given = Path(path)
    try:
        status = os.stat(given)
        real = Path(os.path.realpath(given))
    except (OSError, ValueError) as exc:
        raise WeightsError(
            f"the weights cannot be looked at: {getattr(exc, 'strerror', None) or 'no path'}",
            code="CF-WEIGHTS-001",
            where=os.fsdecode(given),
            hint="check the path",
        ) from exc
    if stat.S_ISREG(status.st_mode):
        return _alone(given, real, status)
    if not stat.S_ISDIR(status.st_mode):
        raise _special(os.fsdecode(given)).error()
    walker = _Walker(real, frozenset(without))
    walker.folder(os.fspath(real), "", 0)
    tree = walker.tree
    tree.files.sort(key=lambda one: order_of(one.name))
    tree.problems.sort(key=lambda one: one.name)
    return tree


def _alone(path: Path, real: Path, status: os.stat_result) -> Tree:
    tree = Tree(real)
    name = path.name or real.name
    if _is_text(name):
        tree.files.append(Found(name, os.fspath(real), status))
    else:
        tree.problems.append(_no_text(name))
    return tree


class _Walker:
    """Goes through a folder and the folders in it; ``tree`` holds what it found."""

    def __init__(self, root: Path, without: frozenset[str]) -> None:
        self.tree = Tree(root)
        self._without = without
        self._inside = [os.fspath(root)]
        if root.parent.name == "snapshots":
            blobs = root.parent.parent / "blobs"
            # A link in the place of that folder would be somebody's door to any other.
            if blobs.is_dir() and not blobs.is_symlink():
                self._inside.append(os.fspath(blobs))

    def folder(self, path: str, above: str, depth: int) -> None:
        """Take what stands in a folder."""
        if depth > _DEEPEST:
            raise WeightsError(
                f"folders within folders, more than {_DEEPEST}",
                code="CF-WEIGHTS-009",
                where=above[:200],
                hint="name the folder of the model itself",
            )
        try:
            with os.scandir(path) as entries:
                listed = list(entries)
        except OSError as exc:
            self._unreadable(above or ".", exc)
            return
        for entry in listed:
            name = f"{above}/{entry.name}" if above else entry.name
            if name not in self._without:
                self._entry(entry, name, depth)

    def _entry(self, entry: os.DirEntry[str], name: str, depth: int) -> None:
        if not _is_text(name):
            self.tree.problems.append(_no_text(name))
            return
        try:
            if entry.is_symlink():
                self._link(entry.path, name)
            elif entry.is_dir(follow_symlinks=False):
                self.folder(entry.path, name, depth + 1)
            elif entry.is_file(follow_symlinks=False):
                self._file(name, entry.path, entry.stat(follow_symlinks=False))
            else:
                self.tree.problems.append(_special(name))
        except OSError as exc:
            self._unreadable(name, exc)

    def _link(self, path: str, name: str) -> None:
        problem = self.tree.problems.append
        try:
            target = os.path.realpath(path, strict=True)
            status = os.stat(target, follow_symlinks=False)
        except (OSError, RuntimeError) as exc:
            loop = not isinstance(exc, FileNotFoundError)
            what = "a link that cannot be followed" if loop else "a link that leads nowhere"
            problem(Problem(name, "CF-WEIGHTS-004", what, "remove it, or put the file in its place"))
            return
        if stat.S_ISDIR(status.st_mode):
            problem(
                Problem(
                    name,
                    "CF-WEIGHTS-004",
                    "a link to a folder",
                    "put the files in its place, or leave it out",
                )
            )
        elif not any(os.path.commonpath((folder, target)) == folder for folder in self._inside):
            hint = "put the file in its place, or leave it out"
            problem(Problem(name, "CF-WEIGHTS-004", "a link that leads out of the tree", hint))
        elif not stat.S_ISREG(status.st_mode):
            problem(_special(name))
        else:
            self._file(name, target, status)

    def _file(self, name: str, path: str, status: os.stat_result) -> None:
        self.tree.files.append(Found(name, path, status))
        if len(self.tree.files) > _MOST:
            raise WeightsError(
                f"more than {_MOST} files",
                code="CF-WEIGHTS-009",
                where=os.fspath(self.tree.root),
                hint="name a folder that holds one model",
            )

    def _unreadable(self, name: str, exc: OSError) -> None:
        message = f"it cannot be looked at: {exc.strerror or type(exc).__name__}"
        self.tree.problems.append(Problem(name, "CF-WEIGHTS-005", message, "check who may read it"))


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return is_name(name)


def _no_text(name: str) -> Problem:
    shown = name.encode("utf-8", "backslashreplace").decode()[:400]
    return Problem(
        shown, "CF-WEIGHTS-003", "a name that is not UTF-8, or too long", "rename it, or leave it out"
    )


def _special(name: str) -> Problem:
    return Problem(
        name, "CF-WEIGHTS-002", "neither a regular file nor a folder", "remove it, or leave it out"
    )


# -- what a place is called -------------------------------------------------------------------------------------------


def default_name(path: str | os.PathLike[str]) -> str:
    """What a tree is called unless somebody says: of a Hugging Face snapshot its model, else the folder's name."""
    real = Path(os.path.realpath(path))
    hub = _hub(real)
    return hub[0] if hub else (real.name or "weights")


def default_source(path: str | os.PathLike[str]) -> dict[str, str] | None:
    """Repository and revision of a Hugging Face snapshot, by the folders it lies in."""
    hub = _hub(Path(os.path.realpath(path)))
    return {"repo": hub[0], "revision": hub[1]} if hub else None


def _hub(real: Path) -> tuple[str, str] | None:
    if real.parent.name != "snapshots":
        return None
    found = _HUB.fullmatch(real.parent.parent.name)
    return (f"{found[1]}/{found[2]}", real.name) if found else None
