"""Signed manifests: where they are kept, how one is found by name, root or digest, and whether a known key signed it.

They stand in evidence; the home keeps copies of those that were made or bound here, for recorders to have at hand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from counterfoil import _home, canonical, keys, statements
from counterfoil.digest import sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, WeightsError
from counterfoil.reader import Reader, read
from counterfoil.weights import listing

__all__ = ["Manifest", "choose", "in_evidence", "in_home", "keep", "known_keys", "of_evidence"]

_HEX: Final = re.compile(r"[0-9a-f]{8,64}")
_FILE: Final = re.compile(r"[0-9a-f]{64}\.json")
_MAX_FILE: Final = 128 * 1024
_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as it stands somewhere: its identity, what it says, the envelope, and how to get the list's bytes."""

    digest: str
    says: statements.Weights
    envelope: Envelope
    read: Callable[[], bytes]
    log: str = ""

    @property
    def name(self) -> str:
        """What the tree is called."""
        return self.says.name

    @property
    def root(self) -> str:
        """The root over its files."""
        return self.says.root

    def files(self) -> list[listing.FileEntry]:
        """The files; raises WeightsError (CF-WEIGHTS-020) where the list is lost, damaged, or not the one signed."""
        data = self.list()
        return listing.says(self.says, data)

    def list(self) -> bytes:
        """The list's bytes, which are those that were signed; raises WeightsError (CF-WEIGHTS-020)."""
        try:
            data = self.read()
        except CounterfoilError as exc:
            raise WeightsError(
                "the list of a manifest's files cannot be read",
                code="CF-WEIGHTS-020",
                where=self.digest[:16],
                hint="counterfoil verify says whether the evidence is damaged",
            ) from exc
        told = self.says.files.list
        if (len(data), sha256_hex(data)) != (told.size, told.sha256):
            raise WeightsError(
                "the list of a manifest's files is not the one that was signed",
                code="CF-WEIGHTS-020",
                where=self.digest[:16],
                hint="counterfoil verify says whether the evidence is damaged",
            )
        return data

    def signed_by(self, ring: keys.Keyring | None = None) -> str | None:
        """The fingerprint of the key that signed it, if this machine knows that key; None if nobody known did."""
        try:
            signers = self.envelope.verify(known_keys() if ring is None else ring)
        except CounterfoilError:
            return None
        return self.says.key if self.says.key in signers else None


def known_keys() -> keys.Keyring:
    """The pinned keys of this home, and none where there is no home."""
    return keys.Keyring.load()


# -- in evidence ------------------------------------------------------------------------------------------------------


def of_evidence(evidence: str | os.PathLike[str]) -> list[Manifest]:
    """Every manifest in evidence, each once, in the order of its logs; signatures are not looked at."""
    return list(in_evidence(read(evidence)))


def in_evidence(source: Reader) -> Iterator[Manifest]:
    """The same of an open reader."""
    seen: set[str] = set()
    for entry, statement in source.statements():
        says = statement.predicate
        if isinstance(says, statements.Weights) and statement.digest not in seen:
            seen.add(statement.digest)
            envelope = Envelope.parse(entry.body)
            yield Manifest(statement.digest, says, envelope, _blob(source, says.files.list.sha256), entry.log)


def _blob(source: Reader, sha256: str) -> Callable[[], bytes]:
    return lambda: source.blob(sha256)


# -- in the home ------------------------------------------------------------------------------------------------------


def keep(manifest: Manifest) -> None:
    """Keep a copy in the home; raises KeyringError when the home takes none."""
    folder = _home.home() / "weights"
    _home.make_private_dir(folder)
    _home.create_file(folder / f"{manifest.digest}.list", manifest.list())
    content = {"envelope": manifest.envelope.to_dict(), "version": _VERSION}
    _home.create_file(folder / f"{manifest.digest}.json", canonical.dumps(content))


def in_home() -> list[Manifest]:
    """The manifests kept here; what is damaged is passed over, for it stands in evidence as well."""
    if not _home.check_home():
        return []
    folder = _home.home() / "weights"
    try:
        names = sorted(name for name in os.listdir(folder) if _FILE.fullmatch(name))
    except OSError:
        return []
    return [found for name in names if (found := _kept(folder / name)) is not None]


def _kept(path: Path) -> Manifest | None:
    try:
        data = _home.read_file(path, limit=_MAX_FILE, secret=False)
        content: Any = None if data is None else canonical.loads_canonical(data)
        if type(content) is not dict or content.get("version") != _VERSION:
            return None
        envelope = Envelope.parse(content["envelope"])
        statement = statements.parse(envelope.payload)
    except (CounterfoilError, KeyError):
        return None
    says = statement.predicate
    if not isinstance(says, statements.Weights) or path.stem != statement.digest:
        return None
    return Manifest(statement.digest, says, envelope, _listed(path.with_suffix(".list")))


def _listed(path: Path) -> Callable[[], bytes]:
    def read_it() -> bytes:
        return _home.read_file(path, limit=listing.MAX_LIST, secret=False) or b""

    return read_it


# -- one of them ------------------------------------------------------------------------------------------------------


def choose(manifests: Iterable[Manifest], wanted: str) -> Manifest:
    """The manifest of this digest or root (8 digits of it at least), else the newest one of this name.

    Raises WeightsError: CF-WEIGHTS-010 there is none, 011 it begins like several.
    """
    every = list(manifests)
    if _HEX.fullmatch(wanted):
        found = [one for one in every if one.digest.startswith(wanted) or one.root.startswith(wanted)]
        if len({one.root for one in found}) > 1:
            raise WeightsError(
                "several manifests begin like this",
                code="CF-WEIGHTS-011",
                where=wanted,
                hint="give more digits: counterfoil weights list",
            )
        if found:
            return max(found, key=_age)
    named = [one for one in every if one.name == wanted]
    if not named:
        raise WeightsError(
            "there is no such manifest of weights",
            code="CF-WEIGHTS-010",
            where=wanted,
            hint="counterfoil weights list names them, counterfoil weights add makes one",
        )
    return max(named, key=_age)


def _age(one: Manifest) -> tuple[int, str]:
    return one.says.issued, one.digest
