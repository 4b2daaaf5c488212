"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from counterfoil.cli import output
from counterfoil.errors import ConfigError
from counterfoil.settings import load

__all__ = ["Actor", "Debug", "E", "Evidence", "Json", "Op", "Run", "evidence_path", "option"]


def option(*names: str, metavar: str, help: str) -> Any:
    """An option that takes a value and has no default worth showing."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


_WHERE = "default: $COUNTERFOIL, then counterfoil-evidence/"

E = Annotated[str | None, typer.Argument(metavar="E", help=f"The evidence ({_WHERE}).", show_default=False)]
Evidence = Annotated[str | None, option("--evidence", "-e", metavar="E", help=f"The evidence ({_WHERE}).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Run = Annotated[
    str | None,
    option(
        "--run",
        metavar="RUN",
        help="One run: `last`, a number (1 is the oldest) or the start of its identifier.",
    ),
]
Actor = Annotated[
    str | None,
    option(
        "--actor", metavar="NAME", help="One actor: its name or its path; `team/` is everybody below team."
    ),
]
Op = Annotated[str | None, option("--op", metavar="OP", help="One operation, such as chat or handoff.")]


def _debug(value: bool) -> bool:
    output.set_debug(value)
    return value


Debug = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks of errors.", callback=_debug, is_eager=True)
]


def evidence_path(positional: str | None, option: str | None = None) -> str:
    """The evidence a command works on; raises ConfigError when two different ones are named (CF-CLI-002)."""
    if positional is not None and option is not None:
        if Path(positional).absolute() != Path(option).absolute():
            raise ConfigError(
                "two different places of evidence are named",
                code="CF-CLI-002",
                where=f"{positional}, {option}",
                hint="name one: as argument or with --evidence",
            )
    given = positional if positional is not None else option
    return load(evidence=given).evidence
