"""``counterfoil policy``: make, sign, change and look at a trust policy."""

from __future__ import annotations

import base64
import json as plain
import os
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from counterfoil import canonical, keys, policy_form, trust
from counterfoil.cli import output
from counterfoil.cli.options import Debug, Json
from counterfoil.dsse import Envelope
from counterfoil.errors import ConfigError, CounterfoilError, StoreError, TrustError
from counterfoil.findings import EXIT_CODES
from counterfoil.settings import load as settings

__all__ = ["allow", "check", "init", "policy", "show", "sign"]

DRAFT: Final = "policy.draft.json"
SIGNED: Final = "policy.json"
_NOT_BELIEVED: Final = ("CF-TRUST-004", "CF-TRUST-005", "CF-TRUST-006", "CF-TRUST-007", "CF-TRUST-008")

File = Annotated[str, typer.Argument(metavar="FILE", help="The policy's file.")]
Maybe = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="The policy's file (default: the setting).", show_default=False),
]
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
        with open(file, "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise StoreError(
            "the file is there already", code="CF-CLI-070", where=file, hint="name another, or remove it"
        ) from None
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
    data = _read(file)
    key = keys.load_or_create_identity()
    content = canonical.loads(data, max_depth=16, max_bytes=policy_form.MAX_ENVELOPE)
    if isinstance(content, dict) and "payload" in content:
        envelope = trust.parse(data).envelope.cosigned(key, limit=policy_form.MAX_ENVELOPE)
    else:
        if not isinstance(content, dict):
            raise ConfigError(
                "a draft is an object", code="CF-CLI-071", where=file, hint="policy init makes one"
            )
        envelope = Envelope.sign(
            policy_form.build(content), key, carry_key=True, limit=policy_form.MAX_ENVELOPE
        )
    return _done(trust.Policy(policy_form.content_of(envelope.payload), envelope), to, json=json)


def allow(
    sender: Annotated[str, typer.Argument(metavar="FROM", help="Who hands over: a name, `team/*` or `*`.")],
    receiver: Annotated[str, typer.Argument(metavar="TO", help="Who receives.")],
    file: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="FILE", help="The policy (default: the setting).", show_default=False
        ),
    ] = None,
    can: Annotated[
        list[str] | None,
        typer.Option("--can", metavar="WHAT", help="A capability that may be given; again for more."),
    ] = None,
    purpose: Annotated[
        list[str] | None, typer.Option("--purpose", metavar="TEXT", help="A purpose; again for more.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", help="How often it may be handed on at most.")
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
    """
    place = _place(file)
    old = trust.read(place)
    content: dict[str, Any] = old.content.model_dump(by_alias=True, exclude_none=True)
    edge: dict[str, Any] = {"from": sender, "to": receiver}
    for name, listed in (("allow", can), ("purposes", purpose)):
        if listed:
            edge[name] = sorted(set(listed))
    if depth is not None:
        edge["maxDepth"] = depth
    content["edges"] = [*content.get("edges", []), edge]
    content |= {"previous": old.digest, "version": old.content.version + 1}
    content["validFrom"] = max(old.content.validFrom, time.time_ns() // 1_000_000)
    envelope = Envelope.sign(
        policy_form.build(content),
        keys.load_or_create_identity(),
        carry_key=True,
        limit=policy_form.MAX_ENVELOPE,
    )
    return _done(trust.Policy(policy_form.content_of(envelope.payload), envelope), place, json=json)


def show(file: Maybe = None, json: Json = False, debug: Debug = False) -> int:
    """Print what a policy says, whoever signed it.

    \b
    Examples:
      counterfoil policy show policy.json
      counterfoil policy show --json
    """
    found = trust.read(_place(file))
    content = found.content
    if json:
        told = content.model_dump(by_alias=True, exclude_none=True)
        signed = [one.keyid for one in found.envelope.signatures]
        output.out(output.json_text({"digest": found.digest, "signatures": signed, "policy": told}, indent=2))
        return 0
    output.out(f"policy {output.clean(content.name)} version {content.version} {found.digest}")
    output.out(f"admins {content.admins.threshold} of {' '.join(one[:16] for one in content.admins.keys)}")
    for key in content.keys:
        output.out(f"key    {key.key} {key.status}")
    for agent in content.agents:
        output.out(
            f"agent  {output.clean(agent.id)}: {agent.threshold} of {' '.join(one[:16] for one in agent.keys)}"
        )
    if content.edges is None:
        output.out("edges  none: any agent may hand to any other")
    for edge in content.edges or ():
        more = f" can {' '.join(edge.allow)}" if edge.allow else ""
        output.out(f"edge   {output.clean(edge.sender)} -> {output.clean(edge.to)}{output.clean(more)}")
    return 0


def check(file: Maybe = None, json: Json = False, debug: Debug = False) -> int:
    """Say whether this machine believes a policy.

    \b
    Examples:
      counterfoil policy check policy.json

    One that is believed is remembered: older versions are not believed from then on.
    Exit codes: 0 believed, 3 no policy, 5 not believed.
    """
    found: trust.Policy | None = None
    error: CounterfoilError | None = None
    try:
        found = trust.load(_place(file))
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


def _read(file: str) -> bytes:
    with open(file, "rb") as source:
        return source.read(policy_form.MAX_ENVELOPE + 1)


def _done(found: trust.Policy, to: str, *, json: bool) -> int:
    """Write a signed policy in one step, and say whose signatures it still needs."""
    path = Path(to)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(found.envelope.to_bytes() + b"\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    content = found.content
    signed = [one.keyid for one in found.envelope.signatures if one.keyid in content.admins.keys]
    missing = max(0, content.admins.threshold - len(signed))
    if json:
        told = {
            "digest": found.digest,
            "file": to,
            "missing": missing,
            "name": content.name,
            "signatures": signed,
            "version": content.version,
        }
        output.out(output.json_text(told, indent=2))
        return 0
    output.out(f"{to}: {output.clean(content.name)} version {content.version} {found.digest}")
    if missing:
        who = "1 more admin signs" if missing == 1 else f"{missing} more admins sign"
        output.out(f"not believed until {who}: counterfoil policy sign {to} --to {to}")
    return 0
