"""``counterfoil verify``: can the evidence be believed, and if not, why."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from counterfoil import _files, verification
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, evidence_path, option
from counterfoil.cli.progress import watched
from counterfoil.cli.source import Source
from counterfoil.dsse import Envelope
from counterfoil.errors import ConfigError, EnvelopeError, NoteError
from counterfoil.findings import EXIT_CODES, Finding, Verification
from counterfoil.keys import Keyring
from counterfoil.reader import read
from counterfoil.settings import load as settings
from counterfoil.statements import Archive
from counterfoil.stores import FolderStore
from counterfoil.stores.s3.options import duration
from counterfoil.tlog.continuing import parse_checkpoint

__all__ = ["STYLES", "found_members", "print_findings", "summary", "verify"]

STYLES = {
    "intact": "bold green",
    "broken": "bold red",
    "incomplete": "bold yellow",
    "cannot-tell": "bold yellow",
    "note": "bold",
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
_MOST = 64 * 1024


def verify(
    e: E = None,
    run: Annotated[
        str | None,
        option(
            "--run",
            metavar="RUN",
            help="Judge only the logs that hold this run: `last`, a number or the start of its identifier.",
        ),
    ] = None,
    keyring: Annotated[
        str | None, option("--keyring", metavar="FILE", help="Trust the keys in this file, not your own.")
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        option(
            "--checkpoint",
            metavar="FILE",
            help="A checkpoint kept elsewhere, which the evidence must continue; may be given again.",
        ),
    ] = None,
    archive: Annotated[
        list[str] | None,
        option(
            "--archive",
            metavar="PLACE",
            help="An archive that logs of this evidence went to, judged with it; may be given again.",
        ),
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Judge it with the archives that its own statements name.")
    ] = False,
    policy: Annotated[
        str | None,
        option("--policy", metavar="FILE", help="Judge by this trust policy (default: the setting)."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Compute signatures again that were found valid before.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            max=256,
            help="Read with N processes (default: one a core where there is much to read).",
            show_default=False,
        ),
    ] = None,
    retain: Annotated[
        str | None,
        option(
            "--retain",
            metavar="TIME",
            help="How long objects in a bucket must be locked from their upload on: 365d (default: locked now).",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        option(
            "--engine",
            metavar="ENGINE",
            help="Who reads: `pool` (processes of this machine), `dask` or `ray`.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        option(
            "--scheduler",
            metavar="ADDRESS",
            help="The cluster of that engine, such as tcp://host:8786 (default: one on this machine).",
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
      counterfoil verify theirs/ --checkpoint kept/checkpoint
      counterfoil verify --archive /mnt/archive
      counterfoil verify run.bundle
      counterfoil verify --policy policy.json
      counterfoil verify s3://bucket/evidence --engine dask --scheduler tls://host:8786
      counterfoil verify s3://bucket/prefix --retain 365d

    The verdict is intact, broken, incomplete or cannot-tell, and begins the last line. Every reason for it is
    a line before: verdict, code, place, message. Lines that begin with note do not change the verdict.
    Exit codes: 0 intact, 3 broken, 4 incomplete, 5 cannot tell, 2 usage.
    """
    store = read(evidence_path(e, evidence)).store
    chosen = Source(store).run_id(run)
    kept = [_kept(path) for path in checkpoint or ()]
    found = settings()
    places = [*(archive or ()), *(_named(store, Keyring.load(keyring)) if archived else ())]
    with watched(store):
        result = verification.verify(
            store,
            keyring=keyring,
            policy=policy or found.policy,
            run=chosen,
            checkpoints=kept,
            archives=places,
            full=full or not found.cache,
            jobs=jobs,
            retain=None if retain is None else duration(retain, name="--retain"),
            engine=engine,
            scheduler=scheduler,
        )
    _tell_lost(result)
    if json:
        told = {
            "verdict": result.verdict,
            "findings": found_members(result.findings),
            "notes": found_members(result.notes),
            "counts": {key: result.counts[key] for key, _, _ in _COUNTS},
        }
        if kept:
            told["continues"] = [one.to_dict() for one in result.continues]
        if engine and result.elsewhere is not None:
            told["engine"] = result.elsewhere.to_dict()
        output.out(output.json_text(told, indent=2))
        return EXIT_CODES[result.verdict]
    print_findings(result)
    for one in result.continues:
        output.out(
            f"continues {one.log}: from {one.earlier.size} to {one.later.size} entries, "
            f"proof of {len(one.proof)} {'hash' if len(one.proof) == 1 else 'hashes'}"
        )
    output.out(summary(result))
    return EXIT_CODES[result.verdict]


def _named(store: FolderStore, ring: Keyring) -> list[str]:
    """The places that archive statements by pinned identities name: nobody else sends a reader anywhere."""
    found = set()
    for entry, statement in read(store).statements():
        said = statement.predicate
        if isinstance(said, Archive):
            with contextlib.suppress(EnvelopeError):
                if said.log.origin.partition("/")[0] in Envelope.parse(entry.body).verify(ring):
                    found.add(said.place)
    return sorted(found)


def _kept(path: Path) -> bytes:
    """A checkpoint that was kept; its errors name the file."""
    try:
        data = _files.read_given(path, limit=_MOST)
    except OSError as exc:
        raise ConfigError(
            f"the checkpoint cannot be read: {exc.strerror}",
            code="CF-CLI-006",
            where=str(path),
            hint="check the path",
        ) from exc
    try:
        parse_checkpoint(data)
    except NoteError as exc:
        where = f"{path} {exc.where or ''}".rstrip()
        raise NoteError(exc.message, code=exc.code, where=where, hint=exc.hint) from exc
    return data


def _tell_lost(result: Verification) -> None:
    """Say on stderr which segments workers did not check: what they cost is time."""
    done = result.elsewhere
    if done is not None and done.failed:
        count = sum(done.failed.values())
        why = ", ".join(f"{times} {reason}" for reason, times in sorted(done.failed.items()))
        what = "segment was" if count == 1 else "segments were"
        output.note(f"{count} {what} read here, the engine {done.engine} gave no answer: {why}")


def print_findings(result: Verification) -> None:
    """Findings, then notes, one line each."""
    _print([(one.verdict, one) for one in result.findings] + [("note", one) for one in result.notes])


def found_members(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON tells them."""
    return [{key: getattr(one, key) for key in _FINDINGS} for one in found]


def _print(found: Sequence[tuple[str, Finding]]) -> None:
    """One line each; a hint that several in a row share stands once, below the last of them."""
    for place, (level, one) in enumerate(found):
        shared = place + 1 < len(found) and found[place + 1][1].hint == one.hint
        first, *rest = output.plain_error(
            level, one.code, one.where, one.message, None if shared else one.hint
        )
        output.out(first.replace(level, output.paint(level, STYLES[level]), 1))
        for line in rest:
            output.out(line)


def summary(result: Verification) -> str:
    """The last line: the verdict first, then what was counted."""
    told = []
    for place, (key, one, many) in enumerate(_COUNTS):
        count = result.counts.get(key, 0)
        if count or place < _ALWAYS:
            told.append(f"{count} {one if count == 1 else many}")
    return f"{output.paint(result.verdict, STYLES[result.verdict])}: {', '.join(told)}"
