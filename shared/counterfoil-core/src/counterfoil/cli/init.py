"""``counterfoil init``: an identity, a settings file, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from counterfoil import _files, keys
from counterfoil.cli import bucketing, output
from counterfoil.cli.options import Debug, E, Json, option
from counterfoil.errors import ConfigError
from counterfoil.settings import Settings, load
from counterfoil.stores.s3.setting_up import set_up

__all__ = ["init"]

_FILE = "counterfoil.toml"


def init(
    evidence: E = None,
    durability: Annotated[
        str | None, option("--durability", metavar="group|call", help="What is on disk when a call goes on.")
    ] = None,
    retain: Annotated[
        str | None,
        option(
            "--retain", metavar="TIME", help="For a bucket: how long nobody can delete what it gets (365d)."
        ),
    ] = None,
    print_policy: Annotated[
        bool,
        typer.Option("--print-policy", help="For a bucket: print the rights that are needed, do nothing."),
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Make an identity and a settings file, and for s3:// a bucket.

    \b
    Examples:
      counterfoil init
      counterfoil init records/ --durability call
      counterfoil init s3://bucket/prefix --retain 365d
      counterfoil init s3://bucket/prefix --print-policy

    Nothing of this is needed before the first recording, which makes an identity itself. A settings file that
    is there already is kept; one that says something else is an error.
    A bucket that is missing is made with versioning, Object Lock and a default retention in COMPLIANCE mode; one that
    holds anything is looked at and left as it is. What it lacks is told, and the exit code is 1.
    """
    if print_policy:
        output.out(output.json_text(bucketing.policies_of(load(evidence=evidence).evidence), indent=2))
        return 0
    path = Path(_FILE)
    known = path.exists()
    found = load() if known else None
    wanted = load(evidence=evidence, durability=durability)
    if retain is not None:
        wanted = wanted.model_copy(update={"s3_retain": retain})
    bucket = bucketing.bucket_of(wanted)
    if bucket is None and retain is not None:
        raise ConfigError(
            "a retention is for a bucket, and this evidence is in a folder",
            code="CF-CLI-084",
            where="--retain",
            hint="name a bucket: s3://bucket/prefix",
        )
    names = ("evidence", "durability", "s3_retain")
    other = [one for one in names if found is not None and getattr(found, one) != getattr(wanted, one)]
    if other:
        raise ConfigError(
            f"{_FILE} is there and says something else of {' and '.join(other)}",
            code="CF-CLI-082",
            where=_FILE,
            hint="change it by hand: " + ", ".join(f'{one} = "{getattr(wanted, one)}"' for one in other),
        )
    made = None if bucket is None else set_up(bucket, retain=bucket.options.retain)
    identity = keys.load_or_create_identity()
    if not known:
        try:
            _files.write_given(path, _text(wanted).encode(), replace=False)
        except OSError as exc:
            raise ConfigError(
                f"{_FILE} cannot be written: {exc.strerror}",
                code="CF-CLI-006",
                where=_FILE,
                hint="check the folder",
            ) from exc
    told: dict[str, Any] = {
        "evidence": wanted.evidence,
        "fingerprint": identity.keyid,
        "home": str(keys.home()),
        "made": not known,
        "settings": str(path.absolute()),
    }
    if made is not None:
        told["bucket"] = bucketing.members(made)
    if json:
        output.out(output.json_text(told, indent=2))
        return int(made is not None and bool(made.lacking))
    output.out(f"identity  {identity.keyid}")
    output.out(f"home      {output.clean(told['home'])}")
    output.out(f"settings  {_FILE}{'' if known else ' (made)'}")
    output.out(f"evidence  {output.clean(wanted.evidence)}")
    if made is not None:
        for line in bucketing.lines(made):
            output.out(line)
    output.out("next: counterfoil run app.py, then counterfoil verify")
    output.out("others pin your fingerprint to believe your evidence: counterfoil keys pin FINGERPRINT")
    return int(made is not None and bool(made.lacking))


def _text(wanted: Settings) -> str:
    return (
        "# Settings of counterfoil; COUNTERFOIL_* variables and arguments win over them.\n"
        f"evidence = {output.json_text(wanted.evidence)}\n"
        'mode = "observe"\n'
        f'durability = "{wanted.durability}"  # group: on disk within 5 ms; call: before a call goes on\n'
        + bucketing.settings_lines(wanted)
    )
