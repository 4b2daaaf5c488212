"""``counterfoil policy``: make, sign, change and look at a trust policy."""

from __future__ import annotations

import base64
import json as plain
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from counterfoil import _files, keys, policy_form, trust
from counterfoil.cli import output, policy_files
from counterfoil.cli.options import Debug, Json, option
from counterfoil.cli.policy_text import policy_lines
from counterfoil.dsse import Envelope
from counterfoil.errors import ConfigError, CounterfoilError, StoreError, TrustError
from counterfoil.findings import EXIT_CODES
from counterfoil.patterns import is_actor_pattern, is_capability
from counterfoil.settings import load as settings

__all__ = ["allow", "check", "deny", "init", "policy", "show", "sign"]

DRAFT: Final = "policy.draft.json"
SIGNED: Final = "policy.json"
_NOT_BELIEVED: Final = ("CF-TRUST-004", "CF-TRUST-005", "CF-TRUST-006", "CF-TRUST-007", "CF-TRUST-008")

File = Annotated[str, typer.Argument(metavar="FILE", help="The policy's file.")]
Maybe = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="The policy's file (default: the setting).", show_default=False),
]
Placed = Annotated[str | None, option("--policy", metavar="FILE", help="The policy (default: the setting).")]
To = Annotated[
    str, typer.Option("--to", metavar="FILE", help="Where the signed policy goes.", show_default=True)
]


def policy(context: typer.Context, debug: Debug = False) -> int:
    """Say which keys speak for whom, and who may hand to whom.

    \b
    Examples:
      counterfoil policy init                  a draft from the keys you pinned
      counterfoil policy sign policy.draft.json
      counterfoil policy allow planner coder --can repo:read
      counterfoil policy deny planner coder
      counterfoil policy check policy.json
      counterfoil verify --policy policy.json

    A policy is believed where its admins are pinned: `counterfoil keys pin --admin FINGERPRINT`. Yours is.
    """
    if context.invoked_subcommand is None:
        output.out(context.get_help())
        return 2
    return 0


