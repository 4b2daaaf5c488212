"""``python -m counterfoil``: the command line without its script on the path."""

from __future__ import annotations

import sys

from counterfoil.cli import main

if __name__ == "__main__":
    sys.exit(main())
