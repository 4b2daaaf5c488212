"""``counterfoil diff``: two runs, and in what they differ."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from counterfoil.bundles.store import BundleStore
from counterfoil.cli import output
from counterfoil.cli.options import Debug, Json, evidence_path, option
from counterfoil.cli.source import Source, actor_name, choose, open_source, short
from counterfoil.diff.comparing import Comparison, Difference, Side, compare
from counterfoil.diff.valuediff import MISSING, Change, text_lines
from counterfoil.errors import ConfigError

__all__ = ["diff"]

_SHOWN: Final = 300
_LISTED: Final = 40
"""Differences told as lines: what comes later mostly follows from what came first."""
_STYLES: Final = {"-": "red", "+": "green", "@": "cyan"}


def diff(
    a: Annotated[
        str | None,
        typer.Argument(metavar="A", help="Evidence or a bundle (default as E).", show_default=False),
    ] = None,
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="Another one, for the second run.", show_default=False)
    ] = None,
    run: Annotated[
        list[str] | None, option("--run", metavar="RUN", help="A run: first the left one, then the right.")
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", metavar="N", help="Lines of a text's difference.", min=1)
    ] = 40,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Compare two runs, step by step.

    \b
    Examples:
      counterfoil diff                           the last run and the one before it
      counterfoil diff --run 1 --run last
      counterfoil diff before/ after/            the last run of each
      counterfoil diff run.bundle evidence/ --run last

    Prompts, tools, models, parameters, answers and handoffs: steps are compared by address, values by digest.
    Equal content roots are a bit-exact repetition.
    What the two ran on (packages, variables) is listed too and decides nothing. Nothing is verified here.
    With --json: equal, left, right, first, differences, environment, missing.
    Exit codes: 0 equal, 1 different, 2 usage.
    """
    first = open_source(evidence_path(a))
    second = first if b is None else open_source(evidence_path(b))
    left, right = _chosen(first, second, run or [], two=b is not None)
    found = compare(first, left, second, right)
    if json:
        output.out(output.json_text(_told(found, lines), indent=2))
    else:
        _print(found, lines)
    # It says itself that nothing was verified.
    damaged = first.close(judge=False) | (second.close(judge=False) if second is not first else 0)
    return int(not found.equal) | damaged


def _chosen(first: Source, second: Source, runs: list[str], *, two: bool) -> tuple[str, str]:
    if len(runs) > 2 or (len(runs) == 1 and not two):
        raise ConfigError(
            "two runs are compared", code="CF-CLI-090", where="--run", hint="give --run twice, or not at all"
        )
    if two:
        left, right = (runs[0], runs[-1]) if runs else (None, None)
        return _of(first, left), _of(second, right)
    listed = first.run_list()
    if runs:
        return choose(listed, runs[0]).id, choose(listed, runs[1]).id
    if len(listed) < 2:
        raise ConfigError(
            f"there {'is 1 run' if listed else 'is no run'} in this evidence",
            code="CF-CLI-090",
            where=first.store.place,
            hint="name a second place of evidence, or a bundle",
        )
    return listed[-2].id, listed[-1].id


def _of(source: Source, run: str | None) -> str:
    """The run named, else the one that a bundle was asked for, else the last one."""
    store = source.store
    asked = store.asked_run() if run is None and isinstance(store, BundleStore) else None
    return asked or choose(source.run_list(), run or "last").id


# -- JSON -------------------------------------------------------------------------------------------------------------


def _told(found: Comparison, lines: int) -> dict[str, Any]:
    differences = [_difference(one, lines) for one in found.differences]
    return {
        "equal": found.equal,
        "left": _side(found.left),
        "right": _side(found.right),
        "first": differences[0] if differences else None,
        "differences": differences,
        "environment": [_change(one, lines) for one in found.environment],
        "problem": found.problem or None,
        "missing": list(found.missing),
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "evidence": side.reader.store.place,
        "run": side.run,
        "content_root": side.content_root,
        "entries": len(side.order),
        "calls": len(side.calls),
        "handoffs": len(side.handoffs),
    }


def _difference(one: Difference, lines: int) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "op": one.op,
        "actor": one.actor,
        "address": one.address,
        "left": one.left,
        "right": one.right,
        "changes": [_change(each, lines) for each in one.changes],
        "problem": one.problem or None,
    }


def _change(one: Change, lines: int) -> dict[str, Any]:
    """A side that has nothing there is left out: null is a value."""
    told: dict[str, Any] = {"path": one.path}
    for name, value in (("left", one.left), ("right", one.right)):
        if value is not MISSING:
            told[name] = value
    if type(one.left) is str and type(one.right) is str:
        told["text"] = text_lines(one.left, one.right, most=lines)
    return told


# -- lines ------------------------------------------------------------------------------------------------------------


def _print(found: Comparison, lines: int) -> None:
    first = found.first
    if first is not None:
        output.out(f"first    {_head(first)}")
    elif not found.equal:
        output.out("first    the steps are equal; only their addresses differ")
    for one in found.differences[:_LISTED]:
        output.out()
        output.out(output.paint(f"{one.kind:<8}", "bold") + f" {_head(one, kind=False)}")
        if one.problem:
            output.out(f"  its value cannot be read: {output.clean(one.problem)}")
        _changes(one.changes, lines)
    if len(found.differences) > _LISTED:
        output.out()
        output.out(f"{len(found.differences) - _LISTED} more differences follow; --json lists all")
    if found.environment or found.problem:
        output.out()
        output.out(output.paint("ran on", "bold") + " (decides nothing)")
        if found.problem:
            output.out(f"  cannot be read: {output.clean(found.problem)}")
        _changes(found.environment, lines)
    if found.differences or found.environment:
        output.out()
    for name, side in (("left", found.left), ("right", found.right)):
        count = len(side.calls)
        calls = "1 call" if count == 1 else f"{count} calls"
        output.out(f"{name:<8} run {short(side.run)}, {calls}, content root {side.content_root[:16]}")
    count = len(found.differences)
    told = "1 difference" if count == 1 else f"{count} differences"
    if found.equal:
        for gone in found.missing:
            output.note(f"note: {output.clean(gone)}")
    state = "equal as recorded, a bit-exact repetition" if found.equal else f"different: {told}"
    state += "; nothing was verified: counterfoil verify"
    output.out(output.paint(state, "bold green" if found.equal else "bold yellow"))


def _head(one: Difference, *, kind: bool = True) -> str:
    places = " and ".join(each for each in (one.left, one.right) if each is not None)
    if one.kind == "handoff":
        what = f"{one.op} from {actor_name(one.actor)} to {actor_name(one.address)}"
    else:
        what = f"{one.op} of {actor_name(one.actor) or '-'} at {one.address}"
    return output.clean(f"{one.kind + ': ' if kind else ''}{what} ({places})")


def _changes(found: tuple[Change, ...], lines: int) -> None:
    for one in found:
        output.out(f"  {output.clean(one.path or '/')}")
        if type(one.left) is str and type(one.right) is str:
            for line in text_lines(one.left, one.right, most=lines):
                style = _STYLES.get(line[:1], "")
                output.out(
                    "    " + (output.paint(output.clean(line), style) if style else output.clean(line))
                )
            continue
        for mark, value in (("-", one.left), ("+", one.right)):
            if value is not MISSING:
                text = output.json_text(value)
                text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
                output.out("    " + output.paint(f"{mark}{output.clean(text)}", _STYLES[mark]))
