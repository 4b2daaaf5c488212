"""Switches recording on: by ``counterfoil.install()``, or by the environment variable ``COUNTERFOIL`` with no code
change.

Adapters come from plugins only. One whose framework is not imported yet is installed the moment it is, so that a
program that never uses the framework pays only for the look-up.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Final

from counterfoil import switches
from counterfoil.errors import ConfigError, CounterfoilError
from counterfoil.hooks import Instrumentation

if TYPE_CHECKING:
    from counterfoil.recorder import Recorder

__all__ = ["boot", "install", "recorder", "uninstall"]

_log: Final = logging.getLogger("counterfoil")
_CANNOT_STOP: Final = "CF-CONFIG-005"


class _State:
    """What is installed in this process."""

    recorder: ClassVar[Recorder | None] = None
    installed: ClassVar[list[Instrumentation]] = []
    finder: ClassVar[_Finder | None] = None
    exit_hook: ClassVar[bool] = False


class _Finder(importlib.abc.MetaPathFinder):
    """Calls back once a module has been imported; looks modules up through the finders behind it.

    It stays armed until an import succeeds: a framework's lazy imports may fail in a circle at first and be tried
    again.
    """

    def __init__(self, wanted: dict[str, list[Callable[[], None]]]) -> None:
        self.wanted = wanted
        self._looking = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.wanted or getattr(self._looking, "name", None) == fullname:
            return None
        self._looking.name = fullname
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.name = None
        if spec is None or spec.loader is None:
            return None
        original = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            original(module)
            if module.__name__ == fullname:  # one loader may serve a whole archive
                for call in self.wanted.pop(fullname, []):
                    call()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install(
    evidence: str | os.PathLike[str] | None = None, *, mode: str | None = None, durability: str | None = None
) -> None:
    """Record everything every installed adapter sees in this process, into ``evidence``.

    Again with the same settings it does nothing; with another place it closes the first and goes on there.

    Default evidence: ``$COUNTERFOIL``, then ``counterfoil-evidence/``. Raises ConfigError when the settings are not
    usable or an adapter cannot keep its word in ``mode``.
    """
    from counterfoil.settings import load

    settings = load(
        evidence=None if evidence is None else os.fspath(evidence), mode=mode, durability=durability
    )
    present = _State.recorder
    if (
        present is not None
        and switches.absolute(present.evidence) == switches.absolute(settings.evidence)
        and (present.mode, present.durability) == (settings.mode, settings.durability)
    ):
        return
    uninstall()  # also what was planted when the interpreter started
    found = _instrumentations()
    _check_mode(found, settings.mode)
    from counterfoil.recorder import Recorder

    recorder = Recorder(settings.evidence, mode=settings.mode, durability=settings.durability)
    _State.recorder = recorder
    _on_exit()
    _plant(found, lambda: recorder)


def uninstall() -> None:
    """Take every adapter out again and close the log; idempotent."""
    if _State.finder is not None:
        if _State.finder in sys.meta_path:
            sys.meta_path.remove(_State.finder)
        _State.finder = None
    for one in _State.installed:
        try:
            one.uninstall()
        except Exception as exc:
            _log.error("counterfoil: %s could not be taken out: %s", one.name, type(exc).__name__)
    _State.installed = []
    recorder, _State.recorder = _State.recorder, None
    if recorder is not None:
        recorder.close()


def recorder(evidence: str | os.PathLike[str] | None = None) -> Recorder:
    """The installed recorder, or one for ``evidence``; for adapters whose handler is made by hand."""
    from counterfoil.recorder import Recorder
    from counterfoil.settings import load

    if _State.recorder is not None and evidence is None:
        return _State.recorder
    settings = load(evidence=None if evidence is None else os.fspath(evidence))
    wanted = switches.absolute(settings.evidence)
    if _State.recorder is not None and switches.absolute(_State.recorder.evidence) == wanted:
        return _State.recorder
    found = _made.get(wanted)
    if found is None or found.closed:
        found = _made[wanted] = Recorder(
            settings.evidence, mode=settings.mode, durability=settings.durability
        )
        _on_exit()
    return found


_made: dict[str, Recorder] = {}


def boot() -> None:
    """Entry of the start-up file: never raises, says in one line on stderr why it does not record."""
    if os.environ.get("COUNTERFOIL", "").strip().lower() in switches.OFF:
        return
    try:
        _boot()
    except CounterfoilError as exc:
        sys.stderr.write(f"counterfoil: not recording: {exc}{f'; {exc.hint}' if exc.hint else ''}\n")
        if exc.code == _CANNOT_STOP:
            # Asked to be stopped and not able to: running unguarded would be worse. An exception here is no clean exit.
            sys.stderr.flush()
            os._exit(2)
    except Exception as exc:
        sys.stderr.write(f"counterfoil: not recording: {type(exc).__name__}\n")


def _boot() -> None:
    """Plant the adapters; settings, keys and the rest are loaded when a framework is imported.

    The home folder and the evidence path are taken now: an application may change HOME and its folder later.
    """
    named = switches.evidence()
    evidence: str | None = None
    if named is not None:
        evidence = os.environ["COUNTERFOIL"] = switches.absolute(named)
    from counterfoil import _home

    _home.home()
    found = _instrumentations()
    if not found and not os.environ.get("COUNTERFOIL_PLUGINS") and not _is_cli():
        sys.stderr.write(
            'counterfoil: not recording: no adapter is installed; pip install "counterfoil[langchain]"\n'
        )
    _check_mode(found, os.environ.get("COUNTERFOIL_MODE") or "observe")
    if found:
        _on_exit()  # before the application registers anything: its own handlers, run first, may still record

    def late() -> Recorder:
        from counterfoil.recorder import Recorder
        from counterfoil.settings import load

        if _State.recorder is None:
            settings = load(evidence=evidence)
            _check_mode(found, settings.mode)
            _State.recorder = Recorder(settings.evidence, mode=settings.mode, durability=settings.durability)
            _on_exit()
        return _State.recorder

    _plant(found, late)


def _is_cli() -> bool:
    """Whether this interpreter runs Counterfoil's own command line, which never records itself."""
    words = sys.orig_argv[1:3]
    return any(os.path.basename(word) in ("counterfoil", "counterfoil.exe") for word in words)


