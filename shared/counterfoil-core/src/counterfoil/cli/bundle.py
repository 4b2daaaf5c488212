"""``counterfoil bundle``: a run or a handoff with all it follows from, in one file that verifies alone."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counterfoil.bundles import cutting
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, Run, evidence_path, option
from counterfoil.cli.progress import watched
from counterfoil.cli.source import Source, open_source, short
from counterfoil.cli.verify import found_members, print_findings, summary
from counterfoil.errors import BundleError, ConfigError

__all__ = ["bundle"]

_LISTED = 8


def bundle(
    e: E = None,
    out: Annotated[str | None, option("--output", "-o", metavar="FILE", help="The file to write.")] = None,
    run: Run = None,
    handoff: Annotated[
        str | None,
        option(
            "--handoff", metavar="DIGEST", help="One handoff, by the start of its digest, instead of a run."
        ),
    ] = None,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Carry the public keys of other signers along (they prove nothing)."),
    ] = False,
    only: Annotated[
        bool,
        typer.Option(
            "--only", help="Leave out what other runs recorded meanwhile; the bundle is incomplete."
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Cut what can be read of damaged evidence; replace another file."),
    ] = False,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Cut one run or handoff, with its ancestry, into one file.

    \b
    Examples:
      counterfoil bundle -o run.bundle                 the last run
      counterfoil bundle --run 2 -o second.bundle
      counterfoil bundle --handoff 9f86d081 -o handoff.bundle
      counterfoil verify run.bundle                    anywhere, offline

    The file holds the entries, the proofs that they stood in signed logs, and all bytes that they cite: prompts
    and answers in clear. The same content gives the same bytes. What is written is verified at once; the verdict
    is the last line. log, show, graph, handoffs and diff read a bundle as they read evidence.
    Entries that other runs recorded between the first and the last one of the run are in it too, without the
    bytes they cite, so that nobody can leave out an entry unseen.
    Exit codes: 0 cut, 2 not cut, 3 cut with --force and broken.
    """
    if out is None:
        raise BundleError(
            "a bundle is written into a file", code="CF-BUNDLE-030", hint="name it: -o run.bundle"
        )
    if run is not None and handoff is not None:
        raise BundleError(
            "a bundle is of one run or one handoff", code="CF-BUNDLE-030", hint="leave one of the two out"
        )
    source = open_source(evidence_path(e, evidence))
    chosen = None if handoff is not None else _run(source, run)
    with watched(source.store, passes=3):
        cut = cutting.bundle(
            source.store, out, run=chosen, handoff=handoff, with_keys=keys, only=only, force=force
        )
    if json:
        output.out(output.json_text(_told(cut), indent=2))
    else:
        _print(cut)
    return 3 if cut.verification.verdict == "broken" else 0


def _run(source: Source, run: str | None) -> str | None:
    """The run asked for; evidence that holds handoffs alone is told with them."""
    try:
        return source.run_id(run or "last")
    except ConfigError as exc:
        listed = [one["digest"] for one in source.handoffs(hops=True)] if exc.code == "CF-CLI-010" else []
        if not listed:
            raise
        told = ", ".join(map(short, listed[-_LISTED:]))
        raise ConfigError(
            exc.message, code=exc.code, where=exc.where, hint=f"--handoff DIGEST; handoffs: {told}"
        ) from exc


def _told(cut: cutting.Cut) -> dict[str, Any]:
    found = cut.verification
    return {
        "path": cut.path,
        "kind": cut.kind,
        "asked": cut.asked,
        "size": cut.size,
        "counts": cut.counts,
        "fillers": cut.fillers,
        "damage": list(cut.damage),
        "unchanged": cut.unchanged,
        "verdict": found.verdict,
        "findings": found_members(found.findings),
        "notes": found_members(found.notes),
    }


def _print(cut: cutting.Cut) -> None:
    for one in cut.damage:
        output.note(f"note: the evidence is damaged: {output.clean(one)}")
    if cut.others:
        many = (
            "1 entry of another run stands"
            if cut.others == 1
            else f"{cut.others} entries of other runs stand"
        )
        output.note(f"note: {many} between; --only leaves them out")
    print_findings(cut.verification)
    state = "stands there already" if cut.unchanged else f"{cut.size} bytes"
    output.out(f"{cut.kind} {output.clean(cut.asked)} in {output.clean(cut.path)}: {state}")
    output.out(summary(cut.verification))
