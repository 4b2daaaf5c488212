"""What ``counterfoil policy`` reads and writes over, and what it does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLACE = ("--policy", "policy.json")


@pytest.fixture
def signed(newcomer: Any) -> Any:
    """A newcomer with a draft and a policy signed from it."""
    newcomer("policy", "init")
    assert newcomer("policy", "sign", "policy.draft.json").returncode == 0
    return newcomer


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def refused(done: Any, code: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error {code} "), done.stderr


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_draft_is_told_as_one(signed: Any, command: str) -> None:
    done = signed("policy", command, "policy.draft.json")
    refused(done, "CF-CLI-073")
    assert "counterfoil policy sign policy.draft.json" in done.stderr


def test_a_draft_does_not_replace_a_newer_version(signed: Any) -> None:
    signed("policy", "allow", "a", "b", *PLACE)
    signed("policy", "allow", "b", "c", *PLACE)
    before = files(signed.folder)
    refused(signed("policy", "sign", "policy.draft.json"), "CF-CLI-074")
    assert files(signed.folder) == before
    assert json.loads(signed("policy", "show", "policy.json", "--json").stdout)["policy"]["version"] == 3


def test_every_version_is_kept(signed: Any) -> None:
    first = (signed.folder / "policy.json").read_bytes()
    signed("policy", "allow", "a", "b", *PLACE)
    second = (signed.folder / "policy.json").read_bytes()
    signed("policy", "deny", "a", "b", *PLACE)
    kept = files(signed.folder)
    assert (kept["policy.json.v1"], kept["policy.json.v2"]) == (first, second)
    (signed.folder / "policy.json").write_bytes(first)
    (signed.folder / "policy.json.v1").write_text("mine", encoding="utf-8")
    assert signed("policy", "allow", "x", "y", *PLACE).returncode == 0
    kept = files(signed.folder)
    assert kept["policy.json.v1"] == b"mine"
    assert first in [data for name, data in kept.items() if name.startswith("policy.json.v1.")]


@pytest.mark.parametrize("there", ["another policy", "no policy", "the draft", "a link", "a folder"])
def test_another_file_is_not_written_over(signed: Any, there: str) -> None:
    to = signed.folder / "there.json"
    if there == "another policy":
        signed("policy", "init", "other.draft.json", "--name", "other")
        signed("policy", "sign", "other.draft.json", "--to", to)
    elif there == "no policy":
        to.write_text('{"name": "package"}', encoding="utf-8")
    elif there == "the draft":
        to = signed.folder / "policy.draft.json"
    elif there == "a link":
        to.symlink_to(signed.folder / "policy.json")
    else:
        to.mkdir()
    before = files(signed.folder)
    refused(signed("policy", "sign", "policy.draft.json", "--to", to), "CF-CLI-074")
    assert files(signed.folder) == before


def test_signing_again_keeps_the_signatures_of_others(signed: Any, stranger: Any) -> None:
    stranger.home = signed.folder / "their home"
    theirs = stranger("policy", "sign", "policy.json")
    assert theirs.returncode == 0, theirs.stderr
    assert signed("policy", "sign", "policy.draft.json").returncode == 0
    shown = json.loads(signed("policy", "show", "policy.json", "--json").stdout)
    assert len(shown["signatures"]) == 2


def test_nobody_goes_on_from_an_older_version_than_was_used_here(signed: Any) -> None:
    shutil.copy(signed.folder / "policy.json", signed.folder / "old.json")
    signed("policy", "allow", "a", "b", *PLACE)
    assert signed("policy", "check", "policy.json").returncode == 0
    before = files(signed.folder)
    for words in (
        ("allow", "c", "d", "--policy", "old.json"),
        ("deny", "a", "b", "--policy", "old.json"),
        ("sign", "policy.draft.json", "--to", "new.json"),
        ("sign", "old.json", "--to", "new.json"),
    ):
        done = signed("policy", *words)
        refused(done, "CF-CLI-075")
        assert "version 2" in done.stderr
    assert files(signed.folder) == before


def test_the_same_edge_again_changes_nothing(signed: Any) -> None:
    words = ("policy", "allow", "a", "b", "--can", "repo:read", "--depth", "1", *PLACE)
    signed(*words)
    before = files(signed.folder)
    done = signed(*words)
    assert (done.returncode, done.stdout) == (0, "policy.json: nothing to change, still version 2\n")
    assert signed.json(*words)["changed"] is False
    assert files(signed.folder) == before


def test_deny_takes_an_edge_back(signed: Any) -> None:
    signed("policy", "allow", "a", "b", *PLACE)
    signed("policy", "allow", "a", "b", "--can", "x", *PLACE)
    signed("policy", "allow", "b", "c", *PLACE)
    assert signed("policy", "deny", "a", "c", *PLACE).stdout.endswith("nothing to change, still version 4\n")
    assert signed.json("policy", "deny", "a", "b", *PLACE)["version"] == 5
    assert signed.json("policy", "show", "policy.json")["policy"]["edges"] == [{"from": "b", "to": "c"}]
    signed("policy", "deny", "b", "c", *PLACE)
    assert (
        "edges  an empty list: no agent may hand to another\n"
        in signed("policy", "show", "policy.json").stdout
    )
    assert signed("policy", "check", "policy.json").returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (["", "b"], "CF-CLI-076", "FROM"),
        (["a", ""], "CF-CLI-076", "TO"),
        (["team:*", "b"], "CF-CLI-076", "FROM"),
        (["a", "te*m"], "CF-CLI-076", "TO"),
        (["a", "b", "--can", ""], "CF-CLI-076", "--can"),
        (["a", "b", "--can", "x y"], "CF-CLI-076", "--can"),
        (["a", "b", "--purpose", ""], "CF-CLI-076", "--purpose"),
        (["a", "b", "--depth", "99"], "CF-CLI-001", "--depth"),
        (["a", "b", "--depth", "-1"], "CF-CLI-001", "--depth"),
    ],
)
def test_the_argument_that_is_wrong_is_named(signed: Any, words: list[str], code: str, name: str) -> None:
    done = signed("policy", "allow", *words, *PLACE)
    refused(done, code)
    assert name in done.stderr


def test_show_tells_every_member(signed: Any) -> None:
    draft = json.loads((signed.folder / "policy.draft.json").read_text(encoding="utf-8"))
    draft |= {
        "name": "full",
        "roots": ["planner"],
        "limits": {"maxDepth": 5, "ttlMs": 7001},
        "ext": {"x": "y1"},
    }
    draft["time"] = {"skewMs": 1234}
    draft["keys"][0]["notAfter"] = 4_000_000_000_000
    draft["edges"] = [
        {"from": "p", "to": "c", "allow": ["q:r"], "purposes": ["tests"], "acceptTaint": ["web"], "maxDepth": 3,
         "ttlMs": 60_001}
    ]  # fmt: skip
    (signed.folder / "full.json").write_text(json.dumps(draft), encoding="utf-8")
    assert signed("policy", "sign", "full.json", "--to", "f.json").returncode == 0
    shown = signed("policy", "show", "f.json").stdout
    edge = 'edge   p -> c can q:r for "tests" taint web depth 3 ttl 60001 ms\n'
    for told in (
        edge,
        "roots  planner\n",
        "limits depth 5 ttl 7001 ms\n",
        "1234 ms",
        "2096-10-02",
        '{"x":"y1"}',
    ):
        assert told in shown


def test_a_name_that_can_be_guessed_is_not_written_through(signed: Any) -> None:
    victim = signed.folder / "victim"
    victim.write_text("precious", encoding="utf-8")
    to = signed.folder / "public"
    to.mkdir()
    (to / f".p.json.{os.getpid()}.tmp").symlink_to(victim)
    assert signed("policy", "sign", "policy.draft.json", "--to", to / "p.json").returncode == 0
    assert victim.read_text(encoding="utf-8") == "precious"
    assert sorted(os.listdir(to)) == [f".p.json.{os.getpid()}.tmp", "p.json"]


@pytest.mark.parametrize(
    "words", [["policy", "check"], ["policy", "show"], ["policy", "sign"], ["verify", "--policy"],
              ["verify", "--keyring"], ["verify", "--checkpoint"], ["digest"]]
)  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "sparse", "folder", "device"])
def test_what_is_no_file_of_its_size_is_refused_at_once(
    desk: Any, process: Any, words: list[str], kind: str, tmp_path: Path
) -> None:
    place = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "sparse":
        with place.open("wb") as file:
            file.truncate(6 << 30)
    elif kind == "folder":
        place.mkdir()
    else:
        place = Path("/dev/zero")
    more = [desk.evidence] if words[0] == "verify" else []
    done = process(words[0], *more, *words[1:], place)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert str(place) in done.stderr


def test_a_pipe_of_the_shell_is_read(process: Any, desk: Any) -> None:
    process("policy", "init")
    process("policy", "sign", "policy.draft.json")
    reading, writing = os.pipe()
    with open(writing, "wb") as out:
        out.write((process.folder / "policy.json").read_bytes())
    command = [sys.executable, "-P", "-m", "counterfoil"]
    done = subprocess.run(
        [*command, "verify", str(desk.evidence), "--policy", f"/dev/fd/{reading}"],
        pass_fds=[reading],
        env=process.variables(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(reading)
    assert (done.returncode, done.stderr) == (0, "")
