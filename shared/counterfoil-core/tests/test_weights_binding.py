"""Model calls name the manifest of the weights that their model is bound to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import appending, bind_model, keys, settings
from counterfoil.errors import ConfigError, WeightsError
from counterfoil.recorder import Recorder
from counterfoil.weights import adding, binding, manifests


@pytest.fixture(autouse=True)
def _unbound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("COUNTERFOIL_MODELS", raising=False)
    monkeypatch.chdir(tmp_path)
    yield
    binding._bound.clear()


@pytest.fixture
def made(lab: Any, tmp_path: Path) -> manifests.Manifest:
    """A manifest of a small tree, named llama-3, in this test's evidence."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/part.bin").write_bytes(b"weights" * 1000)
    return adding.add(tmp_path / "model", evidence=lab.evidence, name="llama-3")


def calls(recorder: Recorder, *models: str, op: str = "chat") -> None:
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for model in models:
        asked = recorder.value({"messages": ["question"]})
        call = recorder.start(op, model, actor=("app",), parent=root, request=asked)
        recorder.end(call, response=recorder.value("answer"))
    recorder.end(root)


def named(evidence: Path) -> list[Any]:
    """What each model call names."""
    return [
        one.start.body["context"].get("weights")
        for one in counterfoil.read(evidence).calls()
        if one.op != "invoke_workflow"
    ]


def of(manifest: manifests.Manifest) -> dict[str, str]:
    return {"root": manifest.root, "statement": manifest.digest}


def recorded(lab: Any, *models: str, **more: Any) -> list[Any]:
    recorder = lab.recorder()
    calls(recorder, *models, **more)
    recorder.close()
    return named(lab.evidence)


# -- naming -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["chat", "text_completion", "embeddings"])
def test_calls_of_a_bound_model_name_its_manifest(op: str, lab: Any, made: manifests.Manifest) -> None:
    assert bind_model("small-1", made.root, evidence=lab.evidence) == made.digest
    assert recorded(lab, "small-1", "other", "small-1", op=op) == [of(made), None, of(made)]
    found = lab.verify()
    assert (found.verdict, found.counts["losses"], found.counts["statements"]) == ("intact", 0, 1)
    assert lab.verify_elsewhere().verdict == "intact"


def test_tools_and_runs_name_none(lab: Any, made: manifests.Manifest) -> None:
    bind_model("small-1", "llama-3", evidence=lab.evidence)
    assert recorded(lab, "small-1", op="execute_tool") == [None]


