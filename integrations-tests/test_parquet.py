"""Exports to Parquet: what DuckDB's SQL, as the specification prints it, says of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterfoil
from counterfoil import columns, keys
from counterfoil.columns import export_columns
from counterfoil.errors import ConfigError, StoreError
from counterfoil.stores import FolderStore

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

from _evidence import make

pytestmark = pytest.mark.engines
SPEC = (Path(__file__).resolve().parents[1] / "shared" / "spec" / "parquet.md").read_text(encoding="utf-8")
SQL = [part.strip() for part in re.search(r"```sql\n(.*?)```", SPEC, re.DOTALL)[1].split(";") if part.strip()]  # type: ignore[index]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parquet") / "evidence"
    make(root, keys.load_or_create_identity(), entries=4_000, logs=2, segment_bytes=60_000)
    return root


@pytest.fixture(scope="module")
def exported(evidence: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parquet") / "columns"
    done = _command("export", str(evidence), "--parquet", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "intact"
    assert [one["entries"] for one in told["logs"]] == [
        len([entry for entry in counterfoil.read(evidence).entries() if entry.log == one["log"]])
        for one in told["logs"]
    ]
    return folder


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "counterfoil", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def audit(folder: Path) -> list[int]:
    """What the specification's queries count, in their order."""
    found = []
    with duckdb.connect() as connection:
        for statement in SQL:
            # Comments stand before their query.
            rows = connection.execute(statement.replace("FOLDER", str(folder))).fetchall()
            if "create view" not in statement:
                found.append(rows[0][0])
    return found


def test_the_audit_of_the_specification_finds_nothing(exported: Path) -> None:
    assert audit(exported) == [0, 0, 0, 0, 0]


def _changed(folder: Path, to: Path, table: str, change: Any) -> Path:
    """A copy of an export with one table of its first log changed."""
    for path in sorted(folder.rglob("*.parquet")):
        (to / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        (to / path.relative_to(folder)).write_bytes(path.read_bytes())
    victim = min((to / table).iterdir())
    held = pq.read_table(victim)
    pq.write_table(pa.Table.from_pylist(change(held.to_pylist()), schema=held.schema), victim)
    return to


def _reword(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows[700]["text"] = rows[700]["text"].replace(b"1", b"2", 1)
    return rows


def _swap(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows[700]["index"], rows[701]["index"] = rows[701]["index"], rows[700]["index"]
    return rows


def _rechain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Left out, and what comes behind says that it never was; its text does not."""
    rows[701]["prev"] = rows[700]["prev"]
    return rows[:700] + rows[701:]


@pytest.mark.parametrize(
    ("table", "change", "finds"),
    [
        ("entries", _reword, [0]),
        ("entries", _swap, [1, 2]),
        ("entries", _rechain, [1, 2]),
        ("entries", lambda rows: rows[:-3], [4]),
        ("entries", lambda rows: rows[3:], [2]),
        ("blobs", lambda rows: rows[5:], [3]),
    ],
    ids=["a text", "two places", "a link", "the end", "the beginning", "blobs"],
)
def test_the_audit_finds_what_is_changed(
    exported: Path, tmp_path: Path, table: str, change: Any, finds: list[int]
) -> None:
    counted = audit(_changed(exported, tmp_path, table, change))
    assert [place for place, count in enumerate(counted) if count] == finds


def test_every_text_is_an_entry_and_every_column_is_what_the_reader_says(
    exported: Path, evidence: Path
) -> None:
    rows = {
        (row["log"], row["index"]): row
        for path in (exported / "entries").iterdir()
        for row in pq.read_table(path).to_pylist()
    }
    entries = list(counterfoil.read(evidence).entries())
    assert len(rows) == len(entries)
    for entry in entries:
        row = rows[entry.log, entry.index]
        assert json.loads(row["text"]) == {"body": entry.body, "i": entry.index, "prev": row["prev"]}
        assert (row["digest"], row["segment"], row["op"]) == (entry.digest, entry.segment, entry.op)
        if row["kind"] == "record":
            assert row["run"] == entry.body["context"].get("run")
            assert row["actor"] == entry.body["content"].get("actor")
            assert row["at"] is None or row["at"].timestamp() == entry.body["context"]["at"] / 1e6
    schema = pq.read_schema(min((exported / "entries").iterdir()))
    documented = re.findall(r"^\| (`[a-z0-9`, ]+`) \|", SPEC, re.MULTILINE)
    named = [name for cell in documented for name in re.findall(r"`([a-z0-9]+)`", cell)]
    assert named[: len(schema.names)] == schema.names
    assert schema.metadata[b"counterfoil.parquet"] == b"1"


def test_groups_bound_the_memory(evidence: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_BYTES", 50_000)
    store = FolderStore(evidence)
    done = export_columns(store, store.logs()[0], tmp_path)
    held = pq.ParquetFile(tmp_path / "entries" / f"{store.logs()[0]}.parquet")
    assert held.metadata.num_row_groups > 10
    assert held.metadata.num_rows == done.entries
    assert audit(tmp_path) == [0, 0, 0, 0, 0]


def test_an_export_again_gives_the_same_bytes_and_leaves_nothing_else(exported: Path, evidence: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(exported.rglob("*")) if path.is_file()}
    assert len(before) == 6
    assert _command("export", str(evidence), "--parquet", str(exported)).returncode == 0
    assert {path: path.read_bytes() for path in sorted(exported.rglob("*")) if path.is_file()} == before


def test_what_is_refused(evidence: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(evidence)
    with pytest.raises(StoreError) as caught:
        export_columns(store, store.logs()[0], evidence / "columns")
    assert caught.value.code == "CF-EXPORT-004"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        export_columns(store, store.logs()[0], tmp_path / "file")
    assert caught.value.code == "CF-EXPORT-005"
    assert _command("export", str(evidence)).returncode == 2
    done = _command("export", str(evidence), "--parquet", str(tmp_path / "a"), "--tlog", str(tmp_path / "b"))
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [tmp_path / "file"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError) as absent:
        export_columns(store, store.logs()[0], tmp_path / "a")
    assert (absent.value.code, "counterfoil[parquet]" in str(absent.value.hint)) == ("CF-CONFIG-020", True)


def test_broken_evidence(evidence: Path, tmp_path: Path) -> None:
    copy = tmp_path / "broken"
    for path in sorted(evidence.rglob("*")):
        if path.is_file():
            (copy / path.relative_to(evidence)).parent.mkdir(parents=True, exist_ok=True)
            (copy / path.relative_to(evidence)).write_bytes(path.read_bytes())
    victim = sorted(copy.rglob("*.seg"))[2]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    done = _command("export", str(copy), "--parquet", str(tmp_path / "columns"))
    assert (done.returncode, (tmp_path / "columns").exists()) == (3, False)
    done = _command("export", str(copy), "--parquet", str(tmp_path / "columns"), "--broken")
    assert done.returncode == 3
    # What stands before the fault is whole.
    assert audit(tmp_path / "columns")[:4] == [0, 0, 0, 0]
