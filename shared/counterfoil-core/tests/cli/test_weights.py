"""``counterfoil weights``: what people and scripts see."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from counterfoil import keys
from counterfoil.cli import progress


@pytest.fixture
def tree(cli: Any, tmp_path: Path) -> Path:
    """A small tree in the command's folder, and a home of its own."""
    cli.home, cli.folder = tmp_path / "own home", tmp_path
    folder = tmp_path / "llama-3"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub/part.bin").write_bytes(b"x" * 5000)
    return folder


def test_add_verify_and_list_as_lines(cli: Any, tree: Path) -> None:
    done = cli("weights", "add", tree, "--source", "org/llama-3@main")
    assert (done.returncode, done.stderr) == (0, "")
    first, root, manifest = done.stdout.splitlines()
    assert first == "llama-3: 2 files, 5002 bytes"
    assert root.split()[0] == "root"
    assert manifest.split()[0] == "manifest"
    root = root.split()[1]
    done = cli("weights", "verify", tree)
    assert (done.returncode, done.stdout) == (0, f"same: 2 files, 5002 bytes, llama-3 {root}\n")
    (line,) = cli("weights", "list").stdout.splitlines()
    assert line.startswith(root[:16])
    assert line.endswith("llama-3: 2 files, 5002 bytes from org/llama-3@main")
    bound = cli("weights", "list", "--files", COUNTERFOIL_MODELS="small-1=llama-3").stdout.splitlines()
    assert bound[0].endswith("bound to small-1")
    assert [row.split()[1:] for row in bound[1:]] == [["2", "config.json"], ["5000", "sub/part.bin"]]
    assert cli("verify").returncode == 0
    assert "weights" in cli("log").stdout


def test_differences_are_named(cli: Any, tree: Path) -> None:
    cli("weights", "add", tree)
    (tree / "sub/part.bin").write_bytes(b"x" * 4999 + b"y")
    (tree / "config.json").rename(tree / "config.yaml")
    os.mkfifo(tree / "pipe")
    done = cli("weights", "verify", tree)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "missing  config.json"
    assert lines[1] == "new      config.yaml"
    assert lines[2] == "new      pipe: CF-WEIGHTS-002 neither a regular file nor a folder"
    assert lines[3].startswith("differs  sub/part.bin: sha256 ")
    assert lines[4].startswith("changed: 4 differences, 2 files, 5002 bytes, llama-3 ")
    found = cli.json("weights", "verify", tree, code=1)
    assert found.keys() == {
        *("result", "name", "manifest", "root", "signer", "files", "bytes", "cached", "differences")
    }
    assert [(one["file"], one["state"]) for one in found["differences"]] == [
        ("config.json", "missing"),
        ("config.yaml", "new"),
        ("pipe", "new"),
        ("sub/part.bin", "differs"),
    ]
    assert found["differences"][3]["expected"]["size"] == found["differences"][3]["found"]["size"] == 5000
    assert found["root"]["expected"] != found["root"]["found"]


def test_json_of_add_and_list(cli: Any, tree: Path) -> None:
    made = cli.json("weights", "add", tree, "--name", "n", "--source", "a@b@c", "--without", "sub")
    assert (made["name"], made["files"], made["bytes"], made["cached"]) == ("n", 1, 2, 0)
    assert made["source"] == {"repo": "a@b", "revision": "c"}
    assert "sub" in made["without"]
    (row,) = cli.json("weights", "list", "--files")
    assert {**made, "models": [], "known": True, "list": row["list"]} == row
    assert [one["name"] for one in row["list"]] == ["config.json"]


def test_verify_finds_its_manifest(cli: Any, tree: Path, tmp_path: Path) -> None:
    done = cli("weights", "verify", tree)
    assert (done.returncode, "CF-STORE-002" in done.stderr) == (2, True)
    cli("weights", "add", tree, "--name", "first")
    assert cli("weights", "verify", tree).returncode == 0  # the only one
    (tree / "config.json").write_text("{} ")
    cli("weights", "add", tree, "--name", "second")
    done = cli("weights", "verify", tree)
    assert (done.returncode, "CF-WEIGHTS-010" in done.stderr) == (2, True)
    assert cli("weights", "verify", tree, "--manifest", "second").returncode == 0
    assert cli("weights", "verify", tree, "--manifest", "first").returncode == 1
    assert cli("weights", "verify", tree, "--manifest", "third").returncode == 2


