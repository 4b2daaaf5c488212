"""Cuts a bundle: one file with a run or a handoff, all it follows from, and the proofs that it stood in signed logs."""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from counterfoil import keys
from counterfoil.bundles.facts import Looked, heads_of, references_of, signers_of
from counterfoil.bundles.form import FIRST, Walk, blob_lines, gap_sizes, line
from counterfoil.bundles.gathering import Evidence, Gathered
from counterfoil.bundles.parts import BlobGraph, Finder, Part, part_of
from counterfoil.bundles.store import BundleStore, open_place
from counterfoil.bundles.verifying import verify_bundle
from counterfoil.digest import Reference
from counterfoil.entries import OPENERS, OWN, Entry
from counterfoil.errors import BundleError
from counterfoil.findings import Verification
from counterfoil.stores import FolderStore, check_exists
from counterfoil.stores.folder import store_error
from counterfoil.trust_checks import Heads, Shared

__all__ = ["Cut", "bundle"]

_PIECE: Final = 1 << 20
_TOLD: Final = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """A bundle that was cut: where, of what, how large, and what ``verify`` says of it here.

    ``fillers`` are entries that were recorded meanwhile, ``others`` those of them that are of other runs, ``damage`` is
    what could not be read.
    """

    path: str
    kind: str
    asked: str
    size: int
    counts: dict[str, int]
    fillers: int
    others: int
    damage: tuple[str, ...]
    verification: Verification
    unchanged: bool = False


def bundle(
    evidence: str | os.PathLike[str] | FolderStore,
    out: str | os.PathLike[str],
    *,
    run: str | None = None,
    handoff: str | None = None,
    keyring: keys.Keyring | str | os.PathLike[str] | None = None,
    with_keys: bool = False,
    only: bool = False,
    force: bool = False,
) -> Cut:
    """Cut a bundle of one run (its identifier) or one handoff (its digest, or the start of it) into the file ``out``.

    The same content gives the same bytes. ``with_keys`` adds the public keys of other signers, ``only`` leaves out
    what other runs recorded between the entries of this one. ``force`` cuts from damaged evidence as far as it can be
    read, keeps a bundle that does not verify, and replaces another file.

    Raises:
        BundleError: CF-BUNDLE-030 to 036. StoreError: the evidence cannot be read, or the file not written.
    """
    if (run is None) == (handoff is None):
        raise BundleError(
            "a bundle is of one run or one handoff", code="CF-BUNDLE-030", hint="name one of the two"
        )
    store = evidence if isinstance(evidence, FolderStore) else open_place(evidence)
    target = Path(out).absolute()
    _check_places(store, target)
    found = Evidence(store)
    damage = tuple(f"{one.code} {one.where}: {one.message}" for one in found.damage)
    if damage and not force:
        raise BundleError(
            "the evidence is damaged: what cannot be read might belong in the bundle",
            code="CF-BUNDLE-033",
            where=found.damage[0].where,
            hint="counterfoil verify; --force cuts what can be read and proved",
        )
    kind, asked = ("run", run) if run is not None else ("handoff", _one_handoff(found, handoff or ""))
    found.selection.select(kind, asked or "")
    if not found.selection.asked(kind, asked or ""):
        raise BundleError(
            "nothing of this run is covered by a checkpoint",
            code="CF-BUNDLE-032",
            where=asked,
            hint="counterfoil log lists the runs; a checkpoint is written every second, and at a run's end",
        )
    ring = keyring if isinstance(keyring, keys.Keyring) else keys.Keyring.load(keyring)
    cutter = Cutter(found, kind, asked or "", fillers=not only)
    with _beside(target) as (file, temporary):
        cutter.write(file, ring if with_keys else None)
        file.flush()
        verified = Verification()
        verify_bundle(temporary, ring, verified, shared=Shared(Heads()))
        if verified.verdict == "broken" and not force:
            first = next(one for one in verified.findings if one.verdict == "broken")
            raise BundleError(
                f"what would be cut does not verify: {first.message}",
                code="CF-BUNDLE-034",
                where=first.where,
                hint="counterfoil verify; --force keeps it all the same",
            )
        size = file.tell()
        unchanged = _place(file, temporary, target, force=force)
    return Cut(
        str(target),
        kind,
        asked or "",
        size,
        cutter.counts,
        cutter.fillers,
        cutter.others,
        damage,
        verified,
        unchanged,
    )


