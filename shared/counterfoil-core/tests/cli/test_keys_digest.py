"""``counterfoil keys`` and ``counterfoil digest``."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from counterfoil import digest, values

OTHER = hashlib.sha256(b"somebody else's key").hexdigest()


def test_looking_makes_nothing(stranger: Any) -> None:
    done = stranger("keys", "show")
    assert (done.returncode, done.stdout) == (0, "no identity yet: the first recording makes one\n")
    assert stranger("keys").stdout == done.stdout
    found = stranger.json("keys", "show")
    assert found == {"home": str(stranger.home), "own": None, "pins": [], "heads": []}
    assert not stranger.home.exists()


def test_show_tells_fingerprints_and_never_a_key(process: Any, desk: Any) -> None:
    found = process.json("keys", "show")
    (own,) = found["pins"]
    assert own == {
        **{"fingerprint": found["own"], "note": "own identity", "own": True},
        **{"admin": True, "known": True},
    }
    here = str(desk.evidence.resolve())  # what other tests recorded with this home is remembered as well
    (head,) = (one for one in found["heads"] if one["evidence"] == here)
    assert head["origin"] == f"{found['own']}/{head['log']}"
    text = process("keys", "show").stdout
    assert f"own    {found['own']}" in text
    secret = "".join((desk.home / "identity.pem").read_text().splitlines()[1:-1])
    assert secret not in text + str(found)


def test_pin_and_unpin(newcomer: Any) -> None:
    done = newcomer("keys", "pin", f"SHA256:{OTHER.upper()}", "--note", "Ana, by phone")
    assert (done.returncode, done.stdout) == (0, f"pinned {OTHER} Ana, by phone\n")
    assert f"pinned {OTHER} Ana, by phone" in newcomer("keys", "show").stdout
    assert newcomer("keys", "unpin", OTHER).stdout == f"unpinned {OTHER}\n"
    assert newcomer.json("keys", "show")["pins"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["pin", "abc"], "CF-KEYS-022"),
        (["pin", OTHER, "--note", "a\x1b[31m"], "CF-KEYS-024"),
        (["unpin", OTHER], "CF-KEYS-025"),
        (["unpin", ""], "CF-KEYS-022"),
        (["forget", "0" * 16], "CF-CLI-060"),
        (["forget", ""], "CF-CLI-060"),
        (["pin"], "CF-CLI-001"),
        (["burn"], "CF-CLI-001"),
    ],
)
def test_bad_arguments(newcomer: Any, words: list[str], code: str) -> None:
    done = newcomer("keys", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error {code}")


def test_a_log_that_was_deleted_on_purpose_is_forgotten(recording: Any) -> None:
    for folder in ("one", "two"):
        assert recording("run", "-e", folder, "-m", "fakeapp").returncode == 0
    heads = recording.json("keys", "show")["heads"]
    first = next(head for head in heads if head["evidence"].endswith("/one"))
    log = recording.folder / "one" / first["log"]
    for path in log.iterdir():
        path.unlink()
    log.rmdir()
    assert recording("verify", "one").returncode == 3
    assert recording("keys", "forget", "z").returncode == 2
    done = recording("keys", "forget", first["log"][:12])
    assert done.stdout.startswith(f"forgot {first['log']} ({first['size']} entries in ")
    assert [head["log"] for head in recording.json("keys", "show")["heads"]] == [
        head["log"] for head in heads if head != first
    ]


def test_wide_permissions_are_an_error(stranger: Any) -> None:
    stranger.home.mkdir(mode=0o777)
    stranger.home.chmod(0o777)
    done = stranger("keys", "show")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error CF-KEYS-004 {stranger.home}: ")
    assert "  hint: " in done.stderr


# -- digest ------------------------------------------------------------------------------------------

JSON = '{"b": [1.0, "\\u00e9"], "a": null, "long": "' + "x" * 300 + '"}'
VALUE = {"b": [1.0, "é"], "a": None, "long": "x" * 300}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_digest_of_a_text_is_that_of_its_bytes(process: Any) -> None:
    (process.folder / "prompt.txt").write_text("Straße\n", encoding="utf-8")
    wanted = sha256("Straße\n".encode())
    found = process.json("digest", "prompt.txt")
    assert found == {"bytes": 8, "sha256": wanted, "counterfoil-v1": wanted}
    assert process.json("digest", "prompt.txt", "--text") == found
    assert process("digest", "prompt.txt").stdout == (
        f"sha256         {wanted}  the bytes\ncounterfoil-v1 {wanted}  the value\n"
    )


def test_digest_of_a_json_value(process: Any) -> None:
    (process.folder / "value.JSON").write_text(JSON, encoding="utf-8")
    found = process.json("digest", "value.JSON")
    assert found["sha256"] == sha256(JSON.encode())
    assert found["rfc8785"] == sha256(rfc8785.dumps(VALUE))
    assert found["counterfoil-v1"] == digest.digest_of(values.encode(VALUE)) != found["rfc8785"]
    assert process.json("digest", "value.JSON", "--text")["counterfoil-v1"] == sha256(JSON.encode())


def test_digest_of_standard_input(process: Any) -> None:
    done = process("digest", "-", "--json-value", "--json", stdin=JSON)
    assert done.returncode == 0
    assert sha256(rfc8785.dumps(VALUE)) in done.stdout
    assert sha256(JSON.encode()) in process("digest", "-", stdin=JSON).stdout


def test_digest_says_whether_evidence_holds_the_value(cli: Any, desk: Any, tmp_path: Path) -> None:
    (tmp_path / "seven.txt").write_text("seven")
    (tmp_path / "eight.txt").write_text("eight")
    assert cli.json("digest", "seven.txt", "-e", desk.evidence)["stored"] is True
    assert cli("digest", "eight.txt", "-e", desk.evidence).stdout.endswith("stored         no\n")


@pytest.mark.parametrize(
    ("name", "data", "options", "code"),
    [
        ("a.json", b"{", [], "CF-CANON-011"),
        ("a.json", b'{"a":1,"a":2}', [], "CF-CANON-012"),
        ("a.json", b"[" * 5000 + b"]" * 5000, [], "CF-CANON-016"),
        ("a.json", b"\xff", [], "CF-CANON-010"),
        ("a.bin", b"\xff", ["--text"], "CF-CLI-033"),
        ("a.txt", b"a", ["--text", "--json-value"], "CF-CLI-032"),
        ("missing", None, [], "CF-CLI-030"),
        (".", None, [], "CF-CLI-030"),
        ("a.txt", b"a", ["-e", "nowhere"], "CF-STORE-002"),
    ],
)
def test_files_without_a_digest(
    cli: Any, name: str, data: bytes | None, options: list[str], code: str
) -> None:
    if data is not None:
        (cli.folder / name).write_bytes(data)
    done = cli("digest", name, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error {code}")
