"""Settings, and what a run ran on: one clear error for what cannot be used, no secret in what is stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import plugins, settings
from counterfoil.errors import ConfigError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [
        name for name in os.environ if name.startswith("COUNTERFOIL") and name != "COUNTERFOIL_HOME"
    ]:
        monkeypatch.delenv(name)


def test_defaults() -> None:
    found = settings.load()
    assert (found.evidence, found.mode, found.durability, found.plugins) == (
        "counterfoil-evidence",
        "observe",
        "group",
        None,
    )


def test_arguments_win_over_the_environment_and_that_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.counterfoil]\nevidence = "project"\nmode = "hold"\n')
    assert (settings.load().evidence, settings.load().mode) == ("project", "hold")
    (tmp_path / "counterfoil.toml").write_text('evidence = "file"\ndurability = "call"\n')
    found = settings.load()
    assert (found.evidence, found.mode, found.durability) == ("file", "observe", "call")
    monkeypatch.setenv("COUNTERFOIL", "variable")
    monkeypatch.setenv("COUNTERFOIL_DURABILITY", "group")
    found = settings.load()
    assert (found.evidence, found.durability) == ("variable", "group")
    found = settings.load(evidence="argument", mode="enforce", durability="call")
    assert (found.evidence, found.mode, found.durability) == ("argument", "enforce", "call")


@pytest.mark.parametrize("value", ["1", "true", "ON", " yes "])
def test_on_without_a_place(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("COUNTERFOIL", value)
    assert settings.load().evidence == "counterfoil-evidence"


BAD_FILES = {
    "mode = 'sometimes'": ("CF-CONFIG-001", "mode"),
    "durability = 'never'": ("CF-CONFIG-001", "durability"),
    "durability = 5": ("CF-CONFIG-001", "durability"),
    "evidence = 5": ("CF-CONFIG-001", "evidence"),
    "evidence = ['a']": ("CF-CONFIG-001", "evidence"),
    "plugins = ['a']": ("CF-CONFIG-001", "plugins"),
    "evidnce = 'typo'": ("CF-CONFIG-001", "evidnce"),
    "[tool.counterfoil]\nmode = 'observe'": ("CF-CONFIG-001", "tool"),
    "mode = ": ("CF-CONFIG-002", "counterfoil.toml"),
    "a = 1\na = 2": ("CF-CONFIG-002", "counterfoil.toml"),
    "\xff": ("CF-CONFIG-002", "counterfoil.toml"),
    "a = " + "[" * 5000: ("CF-CONFIG-002", "counterfoil.toml"),
    "a = " + "9" * 5000: ("CF-CONFIG-002", "counterfoil.toml"),
}


@pytest.mark.parametrize("text", BAD_FILES, ids=lambda one: one[:20])
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "counterfoil.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        settings.load()
    assert (caught.value.code, caught.value.where) == BAD_FILES[text]
    assert caught.value.hint
    for use in (counterfoil.install, counterfoil.open):
        with pytest.raises(ConfigError):
            use()


def test_a_file_that_is_none_or_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counterfoil.toml").mkdir()
    with pytest.raises(ConfigError) as caught:
        settings.load()
    assert caught.value.code == "CF-CONFIG-002"
    (tmp_path / "counterfoil.toml").rmdir()
    (tmp_path / "counterfoil.toml").write_text("mode = 'enforce'")
    real = os.open

    def denied(path: Any, *arguments: Any, **more: Any) -> int:
        if os.fspath(path) == "counterfoil.toml":
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(ConfigError) as caught:  # a rule that cannot be read is not a rule that is not there
        settings.load()
    assert caught.value.code == "CF-CONFIG-002"


@pytest.mark.parametrize("name", ["counterfoil.toml", "pyproject.toml"])
@pytest.mark.parametrize("thing", ["pipe", "endless device", "far too long"])
def test_what_would_never_be_read_to_its_end(tmp_path: Path, name: str, thing: str) -> None:
    """The folder that a command is called in may be somebody else's."""
    if thing == "pipe":
        os.mkfifo(tmp_path / name)
    elif thing == "endless device":
        (tmp_path / name).symlink_to("/dev/zero")
    else:
        with open(tmp_path / name, "wb") as file:
            file.truncate(1 << 40)
    plugins.Plugins(allow=plugins._from_file())
    if name == "pyproject.toml":
        assert settings.load().evidence == "counterfoil-evidence"
        return
    with pytest.raises(ConfigError) as caught:
        settings.load()
    assert caught.value.code == "CF-CONFIG-002"


@pytest.mark.parametrize(
    "text",
    ["broken [", "a = " + "9" * 5000, "tool = 5", "[tool]\nother = 1", "[project]\nname = 'x'", "\xff"],
)
def test_a_project_file_without_settings_is_nobody_s_business(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    assert settings.load().evidence == "counterfoil-evidence"


def test_a_project_file_whose_settings_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\ncounterfoil = 'on'\n")
    with pytest.raises(ConfigError) as caught:
        settings.load()
    assert caught.value.code == "CF-CONFIG-002"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COUNTERFOIL_MODE", "Enforce"),
        ("COUNTERFOIL_MODE", "0"),
        ("COUNTERFOIL_DURABILITY", "disk"),
    ],
)
def test_a_variable_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        settings.load()
    assert caught.value.code == "CF-CONFIG-001"
    assert caught.value.where == name.removeprefix("COUNTERFOIL_").lower()


def test_a_bad_value_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_MODE", "sk-secret")
    with pytest.raises(ConfigError) as caught:
        settings.load()
    assert "sk-secret" not in f"{caught.value} {caught.value.hint} {caught.value!r}"
