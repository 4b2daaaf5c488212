"""``counterfoil demo``: record a real multi-agent application, verify it, look at it, change a character, verify again.

The application comes from an adapter by entry point of the group ``counterfoil.demo``: a function without
arguments whose result is a context manager; entered, it gives ``(command, variables)``: the words for
``counterfoil run`` and the environment variables that send the application to a scripted model on 127.0.0.1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from counterfoil.cli import output, tamper
from counterfoil.cli.options import Debug, option
from counterfoil.cli.source import actor_name, short
from counterfoil.errors import ConfigError

__all__ = ["GROUP", "demo"]

GROUP: Final = "counterfoil.demo"
_TIMEOUT: Final = 300.0
_INSTALL: Final = 'pip install "counterfoil[demo]"'


def demo(
    keep: Annotated[
        str | None, option("--keep", metavar="DIR", help="Keep everything in this new folder.")
    ] = None,
    name: Annotated[
        str | None, option("--adapter", metavar="NAME", help="Whose demo, where several are installed.")
    ] = None,
    debug: Debug = False,
) -> int:
    """Show all of it, offline, in a minute.

    \b
    Examples:
      counterfoil demo
      counterfoil demo --keep demo/

    Records a real multi-agent application (its model is scripted, on 127.0.0.1) with an identity of its own,
    verifies it, draws it, changes one character in a copy and verifies that. Exit code 0 when the first
    verdict was intact and the second broken.
    """
    began = time.monotonic()
    serve = _find(name)
    with _folder(keep) as folder:
        try:
            with serve as (command, variables):
                told = _Steps(Path(folder), variables).all(list(command))
        except ImportError as exc:
            _not_installed(exc)
    output.out(f"\ndemo: {told}, {time.monotonic() - began:.1f} s")
    if keep is not None:
        output.out(f"kept: {output.clean(keep)} (home, evidence, tampered)")
    return 0 if told.startswith("as expected") else 1


class _Steps:
    """The demo's steps in one folder, each command run as a user would run it."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL")}
        self.environment = {**own, **variables, "COUNTERFOIL_HOME": str(folder / "home")}
        if sys.stdout is not None and sys.stdout.encoding:
            self.environment.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding}:backslashreplace")

    def all(self, command: list[str]) -> str:
        """Run every step; a sentence that begins with ``as expected`` when both verdicts are."""
        _title("1. Record an application, unchanged")
        code, _ = self._run("run", "-e", "evidence", "--", *command)
        if code:
            return f"the application failed with exit code {code}"
        _title("2. Verify what it left")
        intact, _ = self._run("verify", "evidence")
        if intact != 0:
            return f"not as expected (CF-CLI-052): exit code {intact} of verify, expected 0"
        _title("3. Who acted after whom")
        self._run("graph", "evidence")
        self._run("handoffs", "evidence")
        _title("4. Change one character in a copy, checksums and all")
        shutil.copytree(self.folder / "evidence", self.folder / "tampered")
        change = tamper.change_one_character(self.folder / "tampered")
        actor = output.clean(actor_name(change.actor))
        output.out(f"entry {change.entry}, {change.op} of {actor}, stored bytes {short(change.blob)}")
        output.out(f"  - ...{output.clean(change.before)}...")
        output.out(f"  + ...{output.clean(change.after)}...")
        broken, lines = self._run("verify", "tampered")
        named = [line for line in lines if line.startswith("broken") and f"entry {change.entry}:" in line]
        if broken == 3 and named:
            return f"as expected, intact before and broken after; entry {change.entry} is named"
        return f"not as expected (CF-CLI-052): exit code {broken} of verify, expected 3 and entry {change.entry} named"

    def _run(self, *words: str) -> tuple[int, list[str]]:
        output.out(output.paint(f"$ counterfoil {' '.join(words)}", "bold cyan"))
        output.finish()
        # -P: a folder named counterfoil where the user stands is not this package.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "counterfoil", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        try:
            text, _ = process.communicate(timeout=_TIMEOUT)
        except BaseException:
            process.kill()
            process.wait()
            raise
        lines = text.splitlines()
        for line in lines:
            output.out(output.clean(line))
        return process.returncode, lines


def _title(text: str) -> None:
    output.out()
    output.out(output.paint(text, "bold"))


def _find(name: str | None) -> AbstractContextManager[tuple[Sequence[str], Mapping[str, str]]]:
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    chosen = [point for point in found if name in (None, point.name)]
    if not chosen:
        listed = ", ".join(point.name for point in found)
        raise ConfigError(
            "no installed adapter brings a demo" if not found else "there is no such demo",
            code="CF-CLI-050",
            where=name,
            hint=f"there are: {listed}" if found else _INSTALL,
        )
    try:
        made: Any = chosen[0].load()()
    except ImportError as exc:
        _not_installed(exc)
    return made  # type: ignore[no-any-return]


def _not_installed(exc: ImportError) -> NoReturn:
    raise ConfigError(
        f"the demo needs a package that is not installed: {exc.name or exc}",
        code="CF-CLI-051",
        hint=_INSTALL,
    ) from exc


def _folder(keep: str | None) -> AbstractContextManager[str]:
    if keep is None:
        return tempfile.TemporaryDirectory(prefix="counterfoil-demo-")
    folder = Path(keep).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            "the folder to keep the demo in is not empty",
            code="CF-CLI-054",
            where=keep,
            hint="name a new folder",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return _Kept(str(folder))


class _Kept(AbstractContextManager[str]):
    """A folder that stays."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __enter__(self) -> str:
        return self.folder

    def __exit__(self, *exc: object) -> None:
        return None
