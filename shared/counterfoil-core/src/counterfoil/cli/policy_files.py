"""The files of ``counterfoil policy``: which are drafts, and what may stand in the place of which."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

from counterfoil import _files, _policies, canonical, policy_form, trust
from counterfoil.cli import output
from counterfoil.errors import ConfigError, CounterfoilError, StoreError, TrustError

__all__ = ["check_newest", "check_place", "check_signed", "done", "is_draft", "read_content", "read_policy"]


def read_bytes(file: str) -> bytes:
    """The bytes of a policy or draft; raises TrustError (CF-TRUST-001)."""
    try:
        data = _files.read_given(file, limit=policy_form.MAX_ENVELOPE)
    except OSError as exc:
        raise TrustError(
            f"the policy cannot be read: {exc.strerror}",
            code="CF-TRUST-001",
            where=file,
            hint="check the path",
        ) from exc
    if not data.strip():
        raise TrustError("the file is empty", code="CF-TRUST-001", where=file, hint="check the path")
    return data


def read_content(file: str) -> tuple[bytes, dict[str, Any]]:
    """A policy or draft as its bytes and as JSON; raises TrustError (CF-TRUST-001, 002), ConfigError (CF-CLI-071)."""
    data = read_bytes(file)
    try:
        content = canonical.loads(data, max_depth=16, max_bytes=policy_form.MAX_ENVELOPE)
    except CounterfoilError as exc:
        found = policy_form.no_policy(exc)
        raise TrustError(found.message, code=found.code, where=file, hint=found.hint) from exc
    if not isinstance(content, dict):
        raise ConfigError("a draft is an object", code="CF-CLI-071", where=file, hint="policy init makes one")
    return data, content


def is_draft(content: dict[str, Any]) -> bool:
    """Whether this is what is signed and not what was signed."""
    return "payload" not in content


def read_policy(file: str) -> trust.Policy:
    """A policy of a file that is one; raises ConfigError (CF-CLI-071, 073: a draft), TrustError."""
    check_signed(file)
    return trust.read(file)


def check_signed(file: str) -> None:
    """Refuse a file that never was a policy; raises as ``read_policy``, but not for a wrong form of one."""
    _, content = read_content(file)
    if is_draft(content):
        if "admins" in content or "agents" in content:
            raise ConfigError(
                "this is a draft of a policy",
                code="CF-CLI-073",
                where=file,
                hint=f"sign it first: counterfoil policy sign {file}",
            )
        raise ConfigError(
            "neither a policy nor a draft of one", code="CF-CLI-071", where=file, hint="policy init makes one"
        )


def check_newest(found: trust.Policy, file: str) -> None:
    """Refuse to go on from a version that is not the newest used here; raises ConfigError (CF-CLI-075)."""
    kept = _policies.remembered(found.content.name)
    if kept is None:
        return
    version = found.content.version
    if version < kept.version or (version == kept.version and found.digest != kept.digest):
        raise ConfigError(
            f"version {version} is not the newest: version {kept.version} of this policy was used here",
            code="CF-CLI-075",
            where=file,
            hint=f"go on from version {kept.version}, {kept.digest}: it stands in FILE, FILE.vN or with its admins",
        )


def check_place(found: trust.Policy, to: str) -> trust.Policy | None:
    """The policy that ``found`` would replace, if it may; raises ConfigError (CF-CLI-074) where it may not."""
    path = Path(to)
    if path.is_symlink():
        _in_the_way(to, "a link is there")
    if not path.exists():
        return None
    try:
        old = trust.read(to)
    except TrustError:
        _in_the_way(to, "a file that is no policy is there")
    if old.digest == found.digest:
        if not {one.keyid for one in old.envelope.signatures} <= {
            one.keyid for one in found.envelope.signatures
        }:
            _in_the_way(to, "the policy there has signatures that this one lacks")
        return None
    if old.content.name != found.content.name:
        _in_the_way(to, "another policy is there")
    if old.content.version >= found.content.version:
        _in_the_way(to, f"version {old.content.version} of this policy is there")
    return old


def _in_the_way(to: str, message: str) -> NoReturn:
    raise ConfigError(
        f"{message}, and stays as it is",
        code="CF-CLI-074",
        where=to,
        hint="name another file: --to FILE; the next version goes on from the newest: policy allow, deny",
    ) from None


def done(found: trust.Policy, to: str, *, json: bool) -> int:
    """Write a signed policy in one step, and say whose signatures it still needs; what it replaces is kept."""
    old = check_place(found, to)
    try:
        if old is not None:
            _keep(old, to)
        _files.write_given(to, found.envelope.to_bytes() + b"\n", replace=True)
    except OSError as exc:
        raise StoreError(
            f"the policy cannot be written: {exc.strerror}",
            code="CF-CLI-006",
            where=to,
            hint="check the path",
        ) from exc
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


def _keep(old: trust.Policy, to: str) -> None:
    """Keep the version that is replaced beside the new one, under a name that nothing else has."""
    data = old.envelope.to_bytes() + b"\n"
    for place in (f"{to}.v{old.content.version}", f"{to}.v{old.content.version}.{old.digest[:16]}"):
        if not os.path.lexists(place):
            _files.write_given(place, data, replace=False)
            return
        try:
            if trust.read(place).digest == old.digest:
                return
        except TrustError:
            continue
    _in_the_way(to, "the version there cannot be kept beside it")
