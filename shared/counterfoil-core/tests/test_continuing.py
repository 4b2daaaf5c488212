"""Evidence continues a checkpoint that somebody kept, or it is told that it does not."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import counterfoil
from counterfoil import keys, notes, tree
from counterfoil.bundles.cutting import bundle
from counterfoil.entries import CheckpointSeen
from counterfoil.errors import ConfigError, NoteError, ProofError
from counterfoil.log import LogScan
from counterfoil.scrub.scrubbing import scrub
from counterfoil.stores import FolderStore
from counterfoil.tlog import continuing
from counterfoil.tlog.exporting import export_log


def kept(evidence: Path) -> list[bytes]:
    """All notes of the one log, the oldest first."""
    store = FolderStore(evidence)
    (name,) = store.logs()
    return [event.note for event in LogScan(store, name).events() if isinstance(event, CheckpointSeen)]


def ask(lab: Any, *given: bytes, evidence: Path | None = None) -> Any:
    return counterfoil.verify(evidence or lab.evidence, checkpoints=given)


def codes(result: Any) -> list[str]:
    return [finding.code for finding in result.findings]


def test_every_checkpoint_is_continued_by_its_log(lab: Any) -> None:
    for _ in range(4):
        lab.record()
    given = kept(lab.evidence)
    assert len(given) >= 4
    result = ask(lab, *given)
    assert (result.verdict, codes(result), len(result.continues)) == ("intact", [], len(given))
    for note, found in zip(given, result.continues, strict=True):
        assert found.earlier == notes.Checkpoint.parse(notes.Note.parse(note).text)
        assert found.later == result.continues[-1].earlier
        found.check()


def test_any_two_checkpoints_of_a_log_prove_each_other(lab: Any) -> None:
    for _ in range(3):
        lab.record()
    store = FolderStore(lab.evidence)
    (name,) = store.logs()
    heads = [continuing.parse_checkpoint(note)[1] for note in kept(lab.evidence)]
    for first, second in itertools.combinations_with_replacement(heads, 2):
        found = continuing.prove(store, name, first, second)
        tree.verify_consistency(first.size, second.size, found.proof, first.root, second.root)
        if first.size < second.size:
            with pytest.raises(ProofError):
                continuing.prove(store, name, second, first)


def test_a_shorter_copy(lab: Any) -> None:
    """Intact where nothing is remembered; not for who kept the newer checkpoint."""
    lab.record()
    shutil.copytree(lab.evidence, lab.root / "older")
    lab.record()
    newest = kept(lab.evidence)[-1]
    identity = keys.load_identity()
    assert identity is not None
    ring = keys.Keyring.of([identity.public])
    with lab.at(lab.elsewhere):
        assert counterfoil.verify(lab.root / "older", keyring=ring).verdict == "intact"
        result = counterfoil.verify(lab.root / "older", keyring=ring, checkpoints=[newest])
    assert (result.verdict, codes(result), result.continues) == ("broken", ["CF-VERIFY-008"], [])


def test_another_history_by_the_same_key(lab: Any) -> None:
    lab.record()
    (note,) = kept(lab.evidence)
    (name,) = FolderStore(lab.evidence).logs()
    rewritten = lab.root / "rewritten"
    shutil.rmtree(lab.home / "heads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterfoil.choosing.secrets", SimpleNamespace(token_hex=lambda _: name))
        lab.record(2, evidence=rewritten)
    shutil.rmtree(lab.home / "heads")
    assert counterfoil.verify(rewritten).verdict == "intact"
    result = ask(lab, note, evidence=rewritten)
    assert (result.verdict, codes(result)) == ("broken", ["CF-VERIFY-008"])


def test_a_log_that_is_not_here(lab: Any) -> None:
    lab.record()
    other = lab.root / "other"
    lab.record(evidence=other)
    result = ask(lab, *kept(other))
    assert (result.verdict, codes(result)) == ("broken", ["CF-VERIFY-007"])
    with lab.at(lab.root / "impostor"), pytest.MonkeyPatch.context() as patch:
        # The same name by another identity is not this log either.
        patch.setattr(
            "counterfoil.choosing.secrets",
            SimpleNamespace(token_hex=lambda _: FolderStore(lab.evidence).logs()[0]),
        )
        lab.record(evidence=lab.root / "impostor's")
    assert "CF-VERIFY-007" in codes(ask(lab, *kept(lab.root / "impostor's")))


def test_a_note_that_its_identity_did_not_sign_says_nothing(lab: Any) -> None:
    lab.record()
    (note,) = kept(lab.evidence)
    text = notes.Note.parse(note).text
    origin = text.split("\n")[0]
    forged = notes.Checkpoint(origin, 1, bytes(32)).to_text()
    stranger = keys.SigningKey.generate()
    for data in (
        notes.sign_note(forged, origin, stranger),
        notes.sign_note(forged, "witness", stranger),
        note.decode().replace(text, forged),
    ):
        result = ask(lab, data.encode())
        assert result.verdict == "cannot-tell"
        assert codes(result)[0] in ("CF-NOTE-011", "CF-NOTE-012")


def test_signatures_of_others_beside_it_change_nothing(lab: Any) -> None:
    lab.record()
    (note,) = kept(lab.evidence)
    text = notes.Note.parse(note).text
    witness = notes.sign_note(text, "witness", keys.SigningKey.generate()).splitlines()[-1]
    result = ask(lab, note + witness.encode() + b"\n")
    assert (result.verdict, len(result.continues)) == ("intact", 1)


@pytest.mark.parametrize("data", [b"", b"\xff", b"no note", "\u2014 x\n"])
def test_what_is_no_checkpoint_is_an_error_of_the_caller(lab: Any, data: bytes | str) -> None:
    lab.record()
    with pytest.raises(NoteError):
        counterfoil.verify(lab.evidence, checkpoints=[data])
    empty = notes.sign_note(
        notes.Checkpoint("o", 0, tree.EMPTY_ROOT).to_text(), "o", keys.SigningKey.generate()
    )
    with pytest.raises(NoteError) as caught:
        counterfoil.verify(lab.evidence, checkpoints=[empty])
    assert caught.value.code == "CF-NOTE-020"


def test_a_run_that_another_log_holds(lab: Any, one_run: Any) -> None:
    """``run`` looks at its own logs; a checkpoint's log is looked at too."""
    lab.record()
    notes_before = kept(lab.evidence)
    recorder = lab.recorder()
    other = lab.recorder()
    run = one_run(recorder).run
    one_run(other)
    recorder.close()
    other.close()
    result = counterfoil.verify(lab.evidence, run=run, checkpoints=notes_before)
    assert (result.verdict, len(result.continues)) == ("intact", 1)


