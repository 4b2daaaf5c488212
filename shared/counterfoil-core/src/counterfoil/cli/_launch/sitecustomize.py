"""First on PYTHONPATH under ``counterfoil run`` where no start-up file is installed: recording begins with Python.

Hands on to the ``sitecustomize`` that would have been found without it, and takes itself off the path, so that
the application sees what it always saw.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
# By name: the guard lies outside the package, so that it answers even when that cannot be imported.
_GUARD = "_counterfoil_autostart"


def _chain() -> None:
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start() -> None:
    try:
        guard = importlib.import_module(_GUARD)
    except ImportError:
        # Another interpreter, where Counterfoil is not installed.
        mode = os.environ.get("COUNTERFOIL_MODE", "").strip().lower()
        if mode in ("enforce", "hold"):
            sys.stderr.write(
                f"counterfoil: not installed in {sys.executable}; stopping, because mode is {mode}\n"
            )
            os._exit(2)
        return
    guard.boot()


try:
    _chain()
finally:
    if os.environ.get("COUNTERFOIL", "").strip().lower() not in ("", "0", "false", "off"):
        _start()