@pytest.mark.parametrize("form", ["env", "json", "toml", "pyproject"])
def test_settings_bind_models(
    form: str, lab: Any, made: manifests.Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "env":
        monkeypatch.setenv("COUNTERFOIL_MODELS", f"small-1={made.root}, org/m=x=llama-3,")
    elif form == "json":
        models = json.dumps({"small-1": made.digest, "org/m=x": "llama-3"})
        monkeypatch.setenv("COUNTERFOIL_MODELS", models)
    elif form == "toml":
        (tmp_path / "counterfoil.toml").write_text('[models]\n"small-1" = "llama-3"\n"org/m=x" = "llama-3"\n')
    else:
        text = f'[tool.counterfoil.models]\n"small-1" = "{made.root}"\n"org/m=x" = "llama-3"\n'
        (tmp_path / "pyproject.toml").write_text(text)
    assert recorded(lab, "small-1", "org/m=x", "third") == [of(made), of(made), None]
    assert lab.verify().verdict == "intact"


@pytest.mark.parametrize("text", ["x", "a=", "=b", "a=b,c", "{", "[]", '{"a":1}', "{}x", '{"a":{"b":"c"}}'])
def test_a_setting_that_binds_nothing_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_MODELS", text)
    with pytest.raises(ConfigError) as caught:
        settings.load()
    assert caught.value.code == "CF-CONFIG-001"
    assert (caught.value.where or "").startswith("models")


def test_what_the_application_says_goes_before_the_settings(
    lab: Any, made: manifests.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_MODELS", "small-1=llama-3,second=llama-3")
    assert bind_model("small-1", None) is None
    assert recorded(lab, "small-1", "second") == [None, of(made)]


# -- other logs -------------------------------------------------------------------------------------------------------


def test_another_log_gets_a_copy_once(lab: Any, made: manifests.Manifest) -> None:
    bind_model("small-1", made.root, evidence=lab.evidence)
    first, second = lab.recorder(), lab.recorder()
    for _ in range(3):
        calls(first, "small-1")
        calls(second, "small-1")
    first.close()
    second.close()
    assert named(lab.evidence) == [of(made)] * 6
    found = lab.verify()
    assert (found.verdict, found.counts["logs"], found.counts["statements"]) == ("intact", 2, 2)
    (one,) = manifests.of_evidence(lab.evidence)
    assert one.digest == made.digest


def test_other_evidence_gets_a_copy(lab: Any, made: manifests.Manifest) -> None:
    bind_model("small-1", made.root, evidence=lab.evidence)
    other = lab.root / "other"
    recorder = lab.recorder(other)
    calls(recorder, "small-1")
    recorder.close()
    assert named(other) == [of(made)]
    assert lab.verify(other).verdict == "intact"
    (one,) = manifests.of_evidence(other)
    assert one.files() == made.files()


def test_a_home_without_copies_finds_it_in_the_evidence(
    lab: Any, made: manifests.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(lab.home / "weights")
    monkeypatch.setenv("COUNTERFOIL_MODELS", "small-1=llama-3")
    assert recorded(lab, "small-1") == [of(made)]
    assert [one.digest for one in manifests.in_home()] == [made.digest]


def test_a_recorder_does_not_search_long_evidence(
    lab: Any, made: manifests.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(lab.home / "weights")
    monkeypatch.setattr(binding, "_LOOK_MAX", 100)
    monkeypatch.setenv("COUNTERFOIL_MODELS", "small-1=llama-3")
    assert recorded(lab, "small-1") == [None]
    assert lab.verify().counts["losses"] == 1
    assert bind_model("small-1", "llama-3", evidence=lab.evidence) == made.digest


def test_a_forked_child_names_it_in_its_own_log(lab: Any, made: manifests.Manifest) -> None:
    bind_model("small-1", made.root, evidence=lab.evidence)
    recorder = lab.recorder()
    calls(recorder, "small-1")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            calls(recorder, "small-1")
            recorder.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    assert named(lab.evidence) == [of(made)] * 2
    assert lab.verify().verdict == "intact"


def test_a_long_log_of_many_segments_is_verified_side_by_side(
    lab: Any, made: manifests.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 6000)
    bind_model("small-1", made.root, evidence=lab.evidence)
    recorder = lab.recorder()
    for _ in range(30):
        calls(recorder, *["small-1"] * 10)
        recorder.flush()
    recorder.close()
    assert len(lab.segments()) > 3
    one, two = (counterfoil.verify(lab.evidence, jobs=jobs, full=True) for jobs in (1, 2))
    assert (one.verdict, one.findings, one.counts) == ("intact", two.findings, two.counts)


# -- what cannot be named ---------------------------------------------------------------------------------------------


def test_a_model_bound_to_nothing_is_a_loss_once(
    lab: Any, made: manifests.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_MODELS", "small-1=nothing")
    assert recorded(lab, "small-1", "small-1", "small-1") == [None] * 3
    found = lab.verify()
    assert (found.verdict, found.counts["losses"]) == ("incomplete", 1)
    assert "CF-WEIGHTS-010" in found.findings[0].message


def test_settings_that_cannot_be_read_are_a_loss(
    lab: Any, made: manifests.Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = lab.recorder()
    monkeypatch.setenv("COUNTERFOIL_MODELS", "=")
    calls(recorder, "small-1", "small-1")
    recorder.close()
    assert named(lab.evidence) == [None, None]
    assert lab.verify().counts["losses"] == 1


def test_a_list_that_was_lost_is_a_loss(lab: Any, made: manifests.Manifest) -> None:
    bind_model("small-1", made.root, evidence=lab.evidence)
    shutil.rmtree(lab.home / "weights")
    other = lab.root / "other"
    recorder = lab.recorder(other)
    calls(recorder, "small-1")
    recorder.close()
    assert named(other) == [None]
    assert lab.verify(other).counts["losses"] == 1


def test_binding_by_hand_says_at_once_what_is_wrong(lab: Any, made: manifests.Manifest) -> None:
    with pytest.raises(WeightsError) as caught:
        bind_model("small-1", "nothing", evidence=lab.evidence)
    assert caught.value.code == "CF-WEIGHTS-010"
    with lab.at(lab.elsewhere):
        keys.load_or_create_identity()
        with pytest.raises(WeightsError) as caught:
            bind_model("small-1", made.root, evidence=lab.evidence)
        assert caught.value.code == "CF-WEIGHTS-012"
        keys.Keyring.load().pin(made.says.key)
        bind_model("small-1", made.root, evidence=lab.evidence)
        theirs = lab.root / "theirs"
        recorder = Recorder(theirs)
        calls(recorder, "small-1")
        recorder.close()
        assert counterfoil.verify(theirs).verdict == "intact"
    assert named(theirs) == [of(made)]


def test_a_bundle_tells_the_root_and_verifies(lab: Any, made: manifests.Manifest) -> None:
    bind_model("small-1", made.root, evidence=lab.evidence)
    recorded(lab, "small-1")
    (run,) = counterfoil.read(lab.evidence).runs()
    path = lab.root / "run.bundle"
    counterfoil.bundle(lab.evidence, path, run=run.id)
    assert counterfoil.verify(path).verdict == "intact"
    assert named(path) == [of(made)]


def test_equal_runs_have_equal_content_whatever_weights_they_name(lab: Any, made: manifests.Manifest) -> None:
    recorded(lab, "small-1")
    bind_model("small-1", made.root, evidence=lab.evidence)
    recorded(lab, "small-1")
    first, second = counterfoil.read(lab.evidence).runs()
    assert first.content_root == second.content_root
