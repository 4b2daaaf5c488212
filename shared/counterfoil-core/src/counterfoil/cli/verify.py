"""``counterfoil verify``: can the evidence be believed, and if not, why."""

from __future__ import annotations

from typing import Annotated

import typer

from counterfoil import verification
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, Run, evidence_path
from counterfoil.cli.progress import WatchedStore
from counterfoil.cli.source import Source
from counterfoil.findings import EXIT_CODES, Verification
from counterfoil.reader import read

__all__ = ["STYLES", "summary", "verify"]

STYLES = {
    "intact": "bold green",
    "broken": "bold red",
    "incomplete": "bold yellow",
    "cannot-tell": "bold yellow",
}
_FINDINGS = ("code", "where", "message", "hint")
_COUNTS = (
    ("logs", "log", "logs"),
    ("records", "record", "records"),
    ("statements", "statement", "statements"),
    ("runs", "run", "runs"),
    ("handoffs", "handoff", "handoffs"),
    ("blobs", "blob", "blobs"),
    ("losses", "loss", "losses"),
    ("open", "open call", "open calls"),
    ("tail", "entry after the last checkpoint", "entries after the last checkpoint"),
)
_ALWAYS = 6


def verify(
    e: E = None,
    run: Run = None,
    keyring: Annotated[
        str | None,
        typer.Option(
            "--keyring", metavar="FILE", help="Trust the keys in this file, not your own.", show_default=False
        ),
    ] = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Say whether the evidence can be believed.

    \b
    Examples:
      counterfoil verify
      counterfoil verify evidence/ --json
      counterfoil verify --run last
      counterfoil verify theirs/ --keyring theirs.json

    The verdict is intact, broken, incomplete or cannot-tell, and begins the last line. Every reason for it is
    a line before: verdict, code, place, message.
    Exit codes: 0 intact, 3 broken, 4 incomplete, 5 cannot tell, 2 usage.
    """
    store = read(evidence_path(e, evidence)).store
    chosen = Source(store).run_id(run)
    watched = WatchedStore(store.root)
    try:
        result = verification.verify(watched, keyring=keyring, run=chosen)
    finally:
        watched.done()
    if json:
        findings = [{key: getattr(one, key) for key in _FINDINGS} for one in result.findings]
        counts = {key: result.counts[key] for key, _, _ in _COUNTS}
        output.out(
            output.json_text({"verdict": result.verdict, "findings": findings, "counts": counts}, indent=2)
        )
        return EXIT_CODES[result.verdict]
    for finding in result.findings:
        lines = output.plain_error(
            finding.verdict, finding.code, finding.where, finding.message, finding.hint
        )
        output.out(
            lines[0].replace(finding.verdict, output.paint(finding.verdict, STYLES[finding.verdict]), 1)
        )
        for line in lines[1:]:
            output.out(line)
    output.out(summary(result))
    return EXIT_CODES[result.verdict]


def summary(result: Verification) -> str:
    """The last line: the verdict first, then what was counted."""
    told = []
    for place, (key, one, many) in enumerate(_COUNTS):
        count = result.counts.get(key, 0)
        if count or place < _ALWAYS:
            told.append(f"{count} {one if count == 1 else many}")
    return f"{output.paint(result.verdict, STYLES[result.verdict])}: {', '.join(told)}"
