"""Reads one blob of a bundle, which stands in one line or many, and holds no more of it than a line."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from counterfoil.bundles.events import Blob
from counterfoil.bundles.form import MAX_BLOB, PIECE, Utf8
from counterfoil.bundles.parts import Finder
from counterfoil.bundles.scanner import Scanner, is_count, is_hex

__all__ = ["blob", "piece_of", "stored_bytes"]


def blob(lines: Scanner, value: dict[str, Any]) -> Blob:
    """The blob that begins with the line read last; raises BundleError (CF-BUNDLE-003 to 005, 014)."""
    form = "text" if "text" in value else "base64"
    lines.members(value, {"kind", "sha256", "size", form})
    sha256, size = value["sha256"], value["size"]
    if not is_hex(sha256) or not is_count(size) or type(value[form]) is not str:
        lines.refuse("003", "a blob has a digest, a size and its bytes")
    lines.sorted(sha256)
    lines.take("blobs")
    lines.take("bytes", size)
    if size > MAX_BLOB:
        lines.refuse("004", f"a blob is larger than {MAX_BLOB} bytes")
    line, offset = lines.number, lines.offset
    hasher, finder, utf8, head = hashlib.sha256(), Finder(), Utf8(), b""
    for piece in _pieces(lines, value, form, size):
        head = head or piece[:16]
        hasher.update(piece)
        finder.feed(piece)
        if form == "base64":
            utf8.feed(piece)
    if hasher.hexdigest() != sha256:
        lines.refuse("014", "the bytes of a blob are not those of its digest")
    if form == "base64" and utf8.whole():
        lines.refuse("014", "a blob that is text stands here as base64")
    held = finder.done(head)
    held.size, held.line, held.offset = size, line, offset
    return Blob(sha256, held)


def _pieces(lines: Scanner, value: dict[str, Any], form: str, size: int) -> Iterator[bytes]:
    done, before = 0, PIECE
    while True:
        piece = _piece(lines, value[form], form)
        if done and not piece:
            lines.refuse("014", "a line of a blob is empty")
        if done and before + (_first_character(piece) if form == "text" else 1) <= PIECE:
            lines.refuse("014", "a line of a blob carries less than it can")
        before, done = len(piece), done + len(piece)
        if done > size:
            lines.refuse("014", "a blob is longer than its size")
        yield piece
        if done == size:
            return
        following = lines.next()
        if following is None or lines.kind(following) != "more":
            lines.refuse("014", "a blob ends before its size")
        value = lines.members(following, {"kind", form})
        if type(value[form]) is not str:
            lines.refuse("003", "a line of a blob has no bytes")


def _piece(lines: Scanner, text: str, form: str) -> bytes:
    if form == "text":
        piece = text.encode()
    else:
        try:
            piece = base64.b64decode(text, validate=True)
        except ValueError:
            piece = b""
        if base64.b64encode(piece).decode() != text:
            lines.refuse("014", "a blob is not in base64 of one spelling")
    if len(piece) > PIECE:
        lines.refuse("014", "a line of a blob carries more than it may")
    return piece


def stored_bytes(lines: Scanner) -> Iterator[bytes]:
    """The bytes of the blob at the place where ``lines`` stands, in pieces; nothing of it is checked again."""
    value = lines.next()
    while value is not None:
        piece = piece_of(value)
        yield piece
        value = lines.next() if len(piece) > PIECE - 4 else None
        if value is not None and lines.kind(value) != "more":
            return


def piece_of(value: dict[str, Any]) -> bytes:
    """What one line of a blob carries, not checked; KeyError, TypeError or ValueError where it carries nothing."""
    text = value["text" if "text" in value else "base64"]
    if type(text) is not str:
        raise TypeError("no text")
    return text.encode() if "text" in value else base64.b64decode(text, validate=True)


def _first_character(piece: bytes) -> int:
    """Bytes of the first character of a text."""
    first = piece[0]
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
