"""What is known here of logs that stand in another place: the identity's archive statements and their manifests.

Source: ``shared/spec/statement.md``, *Archive*; ``shared/spec/log.md``, *Archived logs*.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from counterfoil import canonical, statements
from counterfoil.digest import MEDIA_TEXT, Reference
from counterfoil.errors import CanonicalError, CounterfoilError, StatementError, StoreError

if TYPE_CHECKING:
    from counterfoil.stored import Stored
    from counterfoil.stores import FolderStore

__all__ = ["Archived", "Manifest", "archived_by", "largest", "same_files"]

_HEX64: Final = re.compile(r"[0-9a-f]{64}\Z")
_ORIGIN: Final = re.compile(r"[0-9a-f]{64}/[0-9a-f]{16}\Z")
_RUN_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archived log holds: every checkpoint (size to root), its runs, SHA-256 and size of each segment."""

    checkpoints: Mapping[int, str]
    runs: tuple[str, ...]
    segments: tuple[tuple[str, int], ...]

    def to_bytes(self) -> bytes:
        """The stored form: the RFC 8785 list of its checkpoints, segments and runs."""
        listed: list[dict[str, Any]] = [
            {"root": root, "size": size} for size, root in sorted(self.checkpoints.items())
        ]
        listed += [{"sha256": sha256, "size": size} for sha256, size in self.segments]
        listed += [{"run": run} for run in self.runs]
        return canonical.dumps(listed)

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """Read the stored form; raises StatementError (CF-STMT-008) when it is none."""
        try:
            listed = canonical.loads_canonical(data)
        except CanonicalError as exc:
            raise _malformed() from exc
        if type(listed) is not list:
            raise _malformed()
        checkpoints: dict[int, str] = {}
        segments: list[tuple[str, int]] = []
        runs: list[str] = []
        last = 0
        for one in listed:
            if not segments and _is(one, "root", least=last + 1):
                last = one["size"]
                checkpoints[last] = one["root"]
            elif not runs and _is(one, "sha256", least=0):
                segments.append((one["sha256"], one["size"]))
            elif segments and _is_run(one, "" if not runs else runs[-1]):
                runs.append(one["run"])
            else:
                raise _malformed()
        if not checkpoints or not segments:
            raise _malformed()
        return cls(checkpoints, tuple(runs), tuple(segments))


def _is_run(one: Any, before: str) -> bool:
    if type(one) is not dict or one.keys() != {"run"} or type(one["run"]) is not str:
        return False
    return before < one["run"] and len(one["run"]) <= _RUN_MAX


def _is(one: Any, name: str, *, least: int) -> bool:
    if type(one) is not dict or one.keys() != {name, "size"} or type(one[name]) is not str:
        return False
    return type(one["size"]) is int and one["size"] >= least and _HEX64.match(one[name]) is not None


def _malformed() -> StatementError:
    return StatementError("the list of what was archived is malformed", code="CF-STMT-008")


@dataclass(frozen=True, slots=True)
class Archived:
    """One archived log as a valid statement of its identity tells it."""

    said: statements.Archive
    manifest: Manifest

    @property
    def origin(self) -> str:
        """The log's origin."""
        return self.said.log.origin

    @property
    def name(self) -> str:
        """The log's name."""
        return self.origin.rpartition("/")[2]

    @property
    def size(self) -> int:
        """Entries at its last checkpoint."""
        return self.said.log.size

    def had(self, size: int, root: str) -> bool:
        """Whether the log had this checkpoint."""
        return self.manifest.checkpoints.get(size) == root


def archived_by(
    said: statements.Archive, signers: Iterable[str], *, identity: str, origin: str, stored: Stored
) -> Archived | None:
    """What a statement in the log ``origin`` says, if that is the word of the identity for another log of its own.

    Raises StoreError when the system does not let the manifest be read.
    """
    of = said.log.origin
    if identity not in signers or _ORIGIN.match(of) is None or of == origin:
        return None
    if of.partition("/")[0] != identity:
        return None
    reference = Reference(said.manifest.sha256, said.manifest.size, MEDIA_TEXT)
    if not stored.there(reference):
        return None
    try:
        manifest = Manifest.parse(stored.read(reference))
    except StoreError:
        raise
    except CounterfoilError:
        return None
    found = Archived(said, manifest)
    is_last = max(manifest.checkpoints) == said.log.size
    return found if is_last and found.had(said.log.size, said.log.root) else None


def largest(found: Iterable[Archived]) -> dict[str, Archived]:
    """By origin, the statement that tells most of a log; of several that tell the same, the one issued last."""
    out: dict[str, Archived] = {}
    for one in found:
        other = out.get(one.origin)
        if other is None or (other.size, other.said.issued) <= (one.size, one.said.issued):
            out[one.origin] = one
    return out


def same_files(store: FolderStore, one: Archived, numbers: Iterable[int]) -> list[int]:
    """Segments of an archived log, among these, that are not there or not what its manifest says.

    Raises StoreError when one cannot be read.
    """
    wrong = []
    for number in numbers:
        if number >= len(one.manifest.segments) or not store.is_segment(one.name, number):
            wrong.append(number)
            continue
        sha256, size = one.manifest.segments[number]
        if store.segment_size(one.name, number) != size:
            wrong.append(number)
            continue
        hasher = hashlib.sha256()
        with store.open_segment(one.name, number) as file:
            while data := file.read(1 << 20):
                hasher.update(data)
        if hasher.hexdigest() != sha256:
            wrong.append(number)
    return wrong
