"""Files that an environment is read from may be anything: what they say is taken or left, and none is waited for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from counterfoil.environment import application, deep, distributions
from counterfoil.environment.form import misshapen

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def installed(site: Path, record: str) -> Path:
    info = site / "some-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(record, encoding="utf-8")
    return info


def test_what_record_names_and_is_no_file_is_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    names = ["pipe", "/dev/zero", "/dev/tty", "gone", "\0"]
    (tmp_path / "there").write_bytes(b"")
    empty = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    installed(tmp_path, "".join(f"{name},sha256={empty},0\n" for name in [*names, "there"]))
    found = deep.check([str(tmp_path)])
    assert found["items"]["some"]["missing"] == {"count": len(names), "names": sorted(names)}
    assert (found["files"], found["wrong"]) == (len(names) + 1, ["some"])


def test_a_record_that_is_no_file_is_unreadable(tmp_path: Path) -> None:
    info = installed(tmp_path, "")
    (info / "RECORD").unlink()
    os.mkfifo(info / "RECORD")
    assert deep.check([str(tmp_path)])["items"]["some"] == {
        "version": "1.0",
        "files": 0,
        "record": "unreadable",
    }
    assert distributions.capture([str(tmp_path)])["items"]["some"] == {"version": "1.0"}


@pytest.mark.parametrize("pointer", ["gitdir: loop/a", "gitdir: a\0b", "gitdir: ", "gitdir: gone", "\0", ""])
def test_a_pointer_to_a_checkout_that_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pointer: str
) -> None:
    (tmp_path / "app.py").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / ".git").write_text(pointer, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "app.py")])
    assert application.revision() == {"program": "app.py", "source": "unknown"}
    assert deep.work_tree() == {"program": "app.py", "source": "unknown"}


@pytest.mark.parametrize("common", ["loop/a", "a\0b", "gone", "."])
def test_a_common_folder_that_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, common: str
) -> None:
    (tmp_path / "app.py").write_bytes(b"")
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "loop").symlink_to("loop")
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (git / "refs" / "heads" / "main").write_text(f"{COMMIT}\n", encoding="utf-8")
    (git / "commondir").write_text(common, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "app.py")])
    assert application.revision()["commit"] == COMMIT


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"later": [1], "clock": 5, "os": {}}, None),
        ({"os": []}, "os"),
        ({"os": {"system": 1}}, "os/system"),
        ({"distributions": {"items": {"a": {}}}}, "distributions/items/a"),
        ({"distributions": {"items": {"a": {"version": "1", "direct": []}}}}, "distributions/items/a"),
        ({"gpu": {"devices": [{}, 1]}}, "gpu/devices/1"),
        ({"variables": {"fingerprints": {"A": None}}}, "variables/fingerprints/A"),
    ],
    ids=range(7),
)
def test_the_form_of_an_environment(environment: dict[str, object], where: str | None) -> None:
    assert misshapen(environment) == where
