"""``counterfoil policy``: drafted, signed, changed, checked, gone by."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

OTHER = "ab" * 32


@pytest.fixture
def drafted(newcomer: Any) -> Any:
    """A newcomer with a draft."""
    done = newcomer("policy", "init")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("next: counterfoil policy sign policy.draft.json\n")
    return newcomer


def test_from_a_draft_to_a_policy(drafted: Any) -> None:
    draft = json.loads((drafted.folder / "policy.draft.json").read_text(encoding="utf-8"))
    own = drafted.json("keys", "show")["own"]
    assert (draft["version"], draft["admins"]) == (1, {"keys": [own], "threshold": 1})
    told = drafted.json("policy", "sign", "policy.draft.json")
    assert (told["file"], told["missing"], told["version"]) == ("policy.json", 0, 1)
    believed = drafted.json("policy", "check", "policy.json")
    assert (believed["believed"], believed["digest"]) == (True, told["digest"])
    shown = drafted.json("policy", "show", "policy.json")
    assert (shown["digest"], shown["signatures"], shown["policy"]) == (told["digest"], [own], draft)
    text = drafted("policy", "show", "policy.json").stdout
    assert f"policy default version 1 {told['digest']}" in text
    assert "edges  none: any agent may hand to any other" in text


def test_a_draft_is_not_written_over(drafted: Any) -> None:
    done = drafted("policy", "init")
    assert done.returncode == 2
    assert "CF-CLI-070" in done.stderr
    assert drafted("policy", "init", "other.json", "--name", "team").returncode == 0


def test_pins_enter_a_draft_if_their_keys_are_known(newcomer: Any) -> None:
    newcomer("keys", "pin", OTHER)
    done = newcomer("policy", "init")
    assert f"left out {OTHER}: only its fingerprint is known\n" in done.stdout
    assert newcomer.json("policy", "init", "again.json")["unknown"] == [OTHER]


def test_allow_makes_the_next_version(drafted: Any) -> None:
    first = drafted.json("policy", "sign", "policy.draft.json")
    place = ("--policy", "policy.json")
    done = drafted("policy", "allow", "planner", "coder", "--can", "repo:read", "--can", "a:*", *place)
    assert done.stdout.startswith("policy.json: default version 2 ")
    told = drafted.json("policy", "allow", "coder", "*", "--depth", "1", "--purpose", "tests", *place)
    shown = drafted.json("policy", "show", "policy.json")["policy"]
    assert (told["version"], shown["version"]) == (3, 3)
    assert shown["edges"] == [
        {"allow": ["a:*", "repo:read"], "from": "planner", "to": "coder"},
        {"from": "coder", "maxDepth": 1, "purposes": ["tests"], "to": "*"},
    ]
    assert shown["previous"] != first["digest"]
    assert "edge   planner -> coder can a:* repo:read\n" in drafted("policy", "show", "policy.json").stdout
    assert drafted("policy", "check", "policy.json").returncode == 0
    bad = drafted("policy", "allow", "a", "b", "--can", "x/../y", *place)
    assert (bad.returncode, "CF-CLI-076 --can x/../y" in bad.stderr) == (2, True)


def test_a_second_admin_adds_a_signature(drafted: Any, stranger: Any) -> None:
    stranger.folder = drafted.folder / "theirs"
    stranger.folder.mkdir()
    stranger.home = stranger.folder / "home"
    assert stranger("policy", "init").returncode == 0
    theirs = stranger.json("keys", "show")["own"]
    draft = json.loads((drafted.folder / "policy.draft.json").read_text(encoding="utf-8"))
    draft["admins"] = {"keys": sorted([*draft["admins"]["keys"], theirs]), "threshold": 2}
    (drafted.folder / "policy.draft.json").write_text(json.dumps(draft), encoding="utf-8")
    done = drafted("policy", "sign", "policy.draft.json")
    assert done.stdout.endswith(
        "not believed until 1 more admin signs: counterfoil policy sign policy.json --to policy.json\n"
    )
    told = drafted.json("policy", "check", "policy.json", code=5)
    assert (told["believed"], told["code"]) == (False, "CF-TRUST-004")
    shutil.copy(drafted.folder / "policy.json", stranger.folder / "policy.json")
    assert stranger.json("policy", "sign", "policy.json")["missing"] == 0
    shutil.copy(stranger.folder / "policy.json", drafted.folder / "policy.json")
    assert drafted("policy", "check", "policy.json").returncode == 5
    assert drafted("keys", "pin", "--admin", theirs).stdout == f"admin  {theirs}\n"
    assert drafted("policy", "check", "policy.json").stdout.startswith("believed: default version 1 ")


def test_an_older_version_is_told(drafted: Any) -> None:
    drafted("policy", "sign", "policy.draft.json")
    shutil.copy(drafted.folder / "policy.json", drafted.folder / "old.json")
    drafted("policy", "allow", "a", "b", "--policy", "policy.json")
    assert drafted("policy", "check", "policy.json").returncode == 0
    done = drafted("policy", "check", "old.json")
    assert (done.returncode, done.stdout.startswith("cannot-tell CF-TRUST-005 default: ")) == (5, True)


@pytest.mark.parametrize("content", ["", " \n", "[]", "policy", "{}", "null", '{"payload":1'])
def test_files_that_are_none(newcomer: Any, content: str) -> None:
    (newcomer.folder / "x.json").write_text(content, encoding="utf-8")
    for command in ("check", "show", "sign"):
        done = newcomer("policy", command, "x.json")
        assert (done.returncode, done.stdout, done.stderr.startswith("error ")) == (2, "", True)
        assert newcomer("policy", command, "nowhere.json").returncode == 2
    assert not (newcomer.folder / "policy.json").exists()


def test_a_policy_whose_form_is_wrong_is_broken(newcomer: Any) -> None:
    (newcomer.folder / "x.json").write_text('{"payload":1}', encoding="utf-8")
    done = newcomer("policy", "check", "x.json")
    assert (done.returncode, done.stdout.startswith("broken CF-TRUST-002")) == (3, True)
    assert newcomer("policy", "show", "x.json").returncode == 2


def test_no_policy_is_named(newcomer: Any) -> None:
    done = newcomer("policy", "check")
    assert (done.returncode, "CF-CLI-072" in done.stderr) == (2, True)
    assert newcomer("policy").returncode == 2


def test_evidence_is_judged_by_a_policy(desk: Any, cli: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    assert cli("policy", "init", tmp_path / "draft.json", "--name", "desk").returncode == 0
    place = tmp_path / "policy.json"
    assert cli("policy", "sign", tmp_path / "draft.json", "--to", place).returncode == 0
    assert cli("verify", copy, "--policy", place).returncode == 0
    assert cli("verify", copy, COUNTERFOIL_POLICY=str(place)).returncode == 0
    assert cli("verify", copy, "--policy", place, "--full").returncode == 0
    assert cli("verify", copy, COUNTERFOIL_CACHE="off").returncode == 0
    done = cli("verify", copy, "--policy", tmp_path / "draft.json")
    assert (done.returncode, "CF-TRUST-002" in done.stderr) == (2, True)
    draft = json.loads((tmp_path / "draft.json").read_text(encoding="utf-8"))
    draft["keys"][0] |= {"status": "compromised", "since": 0}
    (tmp_path / "other.json").write_text(json.dumps(draft | {"name": "other"}), encoding="utf-8")
    place = tmp_path / "other.policy.json"
    assert cli("policy", "sign", tmp_path / "other.json", "--to", place).returncode == 0
    done = cli("verify", copy, "--policy", place)
    assert done.returncode == 3
    assert "CF-TRUST-054" in done.stdout
    assert "CF-TRUST-052" in done.stdout
