"""``counterfoil digest``: the digests a file has here, to compare with what evidence and statements name."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, NoReturn

import typer

from counterfoil import _files, canonical, values
from counterfoil.cli import output
from counterfoil.cli.options import Debug, Evidence, Json
from counterfoil.digest import digest_of, sha256_hex
from counterfoil.errors import CanonicalError, ConfigError
from counterfoil.reader import read

__all__ = ["digest"]

_LIMIT = 1 << 30
_PIECE = 1 << 20
_DEPTH = 256


def digest(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file; `-` is standard input.")],
    text: Annotated[bool, typer.Option("--text", help="The file is one text, whatever its name.")] = False,
    json_value: Annotated[
        bool, typer.Option("--json-value", help="The file is one JSON value, whatever its name.")
    ] = False,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Print the digests of a file and of its value.

    \b
    Examples:
      counterfoil digest prompt.txt
      counterfoil digest payload.json
      produce-report | counterfoil digest - --json-value
      counterfoil digest prompt.txt -e evidence/      is it stored there?

    A file that ends in .json is a JSON value. sha256 is of the bytes, rfc8785 of the value's canonical JSON
    text; counterfoil-v1 is the digest that references and handoffs name.
    """
    if text and json_value:
        raise ConfigError(
            "a file is read as text or as JSON", code="CF-CLI-032", hint="give --text or --json-value"
        )
    whole = json_value or (not text and file.lower().endswith(".json"))
    size, sha256, data = _read(file, text=text, whole=whole)
    found: dict[str, Any] = {"bytes": size, "sha256": sha256}
    if whole:
        try:
            value = values.encode(canonical.loads(data, max_depth=_DEPTH))
            found["rfc8785"] = sha256_hex(canonical.dumps(value))
            found["counterfoil-v1"] = digest_of(value)
        except CanonicalError as exc:
            where = f"{file} {exc.where or ''}".rstrip()
            hint = "--text reads it as text"
            raise ConfigError(
                f"not a JSON value: {exc.message}", code=exc.code, where=where, hint=hint
            ) from exc
    else:
        found["counterfoil-v1"] = found["sha256"]  # of a text's UTF-8, of bytes themselves
    if evidence is not None:
        found["stored"] = any(sha256 == found["counterfoil-v1"] for sha256, _ in read(evidence).blobs())
    if json:
        output.out(output.json_text(found, indent=2))
        return 0
    for name, what in (
        ("sha256", "the bytes"),
        ("rfc8785", "canonical JSON"),
        ("counterfoil-v1", "the value"),
    ):
        if name in found:
            output.out(f"{name:<15}{found[name]}  {what}")
    if evidence is not None:
        output.out(f"{'stored':<15}{'yes' if found['stored'] else 'no'}")
    return 0


def _read(file: str, *, text: bool, whole: bool) -> tuple[int, str, bytes]:
    """Size and SHA-256 of a file, read piece by piece; its bytes too if the ``whole`` is needed."""
    hasher = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    kept = bytearray()
    size = 0
    with _opened(file) as opened:
        for piece in _pieces(file, opened):
            if text:
                _check_text(file, decoder, piece, size)
            size += len(piece)
            if size > _LIMIT:
                _too_large(file)
            hasher.update(piece)
            if whole:
                kept += piece
    return size, hasher.hexdigest(), bytes(kept)


@contextlib.contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
        return
    try:
        opened = _files.open_given(file)
    except OSError as exc:
        _unreadable(file, exc)
    with opened:
        if os.fstat(opened.fileno()).st_size > _LIMIT:
            _too_large(file)
        yield opened


def _pieces(file: str, opened: BinaryIO) -> Iterator[bytes]:
    """All of a file, and an empty piece as its end."""
    piece = b"-"
    while piece:
        try:
            piece = opened.read(_PIECE)
        except OSError as exc:
            _unreadable(file, exc)
        yield piece


def _unreadable(file: str, exc: OSError) -> NoReturn:
    raise ConfigError(
        f"the file cannot be read: {exc.strerror}", code="CF-CLI-030", where=file, hint="check the path"
    ) from exc


def _too_large(file: str) -> NoReturn:
    raise ConfigError("the file is larger than 1 GiB", code="CF-CLI-031", where=file, hint="use sha256sum")


def _check_text(file: str, decoder: codecs.IncrementalDecoder, piece: bytes, size: int) -> None:
    pending = len(decoder.getstate()[0])
    try:
        decoder.decode(piece, final=not piece)
    except UnicodeDecodeError as exc:
        raise ConfigError(
            f"not UTF-8 text: byte {size - pending + exc.start}",
            code="CF-CLI-033",
            where=file,
            hint="leave --text out for bytes",
        ) from exc
