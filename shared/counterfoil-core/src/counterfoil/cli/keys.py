"""``counterfoil keys``: whom this user trusts, and which ends of logs this machine remembers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counterfoil import keys as core
from counterfoil.cli import output
from counterfoil.cli.options import Debug, Json, option
from counterfoil.errors import ConfigError

__all__ = ["forget", "keys", "pin", "show", "unpin"]

_TOLD = 8

Fingerprint = Annotated[
    str, typer.Argument(metavar="FINGERPRINT", help="64 hexadecimal digits, obtained from the key's owner.")
]


def keys(context: typer.Context, debug: Debug = False) -> int:
    """Show, pin and unpin keys; forget the remembered end of a log.

    \b
    Examples:
      counterfoil keys show
      counterfoil keys pin FINGERPRINT --note "planner, from Ana by phone"
      counterfoil keys unpin FINGERPRINT
      counterfoil keys forget LOG
    """
    return _show(json=False) if context.invoked_subcommand is None else 0


def show(json: Json = False, debug: Debug = False) -> int:
    """Print your fingerprint and the keys you trust.

    \b
    Examples:
      counterfoil keys show
      counterfoil keys show --json

    With the ends of logs that this machine remembers. Nothing is made by looking: the first recording makes
    an identity.
    """
    return _show(json=json)


def _show(*, json: bool) -> int:
    ring = core.Keyring.load()
    identity = core.load_identity()
    own = None if identity is None else identity.keyid
    heads = sorted(core.remembered_heads().values(), key=lambda head: (head.evidence, head.origin))
    if json:
        pins: list[dict[str, Any]] = [_members(one) for one in ring.entries()]
        remembered = [
            {"log": _log(head), "origin": head.origin, "size": head.size, "evidence": head.evidence}
            for head in heads
        ]
        told = {"home": str(core.home()), "own": own, "pins": pins, "heads": remembered}
        output.out(output.json_text(told, indent=2))
        return 0
    if own is None:
        output.out("no identity yet: the first recording makes one")
    else:
        output.out(f"own    {own}")
    for one in ring.entries():
        if one.fingerprint != own:
            output.out(f"{_pinned(one)} {one.fingerprint} {output.clean(one.note)}".rstrip())
    for head in heads:
        output.out(f"log    {_log(head)} {_entries(head)}")
    return 0


def pin(
    fingerprint: Fingerprint,
    note: Annotated[str, option("--note", metavar="TEXT", help="Whose key it is.")] = "",
    admin: Annotated[
        bool | None,
        typer.Option("--admin/--no-admin", help="Whether it may sign trust policies.", show_default=False),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Trust a key from now on.

    \b
    Examples:
      counterfoil keys pin 3f0c...(64 digits) --note "planner, from Ana by phone"
      counterfoil keys pin --admin 3f0c...(64 digits) --note "security, from Eve in person"

    Get the fingerprint from the key's owner, never from the evidence that it signed.
    """
    found = core.Keyring.load().pin(fingerprint, note=note, admin=admin)
    if json:
        output.out(output.json_text(_members(found), indent=2))
        return 0
    output.out(f"{_pinned(found)} {found.fingerprint} {output.clean(found.note)}".rstrip())
    return 0


def unpin(fingerprint: Fingerprint, json: Json = False, debug: Debug = False) -> int:
    """Trust a key no longer.

    \b
    Examples:
      counterfoil keys unpin 3f0c...(64 digits)
    """
    core.Keyring.load().unpin(fingerprint)
    if json:
        output.out(output.json_text({"unpinned": fingerprint.strip()}, indent=2))
        return 0
    output.out(f"unpinned {fingerprint.strip()}")
    return 0


def forget(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A log's name, its start, or its whole origin.")],
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Forget where a log ended.

    \b
    Examples:
      counterfoil keys forget 0619169410d38f62

    For a log that you deleted or put back on purpose: `verify` says `broken` when one that was written here is
    gone or shorter than remembered.
    """
    heads = list(core.remembered_heads().values())
    found = [head for head in heads if log in (head.origin, _log(head))]
    if not found:
        found = [head for head in heads if log and _log(head).startswith(log.lower())]
    if len(found) != 1:
        listed = ", ".join(sorted(_log(head) for head in found or heads)[:_TOLD]) or "none"
        raise ConfigError(
            "more than one remembered log begins like this" if found else "no such log is remembered",
            code="CF-CLI-061" if found else "CF-CLI-060",
            where=log,
            hint=f"remembered: {listed}",
        )
    core.forget_head(found[0].origin)
    if json:
        told = {"forgot": _log(found[0]), "origin": found[0].origin, "size": found[0].size}
        output.out(output.json_text(told, indent=2))
        return 0
    output.out(f"forgot {_log(found[0])} ({_entries(found[0])})")
    return 0


def _members(pin: core.Pin) -> dict[str, Any]:
    return {
        "fingerprint": pin.fingerprint,
        "note": pin.note,
        "own": pin.own,
        "admin": pin.admin or pin.own,
        "known": pin.spki is not None,
    }


def _pinned(pin: core.Pin) -> str:
    return "admin " if pin.admin else "pinned"


def _log(head: core.Head) -> str:
    return head.origin.rpartition("/")[2]


def _entries(head: core.Head) -> str:
    count = "1 entry" if head.size == 1 else f"{head.size} entries"
    return (
        f"{count} in {output.clean(head.evidence)}" if head.evidence else f"{count} (its folder was removed)"
    )
