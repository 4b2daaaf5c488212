"""The RFC 6962 Merkle tree over a log: one root commits to every entry, a short proof shows one entry in it.

Leaves are given as leaf hashes (``leaf_hash(entry)``), hashes are 32 bytes. Inner nodes and leaves are hashed
with different first bytes, so that one can never stand for the other.

Source: RFC 6962 section 2.1, RFC 9162 sections 2.1.3.2 and 2.1.4.2 (verification).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, NoReturn, Self

from counterfoil.errors import ProofError

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "Tree",
    "consistency_proof",
    "inclusion_proof",
    "leaf_hash",
    "node_hash",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
]

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = sha256(b"").digest()
"""Root of the tree of no leaves."""

MAX_SIZE: Final = 2**64 - 1
_MAX_PROOF: Final = 128


def leaf_hash(data: bytes) -> bytes:
    """Hash of a leaf: SHA-256(0x00 || data)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node: SHA-256(0x01 || left || right)."""
    return sha256(b"\x01" + left + right).digest()


_WAITING: Final = 1024
"""Leaf hashes that are joined to the tree at once: in pairs, level by level, they take half the time."""


class Tree:
    """A growing tree that keeps only its peaks: the roots of its complete subtrees, largest first."""

    __slots__ = ("_peaks", "_size", "_waiting")

    def __init__(self) -> None:
        self._size = 0
        self._peaks: list[bytes] = []
        self._waiting: list[bytes] = []

    @classmethod
    def from_peaks(cls, size: int, peaks: Iterable[bytes]) -> Self:
        """A tree continued from ``size`` and ``peaks()`` of an earlier one.

        Raises:
            ProofError: CF-PROOF-001: not 32 byte hashes; CF-PROOF-002: the size has another number of peaks.
        """
        tree = cls()
        tree._peaks = [_hash(peak, "peak") for peak in peaks]
        if not 0 <= size <= MAX_SIZE or size.bit_count() != len(tree._peaks):
            _refuse("002", f"a tree of size {size} does not have {len(tree._peaks)} peaks")
        tree._size = size
        return tree

    @property
    def size(self) -> int:
        """Number of leaves."""
        return self._size + len(self._waiting)

    def append(self, leaf: bytes) -> None:
        """Adds a leaf hash; one further hash on average.

        Raises:
            ProofError: CF-PROOF-001: not a hash of 32 bytes.
        """
        if type(leaf) is not bytes or len(leaf) != HASH_BYTES:
            _refuse("001", "a leaf hash is not 32 bytes")
        self._waiting.append(leaf)
        if len(self._waiting) >= _WAITING:
            self._join()

    def add(self, data: bytes) -> None:
        """Adds the leaf of an entry's bytes."""
        waiting = self._waiting
        waiting.append(sha256(b"\x00" + data).digest())
        if len(waiting) >= _WAITING:
            self._join()

    def _join(self) -> None:
        """Takes the leaves that wait into the tree, level by level from below."""
        level, rest, peaks = self._waiting, self._size, self._peaks
        self._size += len(level)
        self._waiting = []
        right: list[bytes] = []
        while level:
            # A peak of this height is the left neighbour of what is new; a node without one is a peak itself.
            if rest & 1:
                level.insert(0, peaks.pop())
            if len(level) & 1:
                right.append(level.pop())
            nodes = iter(level)
            level = [
                sha256(b"\x01" + left + other).digest() for left, other in zip(nodes, nodes, strict=True)
            ]
            rest >>= 1
        peaks += reversed(right)

    def root(self) -> bytes:
        """Root over all leaves so far."""
        peaks = reversed(self.peaks())
        root = next(peaks, EMPTY_ROOT)
        for peak in peaks:
            root = node_hash(peak, root)
        return root

    def peaks(self) -> list[bytes]:
        """Roots of the complete subtrees, largest first; as many as ``size`` has one bits."""
        if self._waiting:
            self._join()
        return list(self._peaks)


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Root over leaf hashes.

    Raises:
        ProofError: CF-PROOF-001: not 32 byte hashes.
    """
    tree = Tree()
    for leaf in leaves:
        tree.append(leaf)
    return tree.root()


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Proof that leaf ``index`` is in the tree over all of these leaf hashes.

    Raises:
        ProofError: CF-PROOF-001: not 32 byte hashes; CF-PROOF-003: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        _refuse("003", f"there is no leaf {index} in a tree of size {len(leaves)}")
    proof = []
    for level in _levels(leaves):
        sibling = index ^ 1
        if sibling < len(level):
            proof.append(level[sibling])
        index >>= 1
    return proof


def consistency_proof(leaves: Sequence[bytes], size1: int) -> list[bytes]:
    """Proof that the tree over the first ``size1`` leaf hashes is a prefix of the tree over all of them.

    Raises:
        ProofError: CF-PROOF-001: not 32 byte hashes; CF-PROOF-003: ``size1`` is 0 or beyond the leaves.
    """
    if not 0 < size1 <= len(leaves):
        _refuse("003", f"a tree of size {size1} is no prefix of one of size {len(leaves)}")
    if size1 == len(leaves):
        return []
    first, last = size1 - 1, len(leaves) - 1
    proof = []
    whole = True
    for level in _levels(leaves):
        # While the first tree is complete at its right edge, its node there is also one of the second tree.
        if whole and not first & 1:
            whole = False
            if first:
                proof.append(level[first])
        if not whole:
            if first & 1:
                proof.append(level[first - 1])
            elif first < last:
                proof.append(level[first + 1])
        first >>= 1
        last >>= 1
    return proof


def verify_inclusion(leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Accepts when the leaf hash is leaf ``index`` of the tree of ``size`` leaves with this root.

    Index and size must come from a verified checkpoint, the leaf hash from the entry in hand.

    Raises:
        ProofError: CF-PROOF-001: not 32 byte hashes; CF-PROOF-003: index or size impossible; CF-PROOF-004:
            the proof has the wrong length; CF-PROOF-005: it leads to another root.
    """
    node = _hash(leaf_hash, "leaf hash")
    _hash(root, "root")
    path = _path(proof)
    if not 0 <= index < size <= MAX_SIZE:
        _refuse("003", f"there is no leaf {index} in a tree of size {size}")
    last = size - 1
    for step in path:
        if last == 0:
            _refuse("004", "the proof is too long")
        if index & 1 or index == last:
            node = node_hash(step, node)
            while not index & 1 and index:
                index >>= 1
                last >>= 1
        else:
            node = node_hash(node, step)
        index >>= 1
        last >>= 1
    if last:
        _refuse("004", "the proof is too short")
    if node != root:
        _refuse("005", "the proof leads to another root")


