"""Both verifiers agree on random mutants of vectors and of logs, and neither hangs; needs Node (`-s verifier`)."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import shutil
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent))
sys.path.append(
    str(Path(__file__).resolve().parent.parent / "shared" / "counterfoil-core" / "tests" / "fuzzing")
)

import evidence
import mutation
from seconded import Judged, Second, first

from counterfoil import canonical, keys
from counterfoil.errors import CounterfoilError

pytestmark = pytest.mark.verifier

VECTORS = Path(__file__).resolve().parent.parent / "shared" / "vectors"
MUTANTS = 400
"""Of each kind and part: all of them take about a minute."""
PARTS = range(3)
LOG, BUNDLE = (
    json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii")) for name in ("log", "bundle")
)
HEADER = 16
FAULT = re.compile(r"(CF-(?:LOG|NOTE|BUNDLE)-)[0-9]+")
LATER = ("CF-LOG-022", "CF-BUNDLE-001")
"""Of another version, which is no fault."""


@pytest.fixture(scope="module")
def second() -> Iterator[Second]:
    verifier = Second()
    yield verifier
    verifier.close()


@pytest.fixture
def keyring(tmp_path: Path) -> Path:
    """The keys that most vectors are judged by."""
    path = tmp_path / "keyring.json"
    pins = {
        LOG["keys"][name]["fingerprint"]: {"spki": LOG["keys"][name]["spki"]} for name in ("identity", "peer")
    }
    path.write_bytes(canonical.dumps({"pins": pins, "version": 0}) + b"\n")
    path.chmod(0o600)
    return path


def _kinds(said: Judged) -> Judged:
    """What was said, without which of several faults of one text was named (shared/spec/README.md, Golden vectors)."""
    verdict, codes, noted, counts = said
    found = [code if code in LATER else FAULT.sub(r"\1", code) for code in codes]
    return verdict, found, noted, counts


class Told:
    """What both said of one mutant after the other."""

    def __init__(self, second: Second, keyring: Path) -> None:
        self.second, self.keyring = second, keyring
        self.verdicts: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.apart: list[tuple[object, Judged, Judged]] = []

    def ask(self, place: Path, what: object) -> None:
        one, two = first(place, self.keyring), self.second(place, self.keyring)
        self.verdicts[one[0]] += 1
        self.codes.update(one[1])
        if _kinds(one) != _kinds(two):
            self.apart.append((what, one, two))

    def check(self) -> None:
        print(f"{sum(self.verdicts.values())} mutants: {dict(self.verdicts)}; {len(self.codes)} codes")
        assert not self.apart, f"{len(self.apart)}: " + "\n".join(map(str, self.apart[:12]))


def _sealed(rng: random.Random, data: bytes) -> bytes:
    """A segment in which the bytes of a raw chunk were changed, and its header made right."""
    pieces, at = [], 0
    while at + HEADER <= len(data):
        end = at + HEADER + struct.unpack_from("<I", data, at + 4)[0]
        pieces.append(data[at:end])
        at = end
    # What a decompressor makes of a changed stream differs (shared/spec/log.md, Chunks): those are left alone.
    raw = [number for number, piece in enumerate(pieces) if piece[0] == 0 and len(piece) > HEADER + 5]
    if not raw:
        return data
    chosen = rng.choice(raw)
    stored = _items(rng, pieces[chosen][HEADER:])
    head = struct.pack("<B3xII", 0, len(stored), len(stored))
    pieces[chosen] = head + struct.pack("<I", zlib.crc32(stored, zlib.crc32(head))) + stored
    return b"".join(pieces)


def _items(rng: random.Random, stored: bytes) -> bytes:
    """The items of a chunk with one changed: as bytes, or, where it is JSON, as such."""
    items, at = [], 0
    while at + 5 <= len(stored):
        kind, length = struct.unpack_from("<BI", stored, at)
        items.append((kind, stored[at + 5 : at + 5 + length]))
        at += 5 + length
    chosen = rng.randrange(len(items))
    kind, data = items[chosen]
    items[chosen] = (kind if rng.random() < 0.9 else rng.randrange(5), _text(rng, data))
    if rng.random() < 0.1:
        items.insert(rng.randrange(len(items) + 1), rng.choice(items))
    return b"".join(struct.pack("<BI", kind, len(data)) + data for kind, data in items)


def _text(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.4:
        return mutation.of_bytes(rng, data)
    made = mutation.of_json(rng, data)
    try:
        return canonical.dumps(canonical.loads(made))
    except CounterfoilError:
        return made


def _written(told: str | list[str | list[str | int]]) -> bytes:
    """A text of the vectors."""
    parts = [told] if isinstance(told, str) else told
    return "".join(one if isinstance(one, str) else str(one[0]) * int(one[1]) for one in parts).encode()


def _records(bodies: list[bytes]) -> list[bytes]:
    """The same log without statements: those are of keys that are not there to sign them again."""
    out = []
    for body in bodies:
        if body.startswith(b'{"content"'):
            value = canonical.loads(body)
            value["context"].pop("handoffs", None)
            out.append(canonical.dumps(value))
        elif body.startswith(b"#"):
            out.append(body)
    return out


def _segment(rng: random.Random, data: bytes) -> bytes:
    return mutation.of_bytes(rng, data) if rng.random() < 0.4 else _sealed(rng, data)


@pytest.mark.parametrize("part", PARTS)
def test_of_evidence(second: Second, keyring: Path, tmp_path: Path, part: int) -> None:
    told = Told(second, keyring)
    cases = [
        case for case in LOG["cases"] if case["files"] and not {"policy", "heads", "there"} & case.keys()
    ]
    place = tmp_path / "evidence"
    for number in range(MUTANTS):
        rng = random.Random(f"evidence {part} {number}")
        case = rng.choice(cases)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        files = {name: base64.b64decode(data) for name, data in case["files"].items()}
        chosen = rng.choice(sorted(files))
        files[chosen] = (_segment if chosen.endswith(".seg") else mutation.of_bytes)(rng, files[chosen])
        for name, data in files.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(data)
        told.ask(place, (part, number, case["name"]))
    told.check()
    assert len(told.verdicts) >= 3


@pytest.mark.parametrize("part", PARTS)
def test_of_bundles(second: Second, keyring: Path, tmp_path: Path, part: int) -> None:
    told = Told(second, keyring)
    texts = [_written(case["bundle"]) for case in BUNDLE["cuts"] + BUNDLE["cases"] if "bundle" in case]
    texts = [text for text in texts if text.count(b"\n") > 2 and len(text) < 1 << 20]
    place = tmp_path / "mutant.bundle"
    for number in range(MUTANTS):
        rng = random.Random(f"bundle {part} {number}")
        lines = rng.choice(texts).splitlines(keepends=True)
        at = rng.randrange(1, len(lines))  # the first line says that it is a bundle
        kind = rng.random()
        if kind < 0.1:
            del lines[at]
        elif kind < 0.2:
            lines.insert(at, rng.choice(lines))
        else:
            lines[at] = _text(rng, lines[at].removesuffix(b"\n")).replace(b"\n", b" ") + b"\n"
        place.write_bytes(b"".join(lines))
        told.ask(place, (part, number))
    told.check()
    assert "broken" in told.verdicts


@pytest.mark.parametrize("part", PARTS)
def test_of_logs_that_are_rightly_chained_and_signed(second: Second, tmp_path: Path, part: int) -> None:
    """The deepest: whatever the entries say, all digests and signatures hold."""
    folder = Path.cwd()
    here = evidence.place()
    os.chdir(folder)
    told = Told(second, here.home / "keyring.json")
    seeds = [b"\n".join(here.bodies), b"\n".join(_records(here.bodies))]
    keys.set_home(tmp_path)  # nothing is remembered there, as nothing is by the second
    for number in range(MUTANTS):
        made = mutation.of_json(random.Random(f"log {part} {number}"), seeds[number % 2])
        with here.holding(here.build(made)) as place:
            told.ask(place, (part, number))
    told.check()
    assert len(told.codes) > 5
    assert {"broken", "incomplete"} <= told.verdicts.keys()