def init(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The draft.")] = DRAFT,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What the policy is called.")
    ] = "default",
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Write a draft from your key and those you pinned.

    \b
    Examples:
      counterfoil policy init
      counterfoil policy init team.draft.json --name team

    You are its admin, and each key speaks for every agent: edit it, then sign it. Makes an identity if you
    have none. Nothing is overwritten.
    """
    own = keys.load_or_create_identity()
    known = {own.keyid: own.spki} | {
        pin.fingerprint: pin.spki for pin in keys.Keyring.load().entries() if pin.spki is not None
    }
    listed = [
        {
            "alg": "ed25519",
            "key": keyid,
            "notBefore": 0,
            "spki": base64.b64encode(spki).decode(),
            "status": "active",
        }
        for keyid, spki in sorted(known.items())
    ]
    draft = {
        "name": name,
        "version": 1,
        "validFrom": time.time_ns() // 1_000_000,
        "admins": {"keys": [own.keyid], "threshold": 1},
        "keys": listed,
        "agents": [{"id": "*", "keys": sorted(known), "threshold": 1}],
    }
    policy_form.build(draft)
    text = plain.dumps(draft, indent=2) + "\n"
    try:
        _files.write_given(file, text.encode(), replace=False)
    except FileExistsError:
        raise StoreError(
            "the file is there already", code="CF-CLI-070", where=file, hint="name another, or remove it"
        ) from None
    except OSError as exc:
        raise StoreError(
            f"the draft cannot be written: {exc.strerror}",
            code="CF-CLI-006",
            where=file,
            hint="check the path",
        ) from exc
    unknown = [pin.fingerprint for pin in keys.Keyring.load().entries() if pin.spki is None and not pin.own]
    if json:
        output.out(output.json_text({"draft": file, "keys": sorted(known), "unknown": unknown}, indent=2))
        return 0
    output.out(f"draft {file}: {len(known)} {'key' if len(known) == 1 else 'keys'}")
    for one in unknown:
        output.out(f"left out {one}: only its fingerprint is known")
    output.out(f"next: counterfoil policy sign {file}")
    return 0


def sign(file: File, to: To = SIGNED, json: Json = False, debug: Debug = False) -> int:
    """Sign a draft, or sign a policy too that others signed.

    \b
    Examples:
      counterfoil policy sign policy.draft.json
      counterfoil policy sign policy.json --to policy.json
    """
    data, content = policy_files.read_content(file)
    key = keys.load_or_create_identity()
    if not policy_files.is_draft(content):
        envelope = trust.parse(data).envelope.cosigned(key, limit=policy_form.MAX_ENVELOPE)
    else:
        envelope = _signed(content, key)
    found = trust.Policy(policy_form.content_of(envelope.payload), envelope)
    policy_files.check_newest(found, file)
    return policy_files.done(_with_others(found, key, to), to, json=json)


def _with_others(found: trust.Policy, key: keys.SigningKey, to: str) -> trust.Policy:
    """The same policy with the signatures that a copy of it has at ``to``."""
    try:
        there = trust.read(to) if Path(to).exists() else found
    except TrustError:
        return found
    if there.digest != found.digest or len(found.envelope.signatures) > 1:
        return found
    return trust.Policy(found.content, there.envelope.cosigned(key, limit=policy_form.MAX_ENVELOPE))


def allow(
    sender: Annotated[str, typer.Argument(metavar="FROM", help="Who hands over: a name, `team/*` or `*`.")],
    receiver: Annotated[str, typer.Argument(metavar="TO", help="Who receives.")],
    file: Placed = None,
    can: Annotated[
        list[str] | None,
        typer.Option("--can", metavar="WHAT", help="A capability that may be given; again for more."),
    ] = None,
    purpose: Annotated[
        list[str] | None, typer.Option("--purpose", metavar="TEXT", help="A purpose; again for more.")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="N", help="How often it may be handed on at most.", min=0, max=64),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Permit handoffs from one agent to another.

    \b
    Examples:
      counterfoil policy allow planner coder
      counterfoil policy allow planner 'team/*' --can repo:read --can 'repo:write:tests/*' --depth 1

    Makes the next version of the policy, signed by you. The first edge makes it deny what no edge permits.
    The version before is kept as FILE.vN. An edge that is there already changes nothing.
    """
    _check_arguments(sender, receiver, can or (), purpose or ())
    edge: dict[str, Any] = {"from": sender, "to": receiver}
    for name, listed in (("allow", can), ("purposes", purpose)):
        if listed:
            edge[name] = sorted(set(listed))
    if depth is not None:
        edge["maxDepth"] = depth
    return _change(
        _place(file), lambda edges: edges if edge in (edges or ()) else [*(edges or ()), edge], json
    )


