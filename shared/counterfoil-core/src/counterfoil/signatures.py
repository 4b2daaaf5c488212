"""Signatures that were found valid before, so that verifying grown evidence again costs what is new in it.

Remembered is that *this signature over these bytes is this key's*, which never changes: no trust, no verdict, so
pins and policies may change without a word to it. A mark is an HMAC under a secret of this home: bytes that a disk or
somebody else put into the file match nothing. A file that cannot be read is dropped and everything is verified.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import sqlite3
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from counterfoil import _home
from counterfoil.errors import CounterfoilError
from counterfoil.keys import PublicKey

__all__ = ["Signatures"]

KEPT: Final = 1_000_000
"""Marks kept at most; about 30 bytes each."""
_BATCH: Final = 4096
_MARK: Final = 16
_FORMAT: Final = 1
_FAULTS: Final = (sqlite3.Error, ValueError)
"""Of a file: a damaged one may also make sqlite3 stumble over text of its own error message that is no UTF-8."""


class Signatures:
    """Checks signatures and remembers the valid ones; a context manager. ``verified`` counts what was computed."""

    def __init__(self) -> None:
        self.verified = 0
        self.known = 0
        self._new: set[bytes] = set()
        self._secret = b""
        self._path: Path | None = None
        self._file: sqlite3.Connection | None = None
        with contextlib.suppress(OSError, CounterfoilError):
            self._open()

    def check(self, key: PublicKey, sig: bytes, message: bytes) -> bool:
        """Whether a signature over a message is a key's."""
        # Key and signature have one length each, so what is joined can be taken apart in one way only.
        mark = hmac.digest(self._secret, key.raw + sig + message, "sha256")[:_MARK] if len(sig) == 64 else b""
        if mark and self._has(mark):
            self.known += 1
            return True
        self.verified += 1
        if not key.verify(sig, message):
            return False
        if self._file is not None:
            self._new.add(mark)
            if len(self._new) >= _BATCH:
                self._save()
        return True

    def close(self) -> None:
        """Remember what is new; a file that cannot take it is given up."""
        self._save()
        self._trim()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the file -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if not _home.check_home():
            return  # a machine without a home gets none by looking at evidence
        folder = _home.home() / "cache"
        _home.make_private_dir(folder)
        secret = _home.read_file(folder / "key", limit=32, secret=True)
        if secret is None:
            _home.create_file(folder / "key", secrets.token_bytes(32))
            secret = _home.read_file(folder / "key", limit=32, secret=True)
        if secret is None or len(secret) != 32:
            (folder / "key").unlink(
                missing_ok=True
            )  # a new one next time: the marks under it are lost with it
            return
        self._secret = secret
        self._path = folder / "signatures.sqlite"
        for _ in range(2):
            try:
                self._file = self._connect()
            except _FAULTS as exc:
                self._fail(exc)
            else:
                return

    def _connect(self) -> sqlite3.Connection:
        assert self._path is not None
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        file = sqlite3.connect(self._path, timeout=1.0, isolation_level=None)
        try:
            found = file.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, _FORMAT):
                raise sqlite3.DatabaseError("another format")
            file.execute("PRAGMA synchronous=OFF")  # what a crash leaves is dropped, or matches nothing
            file.execute("PRAGMA cache_size=-16384")
            file.execute(
                "CREATE TABLE IF NOT EXISTS valid (mark BLOB PRIMARY KEY, run INTEGER) WITHOUT ROWID"
            )
            if found == 0:
                file.execute(f"PRAGMA user_version={_FORMAT}")
        except _FAULTS:
            file.close()
            raise
        return file

    def _has(self, mark: bytes) -> bool:
        if mark in self._new:
            return True
        if self._file is None:
            return False
        try:
            return self._file.execute("SELECT 1 FROM valid WHERE mark=?", (mark,)).fetchone() is not None
        except _FAULTS as exc:
            self._fail(exc)
            return False

    def _save(self) -> None:
        if self._file is not None and self._new:
            now = int(time.time())
            try:
                self._file.execute("BEGIN IMMEDIATE")
                self._file.executemany(
                    "INSERT OR IGNORE INTO valid VALUES (?, ?)", [(mark, now) for mark in sorted(self._new)]
                )
                self._file.execute("COMMIT")
            except _FAULTS as exc:
                self._fail(exc)
        self._new.clear()

    def _trim(self) -> None:
        if self._file is None:
            return
        try:
            count = self._file.execute("SELECT count(*) FROM valid").fetchone()[0]
            if count > KEPT:
                self._file.execute(
                    "DELETE FROM valid WHERE mark IN (SELECT mark FROM valid ORDER BY run, mark LIMIT ?)",
                    (count - KEPT * 9 // 10,),
                )
                self._file.execute("VACUUM")
        except _FAULTS as exc:
            self._fail(exc)

    def _fail(self, exc: Exception) -> None:
        """Go on without the file; drop it when it is damaged (another process holding it is no damage)."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(sqlite3.Error):
                file.close()
        held = isinstance(exc, sqlite3.OperationalError) and exc.sqlite_errorcode != sqlite3.SQLITE_ERROR
        if not held and self._path is not None:
            for end in ("", "-journal"):
                with contextlib.suppress(OSError):
                    Path(f"{self._path}{end}").unlink(missing_ok=True)