def test_a_manifest_of_somebody_unknown_tells_nothing(cli: Any, tree: Path, tmp_path: Path) -> None:
    cli("weights", "add", tree)
    cli.home = tmp_path / "another home"
    done = cli("weights", "verify", tree)
    assert done.returncode == 5
    assert "cannot-tell CF-WEIGHTS-012 llama-3" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("cannot-tell: 2 files")
    assert cli.json("weights", "verify", tree, code=5)["signer"] is None
    assert "nobody who is known here" in cli("weights", "list").stdout


def test_a_header_that_is_refused_is_a_note(cli: Any, tree: Path) -> None:
    (tree / "bad.safetensors").write_bytes(b"\xff" * 9)
    done = cli("weights", "add", tree)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("note CF-WEIGHTS-030 bad.safetensors: safetensors: ")
    assert "refused" in cli("weights", "list", "--files").stdout


def test_names_reach_no_terminal_as_control_sequences(cli: Any, tree: Path) -> None:
    (tree / "\x1b[31mred\u202e").write_text("x")
    cli("weights", "add", tree, "--name", "\x1b[2Jname")
    (tree / "\x1b[31mred\u202e").write_text("y")
    told = cli("weights", "list", "--files").stdout
    told += cli("weights", "verify", tree, "--manifest", "\x1b[2Jname").stdout
    assert "\\x1b[31mred\\u202e" in told
    assert "\x1b" not in told
    assert "\u202e" not in told


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("add", "missing"), "CF-WEIGHTS-001"),
        (("add",), "CF-CLI-001"),
        (("add", "llama-3", "--source", "@x"), "CF-CLI-100"),
        (("add", "llama-3", "--source", "x@"), "CF-CLI-100"),
        (("add", "llama-3", "--without", "sub", "--without", "config.json"), "CF-WEIGHTS-007"),
        (("add", "llama-3", "--threads", "0"), "CF-CLI-001"),
        (("list", "a", "-e", "b"), "CF-CLI-002"),
        (("nothing",), "CF-CLI-001"),
    ],
    ids=str,
)
def test_errors_have_codes(words: tuple[str, ...], code: str, cli: Any, tree: Path) -> None:
    done = cli("weights", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert code in done.stderr


@pytest.mark.parametrize("words", [(), ("add",), ("verify",), ("list",)], ids=str)
def test_help_shows_examples(words: tuple[str, ...], cli: Any) -> None:
    done = cli("weights", *words, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert f"counterfoil weights {' '.join(words)}".strip() in done.stdout
    assert "..." not in done.stdout.partition("Commands:")[2]


def test_evidence_without_manifests_says_so(cli: Any, desk: Any) -> None:
    assert cli("weights", "list", desk.evidence).stdout == "no manifest of weights in this evidence\n"
    assert cli.json("weights", "list", desk.evidence) == []


def test_progress_is_shown_to_a_person_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for patience, shown in ((0.0, True), (3600.0, False)):
        stream = Terminal()
        monkeypatch.setattr(progress.sys, "stderr", stream)
        monkeypatch.setattr(progress, "PATIENCE", patience)
        with progress.Bar("hashing") as bar:
            bar.told(5, 10)
            bar.told(50, 10)
        bar.told(1, 10)
        assert ("hashing" in stream.getvalue()) is shown


def test_a_hub_snapshot_names_itself(cli: Any, tree: Path, tmp_path: Path, home: Any) -> None:
    hub = tmp_path / "models--org--small"
    (hub / "blobs").mkdir(parents=True)
    (hub / "blobs/0a").write_text("weights")
    (hub / "snapshots/c0ffee").mkdir(parents=True)
    (hub / "snapshots/c0ffee/model.bin").symlink_to("../../blobs/0a")
    made = cli.json("weights", "add", hub / "snapshots/c0ffee")
    assert (made["name"], made["source"]) == ("org/small", {"repo": "org/small", "revision": "c0ffee"})
    with home(cli.home):
        identity = keys.load_identity()
    assert identity is not None
    assert made["key"] == identity.keyid