def cut(lab: Any) -> Path:
    """A bundle of the first run."""
    run = counterfoil.read(lab.evidence).runs()[0].id
    bundle(lab.evidence, lab.root / "run.bundle", run=run)
    return Path(lab.root / "run.bundle")


def test_a_bundle_tells_only_of_the_sizes_it_shows(lab: Any) -> None:
    """Nothing that was asked for is passed over."""
    lab.record()
    bundle = cut(lab)
    (note,) = kept(lab.evidence)
    assert ask(lab, note, evidence=bundle).verdict == "intact"
    lab.record()
    *_, later = kept(lab.evidence)
    result = ask(lab, later, evidence=bundle)
    assert (result.verdict, codes(result)) == ("cannot-tell", ["CF-BUNDLE-027"])


def test_a_bundle_is_not_exported_or_scrubbed(lab: Any) -> None:
    lab.record()
    place = cut(lab)
    store = counterfoil.read(place).store
    with pytest.raises(ConfigError) as caught:
        export_log(store, store.logs()[0], lab.root / "out")
    assert caught.value.code == "CF-EXPORT-008"
    for evidence, mirrors in ((place, []), (lab.evidence, [place])):
        with pytest.raises(ConfigError) as caught:
            scrub(evidence, mirrors=mirrors)
        assert caught.value.code == "CF-SCRUB-008"
