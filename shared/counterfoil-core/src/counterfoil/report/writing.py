"""Puts the page into its file: never into evidence, never over what somebody did not say to replace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NoReturn

from counterfoil import keys
from counterfoil._files import write_given
from counterfoil.errors import ConfigError, CounterfoilError
from counterfoil.stores import FolderStore

__all__ = ["check_place", "write"]

_MARK: Final = ".gitignore"


def check_place(out: str, store: FolderStore, *, force: bool) -> None:
    """Refuse a place before anything is read; raises ConfigError (CF-CLI-112).

    Every byte inside evidence is evidence, whichever it is; a bundle is; and the home holds keys.
    """
    target = Path(out).absolute()
    real = Path(os.path.realpath(target))
    inside = store.holds(real) or any(map(_is_evidence, real.parents))
    if inside or any(_same(Path(store.place), one) for one in (real, *real.parents)):
        _refuse(out, "every byte inside evidence is evidence", "name a file outside of it")
    if any(_same(keys.home(), one) for one in real.parents):
        _refuse(out, "the home of the keys holds nothing else", "name another file")
    if target.is_symlink():
        _refuse(out, "a link is in the way", "name the file itself")
    if target.exists() and not target.is_file():
        _refuse(out, "this is no file", "name a file")
    if target.exists() and not force:
        _refuse(out, "another file is there", "name another file, or --force")


def write(out: str, page: str, *, force: bool) -> int:
    """Write the page in one step, readable by its owner alone; how many bytes it has.

    Raises ConfigError (CF-CLI-112) where a file came to be there meanwhile, OSError where it cannot be written.
    """
    data = page.encode()
    try:
        write_given(out, data, replace=force, mode=0o600)
    except FileExistsError:
        _refuse(out, "another file is there", "name another file, or --force")
    return len(data)


def _is_evidence(folder: Path) -> bool:
    try:
        return (folder / _MARK).is_file() and bool(FolderStore(folder).logs())
    except (OSError, CounterfoilError):
        return False


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _refuse(out: str, message: str, hint: str) -> NoReturn:
    raise ConfigError(message, code="CF-CLI-112", where=out, hint=hint)
