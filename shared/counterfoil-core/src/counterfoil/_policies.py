"""The newest version of every trust policy that was believed here, so that an older one is not believed again.

One small file per policy under the home: ``policies/<first 32 hex digits of SHA-256(name)>.json``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from counterfoil import _home, _locks, canonical
from counterfoil.errors import CanonicalError, KeyringError, TrustError

__all__ = ["Remembered", "follow", "remembered"]

_VERSION: Final = 0
_MAX_BYTES: Final = 16 * 1024
_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Remembered:
    """A policy that was believed: its version, its digest, and whose word the next version needs."""

    name: str
    version: int
    digest: str
    admins: tuple[str, ...]
    threshold: int


def remembered(name: str) -> Remembered | None:
    """What is kept of a policy; raises KeyringError (CF-KEYS-043: malformed, and those of the home)."""
    return _read(_path(name)) if _home.check_home() else None


def follow(policy: Remembered, *, previous: str | None, counted: frozenset[str]) -> None:
    """Keep a policy if it follows the one that is kept; a machine without a home keeps nothing.

    ``counted`` are the admins that signed it. Raises TrustError (CF-TRUST-005 to 007), KeyringError.
    """
    if not _home.check_home():
        return
    path = _path(policy.name)
    if _read(path) == policy:
        return
    _home.make_private_dir(path.parent)
    with _locks.locked():
        old = _read(path)
        if old is not None:
            _compare(old, policy, previous, counted)
        if old is None or old.version < policy.version:
            _home.write_file(path, _bytes(policy))


def _compare(old: Remembered, new: Remembered, previous: str | None, counted: frozenset[str]) -> None:
    if new.version < old.version:
        raise TrustError(
            f"version {new.version} of the policy is older than version {old.version}, which was used here",
            code="CF-TRUST-005",
            where=new.name,
            hint="get the newest version from its admins",
        )
    if new.version == old.version:
        if new.digest != old.digest:
            raise TrustError(
                f"there are two policies of version {new.version}",
                code="CF-TRUST-006",
                where=new.name,
                hint="keep both files and ask the admins",
            )
        return
    follows = new.version != old.version + 1 or previous == old.digest
    if not follows or len(counted.intersection(old.admins)) < old.threshold:
        raise TrustError(
            f"it does not follow version {old.version}, which was used here",
            code="CF-TRUST-007",
            where=new.name,
            hint="the admins of the version before must sign the next one",
        )


def _path(name: str) -> Path:
    return _home.home() / "policies" / f"{_home.name_of(name)}.json"


def _bytes(policy: Remembered) -> bytes:
    return canonical.dumps_record(
        {
            "admins": {"keys": list(policy.admins), "threshold": policy.threshold},
            "digest": policy.digest,
            "name": policy.name,
            "policy": policy.version,
            "version": _VERSION,
        }
    )


def _read(path: Path) -> Remembered | None:
    data = _home.read_file(path, limit=_MAX_BYTES, secret=False)
    if data is None:
        return None
    try:
        found = _of(canonical.loads_canonical(data, max_depth=3, max_bytes=_MAX_BYTES))
    except CanonicalError:
        found = None
    if found is None or path != _path(found.name):
        _refuse(path)
    return found


def _of(content: Any) -> Remembered | None:
    if not isinstance(content, dict) or set(content) != {"admins", "digest", "name", "policy", "version"}:
        return None
    admins, version = content["admins"], content["policy"]
    if type(content["version"]) is not int or content["version"] != _VERSION or type(version) is not int:
        return None
    if not isinstance(admins, dict) or set(admins) != {"keys", "threshold"}:
        return None
    keys, threshold = admins["keys"], admins["threshold"]
    if not isinstance(keys, list) or type(threshold) is not int or not 1 <= threshold <= len(keys):
        return None
    texts = [*keys, content["digest"], content["name"]]
    if not all(isinstance(text, str) for text in texts) or not all(map(_HEX.fullmatch, texts[:-1])):
        return None
    return Remembered(content["name"], version, content["digest"], tuple(keys), threshold)


def _refuse(path: Path) -> NoReturn:
    raise KeyringError(
        "a remembered policy is malformed",
        code="CF-KEYS-043",
        where=str(path),
        hint="get the newest version of the policy from its admins, then remove the file",
    ) from None
