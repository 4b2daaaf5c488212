"""``counterfoil weights``: hash a model's files, sign what they are, and hold them against it later."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, evidence_path, option
from counterfoil.cli.progress import Bar
from counterfoil.cli.rows import moment
from counterfoil.errors import ConfigError, CounterfoilError, WeightsError
from counterfoil.settings import load
from counterfoil.weights import adding, comparing, manifests, walking

__all__ = ["add", "list_", "verify", "weights"]

_EXIT = {"same": 0, "changed": 1, "cannot-tell": 5}
_STYLES = {"same": "bold green", "changed": "bold red", "cannot-tell": "bold yellow"}

Tree = Annotated[
    Path, typer.Argument(metavar="PATH", help="The folder or file of the weights.", show_default=False)
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        max=256,
        help="Hash with N threads (default: one a core).",
        show_default=False,
    ),
]


def weights(context: typer.Context, debug: Debug = False) -> int:
    """Sign what a model's weights are, and check them again.

    \b
    Examples:
      counterfoil weights add models/llama-3 --name llama-3
      counterfoil weights verify models/llama-3
      counterfoil weights list
    """
    if context.invoked_subcommand is None:
        output.out(context.get_help())
        return 2
    return 0


def add(
    path: Tree,
    name: Annotated[
        str | None,
        option("--name", metavar="NAME", help="What the model is called (default: the folder's name)."),
    ] = None,
    source: Annotated[
        str | None,
        option(
            "--source",
            metavar="REPO@REVISION",
            help="Where the files came from (default: a hub's snapshot says).",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        option("--without", metavar="NAME", help="A path in the folder to leave out; may be given again."),
    ] = None,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Hash every byte, whatever was hashed here before.")
    ] = False,
    threads: Threads = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Hash a model's files and sign their manifest.

    \b
    Examples:
      counterfoil weights add models/llama-3
      counterfoil weights add models/llama-3 --name llama-3 --source meta-llama/Llama-3@main
      counterfoil weights add ~/.cache/huggingface/hub/models--org--name/snapshots/REVISION
      counterfoil weights add model.gguf --afresh

    SHA-256 of each file, on all cores; one root over them, the same that OpenSSF model-signing signs. What git
    keeps at the top is left out. Large files that did not change since they were hashed here are not read again, and
    the manifest says so.
    """
    origin = walking.default_source(path) if source is None else _source(source)
    with Bar("hashing") as bar:
        found = adding.add(
            path,
            evidence=evidence_path(None, evidence),
            name=name,
            source=origin,
            without=without or (),
            cached=not afresh,
            threads=threads,
            told=bar.told,
        )
    if json:
        output.out(output.json_text(_members(found), indent=2))
        return 0
    cached = found.says.cached
    again = f", {cached} hashed before" if cached else ""
    output.out(
        f"{output.clean(found.name)}: {_counted(found.says.files.count, found.says.files.size)}{again}"
    )
    output.out(f"root      {found.root}")
    output.out(f"manifest  {found.digest}")
    for one in found.files():
        told = one.facts.get("format") or {}
        if "refused" in told:
            for line in output.plain_error(
                "note", "CF-WEIGHTS-030", one.name, f"{told['type']}: {told['refused']}", None
            ):
                output.out(line)
    return 0


