"""The RFC 6962 tree against its definition, the published roots, and every negative probe."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil import tree
from counterfoil.errors import ProofError

MERKLE = Path(__file__).resolve().parents[2] / "vectors" / "outside" / "merkle"
LEAVES = [tree.leaf_hash(b"entry %d" % number) for number in range(67)]
MANY = [tree.leaf_hash(b"%d" % number) for number in range(5001)]
# Upstream compares two equal short strings and accepts; here a root is 32 bytes.
SHORT_ROOTS = "consistency/additional/sizes-are-equal-one-and-proof-is-empty.json"


def probes(kind: str) -> list[Any]:
    return [pytest.param(each, id=each["file"]) for each in json.loads((MERKLE / f"{kind}.json").read_text())]


def unpack(text: str | None) -> bytes:
    return base64.b64decode(text or "", validate=True)


def outcome(verify: Any, *arguments: Any) -> str | None:
    try:
        verify(*arguments)
    except ProofError as exc:
        return exc.code
    return None


def defined_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1."""
    if len(leaves) <= 1:
        return leaves[0] if leaves else tree.EMPTY_ROOT
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return tree.node_hash(defined_root(leaves[:split]), defined_root(leaves[split:]))


def defined_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962 section 2.1.1."""
    if len(leaves) == 1:
        return []
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    if index < split:
        return [*defined_path(index, leaves[:split]), defined_root(leaves[split:])]
    return [*defined_path(index - split, leaves[split:]), defined_root(leaves[:split])]


def defined_proof(size: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    """SUBPROOF of RFC 6962 section 2.1.2."""
    if size == len(leaves):
        return [] if whole else [defined_root(leaves)]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    if size <= split:
        return [*defined_proof(size, leaves[:split], whole), defined_root(leaves[split:])]
    return [*defined_proof(size - split, leaves[split:], False), defined_root(leaves[:split])]


@pytest.mark.parametrize("probe", probes("inclusion"))
def test_inclusion_probes(probe: dict[str, Any]) -> None:
    proof = [unpack(step) for step in probe["proof"] or []]
    arguments = (unpack(probe["leafHash"]), probe["leafIdx"], probe["treeSize"], proof, unpack(probe["root"]))
    assert (outcome(tree.verify_inclusion, *arguments) is not None) == probe["wantErr"]


@pytest.mark.parametrize("probe", probes("consistency"))
def test_consistency_probes(probe: dict[str, Any]) -> None:
    proof = [unpack(step) for step in probe["proof"] or []]
    arguments = (probe["size1"], probe["size2"], proof, unpack(probe["root1"]), unpack(probe["root2"]))
    refused = outcome(tree.verify_consistency, *arguments)
    if probe["file"] == SHORT_ROOTS:
        assert refused == "CF-PROOF-001"
    else:
        assert (refused is not None) == probe["wantErr"]


@pytest.mark.parametrize("probe", probes("subtreeinclusion"))
def test_subtree_inclusion_probes(probe: dict[str, Any]) -> None:
    """Inclusion in the subtree of leaves start to end is inclusion in a tree of its own that begins at start."""
    proof = [unpack(step) for step in probe["proof"] or []]
    start, size = probe["start"], probe["end"] - probe["start"]
    leaf, root = unpack(probe["leafHash"]), unpack(probe["root"])
    refused = outcome(tree.verify_inclusion, leaf, probe["leafIdx"] - start, size, proof, root)
    assert (refused is not None) == probe["wantErr"]


@pytest.mark.parametrize(
    "probe", [one for one in probes("subtreeconsistency") if one.values[0]["start"] == 0]
)
def test_subtree_consistency_probes(probe: dict[str, Any]) -> None:
    """From the first leaf on it is consistency; there is no verifier for other subtrees, since nothing gives any."""
    proof = [unpack(step) for step in probe["proof"] or []]
    arguments = (probe["end"], probe["size"], proof, unpack(probe["root1"]), unpack(probe["root2"]))
    refused = outcome(tree.verify_consistency, *arguments)
    if any(len(root) != 32 for root in arguments[3:]):
        assert refused == "CF-PROOF-001"
    elif probe["end"] == 0:
        assert refused == "CF-PROOF-003"  # an empty tree proves nothing here
    else:
        assert (refused is not None) == probe["wantErr"]


def test_every_probe_is_there() -> None:
    kinds = ("inclusion", "consistency", "subtreeinclusion", "subtreeconsistency")
    counted = {kind: len(probes(kind)) for kind in kinds}
    assert counted == {"inclusion": 56, "consistency": 52, "subtreeinclusion": 48, "subtreeconsistency": 39}


def test_published_roots() -> None:
    known = json.loads((MERKLE / "rfc6962_roots.json").read_text())
    leaves = [tree.leaf_hash(bytes.fromhex(data)) for data in known["leafInputsHex"]]
    grown = tree.Tree()
    for size, root in enumerate(known["rootsHexBySize"]):
        assert tree.root_of(leaves[:size]).hex() == grown.root().hex() == root
        assert grown.size == size
        if size < len(leaves):
            grown.append(leaves[size])


def test_every_size_equals_the_definition() -> None:
    grown = tree.Tree()
    for size in range(len(LEAVES) + 1):
        leaves = LEAVES[:size]
        root = defined_root(leaves)
        assert grown.root() == root == tree.root_of(leaves)
        assert len(grown.peaks()) == size.bit_count()
        again = tree.Tree.from_peaks(size, grown.peaks())
        for later in LEAVES[size:]:
            again.append(later)
        assert again.root() == tree.root_of(LEAVES)
        for index in range(size):
            proof = tree.inclusion_proof(leaves, index)
            assert proof == defined_path(index, leaves)
            tree.verify_inclusion(leaves[index], index, size, proof, root)
            older = tree.consistency_proof(leaves, index + 1)
            assert older == defined_proof(index + 1, leaves)
            tree.verify_consistency(index + 1, size, older, defined_root(leaves[: index + 1]), root)
        if size < len(LEAVES):
            grown.append(LEAVES[size])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_two_sizes_up_to_5000(data: st.DataObject) -> None:
    second = data.draw(st.integers(1, 5000))
    first = data.draw(st.integers(1, second))
    leaves = MANY[:second]
    root = tree.root_of(leaves)
    proof = tree.consistency_proof(leaves, first)
    assert len(proof) <= second.bit_length() + 1
    old = tree.root_of(leaves[:first])
    tree.verify_consistency(first, second, proof, old, root)
    other = data.draw(st.integers(1, second).filter(lambda size: size != first) if second > 1 else st.just(0))
    assert outcome(tree.verify_consistency, other, second, proof, old, root)
    if first < second:
        assert outcome(
            tree.verify_consistency, first, second + 1, proof, old, tree.root_of(MANY[: second + 1])
        )
    index = data.draw(st.integers(0, second - 1))
    path = tree.inclusion_proof(leaves, index)
    tree.verify_inclusion(leaves[index], index, second, path, root)
    assert outcome(tree.verify_inclusion, leaves[index], index, second, path, old) or old == root


def changes(proof: list[bytes]) -> list[list[bytes]]:
    flipped = [
        [*proof[:at], bytes([step[0] ^ 1]) + step[1:], *proof[at + 1 :]] for at, step in enumerate(proof)
    ]
    shorter = [proof[:at] + proof[at + 1 :] for at in range(len(proof))]
    longer = [[*proof[:at], bytes(32), *proof[at:]] for at in range(len(proof) + 1)]
    doubled = [[*proof[:at], step, *proof[at:]] for at, step in enumerate(proof)]
    swapped = [
        [*proof[:at], proof[at + 1], proof[at], *proof[at + 2 :]]
        for at in range(len(proof) - 1)
        if proof[at] != proof[at + 1]
    ]
    return [*flipped, *shorter, *longer, *doubled, *swapped]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13, 16, 33])
def test_every_change_of_an_inclusion_proof_is_refused(size: int) -> None:
    leaves, root = LEAVES[:size], tree.root_of(LEAVES[:size])
    for index in range(size):
        proof = tree.inclusion_proof(leaves, index)
        for other in changes(proof):
            assert outcome(tree.verify_inclusion, leaves[index], index, size, other, root)
        for wrong in {index ^ 1, index + size, index + 1, -1, index + 2**64} - {index}:
            assert outcome(tree.verify_inclusion, leaves[index], wrong, size, proof, root)
        # Another leaf of the same log with the proof of this one (Cosign CVE-2026-22703).
        for other_leaf in range(size):
            if other_leaf != index:
                assert outcome(tree.verify_inclusion, leaves[other_leaf], index, size, proof, root)


@pytest.mark.parametrize("size", [2, 3, 7, 8, 13, 16, 33])
def test_every_change_of_a_consistency_proof_is_refused(size: int) -> None:
    leaves, root = LEAVES[:size], tree.root_of(LEAVES[:size])
    for first in range(1, size + 1):
        proof = tree.consistency_proof(leaves, first)
        old = tree.root_of(leaves[:first])
        for other in changes(proof):
            assert outcome(tree.verify_consistency, first, size, other, old, root)
        assert outcome(tree.verify_consistency, first, size, proof, tree.root_of(LEAVES[1 : first + 1]), root)
        assert outcome(tree.verify_consistency, first, size, proof, old, tree.root_of(LEAVES[1 : size + 1]))
        assert outcome(tree.verify_consistency, 0, size, proof, tree.EMPTY_ROOT, root)


def test_indexes_up_to_the_end_of_64_bits() -> None:
    last = 2**64 - 2
    leaf, proof = LEAVES[0], [bytes([at]) * 32 for at in range(64)]
    node = leaf
    steps = iter(proof)
    index, edge = last, 2**64 - 2
    used = 0
    while edge:
        if index & 1:
            node = tree.node_hash(next(steps), node)
            used += 1
        index >>= 1
        edge >>= 1
    tree.verify_inclusion(leaf, last, 2**64 - 1, proof[:used], node)
    assert outcome(tree.verify_inclusion, leaf, last, 2**64 - 1, proof[: used - 1], node) == "CF-PROOF-004"
    assert outcome(tree.verify_inclusion, leaf, last, 2**64, proof[:used], node) == "CF-PROOF-003"
    assert outcome(tree.verify_inclusion, leaf, 2**64 - 1, 2**64 - 1, proof[:used], node) == "CF-PROOF-003"


def test_a_proof_beyond_the_root_is_refused() -> None:
    leaf, step = LEAVES[:2]
    for above in (tree.node_hash(step, leaf), tree.node_hash(leaf, step)):
        assert outcome(tree.verify_inclusion, leaf, 0, 1, [step], above) == "CF-PROOF-004"
    root = tree.root_of(LEAVES[:2])
    for above in (tree.node_hash(step, root), tree.node_hash(root, step)):
        assert outcome(tree.verify_inclusion, leaf, 0, 2, [LEAVES[1], step], above) == "CF-PROOF-004"
    proof = [*tree.consistency_proof(LEAVES[:2], 1), step]
    assert outcome(tree.verify_consistency, 1, 2, proof, leaf, root) == "CF-PROOF-004"


def test_a_leaf_never_stands_for_an_inner_node() -> None:
    left, right = LEAVES[:2]
    assert tree.leaf_hash(left + right) != tree.node_hash(left, right)
    # Doubling an odd last leaf gives another root (Bitcoin CVE-2012-2459).
    assert tree.root_of(LEAVES[:3]) != tree.root_of([*LEAVES[:3], LEAVES[2]])


@pytest.mark.parametrize("bad", [b"", b"short", bytes(31), bytes(33), "x" * 32, None, bytearray(32)])
def test_only_hashes_of_32_bytes(bad: Any) -> None:
    root = tree.root_of(LEAVES[:2])
    good = LEAVES[0]
    assert outcome(tree.verify_inclusion, bad, 0, 2, [LEAVES[1]], root) == "CF-PROOF-001"
    assert outcome(tree.verify_inclusion, good, 0, 2, [bad], root) == "CF-PROOF-001"
    assert outcome(tree.verify_inclusion, good, 0, 2, [LEAVES[1]], bad) == "CF-PROOF-001"
    assert outcome(tree.verify_consistency, 1, 1, [], bad, bad) == "CF-PROOF-001"
    assert outcome(tree.verify_consistency, 1, 2, [bad], good, root) == "CF-PROOF-001"
    assert outcome(tree.root_of, [bad]) == "CF-PROOF-001"
    assert outcome(tree.Tree.from_peaks, 1, [bad]) == "CF-PROOF-001"
    grown = tree.Tree.from_peaks(3, tree.Tree.from_peaks(3, [LEAVES[0], LEAVES[1]]).peaks())
    before = grown.root()
    assert outcome(grown.append, bad) == "CF-PROOF-001"
    assert (grown.size, grown.root()) == (3, before)


@pytest.mark.parametrize(("size", "peaks"), [(0, 1), (1, 0), (3, 1), (4, 2), (-1, 1), (2**64, 1)])
def test_peaks_must_fit_the_size(size: int, peaks: int) -> None:
    assert outcome(tree.Tree.from_peaks, size, LEAVES[:peaks]) == "CF-PROOF-002"


def test_proofs_are_made_only_for_what_is_there() -> None:
    for index in (-1, 2, 2**64):
        assert outcome(tree.inclusion_proof, LEAVES[:2], index) == "CF-PROOF-003"
    for size in (-1, 0, 3):
        assert outcome(tree.consistency_proof, LEAVES[:2], size) == "CF-PROOF-003"
    assert outcome(tree.verify_inclusion, LEAVES[0], 0, 1, [bytes(32)] * 100_000, LEAVES[0]) == "CF-PROOF-004"
