"""A bundle read once from end to end: every line in its form, with an index of what stands where."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

from counterfoil import canonical
from counterfoil.bundles.blobtext import stored_bytes
from counterfoil.bundles.events import Absent, Blob, Contents, Gap, Head, Key, Section, Text
from counterfoil.bundles.facts import Facts, facts_of
from counterfoil.bundles.form import MAX_LIST
from counterfoil.bundles.lines import Lines, entry_of
from counterfoil.bundles.parts import BlobGraph
from counterfoil.bundles.scanner import Scanner
from counterfoil.bundles.selecting import Selection
from counterfoil.digest import Reference
from counterfoil.entries import Entry

__all__ = ["Opened", "OpenedLog"]


class OpenedLog:
    """The section of one log: its checkpoint, heads (size to root), lines of heads, and gaps."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.heads: dict[int, str] = {section.size: section.root.hex()}
        self.head_lines: dict[int, int] = {}
        self.gaps: list[Gap] = []


class Opened:
    """What stands where in a bundle whose every line is right; raises BundleError for the first that is not."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.contents: Contents
        self.logs: dict[str, OpenedLog] = {}
        self.graph = BlobGraph()
        self.absent: list[Absent] = []
        self.keys: list[Key] = []
        self.selection = Selection(self.read)
        self._pass()

    def _pass(self) -> None:
        self._file.seek(0)
        log: OpenedLog | None = None
        origin = ""
        for found in Lines(self._file, os.fstat(self._file.fileno()).st_size).events():
            if isinstance(found, Text):
                if found.entry is None:
                    facts = Facts(origin, found.index, "unknown")
                else:
                    facts = facts_of(found.entry, origin)
                facts.line, facts.offset = found.line, found.offset
                self.selection.add(facts)
            elif isinstance(found, Blob):
                self.graph.blobs[bytes.fromhex(found.sha256)] = found.held
            elif isinstance(found, Section):
                origin = found.origin
                log = self.logs[origin] = OpenedLog(found)
            elif isinstance(found, Gap) and log is not None:
                log.gaps.append(found)
            elif isinstance(found, Head) and log is not None:
                log.heads[found.size] = found.root.hex()
                log.head_lines[found.size] = found.line
            elif isinstance(found, Absent):
                self.absent.append(found)
            elif isinstance(found, Key):
                self.keys.append(found)
            elif isinstance(found, Contents):
                self.contents = found
        self.selection.select(self.contents.kind, self.contents.asked)

    def entry(self, facts: Facts) -> Entry:
        """An entry, read again."""
        self._file.seek(facts.offset)
        data = self._file.readline()[:-1]
        name = facts.log.rpartition("/")[2]
        entry = entry_of(name, canonical.loads(data), data, facts.offset, f"line {facts.line}")
        assert entry is not None
        return entry

    def blob(self, digest: bytes) -> Iterator[bytes]:
        """The bytes of a blob in pieces; KeyError where there is none."""
        self._file.seek(self.graph.blobs[digest].offset)
        yield from stored_bytes(Scanner(self._file, 0))

    def read(self, log: str, reference: Reference) -> bytes:
        """The bytes of a list or note; empty where they are not here or too many."""
        held = self.graph.blobs.get(bytes.fromhex(reference.sha256))
        if held is None or held.size != reference.size or held.size > MAX_LIST:
            return b""
        return b"".join(self.blob(bytes.fromhex(reference.sha256)))
