"""Looks at every installed file: does it still hash as its distribution's RECORD says? For `environment --deep`.

Takes a second for some hundred MB; the fast record says only what RECORD itself hashes to.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from counterfoil._files import open_given
from counterfoil.environment import application, distributions
from counterfoil.environment._reading import data

__all__ = ["check", "work_tree"]

_PIECE: Final = 1 << 20
_NAMED: Final = 100

Told = Callable[[int, int], None]


def check(paths: list[str] | None = None, *, tell: Told | None = None) -> dict[str, Any]:
    """Per distribution ``files`` looked at and, where they differ, ``changed`` and ``missing``.

    ``tell(done, all)`` is called as distributions are finished. Files that RECORD lists without a hash are not
    looked at, at most 100 names of each kind are told. Symbolic links are followed, as the interpreter follows them.
    """
    found = distributions.find(paths)
    items: dict[str, Any] = {}
    # hashlib and file reads release the interpreter's lock: threads use all cores.
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for (name, version, _), item in zip(found, pool.map(_one, [one[2] for one in found]), strict=True):
            items[name] = {"version": version, **item}
            if tell is not None:
                tell(len(items), len(found))
    wrong = sorted(name for name, item in items.items() if "changed" in item or "missing" in item)
    files = sum(item["files"] for item in items.values())
    return {"files": files, "items": items, "source": "probed", "wrong": wrong}


def work_tree() -> dict[str, Any]:
    """Commit of the program's checkout, whether it has changes, and the tree's hash; runs git where it is there."""
    found, git = application.checkout(), shutil.which("git")
    out = application.revision()
    if found is None or git is None:
        return out
    status = _git(git, found[0], "status", "--porcelain=v1", "--untracked-files=normal")
    tree = _git(git, found[0], "rev-parse", "HEAD^{tree}")
    if status is not None:
        out["changes"] = len(status.splitlines())
    if tree is not None:
        out["tree"] = tree.strip()
    return out


def _git(git: str, folder: Path, *arguments: str) -> str | None:
    # A foreign checkout's configuration could name programs to run: none of them is asked.
    safe = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks")
    try:
        done = subprocess.run(
            [git, *safe, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


def _one(folder: str) -> dict[str, Any]:
    base = os.path.dirname(folder)
    changed, missing, files = [], [], 0
    try:
        written = data(os.path.join(folder, "RECORD"), distributions.RECORD_LIMIT).decode("utf-8")
        rows = [row for row in csv.reader(io.StringIO(written, newline="")) if len(row) >= 2 and row[1]]
    except (OSError, ValueError, csv.Error):
        return {"files": 0, "record": "unreadable"}
    for row in rows:
        algorithm, _, expected = row[1].partition("=")
        if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
            continue
        files += 1
        try:
            digest = _digest(os.path.join(base, row[0]), algorithm)
        except (OSError, ValueError):
            missing.append(row[0])
            continue
        if digest != expected.rstrip("="):
            changed.append(row[0])
    out: dict[str, Any] = {"files": files}
    for name, listed in (("changed", changed), ("missing", missing)):
        if listed:
            out[name] = {"count": len(listed), "names": sorted(listed)[:_NAMED]}
    return out


def _digest(path: str, algorithm: str) -> str:
    hashed = hashlib.new(algorithm)
    with open_given(path) as file:  # a device or pipe that RECORD names would have no end
        while piece := file.read(_PIECE):
            hashed.update(piece)
    return base64.urlsafe_b64encode(hashed.digest()).decode().rstrip("=")
