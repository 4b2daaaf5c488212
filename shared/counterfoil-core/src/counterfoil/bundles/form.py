"""How the lines of a bundle are written, and the tree they lead through.

A bundle is a row of RFC 8785 texts, each ended by one newline, in one order (``shared/spec/bundle.md``).
"""

from __future__ import annotations

import base64
import codecs
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from counterfoil import canonical, tree
from counterfoil.stores.folder import store_error

__all__ = [
    "FIRST",
    "MARK",
    "MAX_BLOB",
    "MAX_COUNTS",
    "MAX_GAP_HASHES",
    "MAX_LINE",
    "MAX_LIST",
    "PIECE",
    "Utf8",
    "Walk",
    "blob_lines",
    "gap_sizes",
    "is_bundle",
    "line",
    "open_bundle",
]

MARK: Final = b'{"counterfoil":"bundle"'
"""What every bundle begins with, of whichever version."""
FIRST: Final = MARK + b',"v":1}'
"""The first line of a bundle of this version."""

MAX_LINE: Final = 1 << 20
PIECE: Final = 1 << 17
"""Bytes of a blob that one line carries at most; escaped six times over they still fit into a line."""
MAX_BLOB: Final = 1 << 30
MAX_LIST: Final = 64 << 20
"""Bytes of a stored list (of parents, of other logs) that is parsed; it stands in memory many times over."""
MAX_GAP_HASHES: Final = 128
MAX_COUNTS: Final = {
    "absent": 1 << 20,
    "blobs": 1 << 24,
    "bytes": 1 << 40,
    "entries": 1 << 24,
    "keys": 1 << 16,
    "logs": 1 << 16,
}


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a regular file that begins as a bundle does (of whichever version)."""
    try:
        with _open_regular(path) as file:
            return file.read(len(MARK)) == MARK
    except (OSError, ValueError):  # ValueError: a path with a NUL, which others refuse with a code
        return False


def open_bundle(path: str | os.PathLike[str]) -> BinaryIO:
    """A bundle opened for reading; raises StoreError (CF-STORE-001, 006)."""
    try:
        return _open_regular(path)
    except OSError as exc:
        raise store_error(exc, "cannot read the bundle", os.fspath(path)) from exc


def _open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """A pipe put in a file's place would never end."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return open(fd, "rb", buffering=1 << 18)
    except OSError:
        os.close(fd)
        raise


def line(members: dict[str, Any]) -> bytes:
    """A line: the RFC 8785 text of its members and a newline."""
    return canonical.dumps(members) + b"\n"


def gap_sizes(start: int, count: int) -> Iterator[int]:
    """Sizes of the complete subtrees that ``count`` leaves from ``start`` on are made of, from left to right."""
    while count:
        size = 1 << (count.bit_length() - 1)
        if start:
            size = min(size, start & -start)
        yield size
        start += size
        count -= size


class Walk:
    """The way through a log from its first entry on: entries and gaps go in, roots come out."""

    __slots__ = ("_stack", "at")

    def __init__(self) -> None:
        self.at = 0
        self._stack: list[tuple[bytes, int]] = []

    def push(self, node: bytes, size: int) -> None:
        """Pass a complete subtree: an entry's leaf hash (size 1), or a hash of a gap."""
        self.at += size
        stack = self._stack
        while stack and stack[-1][1] == size:
            node = tree.node_hash(stack.pop()[0], node)
            size *= 2
        stack.append((node, size))

    def root(self) -> bytes:
        """Root over what was passed so far."""
        if not self._stack:
            return tree.EMPTY_ROOT
        nodes = reversed(self._stack)
        root = next(nodes)[0]
        for node, _ in nodes:
            root = tree.node_hash(node, root)
        return root


def blob_lines(sha256: str, pieces: Iterable[bytes], *, size: int, text: bool) -> Iterator[bytes]:
    """Lines of one blob; ``pieces`` are its bytes cut in any way, ``text`` says whether all of it is UTF-8."""
    head: dict[str, Any] = {"kind": "blob", "sha256": sha256, "size": size}
    for piece in _text_pieces(pieces) if text else _byte_pieces(pieces):
        member = {"text": piece.decode()} if text else {"base64": base64.b64encode(piece).decode()}
        yield line({**head, **member})
        head = {"kind": "more"}


def _byte_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    left = b""
    for piece in pieces:
        left += piece
        while len(left) > PIECE:
            yield left[:PIECE]
            left = left[PIECE:]
    yield left


def _text_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    left = b""
    for piece in pieces:
        left += piece
        while len(left) > PIECE:
            end = PIECE
            while left[end] & 0xC0 == 0x80:  # the byte after the piece would continue a character
                end -= 1
            yield left[:end]
            left = left[end:]
    yield left


class Utf8:
    """Tells whether bytes that come in pieces are UTF-8 as a whole."""

    __slots__ = ("_decoder", "_good")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._good = True

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        if self._good:
            try:
                self._decoder.decode(piece)
            except UnicodeDecodeError:
                self._good = False

    def whole(self) -> bool:
        """Whether all of it, ended here, is UTF-8."""
        self.feed(b"")
        if self._good:
            try:
                self._decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                self._good = False
        return self._good