def verify_consistency(size1: int, size2: int, proof: Sequence[bytes], root1: bytes, root2: bytes) -> None:
    """Accepts when the tree of ``size1`` leaves and ``root1`` is a prefix of that of ``size2`` and ``root2``.

    Nothing can be proved about an empty tree, so ``size1`` of 0 is refused.

    Raises:
        ProofError: CF-PROOF-001: not 32 byte hashes; CF-PROOF-003: sizes impossible; CF-PROOF-004: the proof
            has the wrong length; CF-PROOF-005: it leads to another root.
    """
    _hash(root1, "first root")
    _hash(root2, "second root")
    path = list(_path(proof))
    if not 0 < size1 <= size2 <= MAX_SIZE:
        _refuse("003", f"a tree of size {size1} is no prefix of one of size {size2}")
    if size1 == size2:
        if path:
            _refuse("004", "the proof is too long")
        if root1 != root2:
            _refuse("005", "two roots of one size differ")
        return
    first, last = size1 - 1, size2 - 1
    while first & 1:
        first >>= 1
        last >>= 1
    if first:
        if not path:
            _refuse("004", "the proof is too short")
        node1 = node2 = path.pop(0)
    else:
        node1 = node2 = root1
    for step in path:
        if last == 0:
            _refuse("004", "the proof is too long")
        if first & 1 or first == last:
            node1 = node_hash(step, node1)
            node2 = node_hash(step, node2)
            while not first & 1 and first:
                first >>= 1
                last >>= 1
        else:
            node2 = node_hash(node2, step)
        first >>= 1
        last >>= 1
    if last:
        _refuse("004", "the proof is too short")
    if node1 != root1 or node2 != root2:
        _refuse("005", "the proof leads to another root")


def _levels(leaves: Sequence[bytes]) -> Iterable[list[bytes]]:
    """The levels below the root, leaves first; an odd last node rises unchanged, it is never doubled."""
    level = [_hash(leaf, "leaf hash") for leaf in leaves]
    while len(level) > 1:
        yield level
        above = [node_hash(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
        if len(level) & 1:
            above.append(level[-1])
        level = above


def _path(proof: Sequence[bytes]) -> list[bytes]:
    if len(proof) > _MAX_PROOF:
        _refuse("004", "the proof is too long")
    return [_hash(step, "proof step") for step in proof]


def _hash(value: bytes, what: str) -> bytes:
    if type(value) is not bytes or len(value) != HASH_BYTES:
        _refuse("001", f"a {what} is not 32 bytes")
    return value


def _refuse(number: str, message: str) -> NoReturn:
    raise ProofError(
        message, code=f"CF-PROOF-{number}", hint="get proof, sizes and roots of one log from one source"
    )
