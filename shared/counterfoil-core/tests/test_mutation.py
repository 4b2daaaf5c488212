"""Every change of a small bundle: none is ever called intact, each has a name (a folder: test_mutation_evidence.py)."""

from __future__ import annotations

import base64
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys
from counterfoil.errors import CounterfoilError

VECTORS = json.loads(
    (Path(__file__).resolve().parents[2] / "vectors" / "bundle.json").read_text(encoding="ascii")
)
CUTS = {case["name"]: case for case in VECTORS["cuts"]}
SMALL = "the smallest run"
TWO_LOGS = "a handoff between two logs that are witnesses of each other"
WITH_KEYS = "the same with keys"
WITH_BYTES = "a run with a handoff, whose checkpoint has a head line"
FOREIGN_PARENTS = "a handoff whose parents stand in somebody else's evidence"


def ring() -> keys.Keyring:
    known = (VECTORS["keys"][name]["spki"] for name in ("identity", "peer"))
    return keys.Keyring.of([keys.PublicKey.from_spki(base64.b64decode(spki)) for spki in known])


# -- one bundle -------------------------------------------------------------------------------------------------------


class Bundle:
    """A bundle under attack; ``codes`` counts what its changes were told by."""

    def __init__(self, name: str, folder: Path) -> None:
        self.data = str(CUTS[name]["bundle"]).encode()
        self.file = folder / "mutated.bundle"
        self.ring = ring()
        self.codes: Counter[str] = Counter()
        self.file.write_bytes(self.data)
        assert counterfoil.verify(self.file, keyring=self.ring).verdict == "intact"

    def attack(self, data: bytes, what: object) -> None:
        """One change must be found, and its finding name a line and say what to do."""
        if data == self.data:
            return
        self.file.write_bytes(data)
        try:
            found = counterfoil.verify(self.file, keyring=self.ring)
        except CounterfoilError as exc:
            self.codes[exc.code] += 1
            refused = exc.code
        else:
            refused = ""
        if refused:
            assert refused == "CF-STORE-003", what  # it is no longer recognised as a bundle
            return
        assert found.verdict in ("broken", "cannot-tell"), what
        first = found.findings[0]
        assert first.where.startswith("line"), (what, first)
        assert first.message, what
        assert first.hint, what
        self.codes[first.code] += 1

    def bytes(self, stride: int, *, every: bool = True) -> None:
        """Bytes flipped in each bit, increased, left out, doubled; the rest cut off."""
        data = self.data
        for at in range(0, len(data), stride):
            for bit in range(8) if every else (at % 8,):
                self.attack(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], ("bit", at, bit))
            self.attack(data[:at], ("cut", at))
            if every:
                self.attack(data[:at] + bytes([(data[at] + 1) % 256]) + data[at + 1 :], ("plus one", at))
                self.attack(data[:at] + data[at + 1 :], ("left out", at))
                self.attack(data[:at] + data[at : at + 1] + data[at:], ("doubled", at))

    def lines(self) -> None:
        """Lines left out, doubled, exchanged, and repeated at the end."""
        lines = self.data.splitlines(keepends=True)
        for at, line in enumerate(lines):
            self.attack(b"".join(lines[:at] + lines[at + 1 :]), ("line left out", at))
            self.attack(b"".join([*lines[:at], line, *lines[at:]]), ("line doubled", at))
            self.attack(b"".join([*lines, line]), ("line again at the end", at))
            for other in range(at):
                swapped = list(lines)
                swapped[at], swapped[other] = swapped[other], swapped[at]
                self.attack(b"".join(swapped), ("lines exchanged", other, at))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder beside a home of this test alone."""
    before = keys.home()
    keys.set_home(tmp_path / "home")
    yield tmp_path
    keys.set_home(before)


@pytest.mark.parametrize("name", [SMALL, TWO_LOGS, WITH_KEYS, WITH_BYTES, FOREIGN_PARENTS])
def test_lines_of_a_bundle_changed(folder: Path, name: str) -> None:
    Bundle(name, folder).lines()


def test_bytes_of_a_bundle_changed_here_and_there(folder: Path) -> None:
    for name, stride in ((SMALL, 41), (TWO_LOGS, 211), (WITH_KEYS, 199), (WITH_BYTES, 397)):
        Bundle(name, folder).bytes(stride)


@pytest.mark.long
@pytest.mark.parametrize("name", [SMALL, TWO_LOGS, WITH_KEYS])
def test_every_byte_of_a_bundle_changed(folder: Path, name: str) -> None:
    bundle = Bundle(name, folder)
    bundle.bytes(1)
    assert sum(bundle.codes.values()) > 11 * len(bundle.data)
    print(f"{name}: {sum(bundle.codes.values())} changes of {len(bundle.data)} bytes; {dict(bundle.codes)}")


@pytest.mark.long
def test_a_bit_of_every_byte_of_a_longer_bundle_changed(folder: Path) -> None:
    bundle = Bundle(WITH_BYTES, folder)
    bundle.bytes(1, every=False)
    print(f"{sum(bundle.codes.values())} changes of {len(bundle.data)} bytes; {dict(bundle.codes)}")


def test_the_rules_refuse_a_bundle_whose_contents_were_made_to_fit(folder: Path) -> None:
    """Who leaves out or adds a blob or entry and mends the counts is found by the rules of what is in a bundle."""
    bundle = Bundle(WITH_BYTES, folder)
    lines = bundle.data.splitlines()
    seen = set()
    for at, line in enumerate(lines):
        value = json.loads(line)
        if value.get("kind") != "blob":
            continue
        contents = json.loads(lines[1])
        contents["counts"]["blobs"] -= 1
        contents["counts"]["bytes"] -= value["size"]
        fitted = [lines[0], counterfoil.canonical.dumps(contents), *lines[2:at], *lines[at + 1 :]]
        bundle.file.write_bytes(b"".join(one + b"\n" for one in fitted))
        found = counterfoil.verify(bundle.file, keyring=bundle.ring)
        assert found.verdict == "broken", value["sha256"]
        seen.update(one.code for one in found.findings)
    assert seen <= {"CF-VERIFY-010", "CF-VERIFY-046", "CF-BUNDLE-021"}
    assert {"CF-VERIFY-010", "CF-VERIFY-046"} <= seen


# -- signed anew ------------------------------------------------------------------------------------------------------


def test_a_bundle_of_evidence_signed_throughout_by_another_key(lab: Any) -> None:
    """An attacker records the same again with a key of his own: all of it is right, and nobody believes it."""
    lab.record(1)
    identity = keys.load_identity()
    assert identity is not None
    owner = keys.Keyring.of([identity.public])
    forged = lab.root / "forged"
    with lab.at(lab.elsewhere):
        lab.record(1, evidence=forged)
        run = counterfoil.read(forged).runs()[0].id
        assert (
            counterfoil.bundle(forged, lab.root / "forged.bundle", run=run).verification.verdict == "intact"
        )
    shutil.rmtree(lab.evidence)
    for place in (forged, lab.root / "forged.bundle"):
        found = counterfoil.verify(place, keyring=owner)
        assert (found.verdict, {one.code for one in found.findings}) == ("cannot-tell", {"CF-VERIFY-032"})


SIGNED: dict[str, Callable[[dict[str, Any], str], object]] = {
    "the key alone": lambda value, spki: value.update(spki=spki),
    "the key and its name": lambda value, spki: value.update(
        spki=spki, note=value["note"].replace(value["note"][:64], VECTORS["keys"]["stranger"]["fingerprint"])
    ),
}


@pytest.mark.parametrize("how", SIGNED)
def test_another_key_beside_the_note(folder: Path, how: str) -> None:
    bundle = Bundle(SMALL, folder)
    lines = bundle.data.splitlines()
    value = json.loads(lines[2])
    SIGNED[how](value, VECTORS["keys"]["stranger"]["spki"])
    changed = [*lines[:2], counterfoil.canonical.dumps(value), *lines[3:]]
    bundle.attack(b"".join(one + b"\n" for one in changed), how)
    assert bundle.codes.keys() <= {"CF-BUNDLE-013", "CF-NOTE-012", "CF-NOTE-011"}