_LOGS_OWN: Final = frozenset({*OPENERS, *OWN, "stored"})


class Cutter:
    """Writes one bundle; ``counts`` is there from the beginning."""

    def __init__(self, evidence: Evidence, kind: str, asked: str, *, fillers: bool) -> None:
        self._evidence = evidence
        self._kind, self._asked = kind, asked
        selection = evidence.selection
        self._shown: dict[str, set[int]] = {}
        self.fillers = self.others = 0
        for origin in sorted(evidence.logs):
            wanted = {one.index for one in selection.wanted(origin)}
            span = selection.spans.get(origin)
            between = set(range(span[0], span[1] + 1)) - wanted if span is not None and fillers else set()
            if wanted:
                self._shown[origin] = wanted | between
                self.fillers += len(between)
        self._named: set[str] = set()
        self._heads: dict[str, set[int]] = {origin: set() for origin in self._shown}
        self._blobs: dict[str, int] = {}
        self._gather()
        self._absent = sorted(one.hex() for one in selection.cited if not selection.has(one))
        self.counts = {
            "absent": len(self._absent),
            "blobs": len(self._blobs),
            "bytes": sum(self._blobs.values()),
            "entries": sum(len(one) for one in self._shown.values()),
            "keys": 0,
            "logs": len(self._shown),
        }

    def _gather(self) -> None:
        """References, signers and cited heads of the wanted entries; then the blobs that are reached."""
        graph, roots = BlobGraph(), dict[Part, None]()
        for origin in self._shown:
            wanted = {one.index for one in self._evidence.selection.wanted(origin)}
            cited, stood = Looked(), Looked()

            def read(reference: Reference, log: str = origin) -> bytes:
                return self._evidence.read(log, reference)

            for event, _ in self._evidence.events(origin):
                if not isinstance(event, Entry):
                    digest = bytes.fromhex(event.sha256)
                    if digest not in graph.blobs:
                        finder = Finder()
                        finder.feed(event.data)
                        held = graph.blobs[digest] = finder.done(event.data[:16])
                        held.size = len(event.data)
                elif event.index in wanted:
                    roots.update(dict.fromkeys(part_of(one) for one in references_of(event, read, cited)))
                    self._named.update(signers_of(event))
                    for head, size, _, _ in heads_of(event, read, stood):
                        if head in self._heads:
                            self._heads[head].add(size)
                elif event.index in self._shown[origin]:
                    self.others += event.op not in _LOGS_OWN
        self._blobs = {one.hex(): graph.blobs[one].size for one in graph.reach(roots)}

    def write(self, file: BinaryIO, ring: keys.Keyring | None) -> None:
        """All lines; ``ring`` gives the keys that are carried along, None for none."""
        carried = self._carried(ring)
        self.counts["keys"] = len(carried)
        file.write(FIRST + b"\n")
        file.write(line({"asked": {self._kind: self._asked}, "counts": self.counts, "kind": "contents"}))
        with tempfile.TemporaryFile() as spool:
            places: dict[str, tuple[int, bool]] = {}
            for origin in self._shown:
                for text in self._section(origin, spool, places):
                    file.write(text)
            for sha256 in sorted(self._blobs):
                at, is_text = places[sha256]
                spool.seek(at)
                pieces = _pieces(spool, self._blobs[sha256])
                for text in blob_lines(sha256, pieces, size=self._blobs[sha256], text=is_text):
                    file.write(text)
        for digest in self._absent:
            file.write(line({"digest": digest, "kind": "absent"}))
        for public in carried:
            file.write(line({"kind": "key", "spki": base64.b64encode(public.spki).decode()}))

    def _carried(self, ring: keys.Keyring | None) -> list[keys.PublicKey]:
        identities = {origin.partition("/")[0] for origin in self._shown}
        found = [ring.get(one) for one in sorted(self._named - identities)] if ring is not None else []
        return [one for one in found if one is not None]

    def _section(self, origin: str, spool: BinaryIO, places: dict[str, tuple[int, bool]]) -> Iterator[bytes]:
        """Lines of one log; blobs that pass by go into ``spool``, for they come later and in another order."""
        log, shown = self._evidence.logs[origin], self._shown[origin]
        assert log.identity is not None
        least = max([max(shown) + 1, *(one for one in self._heads[origin] if one <= log.covered)])
        size, note = next(one for one in log.checkpoints if one[0] >= least)
        spki = base64.b64encode(log.identity.spki).decode()
        yield line({"kind": "log", "note": note.decode(), "spki": spki})
        heads = sorted((one for one in self._heads[origin] if one < size), reverse=True)
        walk = Walk()
        for event, text in self._evidence.events(origin):
            if not isinstance(event, Entry):
                if event.sha256 in self._blobs and event.sha256 not in places:
                    places[event.sha256] = (spool.tell(), _is_text(event.data))
                    spool.write(event.data)
            elif event.index in shown:
                yield from _skip(log, walk, event.index, heads)
                yield text + b"\n"
                walk.push(log.subtree(event.index, 1), 1)
                yield from _heads_here(walk, heads)
        yield from _skip(log, walk, size, heads)