def _check_mode(found: list[Instrumentation], mode: str) -> None:
    """Refuse a mode that an adapter cannot keep its word in; unknown modes are refused when settings are read."""
    for one in found:
        if mode in ("enforce", "hold") and mode not in one.modes:
            raise ConfigError(
                f"{one.name} cannot keep its word in mode {mode}",
                code=_CANNOT_STOP,
                where=one.name,
                hint="use mode observe",
            )


def _plant(found: list[Instrumentation], make: Callable[[], Recorder]) -> None:
    wanted: dict[str, list[Callable[[], None]]] = {}
    for one in found:
        if one.target in sys.modules:
            _install(one, make)
        else:
            wanted.setdefault(one.target, []).append(lambda one=one: _install(one, make))  # type: ignore[misc]
    if wanted:
        _State.finder = _Finder(wanted)
        sys.meta_path.insert(0, _State.finder)


def _install(one: Instrumentation, make: Callable[[], Recorder]) -> None:
    try:
        recorder = make()
        recorder.capabilities[one.name] = one.capabilities()
        one.install(recorder)
        _State.installed.append(one)
    except CounterfoilError as exc:
        if exc.code == _CANNOT_STOP:
            raise  # into the import that woke the adapter: the application must not run unguarded
        _log.error("counterfoil: not recording: %s%s", exc, f"; {exc.hint}" if exc.hint else "")
    except Exception as exc:
        _log.error("counterfoil: %s could not be installed: %s: %s", one.name, type(exc).__name__, exc)


def _instrumentations() -> list[Instrumentation]:
    from counterfoil import plugins

    found = plugins.loaded()
    out = found.instrumentations()
    for broken in found.broken:
        _log.error("counterfoil: plugin %s is broken: %s", broken.name, broken.reason)
    return out


def _on_exit() -> None:
    if not _State.exit_hook:
        _State.exit_hook = True
        atexit.register(_close_all)


def _close_all() -> None:
    if _State.recorder is not None:
        _State.recorder.close()
    for made in list(_made.values()):
        made.close()
