"""Who reads a bundle that is not to be believed is told so by every command; standard output stays the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterfoil import notes
from counterfoil.canonical import dumps, loads
from counterfoil.cli import source

READING = [("log",), ("graph",), ("graph", "--hops"), ("handoffs",), ("show", "--last", "-e")]
READERS = pytest.mark.parametrize("words", READING, ids=" ".join)


@pytest.fixture
def bundle(cli: Any, desk: Any, tmp_path: Path) -> Path:
    file = tmp_path / "run.bundle"
    assert cli("bundle", desk.evidence, "-o", file).returncode == 0
    return file


def read(command: Any, words: tuple[str, ...], file: Path, *more: str) -> Any:
    return command(*words, file, *more)


@READERS
def test_of_a_bundle_that_is_believed_nothing_is_said(cli: Any, bundle: Path, words: tuple[str, ...]) -> None:
    assert read(cli, words, bundle).stderr == ""


@READERS
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_where_the_key_is_not_known(
    cli: Any, newcomer: Any, bundle: Path, words: tuple[str, ...], more: tuple[str, ...]
) -> None:
    known, done = read(cli, words, bundle, *more), read(newcomer, words, bundle, *more)
    assert (done.returncode, done.stdout) == (known.returncode, known.stdout)
    told = done.stderr.splitlines()
    assert told[0].startswith("warning CF-VERIFY-032 ")
    assert told[1] == f"  hint: counterfoil verify {bundle}"


@READERS
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("change", ["an answer", "a signature", "another form"])
def test_a_bundle_that_was_changed(
    cli: Any, bundle: Path, words: tuple[str, ...], more: tuple[str, ...], change: str
) -> None:
    before = read(cli, words, bundle, *more)
    data = bundle.read_bytes()
    if change == "an answer":
        data = data.replace(b"09:44", b"09:45", 1)
    elif change == "another form":
        data = data.replace(b'"kind":"contents"', b'"kind": "contents"', 1)
    else:
        lines = data.splitlines(keepends=True)
        at = next(at for at, line in enumerate(lines) if "note" in loads(line[:-1]))
        value = loads(lines[at][:-1])
        text, _, signature = value["note"].rpartition(" ")
        value["note"] = f"{text} {signature[:20]}{'A' if signature[20] != 'A' else 'B'}{signature[21:]}"
        notes.Note.parse(value["note"])
        lines[at] = dumps(value) + b"\n"
        data = b"".join(lines)
    assert data != bundle.read_bytes()
    bundle.write_bytes(data)
    verdict = cli("verify", bundle)
    assert verdict.returncode == 3
    done = read(cli, words, bundle, *more)
    code = verdict.stdout.split()[1]
    if change == "another form":  # of which no log can be read
        assert (done.returncode, done.stdout) == (2, "")
    else:
        assert done.returncode == 1
    starts = tuple(f"{level} {code} " for level in ("warning", "damaged", "error"))
    assert any(line.startswith(starts) for line in done.stderr.splitlines()), done.stderr
    assert before.stderr == ""


def test_a_large_bundle_is_not_verified_by_the_way(
    cli: Any, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_JUDGED", 100)
    done = cli("log", bundle)
    assert done.returncode == 0
    assert done.stderr == f"note: this bundle is large and was not verified: counterfoil verify {bundle}\n"


def test_a_folder_is_read_as_it_stands(cli: Any, newcomer: Any, desk: Any) -> None:
    """Its owner asks with verify; what cannot be read of it is told (test_log_show)."""
    assert newcomer("log", desk.evidence).stderr == cli("log", desk.evidence).stderr == ""