def _skip(log: Gathered, walk: Walk, to: int, heads: list[int]) -> Iterator[bytes]:
    """Gaps up to an entry, each ended by a head that stands in between."""
    while walk.at < to:
        end = heads[-1] if heads and heads[-1] < to else to
        start, hashes = walk.at, []
        for width in gap_sizes(start, end - start):
            node = log.subtree(walk.at, width)
            hashes.append(node.hex())
            walk.push(node, width)
        yield line({"count": end - start, "hashes": hashes, "kind": "gap"})
        yield from _heads_here(walk, heads)


def _heads_here(walk: Walk, heads: list[int]) -> Iterator[bytes]:
    if heads and heads[-1] == walk.at:
        heads.pop()
        yield line({"kind": "head", "root": walk.root().hex(), "size": walk.at})


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    if not size:
        yield b""
    while size:
        piece = file.read(min(size, _PIECE))
        size -= len(piece)
        yield piece


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _one_handoff(found: Evidence, prefix: str) -> str:
    """The digest of the one handoff that begins like this."""
    every = found.selection.handoffs()
    fitting = [one for one in every if one.startswith(prefix.lower())] if prefix else []
    if len(fitting) == 1:
        return fitting[0]
    what = "more than one handoff begins" if fitting else "no handoff that a checkpoint covers begins"
    raise BundleError(
        f"{what} like this",
        code="CF-BUNDLE-031",
        where=prefix,
        hint=f"handoffs: {_listed(fitting or every) or 'none'}",
    )


def _listed(digests: Iterable[str]) -> str:
    listed = [one[:12] for one in digests]
    more = f" (the last {_TOLD} of {len(listed)})" if len(listed) > _TOLD else ""
    return ", ".join(listed[-_TOLD:]) + more


# -- files ------------------------------------------------------------------------------------------------------------


def _check_places(store: FolderStore, target: Path) -> None:
    if isinstance(store, BundleStore):
        raise BundleError("this is a bundle already", code="CF-BUNDLE-036", hint="name the evidence itself")
    check_exists(store)
    if store.holds(Path(os.path.realpath(target))):
        _in_the_way(target, "every byte inside evidence is evidence", "name a file outside of it")


def _in_the_way(target: Path, message: str, hint: str) -> NoReturn:
    raise BundleError(message, code="CF-BUNDLE-035", where=str(target), hint=hint)


@contextlib.contextmanager
def _beside(target: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file in the folder of the target; what is left of it afterwards is removed."""
    try:
        fd, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as exc:
        raise store_error(exc, "cannot write the bundle", str(target)) from exc
    try:
        with open(fd, "wb") as file:
            yield file, Path(name)
    except OSError as exc:
        raise store_error(exc, "cannot write the bundle", str(target)) from exc
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _place(file: BinaryIO, temporary: Path, target: Path, *, force: bool) -> bool:
    """Put the file in its place in one step; True where the same bytes stood there before."""
    if target.is_symlink() or target.exists():
        if target.is_file() and _same(temporary, target):
            return True
        if not force or not target.is_file():
            _in_the_way(target, "another file is there", "name another file, or --force")
    os.fsync(file.fileno())
    os.replace(temporary, target)
    return False


def _same(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        return all(piece == right.read(_PIECE) for piece in iter(lambda: left.read(_PIECE), b""))
