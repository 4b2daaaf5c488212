"""What a run ran on: complete, without a secret, and never in the way."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import platform
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from counterfoil import canonical, environment, keys, read
from counterfoil.environment import (
    application,
    clock,
    cyclonedx,
    deep,
    distributions,
    frameworks,
    gpu,
    machine,
    variables,
)

KEY = b"k" * 32
PARTS = {
    "application",
    "clock",
    "container",
    "cpu",
    "distributions",
    "frameworks",
    "gpu",
    "image",
    "os",
    "python",
    "variables",
}


def test_every_part_says_where_it_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    found = environment.capture()
    assert set(found) == PARTS
    assert {one["source"] for one in found.values()} <= {"probed", "declared", "unknown"}
    assert found["python"]["version"] == platform.python_version()
    assert found["os"]["system"] == platform.system()
    assert found["cpu"]["count"] == os.cpu_count()
    assert found["distributions"]["items"]["pytest"]["version"] == pytest.__version__
    assert canonical.loads(canonical.dumps(found)) == found


def test_a_probe_that_fails_takes_nothing_else_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, Any]:
        raise ZeroDivisionError("secret")

    monkeypatch.setitem(environment._PROBES, "cpu", broken)
    found = environment.capture()
    assert found["cpu"] == {"reason": "could not be read: ZeroDivisionError", "source": "unknown"}
    assert set(found) == PARTS
    assert found["os"]["source"] == "probed"


def test_no_framework_is_imported_for_it(lab: Any) -> None:
    code = """
    import sys
    from counterfoil import environment
    environment.capture(key=b"k" * 32)
    print(sorted({"torch", "numpy", "pynvml", "cyclonedx"} & set(sys.modules)))
    """
    assert lab.python(code).strip() == "[]"


# -- distributions ----------------------------------------------------------------------------------------------------


def install(folder: Path, name: str, files: dict[str, bytes], *, direct: object = None) -> Path:
    """A distribution as an installer leaves it."""
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    rows = []
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{path},sha256={digest},{len(data)}")
    rows.append(f"{info.name}/RECORD,,")
    (info / "RECORD").write_text("\n".join(rows) + "\n", encoding="utf-8")
    if direct is not None:
        text = direct if isinstance(direct, str) else json.dumps(direct)
        (info / "direct_url.json").write_text(text, encoding="utf-8")
    return info


def test_distributions_have_the_hash_of_their_record(tmp_path: Path) -> None:
    info = install(tmp_path, "good_name-1.0", {"good/__init__.py": b"x = 1\n"})
    items = distributions.capture([str(tmp_path)])["items"]
    expected = hashlib.sha256((info / "RECORD").read_bytes()).hexdigest()
    assert items == {"good-name": {"record": expected, "version": "1.0"}}
    (info / "RECORD").write_bytes((info / "RECORD").read_bytes() + b"\n")
    assert distributions.capture([str(tmp_path)])["items"]["good-name"]["record"] != expected


def test_the_first_on_the_path_is_the_one_that_is_imported(tmp_path: Path) -> None:
    for name in ("good_name-1.0", "Other.Name-2!1.0+local", "noversion"):
        (tmp_path / f"{name}.dist-info").mkdir()
    (tmp_path / "x-1.egg-info").mkdir()
    (tmp_path / os.fsdecode(b"b\xff-1.dist-info")).mkdir()
    second = tmp_path / "second"
    (second / "good_name-9.0.dist-info").mkdir(parents=True)
    found = distributions.capture([str(tmp_path), str(second), str(tmp_path / "missing"), ""])["items"]
    assert found["good-name"] == {"version": "1.0"}
    assert found["other-name"] == {"version": "2!1.0+local"}
    assert "noversion" not in found


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (
            {"url": "file:///srv/somebody/src/tool", "dir_info": {"editable": True}},
            {"editable": True, "url": "file:tool"},
        ),
        (
            {
                "url": "https://user:token@example.org:8443/a/b.git?key=secret#x",
                "vcs_info": {"vcs": "git", "commit_id": "c" * 40, "requested_revision": "main"},
            },
            {
                "commit_id": "c" * 40,
                "requested_revision": "main",
                "url": "https://example.org:8443/a/b.git",
                "vcs": "git",
            },
        ),
        ("{not json", None),
        ({"no": "url"}, None),
        ([1], None),
        ({"url": 5}, None),
        ({"url": "https://[broken", "vcs_info": {}}, None),
        ({"url": "https://host:port/x"}, None),
        ("[" * 5000, None),
    ],
)
def test_where_a_distribution_came_from(tmp_path: Path, written: object, kept: object) -> None:
    install(tmp_path, "tool-1", {}, direct=written)
    assert distributions.capture([str(tmp_path)])["items"]["tool"].get("direct") == kept


def test_deep_names_every_changed_and_missing_file(tmp_path: Path) -> None:
    install(tmp_path, "one-1", {"one/a.py": b"a", "one/b.py": b"b", "one/c.py": b"c"})
    install(tmp_path, "two-2", {"two.py": b"2"})
    (tmp_path / "three-3.dist-info").mkdir()
    told: list[tuple[int, int]] = []
    clean = deep.check([str(tmp_path)], tell=lambda done, total: told.append((done, total)))
    assert clean["wrong"] == []
    assert clean["files"] == 4
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert clean["items"]["three"] == {"files": 0, "record": "unreadable", "version": "3"}
    (tmp_path / "one/a.py").write_bytes(b"A")
    (tmp_path / "one/b.py").unlink()
    found = deep.check([str(tmp_path)])
    assert found["wrong"] == ["one"]
    assert found["items"]["one"]["changed"] == {"count": 1, "names": ["one/a.py"]}
    assert found["items"]["one"]["missing"] == {"count": 1, "names": ["one/b.py"]}
    assert "changed" not in found["items"]["two"]


# -- variables --------------------------------------------------------------------------------------------------------


def test_every_name_and_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    found = variables.capture(KEY)
    assert set(found["fingerprints"]) == {name for name in os.environ if name.isprintable()}
    assert found["values"]["TZ"] == "Europe/Berlin"
    assert "sk-secret-value" not in json.dumps(found)
    assert set(found["values"]) <= set(environment.ALLOWED)


def test_a_fingerprint_tells_equal_from_other_for_the_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIN", "1234")
    first = variables.capture(KEY)["fingerprints"]["PIN"]
    assert variables.capture(KEY)["fingerprints"]["PIN"] == first
    assert variables.capture(b"o" * 32)["fingerprints"]["PIN"] != first
    monkeypatch.setenv("OTHER_PIN", "1234")
    assert variables.capture(KEY)["fingerprints"]["OTHER_PIN"] != first
    monkeypatch.setenv("PIN", "1235")
    assert variables.capture(KEY)["fingerprints"]["PIN"] != first
    assert len(first) == 32
    assert variables.capture(None)["fingerprints"]["PIN"] == ""


SECRETS = [
    "s3://key:secret@bucket/prefix",
    "https://user@host/",
    "sk-abcdefghijklmnop",
    "ghp_0123456789abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "Bearer abc",
    "eyJhbGciOiJIUzI1NiJ9.e30.sig",
    "-----BEGIN PRIVATE KEY-----",
    "4eC39HqLyjWDarjtT1zdp7dcXyZw9Q",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
]


@pytest.mark.parametrize("value", SECRETS)
def test_a_listed_value_that_looks_like_a_secret_is_not_stored(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert variables.looks_secret(value)
    monkeypatch.setenv("COUNTERFOIL", value)
    found = variables.capture(KEY)
    assert "COUNTERFOIL" not in found["values"]
    assert found["fingerprints"]["COUNTERFOIL"]
    assert value not in json.dumps(found)


@pytest.mark.parametrize(
    "value",
    ["Europe/Berlin", "evidence/", "/srv/agents/counterfoil-evidence", "0,1,2,3", ":4096:8", "en_GB.UTF-8"],
)
def test_plain_settings_are_stored(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL", value)
    assert variables.capture(KEY)["values"]["COUNTERFOIL"] == value


def test_variables_that_are_no_text(lab: Any) -> None:
    code = """
    import os, sys
    os.environb[b"BAD_\\xff"] = b"x"
    os.environb[b"TZ"] = b"\\xff"
    from counterfoil import canonical, environment
    from counterfoil.recorder import Recorder
    canonical.dumps(environment.capture(key=b"k" * 32))
    sys.argv[0] = "odd\\udcff"
    recorder = Recorder(sys.argv[1])
    recorder.end(recorder.start("invoke_workflow", environment.program(), actor=(environment.program(),)))
    recorder.close()
    """
    lab.python(code)
    assert lab.verify().verdict == "intact"


def test_the_secret_of_the_fingerprints_stays_in_the_home(lab: Any) -> None:
    assert keys.load_secret() is None
    lab.record()
    secret = keys.load_secret()
    assert secret is not None
    assert (lab.home / "fingerprint.key").stat().st_mode & 0o777 == 0o600
    for path in lab.files():
        assert secret not in path.read_bytes()
    lab.record()
    assert keys.load_secret() == secret


def test_a_damaged_secret_costs_the_fingerprints_only(lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    lab.record()
    (lab.home / "fingerprint.key").write_bytes(b"short")
    lab.record()
    assert "CF-KEYS-014" in caplog.text
    assert lab.verify().verdict == "intact"


# -- the machine ------------------------------------------------------------------------------------------------------


def test_the_processor_and_its_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/cpuinfo": "model name\t: Some CPU\nflags\t\t: b a\nmicrocode\t: 0x1\n\nmodel name\t: Other\n",
        "/sys/fs/cgroup/cpu.max": "150000 100000\n",
    }
    monkeypatch.setattr(machine, "text", lambda path, limit=0: files.get(path, ""))
    found = machine.cpu.__wrapped__()
    assert found["model"] == "Some CPU"
    assert found["flags"] == hashlib.sha256(b"a b").hexdigest()
    assert found["quota"] == "150000/100000"


@pytest.mark.parametrize("place", ["/proc/self/cgroup", "/proc/self/mountinfo"])
def test_the_container_s_id(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    identifier = "ab" * 32
    files = {
        place: f"1 2 0:1 /docker/{identifier}/x / rw - overlay overlay rw\n",
        "/proc/1/environ": "a=b\0container=podman\0",
    }
    monkeypatch.setattr(machine, "text", lambda path, limit=0: files.get(path, ""))
    monkeypatch.setattr(machine.sys, "platform", "linux")
    found = machine.container.__wrapped__()
    assert found["id"] == identifier
    assert found["runtime"] == "podman"
    assert ("overlay" in found["signs"]) == (place == "/proc/self/mountinfo")


def test_the_clock_says_how_far_off_it_may_be() -> None:
    found = clock.capture()
    if found["source"] == "unknown":
        assert found == {"source": "unknown"}
    else:
        assert isinstance(found["synchronised"], bool)
        assert found["max_error"] >= 0


def test_switches_of_torch_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert frameworks.capture() == {"source": "probed"}
    before = frameworks.state()
    monkeypatch.setitem(sys.modules, "torch", fake_torch(deterministic=False))
    loaded = frameworks.state()
    assert loaded != before
    found = frameworks.capture()["torch"]
    assert found["version"] == "2.9.0"
    assert found["cudnn_benchmark"] is True
    assert found["deterministic"] is False
    assert found["matmul_precision"] == "high"
    assert "hip" not in found
    monkeypatch.setitem(sys.modules, "torch", fake_torch(deterministic=True))
    assert frameworks.state() != loaded


def fake_torch(*, deterministic: bool) -> types.ModuleType:
    torch = types.ModuleType("torch")
    space = types.SimpleNamespace
    torch.__dict__.update(
        __version__="2.9.0",
        are_deterministic_algorithms_enabled=lambda: deterministic,
        backends=space(cudnn=space(benchmark=True, deterministic=False, allow_tf32=True)),
        get_float32_matmul_precision=lambda: "high",
        get_num_threads=lambda: 1 // 0,
        version=space(cuda="13.0", hip=None),
    )
    return torch


def test_no_driver_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert gpu.capture()["source"] == "unknown"


# -- the application --------------------------------------------------------------------------------------------------


def test_the_program_s_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/srv/secret folder/app.py", "x"])
    assert environment.program() == "app.py"
    for argv in ([], [""]):
        monkeypatch.setattr(sys, "argv", argv)
        assert environment.program() == "python"


def test_the_image_is_what_the_deployment_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    assert application.image() == {"source": "unknown"}
    monkeypatch.setenv("COUNTERFOIL_IMAGE_DIGEST", "sha256:" + "0" * 64)
    assert application.image() == {"digest": "sha256:" + "0" * 64, "source": "declared"}


def git(folder: Path, *words: str) -> str:
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        env={**os.environ, **own, **names},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_commit_of_the_checkout_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "c" * 40
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    program = tmp_path / "src/app.py"
    program.write_text("")
    monkeypatch.setattr(sys, "argv", [str(program)])
    head = tmp_path / ".git/HEAD"
    for text, expected in (
        ("ref: refs/heads/main\n", None),
        (commit + "\n", commit),
        ("ref: ../../outside\n", None),
        ("nonsense", None),
    ):
        head.write_text(text)
        assert application.revision().get("commit") == expected
    head.unlink()
    os.mkfifo(head)
    assert application.revision().get("commit") is None  # and nobody waits for a writer
    head.unlink()
    head.write_text("ref: refs/heads/main\n")
    (tmp_path / ".git/packed-refs").write_text(
        f"# pack-refs\n{'d' * 40} refs/heads/mainline\n{commit} refs/heads/main\n"
    )
    assert application.revision() == {"commit": commit, "program": "app.py", "source": "probed"}
    (tmp_path / ".git/refs/heads/main").write_text("e" * 40 + "\n")
    assert application.revision()["commit"] == "e" * 40
    linked = tmp_path / "linked"
    (linked / "src").mkdir(parents=True)
    (linked / ".git").write_text("gitdir: ../.git/worktrees/linked\n")
    own = tmp_path / ".git/worktrees/linked"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (linked / "src/app.py").write_text("")
    monkeypatch.setattr(sys, "argv", [str(linked / "src/app.py")])
    assert application.revision()["commit"] == "e" * 40
    monkeypatch.setenv("COUNTERFOIL_APP_REVISION", "build 7")
    assert application.revision() == {"program": "app.py", "revision": "build 7", "source": "declared"}


# -- in the log -------------------------------------------------------------------------------------------------------


def test_what_a_run_loads_is_recorded_at_its_end(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    recorder = lab.recorder()

    def run() -> None:
        recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))

    run()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    monkeypatch.setitem(sys.modules, "torch", fake_torch(deterministic=True))
    recorder.end(root)
    run()
    recorder.close()
    source = read(lab.evidence)
    ends = [
        one.body["context"]
        for one in source.entries()
        if one.op == "invoke_workflow" and one.body["content"]["phase"] == "end"
    ]
    assert ["environment" in context for context in ends] == [False, True, False]
    found = source.value(ends[1]["environment"])
    assert found["frameworks"]["torch"]["deterministic"] is True
    assert lab.verify().verdict == "intact"


# -- CycloneDX --------------------------------------------------------------------------------------------------------


def test_a_bill_of_materials_is_a_function_of_the_record() -> None:
    found = environment.capture()
    document = cyclonedx.document(found, at="2026-01-01T00:00:00Z")
    assert document == cyclonedx.document(canonical.loads(canonical.dumps(found)), at="2026-01-01T00:00:00Z")
    names = {one["name"]: one for one in document["components"]}
    assert names["pytest"]["version"] == pytest.__version__
    assert names["pytest"]["purl"] == f"pkg:pypi/pytest@{pytest.__version__}"
    # The digest of a RECORD is not the digest of what was downloaded.
    assert all("hashes" not in one for one in document["components"])
    record = {
        "name": "counterfoil:record:sha256",
        "value": found["distributions"]["items"]["pytest"]["record"],
    }
    assert record in names["pytest"]["properties"]
    other = cyclonedx.document({**found, "image": {"digest": "x"}}, at="2026-01-01T00:00:00Z")
    assert other["serialNumber"] != document["serialNumber"]
