"""The command line: ``counterfoil``, and ``python -m counterfoil`` where its script is not on the path.

One module a command; ``app`` puts them together and turns every failure into lines on stderr and an exit code.
It needs the extra ``cli`` (typer and rich); without it there is one error that says so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``arguments`` default to the process's own.

    0 intact or clean, 1 findings or divergence, 2 usage, 3 broken, 4 incomplete, 5 cannot tell; ``run``
    returns its application's own.
    """
    # COUNTERFOIL in the user's shell starts recording in this interpreter too: the command records itself never.
    autostart = sys.modules.get("counterfoil.autostart")
    if autostart is not None:
        autostart.uninstall()
    try:
        from counterfoil.cli import app
    except ModuleNotFoundError as exc:
        missing = (exc.name or "").partition(".")[0]
        if missing not in ("typer", "rich"):
            raise
        if sys.stderr is not None:
            sys.stderr.write(
                f"error CF-CLI-003: the command line needs {missing}, which is not installed\n"
                '  hint: pip install "counterfoil-core[cli]"\n'
            )
        return 2
    except KeyboardInterrupt:
        return 130
    return app.run(arguments)