def verify(
    path: Tree,
    manifest: Annotated[
        str | None,
        option(
            "--manifest",
            metavar="NAME",
            help="Name, root or digest of the manifest (default: the newest of the folder's name, or the only one).",
        ),
    ] = None,
    cached: Annotated[
        bool,
        typer.Option(
            "--cached", help="Believe digests of large files that did not change since they were hashed here."
        ),
    ] = False,
    threads: Threads = None,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Hash the files again, name what differs.

    \b
    Examples:
      counterfoil weights verify models/llama-3
      counterfoil weights verify /mnt/llama-3 --manifest llama-3
      counterfoil weights verify models/llama-3 -e evidence/ --json

    Names each file that differs, is missing or is new. Reads every byte. The manifest must be signed by a key that is
    pinned here; whether the evidence around it is intact says `counterfoil verify`.
    Exit codes: 0 same, 1 changed, 5 cannot tell, 2 usage.
    """
    chosen = _chosen(path, manifest, evidence_path(None, evidence))
    signer = chosen.signed_by()
    with Bar("hashing") as bar:
        done = comparing.compare(path, chosen, cached=cached, threads=threads, told=bar.told)
    result = done.result if signer is not None else "cannot-tell"
    if json:
        output.out(output.json_text(_outcome(done, result, signer), indent=2))
        return _EXIT[result]
    for one in done.differences:
        output.out(_line(one))
    if signer is None:
        hint = "get the fingerprint from its owner, then: counterfoil keys pin FINGERPRINT"
        told = "the manifest is signed by nobody who is known here"
        for line in output.plain_error("cannot-tell", "CF-WEIGHTS-012", chosen.name, told, hint):
            output.out(line)
    count = len(done.differences)
    told = f"{count} {'difference' if count == 1 else 'differences'}, " if count else ""
    again = f", {done.cached} not read again" if done.cached else ""
    output.out(
        f"{output.paint(result, _STYLES[result])}: {told}{_counted(done.files, done.size)}{again}, "
        f"{output.clean(chosen.name)} {chosen.root}"
    )
    return _EXIT[result]


def list_(
    e: E = None,
    files: Annotated[bool, typer.Option("--files", help="List the files, too.")] = False,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """List manifests and the models bound to them.

    \b
    Examples:
      counterfoil weights list
      counterfoil weights list evidence/ --files
      counterfoil weights list --json
    """
    every = manifests.of_evidence(evidence_path(e, evidence))
    bound = _bound(every)
    ring = manifests.known_keys()
    rows = []
    for one in every:
        row = {**_members(one), "models": bound.get(one.digest, []), "known": one.signed_by(ring) is not None}
        if files:
            row["list"] = [file.to_dict() for file in one.files()]
        rows.append(row)
    if json:
        output.out(output.json_text(rows, indent=2))
        return 0
    if not rows:
        output.out("no manifest of weights in this evidence")
    for one, row in zip(every, rows, strict=True):
        at = moment(one.says.issued * 1000)
        when = at.strftime("%Y-%m-%d %H:%M:%S") if at else ""
        models = f"  bound to {', '.join(map(output.clean, row['models']))}" if row["models"] else ""
        unknown = "" if row["known"] else "  signed by nobody who is known here"
        about = _counted(one.says.files.count, one.says.files.size)
        output.out(f"{one.root[:16]}  {when}  {output.clean(one.name)}: {about}{_from(one)}{models}{unknown}")
        for file in row.get("list", ()):
            output.out(f"  {file['sha256']}  {file['size']:>14}  {output.clean(file['name'])}{_about(file)}")
    return 0


# -- lines and members ------------------------------------------------------------------------------------------------


def _members(one: manifests.Manifest) -> dict[str, Any]:
    says = one.says
    source = None if says.source is None else says.source.model_dump(exclude_none=True)
    return {
        "name": says.name,
        "root": says.root,
        "manifest": one.digest,
        "files": says.files.count,
        "bytes": says.files.size,
        "cached": says.cached,
        "issued": says.issued,
        "key": says.key,
        "source": source,
        "without": says.without,
        "log": one.log,
    }


def _outcome(done: comparing.Compared, result: str, signer: str | None) -> dict[str, Any]:
    return {
        "result": result,
        "name": done.manifest.name,
        "manifest": done.manifest.digest,
        "root": {"expected": done.manifest.root, "found": done.root},
        "signer": signer,
        "files": done.files,
        "bytes": done.size,
        "cached": done.cached,
        "differences": [one.to_dict() for one in done.differences],
    }


def _line(one: comparing.Difference) -> str:
    name = output.clean(one.name)
    if one.code:
        return f"{one.state:<8} {name}: {one.code} {one.message}"
    if one.expected is None or one.found is None:
        return f"{one.state:<8} {name}"
    expected, found = one.expected, one.found
    if expected.size != found.size:
        return f"{one.state:<8} {name}: {found.size} bytes, expected {expected.size}"
    return f"{one.state:<8} {name}: sha256 {found.sha256}, expected {expected.sha256}"


def _counted(files: int, size: int) -> str:
    return f"{files} {'file' if files == 1 else 'files'}, {size} bytes"


def _from(one: manifests.Manifest) -> str:
    source = one.says.source
    if source is None:
        return ""
    return output.clean(f" from {source.repo}" + (f"@{source.revision}" if source.revision else ""))


def _about(file: dict[str, Any]) -> str:
    told = file.get("format")
    if type(told) is not dict:
        return ""
    words = [told.get(key) for key in ("type", "architecture", "quantisation")]
    if "refused" in told:
        words.append(f"refused: {told['refused']}")
    elif type(told.get("tensors")) is int:
        words.append(f"{told['tensors']} tensors")
    return "  " + output.clean(" ".join(str(word) for word in words if word))


def _source(text: str) -> dict[str, str]:
    repo, mark, revision = text.rpartition("@")
    found = {"repo": repo, "revision": revision} if mark else {"repo": text}
    if not all(found.values()):
        raise ConfigError(
            "a source is REPO or REPO@REVISION",
            code="CF-CLI-100",
            where=text,
            hint="--source meta-llama/Llama-3@main",
        )
    return found


def _chosen(path: Path, wanted: str | None, evidence: str) -> manifests.Manifest:
    every = manifests.of_evidence(evidence)
    if wanted is not None:
        return manifests.choose(every, wanted)
    with contextlib.suppress(WeightsError):
        return manifests.choose(
            [one for one in every if one.name == walking.default_name(path)], walking.default_name(path)
        )
    if len({one.root for one in every}) == 1:
        return every[-1]
    raise WeightsError(
        "no manifest is named like this folder"
        if every
        else "there is no manifest of weights in this evidence",
        code="CF-WEIGHTS-010",
        where=str(path),
        hint="name one: --manifest, and counterfoil weights list"
        if every
        else "counterfoil weights add makes one",
    )


def _bound(every: list[manifests.Manifest]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for model, wanted in sorted(load().models.items()):
        with contextlib.suppress(CounterfoilError):
            found.setdefault(manifests.choose(every, wanted).digest, []).append(model)
    return found
