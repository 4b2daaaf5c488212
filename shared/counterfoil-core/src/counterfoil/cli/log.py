"""``counterfoil log``: the entries, in order."""

from __future__ import annotations

from typing import Any

from counterfoil.cli import output
from counterfoil.cli.options import Actor, Debug, E, Evidence, Json, Op, Run, evidence_path
from counterfoil.cli.rows import clock, row, statement_of
from counterfoil.cli.source import Choice, actor_name, open_source, short
from counterfoil.log import Entry
from counterfoil.statements import Archive, Handoff, Receipt
from counterfoil.views import Runs

__all__ = ["log"]


def log(
    e: E = None,
    run: Run = None,
    actor: Actor = None,
    op: Op = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """List the entries: calls, handoffs, receipts.

    \b
    Examples:
      counterfoil log
      counterfoil log --run last --op chat
      counterfoil log --actor writer --json
      counterfoil log evidence/ --op handoff

    A line is: index, digest, time, operation, phase, actor, name. `counterfoil show INDEX` prints one whole.
    A call is a pair of entries, start and end, each with its own time (local, to the millisecond); calls of
    others may stand between them, and --json joins the two by call. A statement is one entry, a point.
    Entries that no checkpoint covers yet are marked (unsigned): they may still be lost or changed unseen.
    With --json one object a line: index, log, digest, op, phase, call, run, actor, address, at (Unix time in
    microseconds), request and response (SHA-256 of what is stored), covered.
    """
    source = open_source(evidence_path(e, evidence))
    wanted = source.run_id(run)
    choice = Choice(actor, op)
    heading = ""
    several, told = len(source.logs()) > 1, Runs()
    for entry, covered in source.marked():
        found = row(entry) | {"covered": covered}
        if wanted is not None and told.of(entry)[0] != wanted:
            continue
        if not choice(found["actor"], found["op"]):
            continue
        if json:
            output.out(output.json_text(found))
            continue
        if several and entry.log != heading:
            heading = entry.log
            output.out(output.paint(f"log {heading}", "bold"))
        output.out(_line(entry, found))
    choice.check()
    return source.close()


def _line(entry: Entry, found: dict[str, Any]) -> str:
    actor = output.clean(actor_name(found["actor"] or ""))
    what = f"{output.clean(found['op']):<13} {output.clean(found['phase'] or ''):<5} {actor:<16}"
    head = f"{entry.index:>6} {short(found['digest'])} {clock(found['at'])}"
    told = f"{head} {what} {_about(entry, actor)}".rstrip()
    return told if found["covered"] else f"{told} {output.paint('(unsigned)', 'yellow')}"


def _about(entry: Entry, actor: str) -> str:
    statement = statement_of(entry)
    if statement is not None:
        predicate = statement.predicate
        if isinstance(predicate, Handoff):
            content = predicate.content
            senders = ", ".join(map(actor_name, content.senders))
            return output.clean(f"{senders} -> {actor_name(content.to)} ({content.kind})")
        if isinstance(predicate, Receipt):
            return output.clean(f"{predicate.status} {short(predicate.handoff)}")
        if isinstance(predicate, Archive):
            return output.clean(f"log {predicate.log.origin.rpartition('/')[2]} is in {predicate.place}")
        return f"key {short(predicate.key)}"
    if entry.op == "statement":
        return "(of an unknown kind)"
    content = entry.body["content"]
    name = output.clean(content.get("name", ""))
    told = [] if name == actor else [name]
    status = content.get("status")
    if status is not None and status != "ok":
        told.append(output.paint(output.clean(status), "red"))
    return " ".join(told)
