"""``counterfoil handoffs``: who handed what to whom, and how far that is proven."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counterfoil.cli import output
from counterfoil.cli.options import Actor, Debug, E, Evidence, Json, Run, evidence_path, option
from counterfoil.cli.source import Choice, actor_name, open_source, short

__all__ = ["handoffs"]

_KEYS = ("digest", "from", "to", "kind", "basis", "proof", "status", "exact", "via", "parents", "payload")


def handoffs(
    e: E = None,
    hops: Annotated[bool, typer.Option("--hops", help="Every statement, nodes between agents too.")] = False,
    run: Run = None,
    actor: Actor = None,
    op: Annotated[
        str | None, option("--op", metavar="KIND", help="One kind, such as command or call.")
    ] = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """List the handoffs between agents.

    \b
    Examples:
      counterfoil handoffs
      counterfoil handoffs --run last --hops
      counterfoil handoffs --actor writer
      counterfoil handoffs evidence/ --json

    A line is: digest, from -> to, kind, basis, proof, status. Hops through other nodes are collapsed and
    named behind `via`.
    """
    source = open_source(evidence_path(e, evidence))
    choice = Choice(actor, op)
    found = []
    for one in source.handoffs(hops=hops, run=source.run_id(run)):
        sent, received = choice(one["from"], one["kind"]), choice(one["to"], one["kind"])
        if sent or received:
            found.append({key: one[key] for key in _KEYS})
    choice.check(kind="kind of handoff")
    if json:
        output.out(output.json_text(found, indent=2))
    else:
        _print(found)
    return source.close()


def _print(found: list[dict[str, Any]]) -> None:
    pairs = [output.clean(f"{actor_name(one['from'])} -> {actor_name(one['to'])}") for one in found]
    width = min(max(map(len, pairs), default=0), 44)
    for one, pair in zip(found, pairs, strict=True):
        told = [one["kind"], one["basis"], one["proof"], one["status"]]
        if not one["exact"]:
            told.append("not exact")
        if one["via"]:
            told.append("via " + ", ".join(map(actor_name, one["via"])))
        output.out(f"{short(one['digest'])} {pair:<{width}}  {output.clean(' '.join(told))}")
    if not found:
        output.note("no handoffs between agents (counterfoil handoffs --hops lists all)")
