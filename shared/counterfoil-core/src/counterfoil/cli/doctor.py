"""``counterfoil doctor``: is everything there that recording depends on?"""

from __future__ import annotations

import dataclasses

from counterfoil import health
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Json

__all__ = ["doctor"]


def doctor(evidence: E = None, json: Json = False, debug: Debug = False) -> int:
    """Look at what recording depends on.

    \b
    Examples:
      counterfoil doctor
      counterfoil doctor evidence/
      counterfoil doctor --json

    Nothing is made or changed. Exits with 1 when something will not work; a warning alone exits with 0. Whether
    evidence can be believed is what `counterfoil verify` tells.
    """
    found = health.examine(evidence)
    if json:
        output.out(output.json_text([dataclasses.asdict(one) for one in found], indent=2))
    else:
        for one in found:
            output.out(f"{one.status:<5}{one.name:<15}{output.clean(one.message)}".rstrip())
            if one.hint and one.status != health.OK:
                output.out(f"  hint: {output.clean(one.hint)}")
    return int(any(one.status == health.FAIL for one in found))
