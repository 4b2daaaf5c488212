"""Which code ran: the image and revision that the deployment declares, else the commit of the checkout it runs from."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

from counterfoil.environment._reading import plain, text

__all__ = ["checkout", "image", "program", "revision"]

_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_LONGEST: Final = 256


def program() -> str:
    """Name of the program, without its folder."""
    return Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"


def image() -> dict[str, Any]:
    """Digest of the container image, as ``COUNTERFOIL_IMAGE_DIGEST`` declares it: it cannot be seen from inside."""
    value = os.environ.get("COUNTERFOIL_IMAGE_DIGEST")
    return (
        {"digest": value[:_LONGEST], "source": "declared"}
        if value and plain(value)
        else {"source": "unknown"}
    )


def revision() -> dict[str, Any]:
    """``commit`` of the program's checkout (``.git`` is read, no git is run), or ``COUNTERFOIL_APP_REVISION``."""
    out: dict[str, Any] = {"program": program() if plain(program()) else "python"}
    declared = os.environ.get("COUNTERFOIL_APP_REVISION")
    if declared and plain(declared):
        return {**out, "revision": declared[:_LONGEST], "source": "declared"}
    found = checkout()
    commit = None if found is None else _head(found[1])
    return {**out, "commit": commit, "source": "probed"} if commit else {**out, "source": "unknown"}


def checkout() -> tuple[Path, Path] | None:
    """Work tree and git folder of the checkout that holds the program (else of the working folder)."""
    try:
        script = Path(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c", "-m") else None
        start = script.resolve().parent if script is not None and script.exists() else Path.cwd()
        for folder in (start, *start.parents):
            git = folder / ".git"
            if git.is_dir():
                return folder, git
            if git.is_file():  # a linked work tree or submodule
                pointer = text(str(git), 4096).strip()
                if pointer.startswith("gitdir: "):
                    found = _resolved(folder / pointer.removeprefix("gitdir: "))
                    return None if found is None else (folder, found)
    except (OSError, ValueError, RuntimeError):
        pass
    return None


def _resolved(path: Path) -> Path | None:
    """Where a path of a file leads; it may name anything: links in a ring (RuntimeError before 3.13), a NUL."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _head(git: Path) -> str | None:
    head = text(str(git / "HEAD"), 4096).strip()
    if _COMMIT.match(head):
        return head
    name = head.removeprefix("ref: ")
    if name == head or ".." in name:
        return None
    common = text(str(git / "commondir"), 4096).strip()
    for folder in (git, (_resolved(git / common) if common else None) or git):
        commit = text(str(folder / name), 256).strip()
        if _COMMIT.match(commit):
            return commit
        for line in text(str(folder / "packed-refs"), 8 << 20).splitlines():
            if line.endswith(" " + name) and _COMMIT.match(line[: -len(name) - 1]):
                return line[: -len(name) - 1]
    return None
