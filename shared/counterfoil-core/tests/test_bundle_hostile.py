"""Bundles that want to cost more than they are: refused before the work, in bounded memory."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, keys
from counterfoil.bundles.form import FIRST, is_bundle
from counterfoil.errors import StoreError
from counterfoil.findings import Finding

VECTORS = json.loads(
    (Path(__file__).resolve().parents[2] / "vectors" / "bundle.json").read_text(encoding="ascii")
)
SMALL = [line for line in str(VECTORS["cuts"][0]["bundle"]).encode().splitlines()]
MEMORY = 64 << 20


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    before = keys.home()
    keys.set_home(tmp_path / "home")
    yield tmp_path / "hostile.bundle"
    keys.set_home(before)


def first(file: Path) -> Finding:
    """The one finding, and that finding it took little memory."""
    tracemalloc.start()
    try:
        found = counterfoil.verify(file, keyring=keys.Keyring())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY, peak
    assert found.verdict == "broken"
    (one,) = found.findings
    return one


def contents(**counts: int) -> bytes:
    told = dict.fromkeys(("absent", "blobs", "bytes", "entries", "keys", "logs"), 0) | counts
    return canonical.dumps({"asked": {"run": "1" * 32}, "counts": told, "kind": "contents"})


def test_a_line_of_a_gigabyte(file: Path) -> None:
    with file.open("wb") as out:
        out.write(b"\n".join(SMALL[:3]) + b'\n{"body":"')
        out.truncate(out.tell() + (1 << 30))  # sparse: zeros without an end
    one = first(file)
    assert (one.code, one.where) == ("CF-BUNDLE-002", "line 4")


def test_a_first_line_of_a_gigabyte(file: Path) -> None:
    with file.open("wb") as out:
        out.write(FIRST[:-1])
        out.truncate(1 << 30)
    assert (first(file).code, first(file).where) == ("CF-BUNDLE-002", "line 1")


def test_counts_that_no_file_can_hold(file: Path) -> None:
    for name in ("absent", "blobs", "bytes", "entries", "keys", "logs"):
        file.write_bytes(FIRST + b"\n" + contents(**{name: 2**53 - 1}) + b"\n")
        assert (first(file).code, first(file).where) == ("CF-BUNDLE-004", "line 2")


def test_a_million_hashes_in_a_gap(file: Path) -> None:
    wide = canonical.dumps({"count": 1, "hashes": ["0" * 64] * 10_000, "kind": "gap"})
    file.write_bytes(b"\n".join([*SMALL[:3], wide, b""]))
    assert first(file).code == "CF-BUNDLE-011"
    huge = b'{"count":1,"hashes":[' + b",".join([b'"' + b"0" * 64 + b'"'] * 1_000_000) + b'],"kind":"gap"}'
    file.write_bytes(b"\n".join([*SMALL[:3], huge, b""]))
    assert first(file).code == "CF-BUNDLE-002"


def test_a_million_parents_in_a_record(file: Path) -> None:
    parent = b'{"digest":"%b","rel":"control"}' % (b"0" * 64)
    head = b'{"body":{"content":{"op":"step"},"context":{"parents":['
    body = head + b",".join([parent] * 1_000_000) + b']},"v":1},"i":0,"prev":"' + b"0" * 64 + b'"}'
    file.write_bytes(b"\n".join([*SMALL[:3], body, b""]))
    assert first(file).code == "CF-BUNDLE-002"
    # As many as a line can have: an entry is far smaller, and nothing of it is looked at.
    body = head + b",".join([parent] * 9_000) + b']},"v":1},"i":0,"prev":"' + b"0" * 64 + b'"}'
    file.write_bytes(b"\n".join([*SMALL[:3], body, b""]))
    assert first(file).code == "CF-BUNDLE-010"


def test_a_hundred_thousand_signatures(file: Path) -> None:
    signature = b'{"keyid":"k","sig":"AA=="}'
    for count, code in ((100_000, "CF-BUNDLE-002"), (3_000, "CF-BUNDLE-010")):
        envelope = (
            b'{"payload":"AA==","payloadType":"x","signatures":[' + b",".join([signature] * count) + b"]}"
        )
        entry = b'{"body":' + envelope + b',"i":0,"prev":"' + b"0" * 64 + b'"}'
        file.write_bytes(b"\n".join([*SMALL[:3], entry, b""]))
        assert first(file).code == code


@pytest.mark.parametrize(
    "line", [b"[" * 500_000, b'{"a":' * 100_000, b'{"kind":' + b"[" * 65 + b"]" * 65 + b"}"]
)
def test_a_deeply_nested_line(file: Path, line: bytes) -> None:
    file.write_bytes(b"\n".join([*SMALL, line, b""]))
    assert first(file).code == "CF-BUNDLE-002"


def test_a_blob_that_says_it_is_larger_than_it_may_be(file: Path) -> None:
    lines = [FIRST, contents(blobs=1, bytes=(1 << 30) + 1)]
    blob = {"kind": "blob", "sha256": "0" * 64, "size": (1 << 30) + 1, "text": "x"}
    with file.open("wb") as out:
        out.write(b"\n".join([*lines, canonical.dumps(blob), b""]))
        out.truncate(3 << 30)  # large enough for what it says
    assert first(file).code == "CF-BUNDLE-004"


def test_a_long_blob_passes_in_pieces(lab: Any, file: Path) -> None:
    """A text of 24 MB is verified in a fraction of its size."""
    recorder = lab.recorder()
    text = "All work and no play makes a dull log. " * (10 << 16)
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value(text))
    recorder.end(root)
    recorder.close()
    counterfoil.bundle(lab.evidence, file, run=root.id)
    assert file.stat().st_size > 24 << 20
    tracemalloc.start()
    found = counterfoil.verify(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.verdict == "intact"
    assert peak < 8 << 20


def test_nothing_is_written_and_nothing_else_is_a_bundle(file: Path) -> None:
    file.write_bytes(b"\n".join([*SMALL, b""]))
    before = os.stat(file)
    counterfoil.verify(file, keyring=keys.Keyring())
    assert (os.stat(file).st_mtime_ns, os.listdir(file.parent)) == (before.st_mtime_ns, [file.name])
    assert is_bundle(file)
    for data in (b"", b"{}", FIRST[:10], b" " + FIRST, b"\xef\xbb\xbf" + FIRST):
        file.write_bytes(data)
        assert not is_bundle(file)
        with pytest.raises(StoreError) as caught:
            counterfoil.verify(file)
        assert caught.value.code == "CF-STORE-003"
    file.unlink()
    os.mkfifo(file)
    assert not is_bundle(file)
    assert not is_bundle(file.parent)
    assert not is_bundle(file.parent / "nothing")
