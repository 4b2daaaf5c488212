"""Plugins: broken ones are kept apart, and deciding ones decide strictly."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

import counterfoil
from counterfoil import hooks, plugins
from counterfoil.errors import PluginError
from counterfoil.hooks import Deny, Instrumentation, Redaction, Transfer
from counterfoil.plugins import Plugins

TRANSFER = Transfer(("a",), ("b",), "edge", "0" * 64, (), "recorded")


class Point:
    """An entry point whose object is given."""

    def __init__(self, name: str, made: Any) -> None:
        self.name = name
        self.value = f"module_of_{name}"
        self.dist = None
        self._made = made

    def load(self) -> Any:
        if isinstance(self._made, BaseException):
            raise self._made
        return self._made


def of(*points: tuple[str, Any], allow: str | None = None) -> Plugins:
    return Plugins(points=[Point(name, made) for name, made in points], allow=allow)  # type: ignore[misc]


class Good:
    def __init__(self) -> None:
        self.sealed: list[tuple[str, int, str, bytes]] = []

    @hooks.hookimpl
    def counterfoil_check_transfer(self, transfer: Transfer) -> Deny | None:
        return Deny("no") if transfer.kind == "message" else None

    @hooks.hookimpl
    def counterfoil_redactions(self) -> Sequence[Redaction]:
        return [Redaction("password", "rule")]

    @hooks.hookimpl
    def counterfoil_sealed(self, log: str, entries: Sequence[tuple[int, str, bytes]]) -> None:
        self.sealed += [(log, *entry) for entry in entries]


class Failing:
    @hooks.hookimpl
    def counterfoil_check_transfer(self, transfer: Transfer) -> Deny | None:
        raise RuntimeError

    @hooks.hookimpl
    def counterfoil_redactions(self) -> Sequence[Redaction]:
        raise RuntimeError

    @hooks.hookimpl
    def counterfoil_instrumentations(self) -> Sequence[Instrumentation]:
        raise RuntimeError

    @hooks.hookimpl
    def counterfoil_sealed(self, log: str, entries: Sequence[Any]) -> None:
        raise RuntimeError


class Unknown:
    @hooks.hookimpl
    def counterfoil_sealled(self) -> None: ...


class WrongArguments:
    @hooks.hookimpl
    def counterfoil_check_transfer(self, transfers: Transfer) -> None: ...


@pytest.mark.parametrize(
    "made",
    [
        ImportError("no such module"),
        SyntaxError("bad"),
        SystemExit(3),
        Unknown(),
        WrongArguments(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_plugin_that_cannot_be_loaded_is_kept_apart(made: Any) -> None:
    found = of(("bad", made), ("good", Good()))
    assert [one.name for one in found.plugins] == ["good"]
    assert [one.name for one in found.broken] == ["bad"]
    assert found.broken[0].reason
    assert found.check_transfer(TRANSFER) is None
    assert [one.key for one in found.redactions()] == ["password"]


def test_ctrl_c_while_a_plugin_loads_is_obeyed() -> None:
    with pytest.raises(KeyboardInterrupt):
        of(("slow", KeyboardInterrupt()))


def test_the_allow_list() -> None:
    assert [one.name for one in of(("a", Good()), ("b", Good())).plugins] == ["a", "b"]
    assert [one.name for one in of(("a", Good()), ("b", Good()), allow="b").plugins] == ["b"]
    assert [one.name for one in of(("a", Good()), ("b", Good()), allow=" b , a ").plugins] == ["a", "b"]
    assert of(("a", Good()), allow="none").plugins == []
    missing = of(("a", Good()), allow="a,policy")
    assert [(one.name, one.reason) for one in missing.broken] == [("policy", "is not installed")]


def test_the_allow_list_comes_from_the_environment_or_the_project_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_loaded", None)
    (tmp_path / "counterfoil.toml").write_text('plugins = "none"')
    assert plugins.loaded().plugins == []
    monkeypatch.setattr(plugins, "_loaded", None)
    monkeypatch.setenv("COUNTERFOIL_PLUGINS", "nobody")
    assert [one.name for one in plugins.loaded().broken] == ["nobody"]
    monkeypatch.setattr(plugins, "_loaded", None)


def test_a_name_that_is_taken_takes_nobody_s_place() -> None:
    """Installing a second plugin of one name must not switch the first one off."""
    found = of(("policy", Good()), ("policy", object()))
    assert [one.name for one in found.broken] == ["policy"]
    denied = found.check_transfer(Transfer(("a",), ("b",), "message", "0" * 64, (), "recorded"))
    assert denied == Deny("policy: no")
    with pytest.raises(PluginError) as caught:
        found.register(object(), "policy")
    assert caught.value.code == "CF-PLUGIN-001"
    with pytest.raises(PluginError) as caught:
        found.register(Unknown(), "other")
    assert caught.value.code == "CF-PLUGIN-002"
    assert caught.value.hint


def test_a_failing_check_denies_and_a_failing_redaction_stops() -> None:
    found = of(("bad", Failing()), ("good", Good()))
    denied = found.check_transfer(TRANSFER)
    assert denied == Deny("bad: the check failed")
    with pytest.raises(PluginError) as caught:
        found.redactions()
    assert caught.value.code == "CF-PLUGIN-003"
    assert found.instrumentations() == []


@pytest.mark.parametrize(
    "given",
    [5, "text", [Redaction("a", "b"), "x"], [None], iter([1]), object()],
    ids=lambda one: type(one).__name__,
)
def test_redactions_of_another_type_stop(given: Any) -> None:
    class Odd:
        @hooks.hookimpl
        def counterfoil_redactions(self) -> Any:
            return given

    with pytest.raises(PluginError) as caught:
        of(("odd", Odd())).redactions()
    assert caught.value.code == "CF-PLUGIN-003"


def test_a_hook_that_gives_nothing_is_no_failure() -> None:
    class Silent:
        @hooks.hookimpl
        def counterfoil_redactions(self) -> Any:
            return None

    found = of(("silent", Silent()))
    assert found.redactions() == []
    assert found.broken == []


def test_failures_are_listed_once_and_do_not_grow() -> None:
    found = of(("bad", Failing()))
    for _ in range(500):
        found.sealed("log", [])
        found.check_transfer(TRANSFER)
    assert len(found.broken) == 2


def test_one_plugin_s_failure_is_not_another_one_s_refusal() -> None:
    """A hook that fails on the writer's thread says nothing about a handoff that is checked at that moment."""

    class Sealed:
        @hooks.hookimpl
        def counterfoil_sealed(self, log: str, entries: Sequence[Any]) -> None:
            raise RuntimeError(str(len(entries)))

    found = of(("broken", Sealed()), ("good", Good()))
    stop = threading.Event()

    def fail() -> None:
        while not stop.is_set():
            found.broken.clear()
            found.sealed("log", [])

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        assert all(found.check_transfer(TRANSFER) is None for _ in range(3000))
    finally:
        stop.set()
        thread.join()


