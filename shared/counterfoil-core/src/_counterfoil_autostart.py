"""Recording from the start of the interpreter: ``COUNTERFOIL=evidence/ python app.py``, and no app change.

``counterfoil-autostart.pth`` in site-packages imports this module, and only when ``COUNTERFOIL`` is set to
something other than ``""``, ``0``, ``false`` or ``off``: with recording off an interpreter pays for one look
into its environment. It lies outside the package ``counterfoil`` so that it still answers when that package
cannot be imported.
"""

from __future__ import annotations

import os
import sys

__all__ = ["boot"]

_called = False


def boot() -> None:
    """Call ``counterfoil.autostart.boot()`` once; a failure is one line on stderr and the application goes on.

    An application that asked to be stopped (``COUNTERFOIL_MODE`` is ``enforce`` or ``hold``) must not run
    unguarded: there the process ends with exit code 2 instead.
    """
    global _called
    if _called:  # site.py handles the .pth files of a virtual environment twice
        return
    _called = True
    try:
        from counterfoil.autostart import boot as start

        start()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # BaseException: while site.py runs, a plugin's SystemExit would end the interpreter in a traceback.
        mode = os.environ.get("COUNTERFOIL_MODE", "").strip().lower()
        stop = mode in ("enforce", "hold")
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if sys.stderr is not None:
            then = f"stopping, because COUNTERFOIL_MODE={mode}" if stop else "going on without a record"
            print(f"counterfoil: cannot record ({reason}); {then}", file=sys.stderr, flush=True)
        if stop:
            os._exit(2)  # an exception here is no clean exit: site.py would turn it into a fatal error
