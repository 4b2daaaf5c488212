"""Adapters join a framework when it is imported, and the environment plants them."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import autostart, hooks
from counterfoil.errors import ConfigError
from counterfoil.hooks import Instrumentation
from counterfoil.plugins import Plugins


class Adapter:
    """An adapter for a module that the test writes."""

    def __init__(self, target: str, modes: tuple[str, ...] = ("observe",)) -> None:
        self.target = target
        self.modes = modes
        self.recorders: list[Any] = []
        self.taken_out = 0
        self.fail: Exception | None = None

    def install(self, recorder: Any) -> None:
        if self.fail is not None:
            raise self.fail
        self.recorders.append(recorder)

    def uninstall(self) -> None:
        self.taken_out += 1

    @hooks.hookimpl
    def counterfoil_instrumentations(self) -> Sequence[Instrumentation]:
        return [
            Instrumentation(
                self.target, self.target, self.install, self.uninstall, self.modes, lambda: {"version": 1}
            )
        ]


@pytest.fixture
def framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Any, no_plugins: Plugins
) -> Iterator[Adapter]:
    """A framework that is not imported yet, and its adapter."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "a_framework.py").write_text("loaded = True\n")
    (folder / "a_package").mkdir()
    (folder / "a_package" / "__init__.py").write_text("")
    (folder / "a_package" / "inner.py").write_text("import a_package\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    adapter = Adapter("a_framework")
    no_plugins.register(adapter, "adapter")
    yield adapter
    autostart.uninstall()
    for name in [name for name in sys.modules if name.startswith(("a_framework", "a_package"))]:
        del sys.modules[name]


def test_an_adapter_joins_when_its_framework_is_imported(framework: Adapter, lab: Any) -> None:
    counterfoil.install(lab.evidence)
    assert framework.recorders == []
    importlib.import_module("a_framework")
    assert [one.evidence for one in framework.recorders] == [str(lab.evidence)]
    assert framework.recorders[0].capabilities == {"a_framework": {"version": 1}}
    counterfoil.install(lab.evidence)
    importlib.reload(sys.modules["a_framework"])
    assert len(framework.recorders) == 1
    counterfoil.uninstall()
    counterfoil.uninstall()
    assert framework.taken_out == 1
    assert not any(isinstance(one, autostart._Finder) for one in sys.meta_path)


def test_a_framework_that_is_there_already(framework: Adapter, lab: Any) -> None:
    importlib.import_module("a_framework")
    counterfoil.install(lab.evidence)
    assert len(framework.recorders) == 1


def test_looking_for_a_framework_does_not_disarm(framework: Adapter, lab: Any) -> None:
    """Applications ask ``find_spec`` whether an optional package is there, long before they import it."""
    counterfoil.install(lab.evidence)
    assert importlib.util.find_spec("a_framework") is not None
    assert importlib.util.find_spec("a_framework") is not None
    assert framework.recorders == []
    importlib.import_module("a_framework")
    assert len(framework.recorders) == 1


def test_a_module_inside_a_package(framework: Adapter, lab: Any) -> None:
    framework.target = "a_package.inner"
    counterfoil.install(lab.evidence)
    importlib.import_module("a_package")
    assert framework.recorders == []
    importlib.import_module("a_package.inner")
    assert len(framework.recorders) == 1


def test_a_framework_whose_import_fails_at_first(framework: Adapter, lab: Any, tmp_path: Path) -> None:
    source = tmp_path / "site" / "a_framework.py"
    source.write_text("raise ImportError('half installed')\n")
    counterfoil.install(lab.evidence)
    with pytest.raises(ImportError, match="half installed"):
        importlib.import_module("a_framework")
    assert framework.recorders == []
    source.write_text("loaded = 'now it is'\n")
    importlib.invalidate_caches()
    importlib.import_module("a_framework")
    assert len(framework.recorders) == 1


def test_a_framework_that_is_not_installed(framework: Adapter, lab: Any) -> None:
    framework.target = "a_framework_that_is_nowhere"
    counterfoil.install(lab.evidence)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("a_framework_that_is_nowhere")
    assert importlib.util.find_spec("a_framework_that_is_nowhere") is None


def test_an_adapter_that_fails_disturbs_nobody(
    framework: Adapter, lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    framework.fail = RuntimeError("its own fault")
    counterfoil.install(lab.evidence)
    assert importlib.import_module("a_framework").loaded
    assert "a_framework could not be installed" in caplog.text


def test_other_evidence_or_another_mode_is_another_installation(framework: Adapter, lab: Any) -> None:
    framework.modes = ("observe", "enforce")
    counterfoil.install(lab.evidence)
    importlib.import_module("a_framework")
    counterfoil.install(lab.root / "other")
    assert [one.evidence for one in framework.recorders] == [str(lab.evidence), str(lab.root / "other")]
    assert framework.recorders[0].closed
    counterfoil.install(lab.root / "other", mode="enforce")
    assert [one.mode for one in framework.recorders] == ["observe", "observe", "enforce"]
    counterfoil.install(lab.root / "other", mode="enforce", durability="call")
    assert framework.recorders[-1].durability == "call"
    assert framework.taken_out == 3


def test_a_mode_that_the_adapter_cannot_keep_is_refused(framework: Adapter, lab: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        counterfoil.install(lab.evidence, mode="enforce")
    assert (caught.value.code, caught.value.where) == ("CF-CONFIG-005", "a_framework")
    importlib.import_module("a_framework")
    assert framework.recorders == []


def test_installing_by_hand_what_the_environment_planted(
    framework: Adapter, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL", str(lab.evidence))
    autostart.boot()
    counterfoil.install()
    importlib.import_module("a_framework")
    assert [one.evidence for one in framework.recorders] == [str(lab.evidence)]


def test_boot_takes_the_places_of_the_start(
    framework: Adapter, lab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COUNTERFOIL", "evidence here")
    autostart.boot()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    importlib.import_module("a_framework")
    assert [one.evidence for one in framework.recorders] == [str(tmp_path / "evidence here")]


@pytest.mark.parametrize("value", ["", "0", "false", "off", "OFF", "no"])
def test_boot_with_recording_off(framework: Adapter, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("COUNTERFOIL", value)
    autostart.boot()
    importlib.import_module("a_framework")
    assert framework.recorders == []


def test_boot_with_settings_that_cannot_be_used(
    framework: Adapter, lab: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("COUNTERFOIL", str(lab.evidence))
    monkeypatch.setenv("COUNTERFOIL_DURABILITY", "maybe")
    autostart.boot()
    assert importlib.import_module("a_framework").loaded
    assert framework.recorders == []
    assert "CF-CONFIG-001" in caplog.text


def test_one_recorder_for_handlers_made_by_hand(framework: Adapter, lab: Any) -> None:
    made = autostart.recorder(lab.evidence)
    assert autostart.recorder(lab.evidence) is made
    assert autostart.recorder(lab.root / "other") is not made
    made.close()
    again = autostart.recorder(lab.evidence)
    assert again is not made
    counterfoil.install(lab.root / "third")
    assert autostart.recorder() is autostart.recorder(lab.root / "third")
    autostart._close_all()
    assert again.closed


def test_an_entry_point_as_installed(lab: Any, tmp_path: Path) -> None:
    """From a distribution on the path, in a process of its own; a broken one beside it."""
    folder = tmp_path / "site"
    for name, target in (("good", "a_plugin"), ("bad", "no_such_module_anywhere")):
        info = folder / f"{name}_plugin-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[counterfoil]\n{name} = {target}\n")
    (folder / "a_plugin.py").write_text(
        textwrap.dedent(
            """
        import counterfoil

        @counterfoil.hookimpl
        def counterfoil_check_transfer(transfer):
            return counterfoil.hooks.Deny("closed")
        """
        )
    )
    out = lab.python(
        """
        import sys
        sys.path.insert(0, sys.argv[2])
        from counterfoil import plugins
        found = plugins.loaded()
        print([(one.name, one.distribution, one.version) for one in found.plugins])
        print([(one.name, one.reason) for one in found.broken])
        print(found.check_transfer(None))
        """,
        folder,
        COUNTERFOIL_PLUGINS="good,bad",
    )
    assert out.splitlines() == [
        "[('good', 'good-plugin', '1.2')]",
        "[('bad', 'ModuleNotFoundError while importing no_such_module_anywhere')]",
        "Deny(reason='good: closed')",
    ]
