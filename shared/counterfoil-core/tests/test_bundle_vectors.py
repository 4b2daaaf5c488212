"""Bundles against `shared/vectors/bundle.json`, which was made without this code."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, keys
from counterfoil.bundles.form import gap_sizes
from counterfoil.findings import Verification

SHARED = Path(__file__).resolve().parents[2]
VECTORS = json.loads((SHARED / "vectors" / "bundle.json").read_text(encoding="ascii"))
Packed = str | list[Any]


def named(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


def unpacked(found: Packed) -> str:
    """A text, or texts and [text, times]."""
    parts = [found] if isinstance(found, str) else found
    return "".join(one if isinstance(one, str) else one[0] * one[1] for one in parts)


def keyring(names: list[str]) -> keys.Keyring:
    """The keys named; `~name` is pinned by its fingerprint alone."""
    known = VECTORS["keys"]
    whole = [base64.b64decode(known[name]["spki"]) for name in names if not name.startswith("~")]
    ring = keys.Keyring.of([keys.PublicKey.from_spki(spki) for spki in whole])
    for name in names:
        if name.startswith("~"):
            ring.pin(known[name[1:]]["fingerprint"])
    return ring


def told(found: Verification) -> tuple[str, list[str], list[str]]:
    return found.verdict, [one.code for one in found.findings], [one.code for one in found.notes]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder beside a home of this test alone."""
    before = keys.home()
    keys.set_home(tmp_path / "home")
    yield tmp_path
    keys.set_home(before)


@named(VECTORS["cases"])
def test_a_bundle_gets_its_verdict(place: Path, case: dict[str, Any]) -> None:
    file = place / "case.bundle"
    if "bundle" in case:
        file.write_bytes(unpacked(case["bundle"]).encode())
    else:
        file.write_bytes(base64.b64decode(case["base64"]))
    for head in case.get("heads", []):
        keys.remember_head(**head)
    found = counterfoil.verify(file, keyring=keyring(case["keyring"]))
    assert told(found) == (case["verdict"], case["findings"], case.get("notes", []))
    if "where" in case:
        assert found.findings[0].where == case["where"]
    assert all(one.hint for one in found.findings)


@named(VECTORS["cuts"])
def test_evidence_has_one_bundle(place: Path, case: dict[str, Any]) -> None:
    evidence, ring = place / "evidence", keyring(case["keyring"])
    for name, data in case["files"].items():
        (evidence / name).parent.mkdir(parents=True, exist_ok=True)
        (evidence / name).write_bytes(base64.b64decode(unpacked(data)))
    cut = counterfoil.bundle(
        evidence,
        place / "cut.bundle",
        **case["asked"],
        only=case["only"],
        with_keys=case["keys"],
        keyring=ring,
    )
    assert (place / "cut.bundle").read_bytes() == unpacked(case["bundle"]).encode()
    found = counterfoil.verify(place / "cut.bundle", keyring=ring)
    assert told(found) == told(cut.verification) == (case["verdict"], case["findings"], case["notes"])
    assert {name: found.counts[name] for name in case["counts"]} == case["counts"]
    assert cut.size == (place / "cut.bundle").stat().st_size


@pytest.mark.parametrize("case", VECTORS["gaps"], ids=lambda case: f"{case['start']}+{case['count']}")
def test_a_gap_is_made_of_these_subtrees(case: dict[str, Any]) -> None:
    assert list(gap_sizes(case["start"], case["count"])) == case["sizes"]


def test_every_code_of_form_and_content_has_a_case() -> None:
    page = (SHARED / "spec" / "bundle.md").read_text(encoding="utf-8")
    listed = {word.strip("|`() ") for word in page.split() if word.startswith("CF-BUNDLE-")}
    seen = {code for case in VECTORS["cases"] for code in (*case["findings"], *case.get("notes", []))}
    assert {one for one in listed if one[-1].isdigit()} - seen == set()


