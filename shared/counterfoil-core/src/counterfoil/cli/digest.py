"""``counterfoil digest``: the digests a file has here, to compare with what evidence and statements name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from counterfoil import canonical, values
from counterfoil.cli import output
from counterfoil.cli.options import Debug, Evidence, Json
from counterfoil.digest import digest_of, sha256_hex
from counterfoil.errors import CanonicalError, ConfigError
from counterfoil.reader import read

__all__ = ["digest"]

_LIMIT = 1 << 30
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
    data = _read(file)
    found: dict[str, Any] = {"bytes": len(data), "sha256": sha256_hex(data)}
    if json_value or (not text and file.lower().endswith(".json")):
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
        if text:
            _check_text(file, data)
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


def _read(file: str) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_LIMIT + 1) if sys.stdin is not None else b""
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(_LIMIT + 1)
    except OSError as exc:
        raise ConfigError(
            f"the file cannot be read: {exc.strerror}", code="CF-CLI-030", where=file, hint="check the path"
        ) from exc
    if len(data) > _LIMIT:
        raise ConfigError(
            "the file is larger than 1 GiB", code="CF-CLI-031", where=file, hint="use sha256sum"
        )
    return data


def _check_text(file: str, data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as exc:
        raise ConfigError(
            f"not UTF-8 text: byte {exc.start}",
            code="CF-CLI-033",
            where=file,
            hint="leave --text out for bytes",
        ) from exc
