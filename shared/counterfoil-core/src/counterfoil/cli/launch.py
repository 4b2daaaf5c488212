"""Starts the application of ``counterfoil run`` as the shell would have, and stays out of its way."""

from __future__ import annotations

import os
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import counterfoil
from counterfoil.errors import ConfigError

__all__ = ["command_line", "environment", "start_file", "wait_for"]

PTH: Final = "counterfoil-autostart.pth"
LAUNCH: Final = Path(__file__).resolve().parent / "_launch"
_FROM_TERMINAL: Final = ("SIGINT", "SIGQUIT")
_FORWARDED: Final = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def command_line(words: Sequence[str]) -> list[str]:
    """The program and its arguments; ``*.py`` and ``-m MODULE`` run under this interpreter.

    Raises:
        ConfigError: CF-CLI-001: an option that is none; CF-CLI-040: no such command or file; CF-CLI-041: a folder.
    """
    first = words[0]
    if first == "-m":
        if len(words) < 2:
            raise ConfigError(
                "-m needs a module", code="CF-CLI-001", where="counterfoil run", hint="run -m MODULE"
            )
        return [sys.executable, *words]
    if first.startswith("-") and len(first) > 1:
        raise ConfigError(
            f"no such option: {first}",
            code="CF-CLI-001",
            where="counterfoil run",
            hint="options of run stand before the command; counterfoil run --help",
        )
    if first.endswith(".py"):
        if not Path(first).exists():
            raise ConfigError(
                f"no such file: {first}",
                code="CF-CLI-040",
                where="counterfoil run",
                hint="check its name and the folder you are in",
            )
        return [sys.executable, *words]
    if not first or (shutil.which(first) is None and not Path(first).exists()):
        raise _not_found(first)
    if shutil.which(first) is None and Path(first).is_dir():
        raise ConfigError(
            "is a folder", code="CF-CLI-041", where=first, hint="name a program, a *.py file or -m MODULE"
        )
    return list(words)


def start_file() -> bool:
    """Whether this interpreter starts recording by itself: the ``.pth`` file lies in one of its site folders."""
    folders = [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return any(Path(folder, PTH).is_file() for folder in folders)


def environment(base: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """The application's environment: ``settings`` on top, and a start-up folder where no file is installed."""
    env = {**base, **settings}
    if start_file():
        return env
    given = base.get("PYTHONPATH", "")
    paths = [str(LAUNCH), *([given] if given else [])]
    root = str(Path(counterfoil.__file__).resolve().parents[1])
    known = [*given.split(os.pathsep), *site.getsitepackages(), site.getusersitepackages()]
    if root not in (os.path.abspath(path) for path in known if path):
        paths.append(root)  # last, so that nothing of the application's own is hidden by it
    env["PYTHONPATH"] = os.pathsep.join(paths)
    return env


def wait_for(command: Sequence[str], env: Mapping[str, str]) -> tuple[int, int]:
    """Run a command on this process's own streams and return (pid, exit code), 128 + n after signal n.

    Raises:
        ConfigError: CF-CLI-040: it is gone; CF-CLI-041: it cannot be executed.
    """
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name in _FROM_TERMINAL and _foreground():
            return  # the terminal has told the application already
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    before = {}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, forward)
    try:
        # Inheritable descriptors are the application's (a shell's 3<file, make's job server).
        child = subprocess.Popen(list(command), env=dict(env), close_fds=False)
        for number in early:
            child.send_signal(number)
        code = child.wait()
    except FileNotFoundError as exc:
        raise _not_found(command[0]) from exc
    except OSError as exc:
        raise ConfigError(
            f"the command cannot be executed: {exc.strerror}",
            code="CF-CLI-041",
            where=command[0],
            hint="check its permissions and its first line",
        ) from exc
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return child.pid, code if code >= 0 else 128 - code


def _foreground() -> bool:
    """Whether a terminal counts this process among those it sends Ctrl-C to."""
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(fd)


def _not_found(command: str) -> ConfigError:
    return ConfigError(
        "command not found", code="CF-CLI-040", where=command or "''", hint="check its name and PATH"
    )