def deny(
    sender: Annotated[str, typer.Argument(metavar="FROM", help="Who hands over, as `allow` was told.")],
    receiver: Annotated[str, typer.Argument(metavar="TO", help="Who receives, as `allow` was told.")],
    file: Placed = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Take back what `allow` permitted.

    \b
    Examples:
      counterfoil policy deny planner coder
      counterfoil policy deny planner 'team/*' --policy policy.json

    Makes the next version of the policy, without any edge from FROM to TO; signed by you. Where no edge is left,
    no agent may hand to another.
    """
    _check_arguments(sender, receiver, (), ())

    def without(edges: list[Any] | None) -> list[Any] | None:
        left = [one for one in edges or () if (one["from"], one["to"]) != (sender, receiver)]
        return edges if edges is None else left

    return _change(_place(file), without, json)


def _change(place: str, change: Callable[[list[Any] | None], list[Any] | None], json: bool) -> int:
    """Sign the next version with other edges; nothing where they are the same."""
    old = policy_files.read_policy(place)
    policy_files.check_newest(old, place)
    content: dict[str, Any] = old.content.model_dump(by_alias=True, exclude_none=True)
    edges = change(content.get("edges"))
    if edges == content.get("edges"):
        if json:
            told = {"changed": False, "digest": old.digest, "file": place, "version": old.content.version}
            output.out(output.json_text(told, indent=2))
        else:
            output.out(f"{place}: nothing to change, still version {old.content.version}")
        return 0
    content |= {"edges": edges, "previous": old.digest, "version": old.content.version + 1}
    content["validFrom"] = max(old.content.validFrom, time.time_ns() // 1_000_000)
    envelope = _signed(content, keys.load_or_create_identity())
    found = trust.Policy(policy_form.content_of(envelope.payload), envelope)
    return policy_files.done(found, place, json=json)


def _signed(content: dict[str, Any], key: keys.SigningKey) -> Envelope:
    return Envelope.sign(policy_form.build(content), key, carry_key=True, limit=policy_form.MAX_ENVELOPE)


def _check_arguments(sender: str, receiver: str, can: Sequence[str], purposes: Sequence[str]) -> None:
    """Name the argument that is wrong; raises ConfigError (CF-CLI-076)."""
    actors, what = "a name, `team/*` or `*`", "a capability such as repo:read or repo:*"
    checked = [
        ("FROM", sender, is_actor_pattern(sender), actors),
        ("TO", receiver, is_actor_pattern(receiver), actors),
    ]
    checked += [("--can", one, is_capability(one), what) for one in can]
    checked += [
        ("--purpose", one, 0 < len(one) <= 1024, "a text of 1 to 1024 characters") for one in purposes
    ]
    for name, value, good, expected in checked:
        if not good:
            raise ConfigError(
                f"{name} is {'empty' if not value else 'not as expected'}",
                code="CF-CLI-076",
                where=f"{name} {value[:100]}".rstrip(),
                hint=f"{name} is {expected}",
            )


def show(file: Maybe = None, json: Json = False, debug: Debug = False) -> int:
    """Print what a policy says, whoever signed it.

    \b
    Examples:
      counterfoil policy show policy.json
      counterfoil policy show --json
    """
    found = policy_files.read_policy(_place(file))
    if json:
        told = found.content.model_dump(by_alias=True, exclude_none=True)
        signed = [one.keyid for one in found.envelope.signatures]
        output.out(output.json_text({"digest": found.digest, "signatures": signed, "policy": told}, indent=2))
        return 0
    for line in policy_lines(found):
        output.out(output.clean(line))
    return 0


def check(file: Maybe = None, json: Json = False, debug: Debug = False) -> int:
    """Say whether this machine believes a policy.

    \b
    Examples:
      counterfoil policy check policy.json

    One that is believed is remembered: older versions are not believed from then on.
    Exit codes: 0 believed, 3 its form or signatures are wrong, 5 not believed, 2 usage: no such file, or a draft.
    """
    place = _place(file)
    policy_files.check_signed(place)
    found: trust.Policy | None = None
    error: CounterfoilError | None = None
    try:
        found = trust.load(place)
    except TrustError as exc:
        error = exc
    verdict = "intact" if error is None else "cannot-tell" if error.code in _NOT_BELIEVED else "broken"
    if json:
        told: dict[str, Any] = {"believed": error is None, "verdict": verdict}
        if found is not None:
            told |= {"digest": found.digest, "name": found.content.name, "version": found.content.version}
        if error is not None:
            told |= {"code": error.code, "message": error.message, "hint": error.hint}
        output.out(output.json_text(told, indent=2))
    elif error is not None:
        for line in output.plain_error(verdict, error.code, error.where, error.message, error.hint):
            output.out(line)
    elif found is not None:
        output.out(
            f"believed: {output.clean(found.content.name)} version {found.content.version} {found.digest}"
        )
    return EXIT_CODES[verdict]


def _place(file: str | None) -> str:
    chosen = file or settings().policy
    if chosen is None:
        raise ConfigError(
            "no policy is named",
            code="CF-CLI-072",
            where="FILE",
            hint="name its file, or set COUNTERFOIL_POLICY",
        )
    return chosen
