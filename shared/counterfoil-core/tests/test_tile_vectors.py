"""The golden vectors of exports and of checkpoints kept elsewhere hold for this implementation."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys
from counterfoil.errors import CounterfoilError
from counterfoil.stores import FolderStore
from counterfoil.tlog import tiles
from counterfoil.tlog.exporting import export_log

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
TILES: dict[str, Any] = json.loads((VECTORS / "tiles.json").read_text(encoding="ascii"))
LOG: dict[str, Any] = json.loads((VECTORS / "log.json").read_text(encoding="ascii"))
CONTINUING = TILES["continuing"]


def named(cases: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def laid_out(place: Path, files: dict[str, str]) -> Path:
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(base64.b64decode(data))
    return place


def keyring(*names: str) -> keys.Keyring:
    spkis = [base64.b64decode(TILES["keys"][name]["spki"]) for name in names]
    return keys.Keyring.of([keys.PublicKey.from_spki(spki) for spki in spkis])


@named(TILES["layouts"])
def test_layouts(case: dict[str, Any]) -> None:
    files: dict[str, bytes] = {}
    writer = tiles.TileWriter(files.__setitem__)
    for number in range(case["size"]):
        writer.add(b"entry %d" % number)
    writer.finish()
    assert writer.tree.root().hex() == case["root"]
    assert {name: hashlib.sha256(data).hexdigest() for name, data in files.items()} == case["sha256"]
    for name, data in case.get("files", {}).items():
        assert files[name] == base64.b64decode(data)


@pytest.mark.parametrize("case", TILES["paths"], ids=lambda case: case["path"])
def test_paths(case: dict[str, Any]) -> None:
    assert tiles.tile_path(0, case["number"]) == case["path"]


def test_the_export_of_the_complete_log(lab: Any, tmp_path: Path) -> None:
    store = FolderStore(laid_out(tmp_path / "complete", LOG["complete"]["files"]))
    (name,) = store.logs()
    done = export_log(store, name, tmp_path / "out")
    found = {
        str(path.relative_to(tmp_path / "out")): base64.b64encode(path.read_bytes()).decode()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert (found, done.vkey) == (TILES["exported"]["files"], TILES["exported"]["vkey"])


@named(CONTINUING["cases"])
def test_checkpoints_kept_elsewhere(lab: Any, tmp_path: Path, case: dict[str, Any]) -> None:
    place = laid_out(tmp_path / "place", CONTINUING["files"])
    ring = keyring(*CONTINUING["keyring"])
    found = counterfoil.verify(place, keyring=ring, checkpoints=[case["note"]])
    assert (found.verdict, [one.code for one in found.findings]) == (case["verdict"], case["findings"])
    expected = [case["continues"]] if "continues" in case else []
    assert [one.to_dict() for one in found.continues] == expected


@named(CONTINUING["refused"])
def test_what_is_no_checkpoint(lab: Any, tmp_path: Path, case: dict[str, Any]) -> None:
    place = laid_out(tmp_path / "place", CONTINUING["files"])
    with pytest.raises(CounterfoilError) as caught:
        counterfoil.verify(place, checkpoints=[case["note"]])
    assert caught.value.code == case["code"]