def test_the_samples_of_the_page_are_from_the_vectors() -> None:
    page = (SHARED / "spec" / "bundle.md").read_text(encoding="utf-8")
    samples = [block.partition("\n```")[0] for block in page.split("```jcs\n")[1:]]
    lines = set(itertools.chain(*(unpacked(one["bundle"]).splitlines() for one in VECTORS["cuts"])))
    assert samples
    assert set(samples) <= lines
    for sample in samples:
        canonical.loads_canonical(sample.encode())


# -- every evidence of the log vectors --------------------------------------------------------------------------------

LOGS = json.loads((SHARED / "vectors" / "log.json").read_text(encoding="ascii"))
INTACT = [case for case in LOGS["cases"] if case["verdict"] == "intact"]
OF_ENTRIES = {"CF-DSSE-010", "CF-DSSE-011"} | {
    f"CF-VERIFY-0{number}" for number in (10, 11, 13, 42, 44, 45, 46, 47)
}
"""What is said of a handoff or run that can be asked for: a statement that cannot be read, or a binding, cannot.

A checkpoint of a stream belongs to no run."""
UNCARRIED = {
    "a model call that names weights of a stranger",
    "weights by a key that no policy lists",
    "weights hashed by a peer, keys identity ~peer, none carried",
    "weights hashed by a peer, keys identity, one carried",
    "weights in a peer's name by a stranger",
}
"""What is wrong with a manifest of weights: no bundle carries one, its root stands in the records."""
GAPS = {"a parent of a record that is not there", "parents that are no list"}
"""A bundle holds a part of a log: that a record's parent is not in it is a gap of its ancestry, told as such."""
FORGED = [
    case
    for case in LOGS["cases"]
    if len(case["findings"]) == 1
    and case["findings"][0] in OF_ENTRIES
    and not case["name"].startswith(("a binding", "a parent of the relation", "a checkpoint of a stream"))
    and case["name"] not in GAPS | UNCARRIED
]


def laid_out(place: Path, case: dict[str, Any]) -> tuple[Path, keys.Keyring]:
    evidence = place / "evidence"
    for name, data in case["files"].items():
        (evidence / name).parent.mkdir(parents=True, exist_ok=True)
        (evidence / name).write_bytes(base64.b64decode(data))
    ring = keys.Keyring()
    for name in case["keyring"]:
        key = LOGS["keys"][name.strip("~+")]
        spki = None if name.startswith("~") else base64.b64decode(key["spki"])
        ring.pin(key["fingerprint"], spki=spki, admin=name.endswith("+"))
    return evidence, ring


def bundles(place: Path, case: dict[str, Any]) -> Iterator[Verification]:
    """What is said of every run and every handoff of an evidence, cut into bundles."""
    evidence, ring = laid_out(place, case)
    reader = counterfoil.read(evidence)
    asked = [{"run": one.id} for one in reader.runs() if one.root is not None]
    asked += [{"handoff": one.digest} for _, one in reader.statements() if one.kind.endswith("handoff:v1")]
    policy = case["policy"].encode() if "policy" in case else None
    for number, one in enumerate(asked):
        file = place / f"{number}.bundle"
        counterfoil.bundle(evidence, file, **one, keyring=ring, force=True)
        yield counterfoil.verify(file, keyring=ring, policy=policy)


@named(INTACT)
def test_what_is_intact_in_evidence_is_intact_in_bundles(place: Path, case: dict[str, Any]) -> None:
    for found in bundles(place, case):
        assert (found.verdict, found.findings) == ("intact", [])


@named(FORGED)
def test_what_is_said_of_an_entry_is_said_of_it_in_a_bundle(place: Path, case: dict[str, Any]) -> None:
    every = [[one.code for one in found.findings] for found in bundles(place, case)]
    assert all(listed in ([], case["findings"]) for listed in every)
    assert case["findings"] in every
