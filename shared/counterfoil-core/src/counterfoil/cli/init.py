"""``counterfoil init``: an identity, a settings file, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from counterfoil import _files, keys
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Json, option
from counterfoil.errors import ConfigError
from counterfoil.settings import Settings, load

__all__ = ["init"]

_FILE = "counterfoil.toml"


def init(
    evidence: E = None,
    durability: Annotated[
        str | None, option("--durability", metavar="group|call", help="What is on disk when a call goes on.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Make an identity and a settings file.

    \b
    Examples:
      counterfoil init
      counterfoil init records/ --durability call

    Nothing of this is needed before the first recording, which makes an identity itself. A settings file that
    is there already is kept; one that says something else is an error.
    """
    path = Path(_FILE)
    known = path.exists()
    found = load() if known else None
    wanted = load(evidence=evidence, durability=durability)
    names = ("evidence", "durability")
    other = [one for one in names if found is not None and getattr(found, one) != getattr(wanted, one)]
    if other:
        raise ConfigError(
            f"{_FILE} is there and says something else of {' and '.join(other)}",
            code="CF-CLI-082",
            where=_FILE,
            hint="change it by hand: " + ", ".join(f'{one} = "{getattr(wanted, one)}"' for one in other),
        )
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
    if json:
        output.out(output.json_text(told, indent=2))
        return 0
    output.out(f"identity  {identity.keyid}")
    output.out(f"home      {output.clean(told['home'])}")
    output.out(f"settings  {_FILE}{'' if known else ' (made)'}")
    output.out(f"evidence  {output.clean(wanted.evidence)}")
    output.out("next: counterfoil run app.py, then counterfoil verify")
    output.out("others pin your fingerprint to believe your evidence: counterfoil keys pin FINGERPRINT")
    return 0


def _text(wanted: Settings) -> str:
    return (
        "# Settings of counterfoil; COUNTERFOIL_* variables and arguments win over them.\n"
        f"evidence = {output.json_text(wanted.evidence)}\n"
        'mode = "observe"\n'
        f'durability = "{wanted.durability}"  # group: on disk within 5 ms; call: before a call goes on\n'
    )
