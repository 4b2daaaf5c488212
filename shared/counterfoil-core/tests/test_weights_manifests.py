"""Manifests of weights: signed into the log, found again, and held against a tree."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys, statements
from counterfoil.errors import CounterfoilError, WeightsError
from counterfoil.recorder import Recorder
from counterfoil.weights import adding, comparing, listing, manifests, remembered
from counterfoil.weights.walking import GIT


@pytest.fixture
def tree(lab: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "llama-3"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    for number in range(4):
        (folder / f"sub/part-{number}.bin").write_bytes(bytes([number]) * 5000)
    return folder


def added(lab: Any, tree: Path, **more: Any) -> manifests.Manifest:
    return adding.add(tree, evidence=lab.evidence, **more)


def differences(tree: Path, manifest: manifests.Manifest, **more: Any) -> dict[str, str]:
    return {one.name: one.state for one in comparing.compare(tree, manifest, **more).differences}


# -- adding -----------------------------------------------------------------------------------------------------------


def test_a_manifest_stands_in_the_log_with_its_list(lab: Any, tree: Path) -> None:
    made = added(lab, tree, source={"repo": "org/llama-3", "revision": "main"}, without=["x"])
    found = lab.verify()
    assert (found.verdict, found.counts["statements"], found.counts["losses"]) == ("intact", 1, 0)
    assert lab.verify_elsewhere().verdict == "intact"
    (one,) = manifests.of_evidence(lab.evidence)
    assert (one.digest, one.says, one.log) == (made.digest, made.says, made.log)
    assert one.files() == made.files() == adding.take(tree, without=GIT).files
    says = one.says
    assert (says.name, says.root, says.key) == ("llama-3", listing.root_of(one.files()), one.signed_by())
    assert (says.files.count, says.files.size, says.cached) == (5, 20002, 0)
    assert says.without == sorted([*GIT, "x"])
    assert says.source is not None
    assert (says.source.repo, says.source.revision) == ("org/llama-3", "main")


def test_what_git_keeps_is_left_out_on_both_ways(lab: Any, tree: Path) -> None:
    before = added(lab, tree)
    (tree / ".git/objects").mkdir(parents=True)
    (tree / ".git/objects/aa").write_text("x")
    (tree / ".gitattributes").write_text("x")
    assert added(lab, tree).root == before.root
    assert differences(tree, before) == {}


def test_formats_stand_in_the_list(lab: Any, tree: Path) -> None:
    (tree / "bad.safetensors").write_bytes(b"\xff" * 20)
    (tree / "bad.gguf").write_bytes(b"GGUF")
    (tree / "good.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    facts = {one.name: one.facts.get("format") for one in added(lab, tree).files()}
    assert facts["config.json"] is None
    assert facts["bad.safetensors"] == {
        "refused": "its header is longer than the file",
        "type": "safetensors",
    }
    assert facts["bad.gguf"] == {"refused": "its header goes beyond the file", "type": "gguf"}
    assert facts["good.safetensors"]["tensors"] == 0
    assert lab.verify().verdict == "intact"


def test_a_manifest_says_which_digests_were_remembered(
    lab: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "LEAST", 1000)
    monkeypatch.setattr(remembered, "SETTLED", -60.0)
    first = added(lab, tree)
    second = added(lab, tree)
    third = added(lab, tree, cached=False)
    assert [one.says.cached for one in (first, second, third)] == [0, 4, 0]
    assert [one.name for one in second.files() if one.facts.get("cached")] == [
        f"sub/part-{number}.bin" for number in range(4)
    ]
    assert first.root == second.root == third.root
    assert first.says.files.list == third.says.files.list != second.says.files.list


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"name": "x" * 1025}, "CF-STMT-005"),
        ({"without": ["x" * 1000 + str(number) for number in range(10)]}, "CF-STMT-001"),
        ({"without": [str(number) for number in range(100)]}, "CF-STMT-005"),
    ],
    ids=["long name", "long list", "many left out"],
)
def test_what_no_statement_can_say_is_refused_before_it_is_signed(
    more: dict[str, Any], code: str, lab: Any, tree: Path
) -> None:
    with pytest.raises(CounterfoilError) as caught:
        added(lab, tree, **more)
    assert caught.value.code == code
    assert lab.verify().counts["statements"] == 0
    assert manifests.in_home() == []


# -- finding one ------------------------------------------------------------------------------------------------------


def test_a_manifest_is_found_by_name_root_or_digest(lab: Any, tree: Path) -> None:
    first = added(lab, tree)
    (tree / "config.json").write_text("{} ")
    second = added(lab, tree)
    other = added(lab, tree, name="other")
    for place in (manifests.of_evidence(lab.evidence), manifests.in_home()):
        assert len(place) == 3
        for wanted, expected in (
            ("llama-3", second),
            ("other", other),
            (first.root, first),
            (first.digest[:8], first),
            (second.digest, second),
            (other.root[:12], other),
        ):
            assert manifests.choose(place, wanted).digest == expected.digest, wanted
        for wanted in ("nothing", "0" * 64, first.root[:7], ""):
            with pytest.raises(WeightsError) as caught:
                manifests.choose(place, wanted)
            assert caught.value.code == "CF-WEIGHTS-010"


def test_a_beginning_that_several_roots_share_is_refused(lab: Any, tree: Path) -> None:
    one = added(lab, tree)
    twin = manifests.Manifest(
        one.digest, one.says.model_copy(update={"root": one.root[:32] + "0" * 32}), one.envelope, one.read
    )
    with pytest.raises(WeightsError) as caught:
        manifests.choose([one, twin], one.root[:10])
    assert caught.value.code == "CF-WEIGHTS-011"


def test_copies_in_the_home_that_are_damaged_are_passed_over(lab: Any, tree: Path) -> None:
    added(lab, tree)
    (path,) = (lab.home / "weights").glob("*.json")
    for data in (b"", b"{}", b"\xff", b'{"envelope":1,"version":0}', b"x" * 200_000):
        path.write_bytes(data)
        assert manifests.in_home() == []


def test_a_list_that_was_changed_in_the_home_is_refused(lab: Any, tree: Path) -> None:
    added(lab, tree)
    (path,) = (lab.home / "weights").glob("*.list")
    for data in (b"", path.read_bytes().replace(b"config", b"confix")):
        path.write_bytes(data)
        (one,) = manifests.in_home()
        with pytest.raises(WeightsError) as caught:
            one.files()
        assert caught.value.code == "CF-WEIGHTS-020"


def test_who_signed_is_known_by_pinned_keys_alone(lab: Any, tree: Path) -> None:
    made = added(lab, tree)
    assert made.signed_by() == made.says.key
    with lab.at(lab.elsewhere):
        assert made.signed_by() is None
        (one,) = manifests.of_evidence(lab.evidence)
        keys.load_or_create_identity()
        assert one.signed_by() is None
        keys.Keyring.load().pin(made.says.key)
        assert one.signed_by() == made.says.key  # its key comes along


# -- comparing --------------------------------------------------------------------------------------------------------


def test_each_file_that_differs_is_missing_or_is_new_is_named(lab: Any, tree: Path) -> None:
    made = added(lab, tree)
    assert comparing.compare(tree, made).result == "same"
    data = bytearray((tree / "sub/part-1.bin").read_bytes())
    data[3333] ^= 1
    (tree / "sub/part-1.bin").write_bytes(data)
    (tree / "sub/part-2.bin").write_bytes(b"longer" * 5000)
    (tree / "sub/part-3.bin").rename(tree / "sub/part-4.bin")
    os.mkfifo(tree / "pipe")
    (tree / "config.json").unlink()
    (tree / "config.json").symlink_to("/etc/hostname")
    done = comparing.compare(tree, made)
    assert [(one.name, one.state, one.code) for one in done.differences] == [
        ("config.json", "differs", "CF-WEIGHTS-004"),
        ("pipe", "new", "CF-WEIGHTS-002"),
        ("sub/part-1.bin", "differs", ""),
        ("sub/part-2.bin", "differs", ""),
        ("sub/part-3.bin", "missing", ""),
        ("sub/part-4.bin", "new", ""),
    ]
    assert done.result == "changed"


def test_a_rename_that_keeps_the_root_is_named(lab: Any, tree: Path) -> None:
    made = added(lab, tree)
    (tree / "sub/part-3.bin").rename(tree / "sub/part-9.bin")
    done = comparing.compare(tree, made)
    assert done.root == made.root
    assert (done.result, len(done.differences)) == ("changed", 2)


def test_what_cannot_be_read_leaves_it_open(lab: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = added(lab, tree)
    real = os.open

    def refuse(path: Any, *arguments: Any, **more: Any) -> int:
        if str(path).endswith("part-1.bin"):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **more)

    monkeypatch.setattr("counterfoil.weights.hashing.os.open", refuse)
    done = comparing.compare(tree, made)
    assert (done.result, [one.state for one in done.differences]) == ("cannot-tell", ["unread"])
    (tree / "config.json").write_text("changed")
    assert comparing.compare(tree, made).result == "changed"


def test_remembered_digests_are_believed_only_where_that_is_asked_for(
    lab: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "LEAST", 1000)
    monkeypatch.setattr(remembered, "SETTLED", -60.0)
    made = added(lab, tree)
    heard: list[str] = []
    recall = remembered.recall
    monkeypatch.setattr(remembered, "recall", lambda status: heard.append("asked") or recall(status))
    assert comparing.compare(tree, made).cached == 0
    assert heard == []
    assert comparing.compare(tree, made, cached=True).cached == 4


def test_a_file_alone_may_have_another_name(lab: Any, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"weights")
    made = added(lab, tmp_path / "model.gguf")
    shutil.copy(tmp_path / "model.gguf", tmp_path / "copy.gguf")
    assert comparing.compare(tmp_path / "copy.gguf", made).result == "same"
    (tmp_path / "copy.gguf").write_bytes(b"weightS")
    assert differences(tmp_path / "copy.gguf", made) == {"model.gguf": "differs"}


def test_a_manifest_whose_list_is_lost_compares_with_nothing(lab: Any, tree: Path) -> None:
    made = added(lab, tree)
    shutil.rmtree(lab.evidence)
    recorder = lab.recorder()
    recorder.open().entry(made.envelope.to_bytes())
    recorder.close()
    found = lab.verify()
    assert "CF-VERIFY-055" in [one.code for one in found.findings]
    (one,) = manifests.of_evidence(lab.evidence)
    with pytest.raises(WeightsError) as caught:
        comparing.compare(tree, one)
    assert caught.value.code == "CF-WEIGHTS-020"


# -- among other statements -------------------------------------------------------------------------------------------


def test_no_receipt_accepts_a_manifest_and_no_handoff_is_one(lab: Any, tree: Path) -> None:
    made = added(lab, tree)
    recorder: Recorder = lab.recorder()
    writer = recorder.open()
    receipt = {
        "checks": [],
        "handoff": made.digest,
        "issued": made.says.issued,
        "sender": {"actor": "a", "key": writer.identity.keyid},
        "status": "accepted",
    }
    payload = statements.build(
        statements.RECEIPT, {"digest": {"sha256": made.digest}, "name": "handoff"}, receipt
    )
    assert writer.entry(counterfoil.dsse.Envelope.sign(payload, writer.identity).to_bytes())
    recorder.close()
    assert [one.code for one in lab.verify().findings] == ["CF-VERIFY-048"]


def test_evidence_with_manifests_is_cut_into_bundles_and_scrubbed_as_any(lab: Any, tree: Path) -> None:
    added(lab, tree)
    lab.record()
    (run,) = counterfoil.read(lab.evidence).runs()
    path = lab.root / "run.bundle"
    counterfoil.bundle(lab.evidence, path, run=run.id)
    assert counterfoil.verify(path).verdict == "intact"
    assert counterfoil.read(lab.evidence).graph().edges
