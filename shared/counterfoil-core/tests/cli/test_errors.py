"""Bad input is one error with a code, a place and a hint; exit code 2; never a traceback."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CORE = Path(__file__).resolve().parents[2]
READING = ["verify", "log", "graph", "handoffs"]
COMMANDS = ["run", *READING, "show", "digest", "doctor", "environment", "init", "keys", "demo"]
COMMANDS += ["archive", "bundle", "diff", "export", "policy", "pull", "push", "report", "scrub", "weights"]


def refused(done: Any, code: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"error {code}"), done.stderr
    assert all(line.startswith("  hint: ") for line in rest)


@pytest.mark.parametrize("command", READING)
def test_places_that_are_no_evidence(cli: Any, command: str) -> None:
    (cli.folder / "file").write_text("not a folder")
    (cli.folder / "empty").mkdir()
    refused(cli(command, "nowhere"), "CF-STORE-002 ")
    refused(cli(command, "file"), "CF-STORE-003 ")
    refused(cli(command, ""), "CF-CONFIG-0")
    refused(cli(command, "gs://bucket/prefix"), "CF-CONFIG-010 ")
    refused(cli(command), "CF-STORE-002 ")
    refused(cli(command, "x" * 5000), "CF-STORE-001 ")
    done = cli(command, "empty")
    if command == "verify":
        assert done.returncode in (3, 5)
        assert "CF-VERIFY-001" in done.stdout
    else:
        refused(done, "CF-CLI-007 ")


def test_show_needs_evidence_too(process: Any) -> None:
    refused(process("show", "1", "-e", "nowhere"), "CF-STORE-002 ")
    refused(process("show", "--last"), "CF-STORE-002 ")


@pytest.mark.parametrize("command", READING)
def test_garbage_for_a_segment(cli: Any, desk: Any, command: str) -> None:
    copy = desk.copy(cli.folder / "copy")
    for garbage in (b"", b"\0", b"\xff" * 4096, hashlib.sha512(b"").digest() * 100):
        (copy / desk.segment).write_bytes(garbage)
        done = cli(command, copy)
        assert done.returncode in ((3,) if command == "verify" else (0, 1)), done.stderr
    (copy / desk.segment).unlink()
    done = cli(command, copy)
    if command == "verify":
        assert done.returncode == 3
    else:
        assert "CF-LOG-013" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--no-such-option"],
        ["no-such-command"],
        ["verify", "--jsn"],
        ["verify", "a", "b"],
        ["log", "--run"],
        ["log", "--op"],
        ["show", "1", "2"],
        ["digest"],
        ["graph", "--hops=yes"],
        ["keys", "pin", "a", "b"],
    ],
)
def test_garbage_for_arguments(cli: Any, words: list[str]) -> None:
    refused(cli(*words), "CF-CLI-001 counterfoil")


def test_a_settings_file_that_is_wrong(cli: Any) -> None:
    (cli.folder / "counterfoil.toml").write_text("evidnce = 'x'\n")
    refused(cli("verify"), "CF-CONFIG-00")
    (cli.folder / "counterfoil.toml").write_text("= nonsense")
    refused(cli("verify"), "CF-CONFIG-00")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(cli: Any, command: str) -> None:
    for option in ("--help", "-h"):
        done = cli(command, option)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Examples:" in done.stdout
        assert f"  counterfoil {command}" in done.stdout


def test_help_and_version(process: Any) -> None:
    done = process("--help")
    assert done.returncode == 0
    listed = re.findall(r"^  (\w+)  +\S", done.stdout.partition("Commands:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    assert "..." not in done.stdout.partition("Commands:")[2]
    nothing = process()
    assert (nothing.returncode, nothing.stdout) == (2, done.stdout)
    assert re.fullmatch(r"counterfoil \d+\.\d+\.\d+\S*\n", process("--version").stdout)


def test_without_the_extra_there_is_one_clear_error() -> None:
    for missing in ("typer", "rich"):
        code = f"import sys; sys.modules[{missing!r}] = None; from counterfoil.cli import main; "
        code += "sys.exit(main(['verify']))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error CF-CLI-003: the command line needs {missing}, ")
        assert 'pip install "counterfoil-core[cli]"' in done.stderr
        assert done.stderr.count("\n") == 2


def test_an_error_of_our_own_is_told_and_debug_shows_where(
    cli: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterfoil.cli import source

    def fail(self: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(source.Source, "marked", fail)
    done = cli("log", desk.evidence)
    refused(done, "CF-CLI-005: an error in Counterfoil itself: RuntimeError")
    assert "secret" not in done.stderr
    code, _, err = cli.run(["log", str(desk.evidence), "--debug"], "", {})
    assert code == 2
    assert 'raise RuntimeError("secret")' in err


@pytest.mark.parametrize("before", [True, False])
def test_debug_shows_where_an_error_comes_from(cli: Any, before: bool) -> None:
    words = ["--debug", "verify", "nowhere"] if before else ["verify", "nowhere", "--debug"]
    code, _, err = cli.run(words, "", {})
    assert code == 2
    assert "Traceback" in err
    assert "error CF-STORE-002 " in err


def contents(folder: Path, *, but: str = "") -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != but]
    return {str(path): path.read_bytes() for path in found}


def test_reading_changes_nothing_and_is_not_recorded(process: Any, desk: Any) -> None:
    """COUNTERFOIL in the user's shell switches recording on in every interpreter, this one too."""
    evidence, home = contents(desk.evidence), contents(desk.home, but="cache")
    for words in (["verify"], ["log"], ["graph"], ["handoffs"], ["show", "--last"], ["keys", "show"]):
        assert process(*words, COUNTERFOIL=str(desk.evidence)).returncode == 0
    assert contents(desk.evidence) == evidence
    assert contents(desk.home, but="cache") == home  # which signatures are valid may be remembered


def test_every_code_is_listed() -> None:
    source = "".join(path.read_text() for path in (CORE / "src" / "counterfoil").rglob("*.py"))
    used = set(re.findall(r"CF-CLI-\d{3}", source))
    table = (CORE.parent / "spec" / "errors.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (CF-CLI-\d{3}) \| [^|]+ \| [^|]+ \|$", table, re.MULTILINE)
    assert listed == sorted(used)
