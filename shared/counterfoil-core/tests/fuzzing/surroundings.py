"""Targets of what a machine says of itself, and of what somebody recorded of his: files, variables, environments."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from evidence import MEDIA, Place, place

from counterfoil import canonical, cli, values
from counterfoil.environment import application, deep, distributions, machine, variables

__all__ = ["TARGETS", "WHOLE", "seeds"]

Target = Callable[[bytes], None]
_ABOUT = re.compile(rb'"about":\{[^{}]*\}')


def _plain(found: Any) -> Any:
    """What was found is a value of JSON's types that can be recorded as it is."""
    assert canonical.loads(canonical.dumps(values.encode(found))) == json.loads(json.dumps(found))
    return found


@contextlib.contextmanager
def _folder(name: str) -> Iterator[Path]:
    folder = place().home.parent / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    yield folder


def installed(data: bytes) -> None:
    """RECORD and direct_url.json of an installed distribution."""
    with _folder("site") as site:
        for number, name in enumerate(("RECORD", "direct_url.json")):
            info = site / f"some_{number}-1.0.dist-info"
            info.mkdir()
            (info / name).write_bytes(data)
        (site / "a.py").write_bytes(b"1\n")
        found = _plain(distributions.capture([str(site)]))
        assert set(found["items"]) == {"some-0", "some-1"}
        looked = _plain(deep.check([str(site)]))
        assert looked["items"].keys() == found["items"].keys()


def checkout(data: bytes) -> None:
    """The files of a checkout that name its commit, each of them in turn."""
    commit = b"0123456789abcdef0123456789abcdef01234567"
    usual = {"HEAD": b"ref: refs/heads/main\n", "packed-refs": commit + b" refs/heads/main\n"}
    with _folder("checkout") as folder:
        (folder / "app.py").write_bytes(b"")
        (folder / "loop").symlink_to("loop")
        with mock.patch.object(sys, "argv", [str(folder / "app.py")]):
            (folder / ".git").write_bytes(data)
            _plain(application.revision())
            (folder / ".git").unlink()
            (folder / ".git").mkdir()
            for name in ("HEAD", "packed-refs", "commondir", "refs/heads/main"):
                for other, text in (usual | {name: data}).items():
                    path = folder / ".git" / other
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(text)
                found = _plain(application.revision())
                assert re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", found.get("commit", commit.decode()))


def machine_files(data: bytes) -> None:
    """Files of the kernel and of the distribution: what they say is text, or is left out."""
    text = data.decode("utf-8", "replace")
    with mock.patch.object(machine, "text", lambda path, limit: text[:limit]):
        for probe in (machine.cpu, machine.system, machine.container):
            assert _plain(probe.__wrapped__())["source"] in ("probed", "unknown")


def variable(data: bytes) -> None:
    """A value of a variable: kept only where it can hold no secret."""
    text = os.fsdecode(data.replace(b"\0", b""))
    name = variables.ALLOWED[0] if isinstance(variables.ALLOWED, (list, tuple)) else min(variables.ALLOWED)
    with mock.patch.dict(
        os.environ, {name: text, "COUNTERFOIL_IMAGE_DIGEST": text, "COUNTERFOIL_APP_REVISION": text}
    ):
        found = _plain(variables.capture(bytes(32)))
        assert name not in found["values"] or not variables.looks_secret(text)
        _plain(application.image())
        _plain(application.revision())


def environment_recorded(data: bytes) -> None:
    """An environment that somebody recorded, in a form in which it is printed, or compared with another."""
    here = place()
    told = b"{" + b'"environment":' + data.replace(b"\n", b" ") + b"}"
    about = b'"about":{"media":"%b","sha256":"@0","size":%d}' % (MEDIA[2].encode(), len(told))
    bodies = [
        _ABOUT.sub(lambda _: about, line) if b'"op":"session"' in line else line for line in here.bodies
    ]
    with here.holding(here.build(b"\n".join([b"#" + told, *bodies]))) as evidence:
        ways = (("environment",), ("environment", "--json"), ("environment", "--cyclonedx"))
        _command(*ways[zlib.crc32(data) % 3], str(evidence))
        if zlib.crc32(data) % 5 == 0:
            _command("diff", str(evidence), str(_other(here)))


def _other(here: Place) -> Path:
    """The same run as a bundle, in which the environment is the one recorded."""
    path = here.home.parent / "other.bundle"
    if not path.exists():
        before = here.segment.read_bytes()
        here.write(here.whole)
        _command("bundle", str(here.evidence), "-o", str(path))
        here.write(before)
    return path


def _command(*words: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(list(words))
    assert 0 <= code <= 5, code
    assert "CF-CLI-005" not in err.getvalue(), (words, err.getvalue())


WHOLE = {"environment_recorded", "installed", "checkout"}
"""Those that read a whole evidence, or several files, for each input."""
TARGETS: dict[str, Target] = {
    made.__name__: made for made in (installed, checkout, machine_files, variable, environment_recorded)
}


def seeds(name: str) -> list[bytes]:
    """Well-formed inputs of one of these targets."""
    recorded = next(
        canonical.loads(line[1:])["environment"]
        for line in place().bodies
        if line.startswith(b"#") and b'"environment":' in line
    )
    whole = _environment(recorded)
    small = {
        **{name: whole[name] for name in whole if name not in ("distributions", "variables")},
        "distributions": {
            "items": {"a": {"direct": {"url": "x"}, "record": "0", "version": "1"}},
            "source": "probed",
        },
        "gpu": {"devices": [{"memory": 5, "name": "g", "uuid": "u"}], "driver": "1", "source": "probed"},
        "variables": {"fingerprints": {"A": "00"}, "source": "probed", "values": {"A": "b"}},
    }
    return {
        "installed": [
            b"a.py,sha256=NAdkkY9BXjHT3f7nVVBLVXF3q7hq-1_9vu4jVmT4Z9c,2\r\nsome.dist-info/RECORD,,\r\n",
            b'{"url":"file:///srv/x/y","dir_info":{"editable":true}}',
            b'{"url":"https://u:p@host:8080/x.git?q#f","vcs_info":{"vcs":"git","commit_id":"0","requested_revision":"m"}}',
        ],
        "checkout": [
            b"gitdir: ../x/.git",
            b"ref: refs/heads/main",
            b"0123456789" * 4,
            b"..",
            b"gitdir: loop/a",
        ],
        "machine_files": [
            b"model name\t: Some CPU\nflags\t\t: a b c\nmicrocode\t: 0x1\n\nmodel name: other\n",
            b'ID=debian\nVERSION_ID="12"\n',
            b"22 1 0:20 / / rw - overlay overlay rw\n0::/docker/" + b"ab" * 32 + b"\ncontainer=docker\0A=b",
            b"max 100000",
        ],
        "variable": [
            b"1",
            b"sk-abcdefghijklmnop1234",
            b"https://u:p@h/",
            "gr\u00fc\u00df".encode(),
            b"\xff\xfe",
        ],
        "environment_recorded": [canonical.dumps(small)],
    }.get(name, [])


def _environment(recorded: Any) -> dict[str, Any]:
    """The environment itself where the session cites it, else as it stands there."""
    if "$ref" not in recorded:
        return dict(recorded)
    from counterfoil.environment import capture

    return capture()
