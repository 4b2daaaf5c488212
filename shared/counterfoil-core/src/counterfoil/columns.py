"""Writes logs as Apache Parquet, so that DuckDB, Spark and the like search them, and audit them by SQL.

Three tables, a file a log each: ``entries`` with the exact text that was hashed, ``blobs`` (which bytes are stored, and
where; not the bytes), ``checkpoints``. Rows are written in groups as the log is read, so memory is bounded whatever a
log holds. Schema and the SQL of an audit: ``shared/spec/parquet.md``.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from counterfoil import records
from counterfoil.digest import is_reference, sha256_hex
from counterfoil.entries import ZERO, BlobSeen, CheckpointSeen, Entry, entry_bytes
from counterfoil.errors import StoreError
from counterfoil.log import LogScan
from counterfoil.needs import needed
from counterfoil.stores import FolderStore
from counterfoil.tlog.exporting import check_place, check_source

__all__ = ["Columns", "export_columns"]

_ROWS: Final = 50_000
"""Rows of a group at most, and bytes of their texts."""
_BYTES: Final = 16 << 20
_VERSION: Final = b"1"

_TABLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "entries": (
        ("log", "string"),
        ("index", "int64"),
        ("digest", "string"),
        ("prev", "string"),
        ("text", "binary"),
        ("segment", "int32"),
        ("kind", "string"),
        ("op", "string"),
        ("phase", "string"),
        ("call", "string"),
        ("run", "string"),
        ("actor", "string"),
        ("address", "string"),
        ("at", "timestamp"),
        ("request", "string"),
        ("response", "string"),
        ("identity", "string"),
        ("cited", "strings"),
    ),
    "blobs": (
        ("log", "string"),
        ("sha256", "string"),
        ("size", "int64"),
        ("segment", "int32"),
        ("chunk", "int64"),
        ("item", "int32"),
    ),
    "checkpoints": (
        ("log", "string"),
        ("size", "int64"),
        ("root", "string"),
        ("segment", "int32"),
        ("note", "binary"),
    ),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """One log as exported: how many rows went into each of its files below ``folder``."""

    log: str
    folder: str
    entries: int
    blobs: int
    checkpoints: int


def export_columns(store: FolderStore, name: str, to: str | os.PathLike[str]) -> Columns:
    """Write what can be read of a log below the folder ``to``; ask ``verify`` before.

    Each file is replaced when it is whole, never before.

    Raises:
        ConfigError: CF-CONFIG-020: pyarrow is not installed; CF-EXPORT-008: a bundle.
        StoreError: CF-EXPORT-004: the folder is evidence; CF-EXPORT-005: it cannot be written.
    """
    check_source(store)
    folder = Path(os.path.abspath(to))
    check_place(store, Path(os.path.realpath(folder)))
    arrow, parquet = needed("pyarrow", extra="parquet"), needed("pyarrow.parquet", extra="parquet")
    with contextlib.ExitStack() as closing:
        tables = {
            table: closing.enter_context(_table(arrow, parquet, folder / table / f"{name}.parquet", columns))
            for table, columns in _TABLES.items()
        }
        prev = ZERO
        for event in LogScan(store, name).events():
            if isinstance(event, Entry):
                text = entry_bytes(event.body_bytes, event.index, prev)
                tables["entries"].add(_entry(event, prev, text), len(text))
                prev = event.digest
            elif isinstance(event, BlobSeen):
                segment, _, chunk, item = event.place
                tables["blobs"].add((name, event.sha256, len(event.data), segment, chunk, item), 0)
            elif isinstance(event, CheckpointSeen):
                row = (name, event.size, event.root.hex(), event.segment, event.note)
                tables["checkpoints"].add(row, len(event.note))
        counts = {table: one.count for table, one in tables.items()}
    return Columns(name, str(folder), **counts)


def _entry(entry: Entry, prev: str, text: bytes) -> tuple[Any, ...]:
    body = entry.body
    cited = sorted({one[0] for one in entry.cited if one[0]})
    place = (entry.log, entry.index, entry.digest, prev, text, entry.segment)
    if not records.is_record(body):
        identity = ""
        with contextlib.suppress(ValueError, TypeError):
            identity = sha256_hex(base64.b64decode(body["payload"], validate=True))
        return (*place, "statement", "statement", *(None,) * 8, identity or None, cited)
    content, context = body["content"], body["context"]
    at = context.get("at")
    return (
        *place,
        "record",
        entry.op,
        *(_text(content.get("phase")), _text(context.get("call")), _text(context.get("run"))),
        *(_text(content.get("actor")), _text(content.get("address"))),
        at if type(at) is int and 0 <= at < 1 << 53 else None,
        *(
            content[key]["sha256"] if is_reference(content.get(key)) else None
            for key in ("request", "response")
        ),
        sha256_hex(entry.body_bytes),
        cited,
    )


def _text(value: object) -> str | None:
    return value if type(value) is str else None


class _Table:
    """Rows that are written in groups."""

    def __init__(self, arrow: Any, writer: Any, schema: Any) -> None:
        self.count = 0
        self._arrow, self._writer, self._schema = arrow, writer, schema
        self._rows: list[tuple[Any, ...]] = []
        self._size = 0

    def add(self, row: tuple[Any, ...], size: int) -> None:
        self._rows.append(row)
        self._size += size
        self.count += 1
        if len(self._rows) >= _ROWS or self._size >= _BYTES:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [
                self._arrow.array(list(column), type=field.type)
                for column, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._rows, self._size = [], 0


@contextlib.contextmanager
def _table(arrow: Any, parquet: Any, path: Path, columns: tuple[tuple[str, str], ...]) -> Iterator[_Table]:
    """A file beside its name until it is whole; nothing of it is left where that fails."""
    types = {
        "string": arrow.string(),
        "strings": arrow.list_(arrow.string()),
        "binary": arrow.binary(),
        "int32": arrow.int32(),
        "int64": arrow.int64(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
    }
    # Only what may stand in any row may be missing in one.
    must = {
        "log",
        "index",
        "digest",
        "prev",
        "text",
        "sha256",
        "size",
        "root",
        "note",
        "segment",
        "kind",
        "op",
    }
    fields = [arrow.field(name, types[kind], nullable=name not in must) for name, kind in columns]
    schema = arrow.schema(fields, metadata={b"counterfoil.parquet": _VERSION})
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with parquet.ParquetWriter(str(beside), schema, compression="zstd") as writer:
            table = _Table(arrow, writer, schema)
            yield table
            table.flush()
        os.replace(beside, path)
    except OSError as exc:
        raise StoreError(
            f"the export cannot be written: {exc.strerror or type(exc).__name__}",
            code="CF-EXPORT-005",
            where=str(path),
            hint="check the folder and the disk",
        ) from exc
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
