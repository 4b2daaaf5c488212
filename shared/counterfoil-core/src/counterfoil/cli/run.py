"""``counterfoil run``: an application, unchanged, with recording on."""

from __future__ import annotations

import os
import secrets
from typing import Annotated

import typer

from counterfoil import keys, switches
from counterfoil.cli import launch, output, preflight, remaining, summary
from counterfoil.cli.options import Debug, Evidence, option
from counterfoil.errors import ConfigError, CounterfoilError
from counterfoil.places import check_durability
from counterfoil.settings import load

__all__ = ["run"]

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_SIGNAL = 128
"""Exit codes above it tell the signal that ended the application."""


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="The command and its arguments.", show_default=False)
    ],
    evidence: Evidence = None,
    mode: Annotated[
        str | None,
        option(
            "--mode",
            metavar="MODE",
            help="observe (enforce and hold are reserved: refused by this version's adapters).",
        ),
    ] = None,
    durability: Annotated[
        str | None,
        option("--durability", metavar="D", help="group (default), call, or remote with a bucket."),
    ] = None,
    debug: Debug = False,
) -> int:
    """Run an application, unchanged, with recording on.

    \b
    Examples:
      counterfoil run app.py --its --own options
      counterfoil run -m package.module
      counterfoil run -e evidence/ -- pytest -q

    *.py and -m MODULE run under this interpreter. Ends with one line on stderr that says what was recorded;
    the exit code is the application's own (128 + n after signal n, 127 when there is no such command).
    """
    settings = load(evidence=evidence, mode=mode, durability=durability)
    try:
        line = launch.command_line(command)
    except ConfigError as exc:
        return _not_started(exc)
    place, shown = _place(settings.evidence)
    check_durability(place, settings.durability)
    never = preflight.never(place) if evidence is not None else None
    if never is not None:
        raise never
    problem = preflight.check(place)
    if problem is not None and (settings.mode != "observe" or problem.code.startswith("CF-CONFIG")):
        raise problem
    variables = {
        "COUNTERFOIL": place,
        "COUNTERFOIL_MODE": settings.mode,
        "COUNTERFOIL_DURABILITY": settings.durability,
        **remaining.settings_for(place, settings),
    }
    if os.environ.get("COUNTERFOIL_HOME"):
        variables["COUNTERFOIL_HOME"] = str(keys.home())
    if problem is not None:
        hint = f"; {problem.hint}" if problem.hint else ""
        output.note(output.clean(f"counterfoil: not recording: {problem}{hint}"))
        environment = {**os.environ, "COUNTERFOIL": "off"}
    else:
        environment = launch.environment(os.environ, variables)
    before = summary.snapshot(place)
    launched = _launch()
    environment[switches.LAUNCH] = launched
    try:
        _, code = launch.wait_for(line, environment)
    except ConfigError as exc:
        return _not_started(exc)
    left = remaining.send(place)
    try:
        told = summary.tell(
            place,
            before,
            shown,
            launch=launched,
            problem=problem,
            mode=settings.mode,
            killed=code > _SIGNAL,
        )
    except CounterfoilError as exc:
        told = f"counterfoil: what was recorded cannot be read: {exc}"
    except KeyboardInterrupt:
        told = f"counterfoil: not verified -> {shown}"
    output.note(output.clean(told))
    if left:
        output.note(output.clean(left))
    return code


def _launch() -> str:
    """What this command calls itself, so that it tells its own sessions from those of another beside it."""
    outer = switches.launch()
    own = secrets.token_hex(8)
    return own if outer is None or outer.count(".") >= 15 else f"{outer}.{own}"


def _place(evidence: str) -> tuple[str, str]:
    """The evidence for a process that may change its folder, and as a person names it."""
    if not evidence or "://" in evidence:
        return evidence, evidence
    place = os.path.abspath(evidence)
    inside = os.path.isabs(evidence) and place.startswith(os.path.join(os.getcwd(), ""))
    return place, os.path.relpath(place) if inside else evidence


def _not_started(exc: ConfigError) -> int:
    if exc.code not in ("CF-CLI-040", "CF-CLI-041"):
        raise exc
    output.report(exc)
    return NOT_FOUND if exc.code == "CF-CLI-040" else NOT_EXECUTABLE
