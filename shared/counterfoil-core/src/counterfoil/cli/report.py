"""``counterfoil report``: one page that tells a whole case, for people who do not sit at a command line."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from counterfoil import keys, verification
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Run, evidence_path, option
from counterfoil.cli.progress import watched
from counterfoil.cli.source import Source, open_source
from counterfoil.cli.verify import print_findings, summary
from counterfoil.errors import ConfigError
from counterfoil.findings import EXIT_CODES
from counterfoil.report.gathering import gather, limits
from counterfoil.report.page import Judged, page
from counterfoil.report.writing import check_place, write
from counterfoil.settings import load as settings

__all__ = ["report"]


def report(
    e: E = None,
    out: Annotated[str | None, option("--output", "-o", metavar="FILE", help="The file to write.")] = None,
    run: Run = None,
    no_content: Annotated[
        bool, typer.Option("--no-content", help="Leave requests and responses out; their digests stay.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace another file.")] = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Write one page that tells a whole case, to read or print.

    \b
    Examples:
      counterfoil report -o case.html
      counterfoil report evidence/ --run last -o run.html
      counterfoil report run.bundle -o case.html --no-content
      counterfoil report s3://bucket/prefix -o case.html

    The evidence is verified first, and the page begins with the verdict and by whose keys. Then: runs, handoffs, the
    steps of each actor, calls with their digests and excerpts of what was asked and answered (in clear), and what
    they ran on. One file of plain HTML: no script, nothing from elsewhere. It is a copy for people and proves
    nothing; whoever wants to verify needs the evidence, or a bundle.
    Exit codes: those of verify; 0 intact, 3 broken, 4 incomplete, 5 cannot tell (the page is written all the same),
    2 usage.
    """
    if out is None:
        raise ConfigError("a report is written into a file", code="CF-CLI-111", hint="name it: -o case.html")
    source = open_source(evidence_path(e, evidence))
    check_place(out, source.store, force=force)
    chosen = source.run_id(run)
    with watched(source.store, passes=5 + (run is not None)):
        known = limits(source)
        judged = _judge(source, chosen)
        case = gather(source, run=chosen, known=known)
        judged = Judged(judged.verification, judged.ring, judged.at, judged.policy, _damage(source))
        written = page(source, case, judged, place=source.store.place, run=chosen, content=not no_content)
    size = write(out, written, force=force)
    print_findings(judged.verification)
    source.close(judge=False)
    shown = sum(part.facts is not None for part in case.parts)
    output.out(f"report of {shown} {'run' if shown == 1 else 'runs'} in {output.clean(out)}: {size} bytes")
    output.out(summary(judged.verification))
    return EXIT_CODES[judged.verification.verdict]


def _judge(source: Source, run: str | None) -> Judged:
    """The verdict that ``counterfoil verify`` gives, by the keys of this machine or the policy of its settings."""
    found = settings()
    at = int(time.time() * 1_000_000)
    result = verification.verify(source.store, policy=found.policy, run=run, full=not found.cache)
    judging = verification.Judging(keys.Keyring.load())
    if found.policy is not None:
        judging.believe(found.policy)  # what speaks against it stands among the findings
    return Judged(result, judging.ring, at, found.policy if judging.policy is not None else None)


def _damage(source: Source) -> tuple[str, ...]:
    return tuple(f"{one.code} {one.where}: {one.message}" for one in source.damage.values())
