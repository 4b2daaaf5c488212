"""``counterfoil show``: one entry whole, with the values it refers to; or stored bytes."""

from __future__ import annotations

import base64
import os
from typing import Annotated, Any

import typer

from counterfoil import records
from counterfoil.canonical import loads
from counterfoil.cli import output
from counterfoil.cli.options import Actor, Debug, Evidence, Json, Op, Run, evidence_path
from counterfoil.cli.pretty import Resolver, lines
from counterfoil.cli.rows import identity, moment, row, statement_of
from counterfoil.cli.select import Found, is_selector, select
from counterfoil.cli.select import last as last_entry
from counterfoil.cli.source import Choice, actor_name, open_source
from counterfoil.digest import Reference, references_in
from counterfoil.dsse import Envelope
from counterfoil.errors import ConfigError, CounterfoilError
from counterfoil.log import Entry, covered
from counterfoil.reader import Reader
from counterfoil.statements import Handoff

__all__ = ["show"]

_HEAD = ("op", "phase", "actor", "address", "name")


def show(
    selector: Annotated[
        str | None, typer.Argument(metavar="SELECTOR", help="Which one (see below).", show_default=False)
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The last entry of a call or handoff.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes as stored, nothing else.")] = False,
    run: Run = None,
    actor: Actor = None,
    op: Op = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Print one entry with its values, or stored bytes.

    \b
    SELECTOR is
      12            an entry by its index (LOG/12 where there are several logs)
      run/7         the 7th entry of the last run, or of the one --run names
      3f2a/7        the 7th entry of the run whose identifier begins like this
      9f86d081      the start of a digest: of an entry, a record, a statement or stored bytes

    \b
    Examples:
      counterfoil show 12
      counterfoil show run/7 --json
      counterfoil show --last --op chat
      counterfoil show --last --op handoff -e evidence/
      counterfoil show 9f86d081 --raw | sha256sum

    --actor and --op choose for --last.
    """
    if selector is not None and not is_selector(selector) and os.path.isdir(selector):
        raise ConfigError(
            "this is a folder and names no entry",
            code="CF-CLI-020",
            where=selector,
            hint=f"evidence is named by an option: -e {selector}",
        )
    if last == (selector is not None):
        raise ConfigError(
            "name one entry, or --last, not both",
            code="CF-CLI-024",
            hint="give an index, run/N, a digest's start, or --last; the place goes behind -e",
        )
    if selector is not None and (actor is not None or op is not None):
        raise ConfigError(
            "--actor and --op choose for --last only",
            code="CF-CLI-024",
            where=selector,
            hint="leave them out, or ask for --last",
        )
    source = open_source(evidence_path(None, evidence))
    if selector is None:
        found = Found(last_entry(source, run=run, choice=Choice(actor, op)))
    else:
        found = select(source, selector, run=run)
    if found.entry is None:
        _bytes(source, found.blob or "", raw=raw, json=json)
        return source.close()
    if raw:
        output.raw(found.entry.body_bytes)
        return source.close()
    resolver = Resolver(source)
    whole = _whole(found.entry, resolver)
    whole["covered"] = found.entry.index < covered(source.store, found.entry.log)
    if json:
        output.out(output.json_text(whole, indent=2))
    else:
        _print(found.entry, whole)
    for problem in resolver.problems:
        output.report(problem)
    return source.close() or int(bool(resolver.problems))


def _whole(entry: Entry, resolver: Resolver) -> dict[str, Any]:
    """The record or statement with its values in place, what the places named, and where it stands."""
    place = {"index": entry.index, "log": entry.log, "digest": identity(entry), "entry": entry.digest}
    if records.is_record(entry.body):
        named = {
            key: value
            for part in ("content", "context")
            for key, value in entry.body[part].items()
            if any(True for _ in references_in(value))
        }
        return {
            **place,
            **{key: resolver.resolve(one) for key, one in entry.body.items()},
            "references": named,
        }
    try:
        payload = Envelope.parse(entry.body).payload
        stated = loads(payload)
    except CounterfoilError:
        return {**place, "envelope": entry.body}
    found = {**place, **(stated if type(stated) is dict else {"statement": stated})}
    statement = statement_of(entry)
    if statement is not None and isinstance(statement.predicate, Handoff):
        handoff = statement.predicate
        ref = Reference(handoff.content.payload, handoff.payload.size, handoff.payload.media)
        found["payload"] = resolver.reference(ref)
    return found


def _print(entry: Entry, whole: dict[str, Any]) -> None:
    about = row(entry)
    output.out(output.paint(f"entry {entry.index} of log {entry.log}", "bold"))
    if about["run"]:
        output.out(f"run      {output.clean(about['run'])}")
    content = whole.get("content", {})
    told = {**about, "name": content.get("name")}
    for key in _HEAD:
        if told[key] is not None:
            output.out(
                f"{key:<8} {output.clean(actor_name(str(told[key])) if key == 'actor' else told[key])}"
            )
    at = moment(about["at"], utc=True)
    if at is not None:
        output.out(f"at       {at.isoformat().replace('+00:00', 'Z')}")
    output.out(f"digest   {whole['digest']}")
    if not whole["covered"]:
        output.out("unsigned no checkpoint covers it yet: it may still be lost or changed unseen")
    if records.is_record(entry.body):
        for key, value in content.items():
            if key not in _HEAD:
                _section(key, value, whole["references"].get(key))
        _section("context", whole["context"], None)
        return
    for key, value in whole.items():
        if key not in ("index", "log", "digest", "entry", "covered"):
            _section(key, value, None)


def _section(name: str, value: Any, ref: Any) -> None:
    output.out()
    named = (
        f"  ({ref['size']} bytes, sha256 {ref['sha256']})" if type(ref) is dict and "sha256" in ref else ""
    )
    output.out(output.paint(output.clean(name), "bold") + named)
    for line in lines(value):
        output.out(f"  {line}".rstrip())


def _bytes(source: Reader, sha256: str, *, raw: bool, json: bool) -> None:
    data = source.blob(sha256)
    if raw:
        output.raw(data)
        return
    try:
        text: str | None = data.decode()
    except UnicodeDecodeError:
        text = None
    if json:
        told = {"sha256": sha256, "size": len(data)}
        more = {"base64": base64.b64encode(data).decode()} if text is None else {"text": text}
        output.out(output.json_text({**told, **more}, indent=2))
        return
    output.out(output.paint(f"{len(data)} bytes, sha256 {sha256}", "bold"))
    if text is None:
        output.note("not a text: --raw writes the bytes")
        return
    for line in lines(text):
        output.out(f"  {line}".rstrip())
