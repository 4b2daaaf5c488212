"""Remembered heads never go back, and a damaged one is neither passed over nor in anybody's way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from homes import HEAD, ROOT, code_of, mode

from counterfoil import keys


def test_heads_are_remembered_by_origin(home: Path) -> None:
    kept = keys.remember_head("o/1", **HEAD)
    other = keys.remember_head(
        "o/2 \u00e9\U0001f600", **{**HEAD, "segment": "000001.seg", "evidence": Path("/x")}
    )
    assert keys.remembered_heads() == {"o/1": kept, "o/2 \u00e9\U0001f600": other}
    assert keys.remembered_head("o/1") == keys.Head("o/1", **HEAD)
    assert other.evidence == "/x"
    assert mode(home / "heads") == 0o700
    assert {mode(path) for path in (home / "heads").iterdir()} == {0o600}
    assert keys.forget_head("o/1") is True
    assert keys.forget_head("o/1") is False
    assert list(keys.remembered_heads()) == ["o/2 \u00e9\U0001f600"]


def test_a_head_never_goes_back(home: Path) -> None:
    kept = keys.remember_head("o", **HEAD)
    assert keys.remember_head("o", **{**HEAD, "size": 9, "root": "00" * 32}) == kept
    moved = keys.remember_head("o", **{**HEAD, "evidence": "/elsewhere"}, sync=False)
    assert keys.remembered_head("o") == moved
    assert moved.evidence == "/elsewhere"
    larger = keys.remember_head("o", **{**HEAD, "size": 11, "root": bytes(32)})
    assert larger.root == "00" * 32
    assert keys.remembered_head("o") == larger


def test_two_roots_of_one_size_are_two_histories(home: Path) -> None:
    kept = keys.remember_head("o", **HEAD)
    assert code_of(keys.remember_head, "o", **{**HEAD, "root": "00" * 32}) == "CF-KEYS-042"
    assert keys.remembered_head("o") == kept


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -1},
        {"size": 2**53},
        {"size": True},
        {"root": b"short"},
        {"root": ROOT.upper()},
        {"root": ROOT[:-1]},
        {"offset": -1},
        {"segment": -1},
        {"segment": None},
        {"evidence": "x" * 5000},
        {"evidence": "/x\udcff"},
        {"segment": "\ud800"},
    ],
)
def test_heads_that_cannot_be_kept(wrong: dict[str, Any], home: Path) -> None:
    assert code_of(keys.remember_head, "o", **{**HEAD, **wrong}) == "CF-KEYS-041"
    assert code_of(keys.remember_head, "", **HEAD) == "CF-KEYS-041"
    assert code_of(keys.remember_head, "\ud800", **HEAD) == "CF-KEYS-041"
    assert not home.exists()


@pytest.mark.parametrize("left", [b"", bytes(1), bytes(223)], ids=len)
def test_what_a_power_failure_leaves_of_a_head_is_no_head(home: Path, left: bytes) -> None:
    """Heads are replaced without a sync: the name may be on disk before the bytes are."""
    keys.remember_head("o", **HEAD)
    (path,) = (home / "heads").glob("*.json")
    path.write_bytes(left)
    assert (keys.remembered_head("o"), keys.remembered_heads()) == (None, {})
    kept = keys.remember_head("o", **HEAD)
    assert keys.remembered_heads() == {"o": kept}


def test_a_damaged_head_keeps_nobody_from_recording(lab: Any) -> None:
    """Its log is left alone, for what should be there of it cannot be told; other logs and other places go on."""
    lab.record()
    (path,) = (lab.home / "heads").glob("*.json")
    good = path.read_bytes()
    path.write_bytes(good[:100])
    lab.record()
    lab.record(evidence=lab.root / "another")
    assert lab.verify(lab.root / "another").verdict == "cannot-tell"
    result = lab.verify()
    assert (result.verdict, result.counts["logs"]) == ("cannot-tell", 2)
    assert {finding.code for finding in result.findings} == {"CF-KEYS-040"}
    path.write_bytes(good)
    assert lab.verify().verdict == "intact"


def test_what_killed_processes_left_of_heads_is_swept(home: Path) -> None:
    keys.remember_head("o", **HEAD)
    old, new = home / "heads" / ".a.json.0123.tmp", home / "heads" / ".b.json.4567.tmp"
    for path in (old, new):
        path.write_bytes(b"{")
    os.utime(old, (1, 1))
    keys.sweep_heads()
    assert (old.exists(), new.exists()) == (False, True)
    assert list(keys.remembered_heads()) == ["o"]


def test_a_damaged_head_is_not_passed_over(home: Path) -> None:
    keys.remember_head("o", **HEAD)
    [path] = (home / "heads").iterdir()
    good = path.read_bytes()
    broken = [
        good[:-1],
        good + b"\n",
        good.replace(b'"size":10', b'"size":"10"'),
        good.replace(b'"size":10', b'"size":10.5'),
        good.replace(b'"version":0', b'"version":1'),
        good.replace(b'"version":0', b'"version":false'),
        good.replace(ROOT.encode(), ROOT.upper().encode()),
        good.replace(ROOT.encode(), b"zz"),
        good.replace(b'"origin":"o"', b'"origin":"p"'),
        good.replace(b'"origin":"o"', b'"origin":1'),
        good.replace(b'"segment":3', b'"segment":null'),
        good.replace(b'"segment":3,', b""),
        b"[]",
    ]
    for data in broken:
        assert data != good
        path.write_bytes(data)
        assert code_of(keys.remembered_heads) == code_of(keys.remembered_head, "o") == "CF-KEYS-040"
        assert code_of(keys.remember_head, "o", **HEAD) == "CF-KEYS-040"
    path.write_bytes(good)
    (path.parent / f".{path.name}.0011.tmp").write_bytes(b"left by a killed process")
    assert list(keys.remembered_heads()) == ["o"]


def test_heads_that_cannot_be_listed_or_forgotten(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.remember_head("o", **HEAD)

    def refused(*arguments: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refused)
    assert code_of(keys.remembered_heads) == "CF-KEYS-008"
    monkeypatch.setattr(Path, "unlink", refused)
    assert code_of(keys.forget_head, "o") == "CF-KEYS-008"
