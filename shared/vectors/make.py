"""Makes the golden vectors; run by hand, never by a build or a test of the formats.

    python make.py               compare the files beside this script with what it makes
    python make.py --to FOLDER   make them in another folder
    python make.py --write       make them here

Keys and times are fixed, so every run gives the same bytes. It needs ``rfc8785`` and ``cryptography`` only: the
formats are written a second time in ``making``, from ``shared/spec`` and without ``counterfoil``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from making import (  # noqa: E402
    bundle_cases,
    canonical_cases,
    log_all,
    record_cases,
    reference_cases,
    statement_cases,
    stream_cases,
    tile_cases,
    value_cases,
)

FILES = {
    "bundle.json": bundle_cases.build,
    "canonical.json": canonical_cases.build,
    "log.json": log_all.build,
    "record.json": record_cases.build,
    "references.json": reference_cases.build,
    "statement.json": statement_cases.build,
    "streams.json": stream_cases.build,
    "tiles.json": tile_cases.build,
    "values.json": value_cases.build,
}


def text_of(content: dict[str, Any]) -> bytes:
    """A file's bytes: ASCII, one member a line, a newline at the end."""
    return json.dumps({"version": 1, **content}, indent=1, sort_keys=True).encode("ascii") + b"\n"


def main() -> int:
    """Make or compare; 1 when a file differs."""
    parser = argparse.ArgumentParser(description="Makes the golden vectors.")
    parser.add_argument("--write", action="store_true", help="write the files beside this script")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="write the files there")
    options = parser.parse_args()
    made = {name: text_of(build()) for name, build in FILES.items()}
    folder = HERE if options.write else options.to
    if folder is not None:
        for name, data in made.items():
            (folder / name).write_bytes(data)
        return 0
    wrong = [name for name, data in made.items() if not _same(HERE / name, data)]
    for name in wrong:
        sys.stderr.write(f"{name} is not what this script makes\n")
    return 1 if wrong else 0


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


if __name__ == "__main__":
    sys.exit(main())
