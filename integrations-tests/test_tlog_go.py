"""Go's own packages for transparency logs read an exported log; needs Go (`python3 noxfile.py -s interop`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import counterfoil
from counterfoil import keys, notes
from counterfoil.reader import read
from counterfoil.tlog.exporting import Exported, export_log

pytestmark = pytest.mark.interop
SOURCE = Path(__file__).parent / "tlog_go" / "main.go"
PACKAGES = "/usr/share/gocode"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built from Debian's package of golang.org/x/mod, without any download."""
    folder = tmp_path_factory.mktemp("go")
    own = {"GO111MODULE": "off", "GOPATH": PACKAGES, "GOCACHE": str(folder / "cache"), "GOFLAGS": ""}
    command = ["go", "build", "-o", str(folder / "tlog_go"), str(SOURCE)]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "tlog_go"


def ask(program: Path, *arguments: object) -> tuple[int, str]:
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Exports:
    """A log exported twice: with `small` entries, and grown to more than one full tile."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.evidence = root / "evidence"
        self.record(3)
        first = self.export()
        self.old = root / "old"
        shutil.copy(Path(first.folder) / "checkpoint", self.old)
        self.record(150)
        self.log = self.export()
        self.folder = Path(self.log.folder)
        assert 256 < self.log.size < 512

    def record(self, count: int) -> None:
        recorder = counterfoil.Recorder(self.evidence)
        for _ in range(count):
            recorder.end(recorder.start("invoke_workflow", "w", actor=("w",)))
        recorder.close()

    def export(self) -> Exported:
        store = read(self.evidence).store
        (name,) = store.logs()
        return export_log(store, name, self.root / "out")


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exports]:
    root = tmp_path_factory.mktemp("exports")
    keys.set_home(root / "home")
    try:
        yield Exports(root)
    finally:
        keys.set_home(None)


def test_go_reads_and_proves_all_of_it(program: Path, exports: Exports) -> None:
    code, told = ask(program, exports.folder, exports.log.vkey, exports.old)
    size = exports.log.size
    assert (code, told) == (0, f"{size} records, {size} earlier sizes, 1 earlier checkpoints\n")


def test_go_refuses_another_key(program: Path, exports: Exports) -> None:
    stranger = notes.vkey(exports.log.origin, keys.SigningKey.generate().public)
    code, told = ask(program, exports.folder, stranger)
    assert (code, told) == (1, "note has no verifiable signatures\n")


def test_go_refuses_a_checkpoint_of_another_history(program: Path, exports: Exports) -> None:
    identity = keys.load_identity()
    assert identity is not None
    text = notes.Checkpoint(exports.log.origin, 5, bytes(32)).to_text()
    other = exports.root / "other"
    other.write_text(notes.sign_note(text, exports.log.origin, identity))
    code, told = ask(program, exports.folder, exports.log.vkey, other)
    assert (code, "invalid transparency proof" in told) == (1, True), told


@pytest.mark.parametrize(
    "which", ["checkpoint", "tile/0/000", "tile/0/001.p/*", "tile/1/000.p/1", "tile/entries/000"]
)
def test_go_refuses_one_changed_bit(program: Path, exports: Exports, which: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exports.folder, copy)
    path = max(copy.glob(which), key=lambda one: one.stat().st_size)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    code, told = ask(program, copy, exports.log.vkey)
    assert (code, bool(told)) == (1, True)