def test_sealed_comes_after_the_disk_and_tells_every_entry(
    lab: Any, no_plugins: Plugins, one_run: Any
) -> None:
    plugin = Good()
    no_plugins.register(plugin, "mirror")
    no_plugins.register(Failing(), "failing")
    recorder = lab.recorder()
    one_run(recorder)
    recorder.flush()
    on_disk = {entry.digest: entry for entry in counterfoil.read(lab.evidence).entries()}
    assert plugin.sealed
    for log, index, digest, body in plugin.sealed:
        assert log == recorder.open().origin
        assert (on_disk[digest].index, on_disk[digest].body_bytes) == (index, body)
    recorder.close()
    assert lab.verify().verdict == "intact"
    told = {digest for _, _, digest, _ in plugin.sealed}
    own = {"session", "segment", "recovered", "stored"}
    assert told == {one.digest for one in counterfoil.read(lab.evidence).entries() if one.op not in own}


def test_a_plugin_on_the_writer_s_thread_may_record_and_flush(lab: Any, no_plugins: Plugins) -> None:
    class Talkative:
        answers: ClassVar[list[bool]] = []

        @hooks.hookimpl
        def counterfoil_sealed(self, log: str, entries: Sequence[Any]) -> None:
            if not self.answers:
                recorder.end(recorder.start("invoke_workflow", "by the plugin", actor=("plugin",)))
                self.answers.append(recorder.flush())

    no_plugins.register(Talkative(), "talkative")
    recorder = lab.recorder()
    recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    recorder.flush()
    recorder.close()
    assert Talkative.answers == [False]
    assert lab.verify().verdict == "intact"
    assert [call.name for call in counterfoil.read(lab.evidence).calls()] == ["app", "by the plugin"]


def test_the_session_tells_which_plugins_there_were(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = of(("good", Good()), ("bad\ud800", ImportError()))
    monkeypatch.setattr(plugins, "_loaded", found)
    recorder = lab.recorder()
    recorder.capabilities["adapter"] = {"odd": object(), "n": 2**70}
    recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
    recorder.close()
    assert lab.verify().verdict == "intact"
    reader = counterfoil.read(lab.evidence)
    session = next(entry for entry in reader.records() if entry.op == "session")
    about = reader.value(session.body["context"]["about"])
    assert about["plugins"] == {"good": " "}
    assert about["capabilities"]["adapter"]["odd"] == {"$opaque": "object"}
    assert len(about["broken"]["$map"]) == 1
