"""Whether evidence continues a checkpoint that somebody kept elsewhere, with the proof for it.

Source: RFC 6962 section 2.1.2 (consistency proofs); C2SP signed-note, tlog-checkpoint; ``shared/spec/tiles.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from counterfoil import notes, tree
from counterfoil.checks import LogCheck
from counterfoil.errors import CounterfoilError, LogError, NoteError, StoreError
from counterfoil.evidence_checks import UNREAD
from counterfoil.findings import Finding, Verdict
from counterfoil.stores import FolderStore
from counterfoil.tlog.entrytexts import entry_texts

__all__ = ["Continuation", "continues", "parse_checkpoint", "prove"]


@dataclass(frozen=True, slots=True)
class Continuation:
    """A log continues a checkpoint: both tree heads, and the consistency proof between them."""

    log: str
    origin: str
    earlier: notes.Checkpoint
    later: notes.Checkpoint
    proof: tuple[bytes, ...]

    def check(self) -> None:
        """The proof once more; raises ProofError when it does not hold."""
        earlier, later = self.earlier, self.later
        tree.verify_consistency(earlier.size, later.size, self.proof, earlier.root, later.root)

    def to_dict(self) -> dict[str, Any]:
        """The members that ``verify --json`` prints."""
        heads = {"from": self.earlier, "to": self.later}
        return {
            "log": self.log,
            "origin": self.origin,
            **{key: {"root": one.root.hex(), "size": one.size} for key, one in heads.items()},
            "proof": [step.hex() for step in self.proof],
        }


def parse_checkpoint(data: bytes | str) -> tuple[notes.Note, notes.Checkpoint]:
    """Note and checkpoint of a text; not verified.

    Raises:
        NoteError: CF-NOTE-001 to 005: no note; CF-NOTE-020: no checkpoint, or one of no entries.
    """
    note = notes.Note.parse(data)
    checkpoint = notes.Checkpoint.parse(note.text)
    if checkpoint.size == 0:
        raise NoteError(
            "a checkpoint of no entries says nothing", code="CF-NOTE-020", hint="take a later one"
        )
    return note, checkpoint


def prove(store: FolderStore, name: str, earlier: notes.Checkpoint, later: notes.Checkpoint) -> Continuation:
    """The proof that one tree head of a log continues another, made from its entries and checked.

    Raises:
        ProofError: CF-PROOF-003 to 005: it does not; LogError: the entries cannot be read so far.
    """
    leaves = [tree.leaf_hash(text) for text in entry_texts(store, name, later.size)]
    proof = tuple(tree.consistency_proof(leaves, earlier.size))
    found = Continuation(name, later.origin, earlier, later, proof)
    found.check()
    return found


def continues(store: FolderStore, checks: dict[str, LogCheck], data: bytes | str) -> Continuation | Finding:
    """The continuation of a kept checkpoint by one of the logs that were checked, or why there is none.

    Raises:
        NoteError: as ``parse_checkpoint``.
    """
    note, kept = parse_checkpoint(data)
    name = kept.origin.rpartition("/")[2]
    check = checks.get(name)
    if check is not None and not check.vkey and (check.scan.unread or check.statements.is_blind):
        return _unknown(kept)  # whose log it is stands in what could not be read
    if check is None or check.origin != kept.origin or not check.vkey:
        return Finding(
            "CF-VERIFY-007",
            kept.origin,
            f"the log of a checkpoint of {_entries(kept.size)} is not here",
            "restore it from a copy, or name the evidence that holds it",
        )
    try:
        note.verify((check.vkey,))
    except CounterfoilError as exc:
        message = f"the checkpoint does not count: {exc.message}"
        hint = "get the note again from who kept it"
        return Finding(exc.code, kept.origin, message, hint, "cannot-tell")
    size = max(check.checkpoints, default=0)
    if kept.size > size and check.scan.unread:
        return _unknown(kept)
    if kept.size > size:
        return _not(kept, f"the log has {_entries(size)} under its last valid checkpoint")
    later = notes.Checkpoint(kept.origin, size, bytes.fromhex(check.checkpoints[size]))
    try:
        return prove(store, name, kept, later)
    except LogError as exc:
        verdict: Verdict = "cannot-tell" if exc.code == "CF-LOG-022" or exc.code in UNREAD else "broken"
        return Finding(exc.code, exc.where or name, exc.message, exc.hint or "", verdict)
    except StoreError as exc:
        return Finding(exc.code, exc.where or name, exc.message, exc.hint or "", "cannot-tell")
    except CounterfoilError as exc:
        return _not(kept, f"its first entries are others ({exc.message})")


def _not(kept: notes.Checkpoint, why: str) -> Finding:
    return Finding(
        "CF-VERIFY-008",
        kept.origin,
        f"the log does not continue a checkpoint of {_entries(kept.size)}: {why}",
        "keep this checkpoint: with this evidence it proves that entries were cut off or rewritten",
    )


def _unknown(kept: notes.Checkpoint) -> Finding:
    return Finding(
        "CF-VERIFY-008",
        kept.origin,
        f"the log could not be read so far that it shows a checkpoint of {_entries(kept.size)}",
        "see what kept it from being read",
        "cannot-tell",
    )


def _entries(size: int) -> str:
    return "1 entry" if size == 1 else f"{size} entries"
