"""A bundle as the place of evidence: the reader and the reading commands take it as they take a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterfoil.bundles.blobtext import piece_of, stored_bytes
from counterfoil.bundles.form import is_bundle, open_bundle
from counterfoil.bundles.lines import entry_of
from counterfoil.bundles.scanner import Scanner
from counterfoil.digest import sha256_hex
from counterfoil.entries import BlobSeen, CheckpointSeen, Entry, Event, Problem
from counterfoil.errors import CounterfoilError
from counterfoil.notes import Checkpoint, Note
from counterfoil.stores import FolderStore, open_store

__all__ = ["BundleStore", "is_cut", "open_place"]


class BundleStore(FolderStore):
    """Reads what stands in a bundle and judges nothing; ``root`` is the file."""

    def exists(self) -> bool:
        """Whether the file is there; it is, for it was recognised by its first bytes."""
        return self.root.is_file()

    def logs(self) -> list[str]:
        """Names of the logs that have a section."""
        names: dict[str, None] = {}
        for name, _ in self._lines():
            if isinstance(name, str):
                names[name] = None
        return sorted(names)

    def size(self) -> int:
        """Bytes of the file."""
        return os.stat(self.root).st_size

    def asked_run(self) -> str | None:
        """The run that the bundle says it was asked for; None for a handoff."""
        with open_bundle(self.root) as file:
            lines = Scanner(file, 0)
            lines.raw()
            asked = (lines.next() or {}).get("asked")
        run = asked.get("run") if type(asked) is dict else None
        return run if type(run) is str else None

    def events(self, log: str) -> Iterator[Event]:
        """Entries of one log; all blobs come with the first log, for they are the bundle's. Then what is wrong."""
        first = ""
        for name, found in self._lines():
            if not isinstance(name, str):
                yield name
            elif found is None:
                first = first or name
            elif isinstance(found, Entry | CheckpointSeen):
                if name == log:
                    yield found
            elif log == first:
                yield found

    def read_blob(self, place: tuple[int, int, int, int]) -> bytes:
        """The bytes of the blob at a place that ``events`` told."""
        with open_bundle(self.root) as file:
            file.seek(place[1])
            return b"".join(stored_bytes(Scanner(file, 0)))

    def _lines(self) -> Iterator[tuple[str | Problem, Entry | BlobSeen | CheckpointSeen | None]]:
        """(log, None) where one begins, then (log, what a line holds); last (what is wrong, None), if anything is."""
        with open_bundle(self.root) as file:
            lines = Scanner(file, 0)
            name, note = "", ""
            try:
                lines.raw()
                value = lines.next()
                while value is not None:
                    kind = lines.kind(value)
                    if note and kind not in ("entry", "gap", "head"):
                        yield name, _signed(note)
                        note = ""
                    if kind == "log":
                        note = str(value["note"])
                        name = note.partition("\n")[0].rpartition("/")[2]
                        yield name, None
                    elif kind == "entry":
                        entry = entry_of(name, value, lines.data, lines.offset, f"line {lines.number}")
                        if entry is not None:
                            yield name, entry
                    elif kind == "blob":
                        blob, value = self._blob(lines, value)
                        yield name, blob
                        continue
                    value = lines.next()
                if note:
                    yield name, _signed(note)
            except (CounterfoilError, KeyError, TypeError, ValueError) as exc:
                code = exc.code if isinstance(exc, CounterfoilError) else "CF-BUNDLE-003"
                message = exc.message if isinstance(exc, CounterfoilError) else "a line has not its members"
                yield Problem(code, f"line {lines.number}", message), None

    def _blob(self, lines: Scanner, value: dict[str, Any]) -> tuple[BlobSeen, dict[str, Any] | None]:
        place = (0, lines.offset, 0, 0)
        pieces: list[bytes] = []
        following: dict[str, Any] | None = value
        while following is not None and (following is value or lines.kind(following) == "more"):
            pieces.append(piece_of(following))
            following = lines.next()
        data = b"".join(pieces)
        return BlobSeen(sha256_hex(data), data, place), following


def _signed(note: str) -> CheckpointSeen:
    """The checkpoint that covers all entries of a section; as everything here, not verified."""
    checkpoint = Checkpoint.parse(Note.parse(note).text)
    return CheckpointSeen(note.encode(), checkpoint.size, checkpoint.root, 0, 0, True)


def open_place(evidence: str | os.PathLike[str]) -> FolderStore:
    """The store behind a path or URI of evidence, or behind the path of a bundle; raises ConfigError."""
    path = os.fspath(evidence)
    return BundleStore(Path(path).absolute()) if is_bundle(path) else open_store(path)


def is_cut(store: FolderStore) -> bool:
    """Whether a place is a bundle of one handoff: it holds what that follows from, not what came of it."""
    return isinstance(store, BundleStore) and store.asked_run() is None
