"""Both verifiers agree on fresh evidence, on bundles, and on damaged copies; needs Node (`-s verifier`)."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

from seconded import Judged, Second, first

import counterfoil

pytestmark = pytest.mark.verifier
DAMAGED = 150


@pytest.fixture(scope="module")
def second() -> Iterator[Callable[[Path, Path], Judged]]:
    verifier = Second()
    yield verifier
    verifier.close()


@pytest.fixture(scope="module")
def home() -> Path:
    return Path(os.environ["COUNTERFOIL_HOME"])


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of one log: nested calls, streams, long and shared values, handoffs, one to another process."""
    folder = tmp_path_factory.mktemp("second") / "evidence"
    for session in range(2):
        recorder = counterfoil.Recorder(folder)
        for number in range(20):
            _run(recorder, f"{session}.{number}")
        recorder.close()
        with counterfoil.open(folder, actor="team") as log:
            counterfoil.seal(log, {"report": "x" * 4000, "n": session}, to="elsewhere")
        _weighed(folder, folder.parent / "model")
    return folder


def _weighed(evidence: Path, tree: Path) -> None:
    """A manifest of weights, and calls of a model that is bound to it."""
    tree.mkdir(exist_ok=True)
    for name in ("config.json", "a-b", "\uffee", "\U0001f600"):
        (tree / name).write_text(name, encoding="utf-8")
    manifest = counterfoil.weights.add(tree, evidence=evidence, source={"repo": "org/small"})
    counterfoil.bind_model("weighed", manifest.root, evidence=evidence)
    recorder = counterfoil.Recorder(evidence)
    run = recorder.start("invoke_workflow", "team", actor=("team",))
    for _ in range(3):
        recorder.end(recorder.start("chat", "weighed", actor=("team",), parent=run))
    recorder.end(run)
    recorder.close()


def _run(recorder: counterfoil.Recorder, name: str) -> None:
    history = [{"role": "user", "content": f"question {n} of {name} " * 20} for n in range(8)]
    run = recorder.start("invoke_workflow", "team", actor=("team",), request=recorder.value(history[0]))
    for step in ("writer", "reviewer"):
        call = recorder.start("step", step, actor=("team", step), parent=run)
        sent = recorder.value({"messages": history, "model": "small", "text": "é" * 300})
        chat = recorder.start("chat", "small", actor=("team", step), parent=call, request=sent)
        for piece in range(300 if step == "writer" else 3):
            recorder.stream(chat).add(f"0:{('text', 'reasoning')[piece % 7 == 0]}", f"{name} {piece} ☃ ")
        recorder.stream(chat).sample(0, [(7, -0.5, b"x"), (None, -1.5, None)])
        recorder.end(chat, response=recorder.value({"message": name * 100, "bytes": os.urandom(600)}))
        recorder.end(call, response=recorder.value(name))
    recorder.end(run, response=recorder.value({"answer": name}))


def test_they_agree_on_fresh_evidence(
    second: Callable[[Path, Path], Judged], evidence: Path, home: Path
) -> None:
    said = first(evidence, home / "keyring.json")
    assert said[0] == "intact"
    assert said[3]["runs"] == 42
    assert second(evidence, home) == said


def test_they_agree_for_who_pinned_nobody(
    second: Callable[[Path, Path], Judged], evidence: Path, tmp_path: Path
) -> None:
    nobody = tmp_path / "keyring.json"
    nobody.write_text('{"pins":{},"version":0}\n', encoding="utf-8")
    nobody.chmod(0o600)
    said = first(evidence, nobody)
    assert said[0] == "cannot-tell"
    assert second(evidence, nobody) == said


def _changed(data: bytes, dice: random.Random) -> bytes:
    """A file with one kind of damage: a bit, a run of bytes, a cut, zeros, or a whole chunk gone or twice."""
    at = dice.randrange(len(data))
    kind = dice.randrange(7)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + dice.randbytes(dice.randrange(1, 40)) + data[at:]
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + bytes(dice.randrange(1, 1500)) + data[at + 1500 :]
    pieces = _chunks(data)
    chosen = dice.randrange(len(pieces))
    if kind == 4:
        del pieces[chosen]
    elif kind == 5:
        pieces.insert(chosen, pieces[dice.randrange(len(pieces))])
    else:
        pieces[chosen] = _resealed(pieces[chosen], dice)
    return b"".join(pieces)


def _chunks(data: bytes) -> list[bytes]:
    pieces = []
    at = 0
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 4)[0]
        pieces.append(data[at:end])
        at = end
    return pieces


def _resealed(piece: bytes, dice: random.Random) -> bytes:
    """A chunk with a byte changed and its checksum made right.

    The stored bytes of compressed chunks are left alone: how soon a decoder sees that they are no valid stream differs
    between decoders (libzstd's fast loops check less than RFC 8878 asks for), and so does the code of the damage.
    """
    at = dice.choice([0, 8] if piece[0] else [0, 8, *range(16, len(piece))])
    changed = bytearray(piece)
    changed[at] ^= 1 << dice.randrange(8)
    changed[12:16] = struct.pack("<I", zlib.crc32(changed[:12] + changed[16:]))
    return bytes(changed)


def test_they_agree_on_damaged_evidence(
    second: Callable[[Path, Path], Judged], evidence: Path, home: Path, tmp_path: Path
) -> None:
    dice = random.Random(20260728)
    copy = tmp_path / "copy"
    codes = set()
    for number in range(DAMAGED):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(evidence, copy)
        segment = dice.choice(sorted(copy.glob("*/*.seg")))
        if number % 25 == 24:
            segment.unlink()
        else:
            segment.write_bytes(_changed(segment.read_bytes(), dice))
        said = first(copy, home / "keyring.json")
        codes.update(said[1])
        assert second(copy, home) == said, f"copy {number}"
    assert {"CF-LOG-010", "CF-LOG-012", "CF-LOG-017", "CF-VERIFY-024", "CF-VERIFY-052"} <= codes


def test_they_agree_on_bundles_and_damaged_ones(
    second: Callable[[Path, Path], Judged], evidence: Path, home: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "run.bundle"
    command = [
        sys.executable,
        "-P",
        "-m",
        "counterfoil",
        "bundle",
        str(evidence),
        "--run",
        "3",
        "-o",
        str(whole),
    ]
    subprocess.run(command, check=True, capture_output=True)
    keyring = home / "keyring.json"
    said = first(whole, keyring)
    assert said[0] == "intact"
    assert second(whole, keyring) == said
    dice = random.Random(20260729)
    lines = whole.read_bytes().splitlines(keepends=True)
    copy = tmp_path / "copy.bundle"
    verdicts = set()
    for number in range(DAMAGED):
        kept = list(lines)
        at = dice.randrange(1, len(kept))
        kind = dice.randrange(4)
        if kind == 0:
            del kept[at]
        elif kind == 1:
            kept.insert(at, dice.choice(lines))
        elif kind == 2:
            byte = dice.randrange(len(kept[at]))
            kept[at] = kept[at][:byte] + bytes([kept[at][byte] ^ 1]) + kept[at][byte + 1 :]
        else:
            other = dice.randrange(1, len(kept))
            kept[at], kept[other] = kept[other], kept[at]
        copy.write_bytes(b"".join(kept))
        said = first(copy, keyring)
        verdicts.add(said[0])
        assert second(copy, keyring) == said, f"copy {number}"
    assert "broken" in verdicts
