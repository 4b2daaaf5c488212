"""Reads evidence for the cutter: what every entry says of itself, leaf hashes, checkpoints, and where lists stand."""

from __future__ import annotations

from collections.abc import Iterator

from counterfoil import keys, log, notes, tree
from counterfoil.bundles.facts import Facts, facts_of
from counterfoil.bundles.selecting import Selection
from counterfoil.citations import may_be_checkpoint
from counterfoil.digest import Reference
from counterfoil.entries import BlobSeen, CheckpointSeen, Entry, Problem
from counterfoil.errors import CounterfoilError
from counterfoil.log import LogScan
from counterfoil.stored import LIST
from counterfoil.stores import FolderStore

__all__ = ["Evidence", "Gathered", "TextScan"]


class TextScan(LogScan):
    """A scan that keeps the text of the entry read last, also of one whose version is not known."""

    text: bytes = b""

    def _advance(self, digest: str, data: bytes, op: str) -> None:
        self.text = data
        LogScan._advance(self, digest, data, op)


class Gathered:
    """One log: its leaves, its checkpoints (size and note, each signed and right), and how far it could be read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.origin = ""
        self.identity: keys.PublicKey | None = None
        self.leaves = bytearray()
        self.checkpoints: list[tuple[int, bytes]] = []
        self.damage: Problem | None = None

    @property
    def covered(self) -> int:
        """Entries that a checkpoint covers."""
        return self.checkpoints[-1][0] if self.checkpoints else 0

    def subtree(self, start: int, size: int) -> bytes:
        """Root of the complete subtree of ``size`` leaves from ``start`` on."""
        found = tree.Tree()
        for at in range(start * tree.HASH_BYTES, (start + size) * tree.HASH_BYTES, tree.HASH_BYTES):
            found.append(bytes(self.leaves[at : at + tree.HASH_BYTES]))
        return found.root()


class Evidence:
    """All logs of one evidence, read once; ``selection`` holds what checkpoints cover."""

    def __init__(self, store: FolderStore) -> None:
        self.store = store
        self.logs: dict[str, Gathered] = {}
        self.damage: list[Problem] = []
        self.selection = Selection(self.read)
        self._lists: dict[tuple[str, str], tuple[int, int, int, int]] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        for name in store.logs():
            self._gather(name)

    def _gather(self, name: str) -> None:
        out, found = Gathered(name), []
        scan = TextScan(self.store, name)
        for event in scan.events():
            if isinstance(event, BlobSeen):
                if LIST.match(event.data):
                    self._lists[name, event.sha256] = event.place
                elif may_be_checkpoint(event.data):
                    self._notes[name, event.sha256] = event.data
                continue
            if isinstance(event, CheckpointSeen):
                self._checkpoint(out, event)
                continue
            if isinstance(event, Problem) and not event.unknown:
                if not event.torn:
                    self.damage.append(event)
                continue
            out.leaves += tree.leaf_hash(scan.text)
            if isinstance(event, Entry):
                if not out.origin and event.op == "session":
                    self._identity(out, event)
                found.append(facts_of(event, out.origin))
            else:
                found.append(Facts(out.origin, scan.index - 1, "unknown"))
        if out.identity is None and found:
            self.damage.append(Problem("CF-VERIFY-030", name, "the log names no usable key"))
        if out.identity is None or not out.covered:
            return
        self.logs[out.origin] = out
        for facts in found[: out.covered]:
            facts.log = out.origin
            self.selection.add(facts)

    def _identity(self, out: Gathered, session: Entry) -> None:
        context = session.body["context"]
        try:
            public = keys.PublicKey.from_text(context.get("spki"))
        except CounterfoilError:
            return
        if context.get("origin") == f"{public.keyid}/{out.name}":
            out.origin, out.identity = f"{public.keyid}/{out.name}", public

    def _checkpoint(self, out: Gathered, seen: CheckpointSeen) -> None:
        """A bundle stands on a checkpoint that is right; one that is not is passed over."""
        if out.identity is None:
            return
        try:
            checkpoint = notes.parse_own_checkpoint(seen.note, notes.vkey(out.origin, out.identity))
        except CounterfoilError as exc:
            self.damage.append(Problem(exc.code, f"{out.name} checkpoint at entry {seen.size}", exc.message))
            return
        if (checkpoint.origin, checkpoint.size, checkpoint.root) == (out.origin, seen.size, seen.root):
            out.checkpoints.append((seen.size, seen.note))
        else:
            where = f"{out.name} checkpoint at entry {seen.size}"
            self.damage.append(Problem("CF-VERIFY-050", where, "the checkpoint does not match the entries"))

    def read(self, origin: str, reference: Reference) -> bytes:
        """Bytes of a list or note of one log; empty where they are something else, or not there."""
        name = origin.rpartition("/")[2]
        place, data = (
            self._lists.get((name, reference.sha256)),
            self._notes.get((name, reference.sha256), b""),
        )
        try:
            if place is not None:
                data = log.read_blob(self.store, name, place)
        except CounterfoilError:
            return b""
        return data if len(data) == reference.size else b""

    def events(self, origin: str) -> Iterator[tuple[Entry | BlobSeen, bytes]]:
        """(entry or blob, text of the entry) of one log, as far as its last checkpoint."""
        gathered = self.logs[origin]
        scan = TextScan(self.store, gathered.name)
        for event in scan.events():
            if isinstance(event, Entry):
                if event.index >= gathered.covered:
                    return
                yield event, scan.text
            elif isinstance(event, BlobSeen):
                yield event, b""
