"""The folder in the home where evidence for a bucket is written first, and from which its segments go on.

``spool/<16 hex digits>/`` holds logs as any folder of evidence does. Beside the segments stand marks, empty files:
``<segment>.sent`` (this one is in the bucket, and so are all before it) and ``<segment>.taken`` (another one has its
key there). What is in the bucket is removed here, but for the end that a writer goes on from.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterfoil import _home, log, notes, tails
from counterfoil.errors import CounterfoilError, StoreError
from counterfoil.stores.folder import FolderStore
from counterfoil.stores.remote import Remote

__all__ = ["Backlog", "SpoolStore", "Stranded", "spools"]

_MARK: Final = re.compile(r"([0-9]{8})\.(sent|taken)\Z")
_MOST: Final = 4096


@dataclass(frozen=True, slots=True)
class Stranded:
    """A log that somebody else went on with: its segments from ``segment`` on are here alone."""

    log: str
    segment: int
    segments: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is here and not in the bucket; ``entries`` as far as checkpoints tell, ``age`` in seconds of the oldest."""

    segments: int = 0
    bytes: int = 0
    entries: int = 0
    age: float = 0.0
    live: int = 0
    """Segments among these whose log has a writer now."""
    error: str | None = None
    stranded: tuple[Stranded, ...] = ()

    def __str__(self) -> str:
        """As a person reads it, without the error."""
        many = "segment is" if self.segments == 1 else "segments are"
        age = f", the oldest for {_age(self.age)}" if self.segments else ""
        return f"{self.segments} {many} not in the bucket yet ({self.entries} entries, {_bytes(self.bytes)}{age})"


class SpoolStore(FolderStore):
    """The folder for one bucket and prefix; ``name`` is what the place in the bucket is remembered by."""

    def __init__(self, name: str, *, remote: Remote | None = None) -> None:
        folder = hashlib.sha256(name.encode()).hexdigest()[:16]
        super().__init__(_home.home() / "spool" / folder)
        self.name = name
        self.remote = remote

    def __repr__(self) -> str:
        return f"SpoolStore({self.name!r})"

    @property
    def uri(self) -> str:
        """The name under which the place in the bucket is remembered."""
        return self.name

    @property
    def names(self) -> frozenset[str]:
        """The same: there is one spelling of it."""
        return frozenset((self.name,))

    def prepare(self) -> None:
        """Make the folder, and beside it the file that says what it is for."""
        try:
            _home.make_private_dir(self.root.parent)
            _home.create_file(self._beside("place"), self.name.encode(), sync=False)
        except CounterfoilError as exc:
            raise StoreError(exc.message, code="CF-STORE-001", where=exc.where, hint=exc.hint) from exc
        super().prepare()

    # -- what went on -------------------------------------------------------------------------------------------------

    def sent(self, log: str) -> int:
        """The number of the last segment that is in the bucket, -1 where none is."""
        return max((number for number, kind in self._marks(log) if kind == "sent"), default=-1)

    def taken(self, log: str) -> int | None:
        """The first segment whose key in the bucket has another one, if there is one."""
        return min((number for number, kind in self._marks(log) if kind == "taken"), default=None)

    def pending(self, log: str) -> list[int]:
        """Segments that are here alone, in order."""
        sent = self.sent(log)
        return [number for number in self.segments(log) if number > sent]

    def mark_sent(self, log: str, number: int) -> None:
        """Note that a segment is in the bucket, and remove what nobody needs here any more. Raises OSError."""
        self._mark(log, number, "sent")
        keep = number
        while keep > 0 and self.is_segment(log, keep - 1) and self.last_note(log, keep) is None:
            keep -= 1  # a writer goes on from the last checkpoint, and reads what is behind it
        for old, kind in self._marks(log):
            if kind == "sent" and old < number:
                _remove(self.root / log / f"{old:08d}.sent")
        for old in self.segments(log):
            if old < keep:
                _remove(self.root / self.segment_name(log, old))

    def mark_taken(self, log: str, number: int) -> None:
        """Note that a log is somebody else's from a segment on: what is here of it stays. Raises OSError."""
        self._mark(log, number, "taken")

    def last_note(self, log: str, number: int) -> bytes | None:
        """The last checkpoint of a segment, looked for at its end; None when it ends in something else."""
        try:
            with self.open_segment(log, number) as file:
                size = file.seek(0, os.SEEK_END)
                found = list(tails.notes_from(file, log, max(0, size - _MOST)))
        except (CounterfoilError, OSError):
            return None
        return found[-1][1] if found else None

    # -- what is told -------------------------------------------------------------------------------------------------

    def backlog(self, *, live: frozenset[str] = frozenset()) -> Backlog:
        """What is here and not in the bucket; ``live`` are logs that have a writer now."""
        segments = size = entries = alive = 0
        oldest = now = time.time()
        stranded = []
        for name in self.logs():
            pending = self.pending(name)
            taken = self.taken(name)
            if taken is not None:
                stranded.append(Stranded(name, taken, len(pending)))
                continue
            for number in pending:
                with contextlib.suppress(OSError):
                    status = (self.root / self.segment_name(name, number)).stat()
                    segments, size = segments + 1, size + status.st_size
                    oldest = min(oldest, status.st_mtime)
                    alive += name in live
            entries += self._entries(name, pending)
        error = None if not segments else self.error()
        return Backlog(segments, size, entries, max(0.0, now - oldest), alive, error, tuple(stranded))

    def _entries(self, name: str, pending: list[int]) -> int:
        """Entries in segments, as far as they stand under a checkpoint."""
        if not pending:
            return 0
        try:
            scan = log.LogScan(self, name)
            first = scan.index if scan.start_at(pending[0]) else 0
            for number in reversed(pending):
                note = self.last_note(name, number)
                if note is not None:
                    return max(0, notes.Checkpoint.parse(notes.Note.parse(note).text).size - first)
        except (CounterfoilError, OSError):
            pass
        return 0

    def error(self) -> str | None:
        """What the last attempt to send failed with, if it did."""
        try:
            found = _home.read_file(self._beside("error"), limit=_MOST, secret=False)
        except CounterfoilError:
            return None
        return found.decode("utf-8", "replace") if found else None

    def note_error(self, error: CounterfoilError | None) -> None:
        """Note what an attempt to send failed with, or that it did not, for other processes to tell."""
        with contextlib.suppress(CounterfoilError, OSError):
            if error is None:
                self._beside("error").unlink(missing_ok=True)
            else:
                _home.write_file(self._beside("error"), str(error).encode()[:_MOST], sync=False)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _beside(self, kind: str) -> Path:
        return self.root.parent / f"{self.root.name}.{kind}"

    def _marks(self, log: str) -> Iterator[tuple[int, str]]:
        for name in self._names(self.root / log):
            if match := _MARK.match(name):
                yield int(match[1]), match[2]

    def _mark(self, log: str, number: int, kind: str) -> None:
        path = self.root / log / f"{number:08d}.{kind}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def spools() -> list[SpoolStore]:
    """All spools of this home, by the names of their places."""
    found = []
    try:
        files = sorted((_home.home() / "spool").glob("*.place"))
    except OSError:
        return []
    for path in files:
        with contextlib.suppress(CounterfoilError, UnicodeDecodeError):
            data = _home.read_file(path, limit=_MOST, secret=False)
            if data:
                found.append(SpoolStore(data.decode()))
    return sorted(found, key=lambda one: one.name)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _age(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _bytes(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
