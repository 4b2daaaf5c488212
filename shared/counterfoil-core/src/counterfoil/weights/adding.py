"""Hashing a tree of weights and signing what was found into the log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from counterfoil import settings, statements
from counterfoil.digest import sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import LogError, WeightsError
from counterfoil.recorder import Recorder
from counterfoil.weights import hashing, listing, manifests, walking
from counterfoil.weights.walking import Problem

__all__ = ["Taken", "add", "take"]

Told = Callable[[int, int], None]
"""Hears, from any thread, of so many more bytes done, and how many there are in all."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A tree as it is: its files in order, and what has no place in it or could not be hashed."""

    files: list[listing.FileEntry]
    problems: list[Problem]
    cached: int

    @property
    def root(self) -> str:
        """The root over its files."""
        return listing.root_of(self.files)


def take(
    path: str | os.PathLike[str],
    *,
    without: Collection[str] = (),
    cached: bool = False,
    described: bool = False,
    threads: int | None = None,
    told: Told | None = None,
) -> Taken:
    """Hash a tree. What changed while it was hashed is among the problems, files that came or went too.

    Raises WeightsError (CF-WEIGHTS-001, 002, 009) where there is no tree to hash.
    """
    tree = walking.walk(path, without=without)
    total = sum(one.status.st_size for one in tree.files)
    count = None if told is None else (lambda size: told(size, total))
    done, problems = hashing.hash_files(
        tree.files, cached=cached, described=described, threads=threads, count=count
    )
    problems += tree.problems
    known = {one.name for one in problems}
    changed = [Problem(name, *_CHANGED) for name in _differing(tree, path, without) - known]
    gone = {one.name for one in changed}
    files = [_entry(done[one.name]) for one in tree.files if one.name in done and one.name not in gone]
    problems = sorted([*problems, *changed], key=lambda one: one.name)
    return Taken(files, problems, sum(one.facts.get("cached", False) for one in files))


_CHANGED: Final = ("CF-WEIGHTS-006", "it changed while it was hashed", "wait until nobody writes it")


def _differing(tree: walking.Tree, path: str | os.PathLike[str], without: Collection[str]) -> set[str]:
    """Names that a second look does not find as the first one did."""
    again = walking.walk(path, without=without)
    first, second = _looks(tree), _looks(again)
    return {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}


def _looks(tree: walking.Tree) -> dict[str, Any]:
    found: dict[str, Any] = {one.name: (one.path, hashing.times(one.status)) for one in tree.files}
    return found | {one.name: one.code for one in tree.problems}


def _entry(one: hashing.Hashed) -> listing.FileEntry:
    facts: dict[str, Any] = {"cached": True} if one.cached else {}
    if one.format is not None:
        facts["format"] = one.format
    return listing.FileEntry(one.found.name, one.sha256, one.size, facts)


def add(
    path: str | os.PathLike[str],
    *,
    evidence: str | os.PathLike[str] | None = None,
    name: str | None = None,
    source: dict[str, str] | None = None,
    without: Collection[str] = (),
    cached: bool = True,
    threads: int | None = None,
    told: Told | None = None,
) -> manifests.Manifest:
    """Hash a tree and sign its manifest into the log; on disk when this returns.

    ``without`` are paths left out besides those of git. Raises WeightsError: CF-WEIGHTS-001 to 009; StatementError
    where the manifest would be too long; StoreError, KeyringError or LogError where it cannot be written.
    """
    left_out = sorted({*walking.GIT, *without})
    taken = take(path, without=left_out, cached=cached, described=True, threads=threads, told=told)
    if taken.problems:
        raise taken.problems[0].error(len(taken.problems) - 1)
    if not taken.files:
        raise WeightsError(
            "there are no files to hash",
            code="CF-WEIGHTS-007",
            where=os.fsdecode(path),
            hint="name the folder that holds the weights",
        )
    data = listing.dump(taken.files)
    found = settings.load(evidence=None if evidence is None else os.fspath(evidence))
    recorder = Recorder(found.evidence, durability=found.durability)
    try:
        manifest = _sign(recorder, taken, data, name or walking.default_name(path), left_out, source)
        if not recorder.flush():
            raise LogError(
                "the manifest is not on disk",
                code="CF-LOG-035",
                where=found.evidence,
                hint="free space, or check the disk",
            )
    finally:
        recorder.close()
    manifests.keep(manifest)
    return manifest


def _sign(
    recorder: Recorder,
    taken: Taken,
    data: bytes,
    name: str,
    left_out: list[str],
    source: dict[str, str] | None,
) -> manifests.Manifest:
    writer = recorder.open()
    reference = {"media": listing.MEDIA_WEIGHTS, "sha256": sha256_hex(data), "size": len(data)}
    predicate: dict[str, Any] = {
        "cached": taken.cached,
        "files": {
            "count": len(taken.files),
            "list": reference,
            "size": sum(one.size for one in taken.files),
        },
        "issued": time.time_ns() // 1_000_000,
        "key": writer.identity.keyid,
        "name": name,
        "root": taken.root,
        "without": left_out,
    }
    if source is not None:
        predicate["source"] = source
    subject = {"digest": {"sha256": taken.root}, "name": name}
    payload = statements.build(statements.WEIGHTS, subject, predicate)
    statement = statements.parse(payload)  # nothing is signed that a reader would refuse
    listing.load(data)
    envelope = Envelope.sign(payload, writer.identity, carry_key=True)
    if not (writer.blob(sha256_hex(data), data) and writer.entry(envelope.to_bytes())):
        raise LogError("the manifest was not taken", code="CF-LOG-035", where=recorder.evidence)
    assert isinstance(statement.predicate, statements.Weights)
    return manifests.Manifest(statement.digest, statement.predicate, envelope, lambda: data, writer.log)
